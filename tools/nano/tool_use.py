"""Choosing one of up to four declared tools, filling its arguments, and using what it answers."""

from __future__ import annotations

import json
import random
import zlib

import arithmetic
import small_talk
import words
from chat import Example, assistant, function, user

# verb of the name -> (how the description starts, how a user asks)
VERBS = {
    "get": ("Get", ("Get", "Show me", "I need", "Give me")), "create": ("Create", ("Create", "Make", "Set up")),
    "delete": ("Delete", ("Delete", "Remove", "Get rid of")), "update": ("Update", ("Update", "Change", "Modify")),
    "find": ("Find", ("Find", "Look for", "Search for")), "send": ("Send", ("Send", "Please send", "Dispatch")),
    "open": ("Open", ("Open", "Please open", "Unlock")), "close": ("Close", ("Close", "Shut", "Please close")),
    "start": ("Start", ("Start", "Begin", "Launch")), "stop": ("Stop", ("Stop", "End", "Halt")),
    "book": ("Book", ("Book", "Reserve", "Order")), "count": ("Count", ("Count", "How many are there: count", "Tell me the number of")),
    "move": ("Move", ("Move", "Bring", "Carry")), "check": ("Check", ("Check", "Verify", "Test")),
    "print": ("Print", ("Print", "Please print", "Put on paper")), "share": ("Share", ("Share", "Publish", "Please share")),
}

STRING_PARAMS = ("name", "title", "city", "owner", "label", "note", "path", "code", "target", "message", "query", "room", "user", "group")
INTEGER_PARAMS = ("count", "limit", "year", "level", "size", "priority", "age", "minutes", "page", "seats")
NUMBER_PARAMS = ("price", "weight", "ratio", "speed", "temperature", "amount")
BOOLEAN_PARAMS = ("urgent", "public", "verbose", "dry_run", "recursive", "express")
ENUMS = {"unit": ("celsius", "fahrenheit"), "format": ("json", "csv", "text"), "mode": ("fast", "safe", "normal"), "color": ("red", "green", "blue"),
         "quality": ("low", "medium", "high"), "order": ("up", "down")}
LISTS = ("tags", "names", "items", "users", "files")
NUMBER_LISTS = ("ids", "pages", "scores")
OBJECTS = {"size": (("width", "integer"), ("height", "integer")), "route": (("from", "string"), ("to", "string")),
           "contact": (("name", "string"), ("phone", "integer")), "range": (("start", "integer"), ("end", "integer")),
           "address": (("street", "string"), ("number", "integer"), ("city", "string")), "options": (("color", "string"), ("double", "boolean"))}


def text_value(r: random.Random, key: str) -> str:
    if key in ("city", "street", "from", "to"):
        return words.name(r)
    if key in ("name", "owner", "user"):
        return words.person(r)
    if key == "path":
        return words.path(r)
    if key == "code":
        return words.code(r)
    if key == "color":
        return r.choice(words.COLORS)
    if key == "message" and r.random() < 0.5:
        return words.sentence(r)
    return words.thing(r) if r.random() < 0.8 else words.made_up(r) + " " + str(words.integer(r))


def scalar(r: random.Random, key: str, kind: str) -> object:
    if kind == "string":
        return text_value(r, key)
    if kind == "boolean":
        return r.random() < 0.5
    return words.integer(r, 4) if kind == "integer" else words.decimal(r)


def own_key(r: random.Random) -> str:
    """A key that no table has."""
    return words.snake(r) if r.random() < 0.5 else words.made_up(r) + (r.choice(("_id", "_name", "_at", "Name", "Id")) if r.random() < 0.3 else "")


