"""The held-out examples of `glint verify nano`, from seeds that training and the evaluations of the model card never used.

    python make_claims.py --out ../../models/nano/verify/claims.jsonl

A line is {"claim", "task", "effort", "request", "answer"}: the request goes to the chat API as it is, the answer is judged as in
judge.py. Texts that the tokenizer has to see are stored as they are, without escapes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import judge
from chat import EFFORTS

SEED = "nano-verify"
# claim -> examples of each effort, the least numbers with which a bar leaves room for an error or three: 3 of 102 are under 3 %,
# 1 of 60 under 2 %, 1 of 21 under 5 %
COUNTS = {"arithmetic": 34, "lookup": 7, "lookup_1500": 7, "tool_call": 20, "tool_answer": 7, "copy": 7, "json": 7}


def lines():
    for claim, count in COUNTS.items():
        made = judge.examples(claim, count, SEED)
        # efforts in turn, so that a run of the first few holds all of them
        for n in range(count):
            for e in range(len(EFFORTS)):
                example = made[e * count + n]
                yield {"claim": claim, "task": example.task, "effort": example.effort, "request": example.request(), "answer": example.answer}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    flags = parser.parse_args()
    text = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines())
    flags.out.write_text(text, encoding="utf-8")
    print(f"{flags.out}: {text.count(chr(10))} examples, {len(text.encode())} bytes")


if __name__ == "__main__":
    main()
