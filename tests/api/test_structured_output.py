"""Structured output and constrained tool calls through `glint serve models/nano`, a small trained model: without and with
drafts, thinking and not, streamed and whole, greedy and hot, alone and in company.
"""

import json
import re
import threading
from pathlib import Path

import jsonschema
import openai
import pytest

from conftest import Server, _stop, start_real

NANO = str(Path(__file__).parents[2] / "models" / "nano")
DRAFTS = [0, 3, 8]
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "tags": {"type": "array", "items": {"enum": ["new", "old", "größe"]}, "maxItems": 3},
        "next": {"anyOf": [{"type": "null"}, {"type": "boolean"}]},
    },
    "required": ["name", "age", "next"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
TOOLS = [
    {"type": "function", "function": {"name": "set_light", "parameters": {
        "type": "object",
        "properties": {"room": {"enum": ["kitchen", "hall"]}, "level": {"type": "integer", "minimum": 0, "maximum": 100},
                       "note": {"type": "string", "maxLength": 12}},
        "required": ["room", "level"]}}},
    {"type": "function", "function": {"name": "set_light_all", "parameters": {
        "type": "object", "properties": {"on": {"type": "boolean"}, "ids": {"type": "array", "items": {"type": "integer"}, "maxItems": 2}},
        "required": ["on"]}}},
    {"type": "function", "function": {"name": "stop", "parameters": {"type": "object", "properties": {}}}},
]
SCHEMAS = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}


@pytest.fixture(scope="module")
def servers():
    flags = lambda k: ["--speculative-config.method", "mtp", "--speculative-config.num_speculative_tokens", str(k)] if k else []
    started: dict[int, Server] = {k: start_real(NANO, "--served-model-name", "nano", "--tool-call-constraint", "all", *flags(k), max_model_len=4096) for k in DRAFTS}
    yield started
    assert [_stop(server) for server in started.values()] == [0] * len(started)


def ask(text: str) -> list:
    return [{"role": "user", "content": text}]


def chat(server: Server, stream: bool = False, **request) -> dict:
    """Text, calls and finish reason of each choice, whichever way they come."""
    extra = request.pop("extra_body", {})
    client = server.client()
    created = client.chat.completions.create(model="nano", stream=stream, extra_body=extra, **request)
    choices: dict[int, dict] = {}
    for chunk in created if stream else [created]:
        for choice in chunk.choices:
            part = choice.delta if stream else choice.message
            entry = choices.setdefault(choice.index, {"content": "", "reasoning": "", "calls": {}, "finish": None})
            entry["content"] += part.content or ""
            entry["reasoning"] += getattr(part, "reasoning", None) or ""
            for place, call in enumerate(part.tool_calls or []):
                name, arguments = entry["calls"].get(getattr(call, "index", place), ("", ""))
                entry["calls"][getattr(call, "index", place)] = (name + (call.function.name or ""), arguments + (call.function.arguments or ""))
            entry["finish"] = choice.finish_reason or entry["finish"]
    return choices


def check_calls(choice: dict) -> int:
    for name, arguments in choice["calls"].values():
        jsonschema.validate(json.loads(arguments), SCHEMAS[name])
    return len(choice["calls"])


REQUESTS = [
    dict(messages=ask("Who is there?"), response_format=FORMAT, max_tokens=120, temperature=temperature, seed=seed,
         extra_body={"thinking_token_budget": budget})
    for temperature, seed, budget in [(0, 1, 3), (1.0, 2, 0), (1.0, 3, 12), (2.0, 4, 5), (2.0, 5, 1), (2.0, 6, 7)]
] + [
    dict(messages=ask("Light!"), tools=TOOLS, tool_choice=choice, max_tokens=150, temperature=temperature, seed=seed,
         parallel_tool_calls=parallel, extra_body={"thinking_token_budget": 4})
    for choice, temperature, seed, parallel in [
        ("required", 0, 1, True), ("required", 1.0, 2, True), ("required", 2.0, 3, False), ("required", 2.0, 4, True),
        ({"type": "function", "function": {"name": "set_light"}}, 1.5, 5, True),
        ({"type": "function", "function": {"name": "set_light_all"}}, 2.0, 6, True)]
]


@pytest.mark.parametrize("number", range(len(REQUESTS)))
def test_form_holds_and_drafts_change_nothing(servers, number):
    request = REQUESTS[number]
    answers = {(k, stream): chat(servers[k], stream, **request)[0] for k in DRAFTS for stream in (False, True)}
    first = answers[0, False]
    assert all(answer["content"] == first["content"] and answer["finish"] == first["finish"] and
               (answer["calls"] == first["calls"] or first["finish"] == "length") for answer in answers.values()), answers
    if first["finish"] == "length":
        return
    if "tools" not in request:
        jsonschema.validate(json.loads(first["content"]), PERSON)
        assert first["finish"] == "stop"
        return
    count = check_calls(first)
    named = isinstance(request["tool_choice"], dict)
    assert count == 1 if named or not request["parallel_tool_calls"] else count >= 1
    assert first["finish"] == ("stop" if named else "tool_calls")
    assert not first["content"]
    if named:
        assert first["calls"][0][0] == request["tool_choice"]["function"]["name"]


def test_most_of_these_answers_end(servers):
    ends = [chat(servers[3], **request)[0]["finish"] for request in REQUESTS]
    assert ends.count("length") <= len(ends) // 3, ends