class Param:
    """One parameter: its schema, and on demand a value with the words that ask for it."""

    def __init__(self, r: random.Random, key: str, kind: str):
        self.kind = kind
        self.choices, self.inner = ENUMS.get(key), OBJECTS.get(key)
        if r.random() < 0.3:
            key = own_key(r)
            self.choices = tuple(dict.fromkeys(words.made_up(r) for _ in range(r.randint(2, 4))))
            self.inner = tuple((k, r.choice(("string", "integer", "number", "boolean"))) for k in dict.fromkeys(own_key(r) for _ in range(r.randint(1, 3))))
        self.key = key
        words_of = key.replace("_", " ")
        if kind == "enum":
            self.schema: dict = {"type": "string", "enum": list(self.choices)}
        elif kind == "strings":
            self.schema = {"type": "array", "items": {"type": "string"}}
        elif kind == "integers":
            self.schema = {"type": "array", "items": {"type": "integer"}}
        elif kind == "object":
            self.schema = {"type": "object", "properties": {k: {"type": t} for k, t in self.inner}, "required": [k for k, _ in self.inner]}
        else:
            self.schema = {"type": kind}
        if r.random() < 0.4:
            text = r.choice((f"The {words_of}", f"{words_of.capitalize()} to use", f"Which {words_of}", words.thing(r)))
            self.schema = self.schema | {"description": text} if r.random() < 0.7 else {"description": text} | self.schema

    def ask(self, r: random.Random) -> tuple[str, object]:
        key = self.key.replace("_", " ")
        if self.kind == "boolean":
            v = r.random() < 0.5
            yes = r.choice((f"{key} set to true", f"{key} on", f"{key} true"))
            no = r.choice((f"{key} set to false", f"{key} off", f"not {key}", f"{key} false"))
            return (yes if v else no), v
        if self.kind == "enum":
            v = r.choice(self.choices)
            return r.choice((f"{key} {v}", f"the {key} {v}", f"{key}: {v}")), v
        if self.kind in ("strings", "integers"):
            one = (lambda: r.choice(words.NOUNS) if r.random() < 0.5 else words.name(r)) if self.kind == "strings" else (lambda: words.integer(r, 3))
            v = [one() for _ in range(r.randint(1, 3))]
            said = str(v[0]) if len(v) == 1 else ", ".join(map(str, v[:-1])) + " and " + str(v[-1])
            return f"{key} {said}", v
        if self.kind == "object":
            v = {k: scalar(r, k, t) for k, t in self.inner}
            return f"{key} with " + " and ".join(f"{k} " + (f'"{x}"' if " and " in str(x) else json.dumps(x) if isinstance(x, bool) else str(x)) for k, x in v.items()), v
        v = scalar(r, self.key, self.kind)
        if self.kind == "string" and (" and " in v or r.random() < 0.35):  # quoted where it could be read two ways
            return r.choice((f'{key} "{v}"', f'the {key} "{v}"')), v
        return r.choice((f"{key} {v}", f"the {key} {v}", f"{key}: {v}", f"{key} = {v}")), v


def param(r: random.Random, taken: set[str]) -> Param:
    while True:
        kind, keys = r.choice((("string", STRING_PARAMS),) * 4 + (("integer", INTEGER_PARAMS),) * 3 + (
            ("number", NUMBER_PARAMS), ("boolean", BOOLEAN_PARAMS), ("boolean", BOOLEAN_PARAMS), ("enum", tuple(ENUMS)), ("strings", LISTS),
            ("integers", NUMBER_LISTS), ("object", tuple(OBJECTS)), ("object", tuple(OBJECTS))))
        made = Param(r, r.choice(keys), kind)
        if made.key not in taken:
            taken.add(made.key)
            return made


class Tool:
    """A tool with the words that ask for it. `natural` ones have their own sentences."""

    def __init__(self, r: random.Random, verb: str, noun: str):
        self.name = f"{verb}_{noun}"
        self.what = f"a {noun}" if r.random() < 0.5 else f"the {noun}"
        self.description = VERBS[verb][0] + " " + self.what + r.choice(("", ".", " in the system", " for the user", " by its data", ". Use it when the user asks for it."))
        self.heads = VERBS[verb][1]
        taken: set[str] = set()
        self.params = [param(r, taken) for _ in range(r.choice((0, 0, 1, 1, 2, 2, 3, 4)))]
        self.required = [p.key for p in self.params if r.random() < 0.75]

    def declared(self) -> dict:
        return function(self.name, self.description, {p.key: p.schema for p in self.params}, self.required)

    def ask(self, r: random.Random) -> tuple[str, dict]:
        """The request and the arguments that it means. An optional parameter may stay unsaid."""
        parts, arguments = [], {}
        for p in self.params:
            if p.key in self.required or r.random() < 0.6:
                said, arguments[p.key] = p.ask(r)
                parts.append(said)
        head = f"{r.choice(self.heads)} {self.what}"
        if not parts:
            return head + r.choice((".", "", " please.", " now.")), arguments
        joined = parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + r.choice((" and ", ", ")) + parts[-1]
        return head + r.choice((" with ", ": ", ", ", " using ")) + joined + r.choice((".", "", ".")), arguments


