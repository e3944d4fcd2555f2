"""Copying code-like text with tags in it, and answers as JSON."""

from __future__ import annotations

import json
import random

import words
from chat import Example, assistant, user

TAGS = ("div", "p", "span", "b", "i", "li", "ul", "a", "h1", "td", "tr", "section", "think-about", "tool", "arg", "item", "row", "note", "value")
ASK = ("Repeat this text exactly:\n{t}", "Copy this exactly:\n{t}", "Write the following text again, unchanged:\n{t}", "Echo:\n{t}",
       "Please copy the code below.\n\n{t}", "{t}\n\nRepeat the text above exactly.", "Return this snippet as it is:\n{t}")


def tagged(r: random.Random, depth: int, indent: str) -> list[str]:
    tag = r.choice(TAGS) if r.random() < 0.85 else words.made_up(r)
    attribute = f' {r.choice(("id", "class", "href", "name", "key"))}="{r.choice((words.made_up, words.snake, words.code))(r)}"' if r.random() < 0.4 else ""
    if depth == 0 or r.random() < 0.5:
        if r.random() < 0.1:
            return [f"{indent}<{tag}{attribute}/>"]
        return [f"{indent}<{tag}{attribute}>{words.thing(r) if r.random() < 0.8 else words.integer(r)}</{tag}>"]
    inner = [line for _ in range(r.randint(1, 3)) for line in tagged(r, depth - 1, indent + "  ")]
    return [f"{indent}<{tag}{attribute}>", *inner, f"{indent}</{tag}>"]


def expression(r: random.Random) -> str:
    k = r.randrange(6)
    a, b = words.snake(r), words.snake(r)
    if k == 0:
        return str(words.integer(r))
    if k == 1:
        return f'"{words.thing(r)}"'
    if k == 2:
        return f"{a} {r.choice('+-*/%')} {words.integer(r, 2)}"
    if k == 3:
        return f"{a}[{r.randint(0, 9)}]"
    if k == 4:
        return f"{a}({b}, {words.integer(r, 2)})"
    return f'"<{r.choice(TAGS)}>" + {a} + "</{r.choice(TAGS)}>"'


def python(r: random.Random) -> list[str]:
    out = [f"def {words.snake(r)}({', '.join(dict.fromkeys(words.made_up(r) for _ in range(r.randint(0, 3))))}):"]
    for _ in range(r.randint(1, 4)):
        k = r.randrange(4)
        if k == 0:
            out += [f"    if {words.snake(r)} {r.choice(('>', '<', '==', '!=', '<=', '>='))} {words.integer(r, 2)}:", f"        return {expression(r)}"]
        elif k == 1:
            out += [f"    for {words.made_up(r)} in {words.snake(r)}:", f"        {words.snake(r)} = {expression(r)}"]
        else:
            out.append(f"    {words.snake(r)} = {expression(r)}")
    return out + [f"    return {expression(r)}"]


def cpp(r: random.Random) -> list[str]:
    out = [f"int {words.snake(r)}(int {words.made_up(r)}) {{"]
    for _ in range(r.randint(1, 4)):
        out.append(f"  {r.choice(('auto', 'int', 'std::vector<int>', 'const std::string&'))} {words.snake(r)} = {expression(r)};")
    return out + [f"  return {expression(r)};", "}"]


def loose(r: random.Random) -> list[str]:
    """Words, codes and signs without order: nothing helps but copying."""
    pick = (words.made_up, words.code, words.snake, words.thing, lambda q: str(words.integer(q)), lambda q: f"<{q.choice(TAGS)}>",
            lambda q: f"</{q.choice(TAGS)}>", lambda q: "".join(q.choice("{}[]()<>=+-*/;:,.!?#@&|~^%$") for _ in range(q.randint(1, 3))))
    return [" ".join(r.choice(pick)(r) for _ in range(r.randint(2, 10))) for _ in range(r.randint(1, 8))]


