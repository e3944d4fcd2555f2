"""Answers, right and spoiled, with what judge.py says of them: the oracle of the judge in src/bench/claim_judge.cc.

    python make_judge_cases.py --out ../../tests/data/nano/judge.jsonl
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

import judge
from chat import Example

TEXT = {"arithmetic": ["7 - 10 = -3", "-3", "The result is -3.", "7 - 10 = - 3", "3", "-3 or 3", "5-3", "", "-33", "minus 3", "7 –3", "-3\n", "−3", "a-3b", "1e-3", "10 -3"],
        "lookup": ["K7-PX42", "The code of Tom is K7-PX42.", "K7-PX421", "XK7-PX42", ".K7-PX42", "(K7-PX42)", "K7-PX42é", "éK7-PX42", "_K7-PX42", "K7-PX4", "  K7-PX42 ", "K7-PX42-", "-K7-PX42",
                   "No. XK7-PX42 but K7-PX42", "K7-PX42.5", "山K7-PX42", "K7-PX42\u0301"],
        "tool_answer": ["The price is 12.5.", "12.5", "112.5", "12.55", "0.12.5", "12.5 coins", "x 12.5", "12,5"],
        "copy": ["<b>a b</b>\n  x = 1", "<b>a b</b>\n  x = 1\n\n", " \u00a0<b>a b</b>\n  x = 1\u3000", "<b>a b</b>\n x = 1", "", "`<b>a b</b>\n  x = 1`"],
        "json": ['{"a": 1, "b": ["x", 2.5]}', '{"b":["x",2.5],"a":1}', '{"a": 1.0, "b": ["x", 2.5]}', '{"a": 1}', '{"a": 1, "b": ["x", 2.5], "c": null}', '{"a": "1", "b": ["x", 2.5]}',
                 '{"a": 1, "b": ["x", 2.5]', 'Here: {"a": 1, "b": ["x", 2.5]}', ' {"a": 1, "b": ["x", 2.5]}\n', '{"a": 2, "a": 1, "b": ["x", 2.5]}', "[]", ""]}
WANT = {"arithmetic": -3, "lookup": "K7-PX42", "tool_answer": "12.5", "copy": "<b>a b</b>\n  x = 1", "json": {"a": 1, "b": ["x", 2.5]}}
CALL = {"name": "get_weather", "arguments": {"city": "Oslo", "days": 3, "size": {"w": 1, "h": 2}, "on": True}}


def cases():
    for task, texts in TEXT.items():
        for text in texts:
            yield task, WANT[task], judge.Answer("", text, None, True)
        yield task, WANT[task], judge.Answer("", texts[0], CALL, True)
        yield task, WANT[task], judge.Answer("", texts[0], None, False)
    spoiled = [CALL | {"name": "get_time"}, CALL | {"arguments": {}}, CALL | {"arguments": CALL["arguments"] | {"days": 4}}, CALL | {"arguments": CALL["arguments"] | {"days": "3"}},
               CALL | {"arguments": CALL["arguments"] | {"more": None}}, CALL | {"arguments": dict(reversed(CALL["arguments"].items()))},
               CALL | {"arguments": CALL["arguments"] | {"size": {"w": 2, "h": 1}}}, CALL | {"arguments": CALL["arguments"] | {"days": 3.0}}]
    for call in (CALL, None, *spoiled):
        yield "tool_call", CALL, judge.Answer("", "", call, True)
    for text in (" \n", "I call it."):
        yield "tool_call", CALL, judge.Answer("", text, CALL, True)
    yield "tool_call", CALL, judge.Answer("", "", CALL, False)
    for claim in ("arithmetic", "lookup", "tool_answer", "copy", "json"):  # real answers, one character changed
        for e in judge.examples(claim, 4, "judge-cases"):
            r = random.Random(f"{claim}/{e.answer}")
            text = e.messages[-1]["content"]
            yield e.task, e.answer, judge.Answer("", text, None, True)
            at = r.randrange(len(text))
            yield e.task, e.answer, judge.Answer("", text[:at] + r.choice("x0. \n") + text[at + r.randint(0, 1):], None, True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    flags = parser.parse_args()
    with flags.out.open("w", encoding="utf-8") as out:
        for task, want, a in cases():
            right = judge.right(Example(task, "low", [], answer=want), a)
            line = {"task": task, "answer": want, "content": a.content, "call": a.call, "ended": a.ended, "right": right}
            out.write(json.dumps(line, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