class Natural(Tool):
    """(name, description, parameters, sentences that hold the parameters)."""

    KINDS = (
        ("get_weather", ("Get the weather in a city", "Current weather of a place"), (("city", "string"),),
         ("What is the weather in {city}?", "How is the weather in {city}?", "Weather in {city}", "Is it raining in {city}?", "What's the weather like in {city} today?")),
        ("get_time", ("Get the time in a city", "Current time of a place"), (("city", "string"),), ("What time is it in {city}?", "Tell me the time in {city}.", "Time in {city}?")),
        ("calculate", ("Evaluate an expression", "Calculator"), (("expression", "string"),), ("Use the calculator for {expression}.", "Evaluate {expression} with the tool.")),
        ("send_email", ("Send an email",), (("to", "string"), ("subject", "string"), ("body", "string")),
         ('Send an email to {to} with the subject "{subject}" and the text "{body}".', 'Email {to}, subject "{subject}", saying "{body}".')),
        ("set_timer", ("Set a timer", "Start a timer"), (("minutes", "integer"),), ("Set a timer for {minutes} minutes.", "Wake me in {minutes} minutes.", "Timer: {minutes} minutes")),
        ("read_file", ("Read a file", "Read the contents of a file"), (("path", "string"),), ("Read {path}.", "What is in the file {path}?", "Show me the contents of {path}.", "Open the file {path}")),
        ("write_file", ("Write a file", "Write text to a file"), (("path", "string"), ("content", "string")), ("Write this to {path}:\n{content}", "Save the following text in {path}:\n{content}")),
        ("search_web", ("Search the web", "Search the internet"), (("query", "string"),), ("Search the web for {query}.", "Look up {query} on the internet.", "Google {query}")),
        ("run_command", ("Run a shell command",), (("command", "string"),), ("Run {command}", "Run the command {command}", "Execute {command} in the shell.")),
        ("list_files", ("List the files of a folder", "List files"), (), ("List the files.", "Which files are there?", "Show all files.")),
        ("get_date", ("Get today's date",), (), ("What day is it today?", "What is the date?", "Which date is today?")),
        ("convert_currency", ("Convert money between currencies",), (("amount", "number"), ("from", "string"), ("to", "string")), ("Convert {amount} {from} to {to}.", "How much is {amount} {from} in {to}?")),
        ("get_current_weather", ("Get the current weather in a given location",), (("location", "string"), ("unit", "unit")),
         ("What is the weather in {location} in {unit}?", "Weather for {location}, {unit} please.", "How warm is it in {location}? Use {unit}.")),
        ("get_stock_price", ("Get the price of a stock",), (("symbol", "string"),), ("What is the price of {symbol}?", "Stock price of {symbol}", "How much is a {symbol} share?")),
        ("add_numbers", ("Add two numbers",), (("a", "integer"), ("b", "integer")), ("Use the tool to add {a} and {b}.", "Add {a} and {b} with the tool.")),
        ("translate", ("Translate text",), (("text", "string"), ("language", "string")), ('Translate "{text}" into {language}.', 'How do you say "{text}" in {language}?')),
        ("set_light", ("Switch a light on or off",), (("room", "string"), ("on", "boolean")), ("Turn {on} the light in the {room}.", "Light {on} in the {room}, please.")),
    )

    def __init__(self, r: random.Random, kind: tuple):
        self.name, descriptions, self.fields, self.forms = kind
        self.description = r.choice(descriptions)
        self.required = [k for k, _ in self.fields]

    def declared(self) -> dict:
        return function(self.name, self.description, {k: {"type": "string", "enum": ["celsius", "fahrenheit"]} if t == "unit" else {"type": t} for k, t in self.fields}, self.required)

    def _value(self, r: random.Random, key: str, kind: str) -> object:
        own = {"expression": lambda: f"{words.integer(r, 3)} {r.choice('+-*/')} {words.integer(r, 3)}", "to": lambda: words.made_up(r) + "@" + words.made_up(r) + ".com",
               "subject": lambda: words.thing(r), "body": lambda: words.sentence(r), "content": lambda: small_talk.snippet(r),
               "room": lambda: r.choice(words.PLACES), "query": lambda: words.thing(r) + (" in " + words.name(r) if r.random() < 0.3 else ""),
               "command": lambda: r.choice(("ls", "cat", "rm", "make", "git status", "grep " + r.choice(words.NOUNS))) + (" " + words.path(r) if r.random() < 0.6 else "")}
        if kind == "unit":
            return r.choice(("celsius", "fahrenheit"))
        if key in ("location", "symbol", "text", "language"):
            return {"location": words.name(r) + (", " + words.name(r) if r.random() < 0.3 else ""), "symbol": "".join(r.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(r.randint(2, 4))),
                    "text": words.thing(r), "language": r.choice(("French", "German", "Spanish", "Chinese", "Italian"))}[key]
        if self.name == "convert_currency" and kind == "string":
            return r.choice(("USD", "EUR", "GBP", "JPY", "CHF", "CNY"))
        return own[key]() if key in own and kind == "string" else scalar(r, key, kind)

    def ask(self, r: random.Random) -> tuple[str, dict]:
        arguments = {k: self._value(r, k, t) for k, t in self.fields}
        spoken = {k: ("on" if v else "off") if isinstance(v, bool) else v for k, v in arguments.items()}
        return r.choice(self.forms).format(**spoken), arguments


