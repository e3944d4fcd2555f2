"""Finding one fact in a context of up to 1,500 tokens."""

from __future__ import annotations

import random

import words
from chat import Example, assistant, user

# attribute -> (statement, question); {e} the one it is about, {v} the value
ATTRIBUTES = {
    "code": ("The code of {e} is {v}.", "What is the code of {e}?"),
    "color": ("The color of {e} is {v}.", "Which color has {e}?"),
    "city": ("{e} lives in {v}.", "Where does {e} live?"),
    "age": ("{e} is {v} years old.", "How old is {e}?"),
    "item": ("{e} keeps a {v}.", "What does {e} keep?"),
    "friend": ("The best friend of {e} is {v}.", "Who is the best friend of {e}?"),
    "room": ("{e} works in room {v}.", "In which room does {e} work?"),
    "price": ("{e} paid {v} coins.", "How many coins did {e} pay?"),
    "day": ("{e} arrives on {v}.", "On which day does {e} arrive?"),
    "phone": ("The number of {e} is {v}.", "What is the number of {e}?"),
    "password": ("The password of {e} is {v}.", "What is the password of {e}?"),
    "month": ("The birthday of {e} is in {v}.", "In which month is the birthday of {e}?"),
}


# what a person says of herself, asked for in a later turn: (statement, question, answer)
OWN = {
    "name": ("My name is {v}.", "What is my name?", "Your name is {v}."),
    "city": ("I live in {v}.", "Where do I live?", "You live in {v}."),
    "age": ("I am {v} years old.", "How old am I?", "You are {v} years old."),
    "color": ("My favorite color is {v}.", "What is my favorite color?", "Your favorite color is {v}."),
    "dog": ("My dog is called {v}.", "What is my dog called?", "Your dog is called {v}."),
    "code": ("My code is {v}.", "What is my code?", "Your code is {v}."),
    "day": ("My day off is {v}.", "When is my day off?", "Your day off is {v}."),
    "job": ("I work in the {v}.", "Where do I work?", "You work in the {v}."),
}


def value(r: random.Random, attribute: str) -> str:
    if attribute == "color":
        return r.choice(words.COLORS)
    if attribute in ("city", "friend", "dog", "name"):
        return words.name(r)
    if attribute in ("age", "room", "price"):
        return str(words.integer(r, 2 if attribute == "age" else 3))
    if attribute == "job":
        return r.choice(words.PLACES)
    if attribute == "item":
        return r.choice(words.ADJECTIVES) + " " + r.choice(words.NOUNS)
    if attribute == "day":
        return r.choice(words.DAYS)
    if attribute == "month":
        return r.choice(words.MONTHS)
    return str(r.randint(1000, 99999)) if attribute == "phone" else words.code(r)


def statement(attribute: str) -> str:
    """Attributes outside the table are words of their own."""
    return ATTRIBUTES[attribute][0] if attribute in ATTRIBUTES else "The " + attribute + " of {e} is {v}."


def question_of(attribute: str, e: str) -> str:
    return (ATTRIBUTES[attribute][1] if attribute in ATTRIBUTES else "What is the " + attribute + " of {e}?").format(e=e)


def answer_text(attribute: str, entity: str, v: str) -> str:
    return statement(attribute).format(e=entity, v=v)