def snippet(r: random.Random, lines_max: int = 16) -> str:
    kind = r.random()
    if kind < 0.4:
        lines = [line for _ in range(r.randint(1, 3)) for line in tagged(r, r.randint(0, 2), "")]
    elif kind < 0.6:
        lines = python(r)
    elif kind < 0.75:
        lines = cpp(r)
    else:
        lines = loose(r)
    return "\n".join(lines[:lines_max]).strip()


def make(r: random.Random, effort: str, test: bool) -> Example:
    text = snippet(r)
    lines = text.split("\n")
    think = {"low": "Copy it.", "high": "I copy the text exactly and keep every tag and space as it is.",
             "max": f"I copy the text exactly and keep every tag and space as it is. The first line is: {lines[0].strip()} "
                    f"The last line is: {lines[-1].strip()} Between them I change nothing."}[effort]
    return Example("copy", effort, [user(r.choice(ASK).format(t=text)), assistant(think, text)], answer=text)


FIELDS = {"name": words.person, "city": words.name, "age": lambda r: words.integer(r, 2), "color": lambda r: r.choice(words.COLORS),
          "code": words.code, "item": lambda r: r.choice(words.NOUNS), "count": lambda r: words.integer(r, 3), "price": words.decimal,
          "open": lambda r: r.random() < 0.5, "day": lambda r: r.choice(words.DAYS), "tags": lambda r: [r.choice(words.NOUNS) for _ in range(r.randint(1, 3))]}


def said(key: str, v: object) -> str:
    if isinstance(v, bool):
        return f"{key} is {'true' if v else 'false'}"
    if isinstance(v, list):
        return f"{key} are " + " and ".join(v)
    return f"{key} is {v}"


def make_list(r: random.Random, effort: str) -> Example:
    """Several things of the same keys, as an array."""
    keys = r.sample([k for k in FIELDS if k not in ("name", "tags")], r.randint(1, 2))
    stated = [{"name": words.name(r)} | {k: FIELDS[k](r) for k in keys} for _ in range(r.randint(2, 4))]
    about = " ".join(f"{row['name']}: " + ", ".join(said(k, row[k]) for k in keys) + "." for row in stated)
    named = ", ".join(["name", *keys])
    ask = r.choice((f"Answer as a JSON array of objects with the keys {named}.", f"Turn this into a JSON array with {named}.", f"Give me a JSON list; each entry has {named}."))
    think = {"low": f"A list. Keys: {named}.", "high": f"The answer is a list of {len(stated)}. The keys are {named}.",
             "max": f"The answer must be one JSON array and nothing else. The keys are {named}. The names are " + ", ".join(row["name"] for row in stated)
                    + ". Text gets quotes, numbers and true or false get none."}[effort]
    text = r.choice((f"{about}\n{ask}", f"{ask}\n{about}"))
    return Example("json", effort, [user(text), assistant(think, json.dumps(stated, ensure_ascii=False))], answer=stated)


def make_json(r: random.Random, effort: str, test: bool) -> Example:
    if r.random() < 0.25:
        return make_list(r, effort)
    stated = {k: FIELDS[k](r) for k in r.sample(list(FIELDS), r.randint(2, 6))}
    wanted = r.sample(list(stated), r.randint(1, min(4, len(stated))))
    result = {k: stated[k] for k in wanted}
    about = ". ".join((s[0].upper() + s[1:]) for s in ("the " + said(k, v) for k, v in stated.items())) + "."
    keys = ", ".join(wanted)
    ask = r.choice((f"Answer as JSON with the keys {keys}.", f"Give me a JSON object with {keys}.", f"Reply in JSON only. Keys: {keys}.",
                    f"Extract {keys} as JSON.", f"Turn this into JSON with the keys {keys}."))
    text = r.choice((f"{about}\n{ask}", f"{ask}\n{about}", f"{about} {ask}"))
    pairs = "; ".join(said(k, v) for k, v in result.items())
    think = {"low": f"Keys: {keys}.", "high": f"The keys are {keys}. {pairs}.",
             "max": f"The answer must be one JSON object and nothing else. The keys are {keys}. From the text: {pairs}. Text gets quotes, numbers and true or false get none."}[effort]
    return Example("json", effort, [user(text), assistant(think, json.dumps(result, ensure_ascii=False))], answer=result)