def held_out(verb: str, noun: str) -> bool:
    """One made tool in eight is never declared in training."""
    return zlib.crc32(f"{verb} {noun}".encode()) % 8 == 0


def pick_tools(r: random.Random, test: bool) -> tuple[list[Tool], Tool]:
    """Up to four tools of different names; others of the same verb or noun make the choice matter."""
    out: list[Tool] = []
    count = r.randint(1, 4)
    verbs = r.sample(list(VERBS), 2) if r.random() < 0.4 else list(VERBS)
    nouns = r.sample(words.NOUNS, 2) if r.random() < 0.4 else words.NOUNS
    while len(out) < count:
        if r.random() < 0.35:
            tool: Tool = Natural(r, r.choice(Natural.KINDS))
        else:
            verb, noun = r.choice(verbs), r.choice(nouns) if r.random() < 0.7 else words.made_up(r)
            if held_out(verb, noun) and not test:
                continue
            tool = Tool(r, verb, noun)
        if len(verbs) * len(nouns) <= 4 and len(out) >= 2:
            verbs, nouns = list(VERBS), words.NOUNS
        if all(t.name != tool.name for t in out):
            out.append(tool)
    return out, r.choice(out)


def think(effort: str, tools: list[Tool], tool: Tool, arguments: dict) -> str:
    if effort == "low":
        return f"{tool.name}."
    values = "; ".join(f"{k} = {v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)}" for k, v in arguments.items() if k not in ("content", "body")) or "none"
    if effort == "high":
        return f"I need {tool.name}. Arguments: {values}."
    seen = " ".join(f"{t.name}: {'fits' if t is tool else 'no'}." for t in tools)
    return f"I look at the tools. {seen} So I call {tool.name}. Arguments: {values}."


def call_turns(r: random.Random, effort: str, test: bool) -> tuple[list[dict], list[dict], Tool, dict]:
    """(tools as declared, [user turn, assistant turn with the call], tool, arguments)"""
    tools, tool = pick_tools(r, test)
    text, arguments = tool.ask(r)
    call = {"name": tool.name, "arguments": arguments}
    return [t.declared() for t in tools], [user(text), assistant(think(effort, tools, tool, arguments), "", call)], tool, arguments


def make_call(r: random.Random, effort: str, test: bool) -> Example:
    declared, messages, _, _ = call_turns(r, effort, test)
    return Example("tool_call", effort, system(r) + messages, declared, messages[-1]["tool_calls"][0])


def make_none(r: random.Random, effort: str, test: bool) -> Example:
    """Tools are declared but none is needed."""
    tools, _ = pick_tools(r, test)
    inner = (arithmetic if r.random() < 0.7 else small_talk).make(r, effort, test)
    return Example("no_tool", effort, inner.messages, [t.declared() for t in tools], inner.answer)


RESULT_FIELDS = {"id": lambda r: words.integer(r, 4), "name": words.person, "price": words.decimal, "city": words.name, "color": lambda r: r.choice(words.COLORS),
                 "owner": words.person, "code": words.code, "weight": words.decimal, "day": lambda r: r.choice(words.DAYS), "room": lambda r: words.integer(r, 3),
                 "temperature": lambda r: r.randint(-20, 40), "wind": lambda r: words.integer(r, 2), "size": lambda r: words.integer(r, 3), "state": lambda r: r.choice(("open", "closed", "ready", "waiting"))}


