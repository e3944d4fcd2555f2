"""Sums and differences of numbers of up to three digits, worked out digit by digit."""

from __future__ import annotations

import random
import zlib

import words
from chat import Example, assistant, user

PLACES = ("ones", "tens", "hundreds", "thousands")
ADD = ("What is {a} + {b}?", "{a} + {b}", "{a}+{b}=?", "Add {a} and {b}.", "What is the sum of {a} and {b}?", "Compute {a} + {b}.",
       "Calculate {a} plus {b}.", "How much is {a} + {b}?", "What does {a} plus {b} make?", "Please add {b} to {a}.",
       "{n} has {a} coins and gets {b} more. How many coins does {n} have?", "whats {a}+{b}", "what is {a} + {b}", "{a} plus {b}", "Can you add {a} and {b}?", "I have {a} and get {b} more. How many do I have?", "{a} + {b} = ?", "Sum: {a}, {b}", "A shelf holds {a} books and a box holds {b}. How many books are there?")
SUB = ("What is {a} - {b}?", "{a} - {b}", "{a}-{b}=?", "Subtract {b} from {a}.", "What is the difference {a} minus {b}?", "Compute {a} - {b}.",
       "Calculate {a} minus {b}.", "How much is {a} - {b}?", "Take {b} away from {a}.", "What is left of {a} after taking {b}?",
       "{n} has {a} coins and loses {b}. How many coins does {n} have?", "whats {a}-{b}", "what is {a} - {b}", "{a} minus {b}", "Can you subtract {b} from {a}?", "{a} - {b} = ?", "Difference: {a}, {b}")


def held_out(a: int, op: str, b: int) -> bool:
    """One pair in eight is never trained on."""
    return zlib.crc32(f"{a}{op}{b}".encode()) % 8 == 0


def digits(n: int, count: int) -> list[int]:
    return [n // 10 ** i % 10 for i in range(count)]


def add_steps(a: int, b: int, long: bool) -> str:
    count = max(len(str(a)), len(str(b)))
    carry, out = 0, []
    for place, x, y in zip(PLACES, digits(a, count), digits(b, count)):
        total = x + y + carry
        text = f"{place} {x}+{y}" + (f"+{carry}" if carry else "") + f"={total}"
        carry = total // 10
        if long:
            text += f" write {total % 10}" + (f" carry {carry}" if carry else "")
        out.append(text)
    return "; ".join(out)


def sub_steps(a: int, b: int, long: bool) -> str:
    """a >= b."""
    count = len(str(a))
    borrow, out = 0, []
    for place, x, y in zip(PLACES, digits(a, count), digits(b, count)):
        need = y + borrow
        text = f"{place} {x}-{y}" + (f"-{borrow}" if borrow else "")
        take = x < need
        text += (" borrow " + f"{x + 10}-{need}" if take else "") + f"={x - need + 10 * take}"
        borrow = int(take)
        if long:
            text += f" write {x - need + 10 * take}" + (" carry 1" if take else "")
        out.append(text)
    return "; ".join(out)


def think(a: int, op: str, b: int, effort: str) -> str:
    result = a + b if op == "+" else a - b
    long = effort != "low"
    if op == "+":
        steps = add_steps(a, b, long)
    elif a >= b:
        steps = sub_steps(a, b, long)
    else:
        steps = f"{a} is less than {b}, so {b}-{a} and a minus: " + sub_steps(b, a, long)
    if effort == "low":
        return steps
    out = f"I compute {a}{op}{b}. {steps}. So {a}{op}{b}={result}."
    if effort == "high":
        return out
    if op == "+":
        return out + f" Check: {result}-{b}: {sub_steps(result, b, False)}. That gives {a}, right."
    small, large = min(a, b), max(a, b)
    return out + f" Check: {abs(result)}+{small}: {add_steps(abs(result), small, False)}. That gives {large}, right."


def make(r: random.Random, effort: str, test: bool) -> Example:
    while True:
        a, b, op = words.integer(r, 3), words.integer(r, 3), r.choice("+-")
        if r.random() < 0.5:
            a, b = r.randint(0, 999), r.randint(0, 999)
        if r.random() < 0.15:  # of one size, where which is the larger is the question
            b = max(0, min(999, a + r.randint(-20, 20)))
        if held_out(a, op, b) == test:
            break
    if op == "-" and r.random() < 0.6 and a < b and held_out(b, op, a) == test:
        a, b = b, a
    result = a + b if op == "+" else a - b
    form = r.choice(ADD if op == "+" else SUB)
    if result < 0 and "coins" in form:
        form = SUB[0]
    question = form.format(a=a, b=b, n=words.name(r))
    return Example("arithmetic", effort, [user(question), assistant(think(a, op, b, effort), f"{a} {op} {b} = {result}")], answer=result)