def facts(r: random.Random, count: int) -> list[tuple[str, str, str]]:
    """Distinct (entity, attribute, value); several attributes of one entity and one attribute of several stand side by side."""
    names = list(ATTRIBUTES)
    few = r.sample(names, r.choice((1, 2, 3, len(names))))
    if r.random() < 0.25:
        few = [words.made_up(r) if r.random() < 0.5 else r.choice(words.NOUNS) for _ in range(r.choice((1, 2, 4)))]
    seen, out = set(), []
    entities = [words.person(r) for _ in range(max(2, count // r.choice((1, 2, 3))))]
    while len(out) < count:
        e, a = r.choice(entities), r.choice(few)
        if (e, a) in seen:
            entities.append(words.person(r) if r.random() < 0.8 else words.thing(r))
            continue
        seen.add((e, a))
        out.append((e, a, value(r, a)))
    return out


def written(r: random.Random, style: str, fact: tuple[str, str, str]) -> str:
    e, a, v = fact
    if style == "sentences":
        return statement(a).format(e=e, v=v)
    if style == "list":
        return f"- {e}: {a} = {v}"
    if style == "csv":
        return f"{e},{a},{v}"
    return '{"name": "%s", "%s": "%s"}' % (e, a, v)


def think(effort: str, e: str, a: str, v: str, line: str) -> str:
    if effort == "low":
        return f"{a} of {e}."
    if effort == "high":
        return f'I look for the {a} of {e}. The text says: "{line}"'
    return (f'I look for the {a} of {e} in the text. The text says: "{line}" This line is about {e}, and it is about the {a}. '
            f"So the {a} of {e} is {v}.")


def make(r: random.Random, effort: str, test: bool, tokens_max: int = 1700) -> Example:
    if tokens_max == 1700 and not test and r.random() < 0.06:
        tokens_max = 3700
    # about 19 tokens a line; short contexts are more frequent than long ones
    lines_max = max(2, tokens_max // 19)
    share = r.random()
    count = max(2, int(2 * (lines_max / 2) ** share if r.random() < 0.6 else lines_max * share))
    style = r.choice(("sentences", "sentences", "sentences", "list", "csv", "json"))
    filler = r.choice((0.0, 0.3, 0.6, 0.85)) if style == "sentences" else 0.0
    stated = facts(r, max(1, int(count * (1 - filler))))
    lines = [written(r, style, f) for f in stated]
    place = list(range(len(lines)))
    target = r.choice(place)
    line = lines[target]
    lines += [words.sentence(r) for _ in range(count - len(lines))]
    if style == "sentences":
        r.shuffle(lines)
    e, a, v = stated[target]
    context = (" " if style == "sentences" and r.random() < 0.7 else "\n").join(lines)
    question = question_of(a, e)
    lead = r.choice(("Read this:\n", "Here is a text.\n", "Context:\n", "", "Notes:\n"))
    ask = r.choice(("\n{q}", "\n\n{q}", "\n\nQuestion: {q}", "\n\nAnswer from the text: {q}"))
    if r.random() < 0.15:
        messages = [{"role": "system", "content": lead + context}, user(question)]
    elif r.random() < 0.1:
        messages = [user(question + "\n" + context)]
    else:
        messages = [user(lead + context + ask.format(q=question))]
    messages.append(assistant(think(effort, e, a, v, line), answer_text(a, e, v)))
    if len(place) > 1 and r.random() < 0.12:  # a second question about the same text
        fact = stated[r.choice([n for n in place if n != target])]
        e, a, v = fact
        messages += [user(question_of(a, e)), assistant(think(effort, e, a, v, written(r, style, fact)), answer_text(a, e, v))]
    return Example("lookup", effort, messages, answer=v)


def make_own(r: random.Random, effort: str, test: bool) -> Example:
    """Something the user has said of himself, in this turn or in an earlier one."""
    stated = r.sample(list(OWN), r.choice((1, 1, 2, 3)))
    values = {a: value(r, a) for a in stated}
    lines = {a: OWN[a][0].format(v=values[a]) for a in stated}
    text = " ".join(lines.values())
    if r.random() < 0.4:  # in one sentence: My name is Tom and I live in Oslo.
        parts = [line[:-1] for line in lines.values()]
        parts[1:] = [p if p.startswith("I ") else p[0].lower() + p[1:] for p in parts[1:]]
        text = (", ".join(parts[:-1]) + " and " if len(parts) > 1 else "") + parts[-1] + "."
        lines = {a: part + "." for a, part in zip(stated, parts)}
    if r.random() < 0.15:
        text = r.choice(("Hi! ", "Hello. ", "Hi, ")) + text
    a = r.choice(stated)
    line, question, answer = lines[a], OWN[a][1], OWN[a][2].format(v=values[a])
    if r.random() < 0.15:
        question = question[0].lower() + question[1:].rstrip("?")
    think = {"low": f"{a} of the user.", "high": f'I look for the {a} of the user. The user said: "{line}"',
             "max": f'I look for the {a} of the user in the conversation. The user said: "{line}" That is about the {a}. So the {a} of the user is {values[a]}.'}[effort]
    if r.random() < 0.4:
        return Example("lookup", effort, [user(text + " " + question), assistant(think, answer)], answer=values[a])
    note = {"low": "A statement.", "high": "This is a statement. I answer plainly.",
            "max": "This is a statement. There is nothing to compute and nothing to look up in the conversation. I answer plainly and briefly."}[effort]
    return Example("lookup", effort, [user(text), assistant(note, "I will remember that."), user(question), assistant(think, answer)], answer=values[a])
