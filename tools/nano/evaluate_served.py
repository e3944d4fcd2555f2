"""Evaluate a served nano through the OpenAI API, at temperature 0.

    python evaluate_served.py --url http://127.0.0.1:8000/v1 --model nano [--count 40] [--claims arithmetic ...] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import judge
from chat import EFFORTS


def ask(flags, example) -> tuple[judge.Answer, int, str]:
    """-> (answer, tokens of thinking, the whole answer as text)"""
    body = example.request() | {"model": flags.model, "temperature": 0, "max_completion_tokens": flags.tokens_max}
    request = urllib.request.Request(flags.url.rstrip("/") + "/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as reply:
        out = json.load(reply)
    choice = out["choices"][0]
    message = choice["message"]
    call = None
    if message.get("tool_calls"):
        first = message["tool_calls"][0]["function"]
        call = {"name": first["name"], "arguments": json.loads(first["arguments"])}
    answer = judge.Answer(message.get("reasoning") or "", message.get("content") or "", call, choice["finish_reason"] in ("stop", "tool_calls"))
    return answer, out["usage"]["completion_tokens_details"]["reasoning_tokens"], json.dumps(message, ensure_ascii=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000/v1")
    parser.add_argument("--model", default="nano")
    parser.add_argument("--count", type=int, default=40, help="examples of each claim and effort")
    parser.add_argument("--claims", nargs="*", default=list(judge.CLAIMS))
    parser.add_argument("--tokens-max", type=int, default=480)
    parser.add_argument("--parallel", type=int, default=8)
    parser.add_argument("--seed", default="nano-test")
    parser.add_argument("--out", type=Path)
    flags = parser.parse_args()
    start = time.time()
    todo = [(claim, e) for claim in flags.claims for e in judge.examples(claim, flags.count, flags.seed)]
    with ThreadPoolExecutor(flags.parallel) as pool:
        answers = list(pool.map(lambda item: ask(flags, item[1]), todo))
    results: dict[str, list] = {claim: [] for claim in flags.claims}
    lengths: dict[str, list[int]] = {e: [] for e in EFFORTS}
    wrong = []
    for (claim, e), (a, thought, text) in zip(todo, answers):
        ok = judge.right(e, a)
        results[claim].append((e, a, ok))
        lengths[e.effort].append(thought)
        if not ok:
            wrong.append({"claim": claim, "effort": e.effort, "messages": e.messages[:-1] if len(str(e.messages)) < 3000 else e.messages[-2], "got": text, "want": e.answer})
    table = judge.table(results)
    thinking = {e: round(statistics.mean(v), 1) for e, v in lengths.items()}
    print(judge.show("served", table))
    print(json.dumps({"mean_thinking_tokens": thinking, "seconds": round(time.time() - start)}))
    if flags.out:
        flags.out.write_text(json.dumps({"claims": table, "mean_thinking_tokens": thinking, "wrong": wrong}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
