"""The claims, the test examples behind each, and whether an answer meets them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import data
import lookup
import random
from chat import EFFORTS, Example

# claim -> (task, share wanted)
CLAIMS = {"arithmetic": ("arithmetic", 0.97), "lookup": ("lookup", 0.95), "lookup_1500": ("lookup", 0.95), "tool_call": ("tool_call", 0.98),
          "tool_answer": ("tool_answer", 0.95), "copy": ("copy", 0.95), "json": ("json", None), "own": ("own", None), "tool_loop": ("tool_loop", None),
          "no_tool": ("no_tool", None), "small_talk": ("small_talk", None)}


@dataclass
class Answer:
    reasoning: str
    content: str
    call: dict | None  # name and arguments (an object)
    ended: bool


def examples(claim: str, count: int, seed: str = "nano-test") -> list[Example]:
    """`count` examples of each effort, of seeds and (in arithmetic and tool use) pairs and tools that training has not seen."""
    task = CLAIMS[claim][0]
    out = []
    for effort in EFFORTS:
        for n in range(count):
            if claim == "lookup_1500":
                out.append(long_lookup(random.Random(f"{seed}/long/{effort}/{n}"), effort))
            else:
                out.append(data.one(f"{seed}/{claim}/{effort}", n, task, effort, test=True))
    return out


def long_lookup(r: random.Random, effort: str) -> Example:
    """A context of about 1,300 to 1,600 tokens."""
    while True:
        example = lookup.make(r, effort, True, 1800)
        if 2800 < sum(len(m.get("content") or "") for m in example.messages[:-1]) < 4200:
            return example


def right(example: Example, a: Answer) -> bool:
    if not a.ended:
        return False
    want = example.answer
    if example.task == "tool_call":
        return a.call is not None and a.call == want and not a.content.strip()
    if a.call is not None:
        return False
    if example.task == "arithmetic" or isinstance(want, int) and example.task == "no_tool":
        numbers = re.findall(r"-?\d+", a.content.replace(" - ", " – "))
        return bool(numbers) and int(numbers[-1]) == want
    if example.task == "copy":
        return a.content.strip() == want
    if example.task == "json":
        try:
            return json.loads(a.content) == want
        except json.JSONDecodeError:
            return False
    if example.task in ("small_talk", "no_tool"):
        return a.content.strip() == want
    return contains(a.content, str(want))


def contains(text: str, value: str) -> bool:
    """As a word of its own: 12 is not in 3120."""
    return re.search(r"(?<![\w.])" + re.escape(value) + r"(?![\w])", text) is not None or text.strip() == value


def table(results: dict[str, list[tuple[Example, Answer, bool]]]) -> dict:
    out = {}
    for claim, rows in results.items():
        line = {"wanted": CLAIMS[claim][1], "examples": len(rows), "right": round(sum(ok for *_, ok in rows) / len(rows), 4)}
        for effort in EFFORTS:
            mine = [ok for e, _, ok in rows if e.effort == effort]
            line[effort] = round(sum(mine) / len(mine), 4)
        out[claim] = line
    return out


def show(name: str, claims: dict) -> str:
    lines = [f"{name:12} {'wanted':>7} {'right':>7} {'low':>7} {'high':>7} {'max':>7}  examples"]
    for claim, line in claims.items():
        wanted = "" if line["wanted"] is None else f"{line['wanted']:.1%}"
        lines.append(f"{claim:12} {wanted:>7} " + " ".join(f"{line[k]:7.1%}" for k in ("right", *EFFORTS)) + f"  {line['examples']}")
    return "\n".join(lines)
