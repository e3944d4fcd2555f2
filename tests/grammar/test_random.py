"""Whatever random tokens a constraint lets pass is what it promised: checked by Python's jsonschema, re and json."""

import json
import os
import re

import jsonschema
import pytest

from random_schema import Schemas

MORE = int(os.environ.get("GLINT_WALKS", "1"))
REGEXES = ["[a-z]+", "(foo|bar){2,3}", "\\d{4}-\\d{2}", "a?b*c+", "[^x]{1,5}", "(yes|no)( maybe)?", "[A-Za-z_]\\w*",
           "ü+é?", "(a(b(c|d)){1,2})+", "[0-9a-fA-F]{8}(-[0-9a-f]{4}){3}", "[a-z]+@[a-z]+\\.de", ".{3}", "x{0,3}y"]


def schema_error(value, schema):
    validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    return next((error.message[:200] for error in validator.iter_errors(value)), None)


def test_json_of_random_schemas(tool):
    finished = refused = 0
    for seed in range(200 * MORE):
        schema = Schemas(seed).root()
        answer = tool.ask(kind="json_schema", text=json.dumps(schema), seed=seed, walks=4, tokens_max=500)
        if "error" in answer:
            refused += 1
            assert re.search("enforced|satisf|conflict", answer["error"]), (answer, schema)
            continue
        assert answer["dead_ends"] == 0, schema
        for text in answer["texts"]:
            if text is None:
                continue
            finished += 1
            assert schema_error(json.loads(text), schema) is None, (seed, schema, text, schema_error(json.loads(text), schema))
    assert finished > 350 * MORE, finished
    assert refused < 30 * MORE, refused


def test_any_json_object(tool):
    texts = tool.texts("json_schema", '{"type": "object", "additionalProperties": true}', walks=60, seed=3)
    assert len(texts) > 20
    assert all(isinstance(json.loads(text), dict) for text in texts)


@pytest.mark.parametrize("regex", REGEXES)
def test_regex(tool, regex):
    texts = tool.texts("regex", regex, walks=40, seed=5)
    assert texts
    for text in texts:
        assert re.fullmatch(regex, text, re.DOTALL), text  # . is any character


def test_grammar(tool):
    texts = tool.texts("ebnf", 'root ::= "<" inner ">"\ninner ::= [a-c]+ | root root', walks=40, seed=7)
    assert len(texts) > 10
    for text in texts:
        reduced = re.sub("<[a-c]+>", "()", text)
        while "<()()>" in reduced:
            reduced = reduced.replace("<()()>", "()")
        assert reduced == "()", text


NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object", type(None): "null"}


def types_of(schema, root) -> set:
    """The types that a property may have."""
    if "$ref" in schema:
        return types_of(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    for branches in ("anyOf", "oneOf", "allOf"):
        if branches in schema:
            return set().union(*(types_of(branch, root) for branch in schema[branches]))
    if "enum" in schema or "const" in schema:
        return {NAMES[type(value)] for value in schema.get("enum", [schema.get("const")])}
    types = schema.get("type", "string")
    return {types} if isinstance(types, str) else set(types)


def as_promised(parameters: dict) -> dict:
    """What docs/structured-output.md promises of arguments: one that may be a string or something else is any text, and
    the format of a string is not held."""
    free = {key for key, schema in parameters.get("properties", {}).items()
            if "string" in (types := types_of(schema, parameters)) and len(types) > 1 and "enum" not in schema}

    def held(key: str, schema):
        if key in free or ("$ref" in schema and types_of(schema, parameters) == {"string"}):
            return True
        return {name: value for name, value in schema.items() if name != "format"}

    return parameters | {"properties": {key: held(key, schema) for key, schema in parameters.get("properties", {}).items()}}


def test_calls_of_random_tools(tool):
    finished = named = 0
    for seed in range(120 * MORE):
        schemas = Schemas(1000 + seed)
        tools = [schemas.tool(name) for name in schemas.random.sample(["run", "run_in", "get-weather", "a.b", "x" * 64], 3)]
        declared = {entry["function"]["name"]: entry["function"]["parameters"] for entry in tools}
        only = schemas.random.choice([*declared, ""])
        answer = tool.ask(kind="tools", tools=tools, named=only, one_only=bool(only), must=seed % 4 != 0, seed=seed, walks=4,
                          tokens_max=600)
        assert answer.get("dead_ends") == 0, (seed, answer, tools)
        for calls in answer["answers"]:
            if calls is None:
                continue
            finished += 1
            assert calls or seed % 4 == 0, "a demanded call"
            assert not only or len(calls) <= 1
            for call in calls:
                named += 1
                assert call["name"] in declared and call["name"] == (only or call["name"]), call
                parameters = as_promised(declared[call["name"]] or {"type": "object", "additionalProperties": False})
                value = json.loads(call["arguments"])
                assert schema_error(value, parameters) is None, (seed, parameters, call, schema_error(value, parameters))
    assert finished > 190 * MORE and named > 190 * MORE, (finished, named)