def result(r: random.Random) -> tuple[str, str, str, str]:
    """(tool's answer, what the user wants of it, the reply, what the reply must hold)"""
    kind = r.random()
    if kind < 0.12:
        v = r.choice(("not found", "access denied", "the disk is full", "no such user", "timeout", "already exists"))
        return json.dumps({"error": v}), "", f"That failed: {v}.", v
    if kind < 0.27:
        v = words.integer(r, 4) if r.random() < 0.5 else words.code(r)
        return json.dumps({"status": "ok", "id": v}), "", f"Done. The id is {v}.", str(v)
    if kind < 0.37:
        v = words.sentence(r)
        return v, "", f"The answer is: {v}", v
    fields = {k: RESULT_FIELDS[k](r) for k in r.sample(list(RESULT_FIELDS), r.randint(1, 5))}
    if r.random() < 0.25:
        fields = {own_key(r): v for v in fields.values()}
    key = r.choice(list(fields))
    shown = fields if r.random() < 0.7 else {r.choice(("result", "data", "answer", "item")): fields, "ok": True}
    return json.dumps(shown, ensure_ascii=False), r.choice((f" Tell me the {key}.", f" What is the {key}?", f" I want to know the {key}.")), f"The {key} is {fields[key]}.", str(fields[key])


def reply_think(effort: str, tool: Tool, text: str, wanted: str, reply: str) -> str:
    if effort == "low":
        return "I have the answer."
    if effort == "high":
        return f"{tool.name} has answered: {text}"
    return f"{tool.name} has answered: {text}" + (f" The user asks:{wanted}" if wanted else "") + f" So I say: {reply}"


def make_loop(r: random.Random, effort: str, test: bool) -> Example:
    """A second request after a tool has answered: another call, or something without one."""
    first = make_answer(r, effort, test)
    while True:
        tools, tool = pick_tools(r, test)
        names = {t["function"]["name"] for t in first.tools}
        if len(first.tools) + len(tools) <= 4 and not names & {t.name for t in tools}:
            break
        first = make_answer(r, effort, test)
    declared = first.tools + [t.declared() for t in tools]
    if r.random() < 0.3:
        inner = (arithmetic if r.random() < 0.6 else small_talk).make(r, effort, test)
        return Example("no_tool", effort, with_all_tools(first, tools, effort) + inner.messages, declared, inner.answer)
    text, arguments = tool.ask(r)
    shown = [*(Shown(t["function"]["name"]) for t in first.tools), *tools]
    call = {"name": tool.name, "arguments": arguments}
    return Example("tool_call", effort, with_all_tools(first, tools, effort) + [user(text), assistant(think(effort, shown, tool, arguments), "", call)], declared, call)


class Shown:
    """A declared tool of which only the name counts."""

    def __init__(self, name: str):
        self.name = name


def with_all_tools(first: Example, more: list[Tool], effort: str) -> list[dict]:
    """The first conversation as it would have been with the other tools declared too."""
    if effort != "max":
        return first.messages
    add = " ".join(f"{t.name}: no." for t in more)
    messages = [dict(m) for m in first.messages]
    for m in messages:
        if m.get("tool_calls"):
            m["reasoning_content"] = m["reasoning_content"].replace(" So I call", f" {add} So I call", 1)
    return messages


def make_answer(r: random.Random, effort: str, test: bool) -> Example:
    declared, messages, tool, _ = call_turns(r, effort, test)
    text, wanted, reply, held = result(r)
    messages[0]["content"] = wanted.strip() + " " + messages[0]["content"] if tool.name == "write_file" and wanted else messages[0]["content"] + wanted
    messages += [{"role": "tool", "content": text, "tool_call_id": "call_1_0"}, assistant(reply_think(effort, tool, text, wanted, reply), reply)]
    return Example("tool_answer", effort, messages, declared, held)


def system(r: random.Random) -> list[dict]:
    if r.random() < 0.8:
        return []
    return [{"role": "system", "content": r.choice(("You are a helpful assistant.", "You are a careful assistant. Use the tools.", "Answer briefly.",
                                                     f"You help {words.person(r)}.", "You are an agent that works with tools."))}]
