"""The stream of training examples: which tasks, how often, and how they become tokens.

Everything is a function of (seed, number of the example). Test examples use other seeds and, in arithmetic and tool use,
pairs and tools that training leaves out.
"""

from __future__ import annotations

import random

import arithmetic
import copying
import lookup
import small_talk
import tool_use
from chat import EFFORTS, Example, render

MIX = {"arithmetic": (0.17, arithmetic.make), "lookup": (0.20, lookup.make), "own": (0.03, lookup.make_own), "tool_call": (0.22, tool_use.make_call),
       "tool_answer": (0.10, tool_use.make_answer), "tool_loop": (0.04, tool_use.make_loop), "no_tool": (0.03, tool_use.make_none),
       "copy": (0.11, copying.make), "json": (0.06, copying.make_json), "small_talk": (0.04, small_talk.make)}
PLAIN = ("arithmetic", "lookup", "own", "copy", "json", "small_talk")  # those that can be turns of one conversation
LENGTH_MAX = 4032


def one(seed: str, number: int, task: str | None = None, effort: str | None = None, test: bool = False) -> Example:
    r = random.Random(f"{seed}/{number}")
    effort = effort or r.choice(EFFORTS)
    if task is None:
        task = r.choices(list(MIX), [share for share, _ in MIX.values()])[0]
    example = MIX[task][1](r, effort, test)
    if test or task not in PLAIN or r.random() > 0.12:
        return example
    for _ in range(r.choice((1, 1, 2))):  # a conversation of several turns
        more = MIX[r.choice(PLAIN)][1]
        turn = lookup.make(r, effort, False, 300) if more is lookup.make else more(r, effort, False)
        if turn.messages[0]["role"] != "user":
            continue
        example = Example(example.task, effort, example.messages + turn.messages, answer=turn.answer)
    return example


def tokens(tokenizer, example: Example) -> tuple[list[int], list[int]]:
    """(ids, 1 where the model writes the token)"""
    pieces = render(example)
    ids, written = [], []
    for encoding, (_, target) in zip(tokenizer.encode_batch_fast([text for text, _ in pieces], add_special_tokens=False), pieces):
        ids += encoding.ids
        written += [int(target)] * len(encoding.ids)
    return ids, written