def test_several_choices_each_hold(servers):
    choices = chat(servers[3], messages=ask("Who?"), response_format=FORMAT, n=3, temperature=1.5, seed=11, max_tokens=150,
                   extra_body={"thinking_token_budget": 2})
    assert len(choices) == 3
    texts = {choice["content"] for choice in choices.values() if choice["finish"] == "stop"}
    for text in texts:
        jsonschema.validate(json.loads(text), PERSON)
    assert len(texts) > 1


@pytest.mark.parametrize("field, value, check", [
    ("structured_outputs", {"regex": "(ab|cd){2}-[0-9]{3}"}, lambda text: re.fullmatch("(ab|cd){2}-[0-9]{3}", text)),
    ("structured_outputs", {"choice": ["red", "green", "greenish"]}, lambda text: text in ("red", "green", "greenish")),
    ("structured_outputs", {"json": json.dumps(PERSON)}, lambda text: jsonschema.validate(json.loads(text), PERSON) is None),
    ("structured_outputs", {"grammar": 'root ::= "x" [0-9]+ "y"'}, lambda text: re.fullmatch("x[0-9]+y", text)),
    ("guided_regex", "[a-c]{5}", lambda text: re.fullmatch("[a-c]{5}", text)),
    ("guided_choice", ["one", "two"], lambda text: text in ("one", "two")),
    ("guided_json", PERSON, lambda text: jsonschema.validate(json.loads(text), PERSON) is None),
    ("guided_grammar", 'root ::= "no" | "yes"', lambda text: text in ("no", "yes")),
    ("regex", "z{3}", lambda text: text == "zzz"),
    ("ebnf", 'root ::= "k"', lambda text: text == "k"),
])
def test_fields_of_chat_and_completions(servers, field, value, check):
    body = {field: value, "thinking_token_budget": 2}
    answer = chat(servers[3], messages=ask("Say it"), max_tokens=100, temperature=1.3, seed=5, extra_body=body)[0]
    text = servers[3].client().completions.create(model="nano", prompt="Say it", max_tokens=100, temperature=1.3, seed=5,
                                                  extra_body=body).choices[0]
    assert answer["finish"] == "length" or check(answer["content"]), answer
    assert text.finish_reason == "length" or check(text.text), text


def test_schema_and_tools_beside_each_other(servers):
    seen = set()
    for seed in range(12):
        answer = chat(servers[3], messages=ask("Who or what?"), response_format=FORMAT, tools=TOOLS, temperature=2.0, seed=seed,
                      max_tokens=150, extra_body={"thinking_token_budget": 1})[0]
        if answer["finish"] == "length":
            continue
        if check_calls(answer) == 0:
            jsonschema.validate(json.loads(answer["content"]), PERSON)
        seen.add(answer["finish"])
    assert seen


def test_neighbours_keep_their_tokens(servers):
    request = dict(messages=ask("What is 12 + 30?"), temperature=1.0, seed=3, max_tokens=60)
    alone = chat(servers[3], **request)[0]
    beside = [threading.Thread(target=chat, args=(servers[3],), kwargs=other) for other in REQUESTS * 2]
    for thread in beside:
        thread.start()
    answers = [chat(servers[3], **request)[0] for _ in range(6)]
    for thread in beside:
        thread.join()
    assert all(answer == alone for answer in answers)


def test_calls_of_auto_are_valid_too(servers):
    calls = 0
    for seed in range(10):
        answer = chat(servers[3], messages=ask("Set the light in the hall to 20."), tools=TOOLS, temperature=1.0, seed=seed,
                      max_tokens=200)[0]
        if answer["finish"] != "length":
            calls += check_calls(answer)
    assert calls > 0


@pytest.mark.parametrize("body, words", [
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, "json_schema.schema"),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object", "not": {}}}}}, "not cannot be enforced"),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"$ref": "#/$defs/none"}}}}, "leads nowhere"),
    ({"response_format": {"type": "xml"}}, "is not supported"),
    ({"structured_outputs": {"regex": "a(b"}}, "structured_outputs.regex"),
    ({"structured_outputs": {"regex": "(a{1000}){1000}"}}, "too large"),
    ({"structured_outputs": {"grammar": "nothing"}}, "structured_outputs.grammar"),
    ({"structured_outputs": {"choice": []}}, "not empty"),
    ({"structured_outputs": {"choice": [5]}}, "list of strings"),
    ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "one form only"),
    ({"structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"}}, "one form only"),
    ({"guided_json": 5}, "JSON schema"),
    ({"structured_outputs": {}}, "asks for no form"),
    ({"structured_outputs": {"regx": "a"}}, "structured_outputs.regx"),
    ({"response_format": {}}, "needs a type"),
    ({"structured_outputs": {"structural_tag": "{}"}}, "not supported"),
    ({"response_format": FORMAT, "tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "stop"}}}, "names a function"),
])
def test_what_cannot_be_is_refused(servers, body, words):
    with pytest.raises(openai.BadRequestError) as refusal:
        chat(servers[0], messages=ask("x"), extra_body=body)
    assert words in refusal.value.message, refusal.value.message
    assert chat(servers[0], messages=ask("x"), max_tokens=2)[0]["finish"], "the server goes on"
