"""Random chat requests and the prompts that a model's own Jinja template makes of them.

Makes tests/data/text/chat-prompts.jsonl, the oracle of the native chat template:

    python tools/make_chat_prompts.py --template chat_template.jinja > tests/data/text/chat-prompts.jsonl

The template (GLM-5.3's, with a thinking switch in its last lines or without) comes from a model folder. It is rendered by
Python's jinja2 in the way of the transformers library, after the server's normalisation of the request, written here a
second time. Two more sets are made with the template's effort list and thinking switch changed to GLM-5.2's.
"""

import argparse
import json
import random
import re
import sys

from jinja2.sandbox import ImmutableSandboxedEnvironment

FRAGMENTS = ["a", "Küche", " ", "\n", "\t", "\u00a0", "\u3000", "\u2028", "\x1c", "\x85", "<think>", "</think>",
             "<tool_call>", "</tool_call>", "<|user|>", "x", "中文", "😀", '"', "\\", "é", "<arg_key>", "0"]
FLOATS = [1.5, 0.1, 1e5, 1e16, 1e15, 123456789012345680.0, 1e-5, 1e-4, -0.0, 1e22, 5e-324, 1.7976931348623157e308, 3.0]
BIG = [2**63, 2**64, 10**30, -(2**63) - 1, -(2**63), 2**64 - 1, 9007199254740993]
CALL_IDS = ["i1", "i2", "i3", "i4"]


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def maybe(self, chance):
        return self.r.random() < chance

    def text(self, fragments=6):
        return "".join(self.r.choice(FRAGMENTS) for _ in range(self.r.randrange(fragments)))

    def value(self, depth=0):
        kind = self.r.randrange(12)
        if kind == 0:
            return None
        if kind == 1:
            return self.maybe(0.5)
        if kind == 2:
            return self.r.randrange(-(10**6), 10**6)
        if kind == 3:
            return self.r.choice([*FLOATS, self.r.random() * 10 ** self.r.randrange(-20, 20)])
        if kind == 4:
            return self.r.choice(BIG)
        if kind in (5, 6) and depth < 3:
            return {f"{self.text(3)}{i}": self.value(depth + 1) for i in range(self.r.randrange(4))}
        if kind in (7, 8) and depth < 3:
            return [self.value(depth + 1) for _ in range(self.r.randrange(4))]
        return self.text()

    def content(self):
        kind = self.r.randrange(6)
        if kind == 0:
            return [{"type": "text", "text": self.text()} for _ in range(self.r.randrange(4))]
        return None if kind == 1 else self.text()

    def arguments(self):
        if self.maybe(0.2):
            return self.r.choice([None, "", "{}"])
        value = {self.text(3): self.value() for _ in range(self.r.randrange(4))}
        if self.maybe(0.1):
            return value
        return json.dumps(value, ensure_ascii=self.maybe(0.5), indent=self.r.choice([None, 1]))

    def tool(self):
        fields = []
        if self.maybe(0.7):
            fields.append(("description", self.r.choice([self.text(), None])))
        if self.maybe(0.8):
            properties = {self.text(3): self.value() for _ in range(2)}
            fields.append(("parameters", {"type": "object", "properties": properties}))
        for name in ("strict", "defer_loading", "extra"):
            if self.maybe(0.2):
                fields.append((name, self.maybe(0.5)))
        fields.append(("name", self.r.choice(["f", "g", 'h"q'])))
        self.r.shuffle(fields)
        return {"type": "function", "function": dict(fields)}

    def assistant(self):
        message = {"role": "assistant"}
        if self.maybe(0.9):
            message["content"] = self.content()
        for name in ("reasoning_content", "reasoning"):
            if self.maybe(0.3):
                message[name] = self.r.choice([self.text(), None])
        if self.maybe(0.5):
            message["tool_calls"] = [self.call() for _ in range(self.r.randrange(4))]
        return message

    def call(self):
        call = {"type": "function", "function": {"name": self.r.choice(["f", "g"]), "arguments": self.arguments()}}
        if self.maybe(0.9):
            call["id"] = self.r.choice(CALL_IDS)
        return call

    def results_of(self, message):
        ids = [call.get("id") for call in message.get("tool_calls", [])]
        self.r.shuffle(ids)
        for call_id in ids[: self.r.randrange(len(ids) + 1)]:
            result = {"role": "tool", "content": self.content()}
            if call_id:
                result["tool_call_id"] = call_id
            yield result

    def tool_result(self, has_tools):
        message = {"role": "tool"}
        kind = self.r.randrange(4)
        if kind == 0:
            message["content"] = [{"output": self.text(), "id": self.r.choice(CALL_IDS)} for _ in range(2)]
        elif kind == 1 and has_tools:
            message["content"] = [{"type": "tool_reference", "name": self.r.choice(["f", "g", "none"])} for _ in range(2)]
        else:
            message["content"] = self.content()
        if self.maybe(0.8):
            message["tool_call_id"] = self.r.choice(CALL_IDS)
        return message

    def request(self):
        request = {}
        if self.maybe(0.5):
            request["tools"] = [self.tool() for _ in range(self.r.randrange(1, 3))]
        messages = []
        for _ in range(self.r.randrange(1, 6)):
            role = self.r.choice(["system", "user", "assistant", "assistant", "developer", "tool"])
            if role == "assistant":
                messages.append(self.assistant())
                messages.extend(self.results_of(messages[-1]))
            elif role == "tool":
                messages.append(self.tool_result("tools" in request))
            else:
                messages.append({"role": role, "content": self.content()})
        request["messages"] = messages
        if self.maybe(0.4):
            request["reasoning_effort"] = self.r.choice(["low", "high", "max", "none", "medium", None])
        kwargs = {}
        if self.maybe(0.3):
            kwargs["reasoning_effort"] = self.r.choice(["low", "high", "Low", None, 3, ""])
        if self.maybe(0.3):
            kwargs["clear_thinking"] = self.r.choice([True, False, None, 0, 1, "", "x", [], -0.0, 2.5])
        if self.maybe(0.3):
            kwargs["enable_thinking"] = self.r.choice([True, False, None, 0, 1, "no"])
        if kwargs:
            request["chat_template_kwargs"] = kwargs
        if self.maybe(0.3):
            request["add_generation_prompt"] = self.r.choice([True, False, None])
        return request


def normalised_message(message):
    message = dict(message)
    if message["role"] == "developer":
        message["role"] = "system"
    if message.get("content") is None:
        message["content"] = ""
    reasoning = message.pop("reasoning", None)
    old_name = message.pop("reasoning_content", None)
    reasoning = old_name if reasoning is None else reasoning
    if reasoning is not None:
        message["reasoning"] = message["reasoning_content"] = reasoning
    calls = json.loads(json.dumps(message.pop("tool_calls", [])))
    for call in calls:
        arguments = call["function"].get("arguments") or {}
        call["function"]["arguments"] = json.loads(arguments) if isinstance(arguments, str) else arguments
    if calls:
        message["tool_calls"] = calls
    return message


def variables(request):
    kwargs = request.get("chat_template_kwargs", {})
    out = dict(kwargs)
    effort = request.get("reasoning_effort")
    if effort is not None:
        out["reasoning_effort"] = effort
        if "enable_thinking" not in kwargs:
            out["enable_thinking"] = effort != "none"
    out["messages"] = [normalised_message(message) for message in request["messages"]]
    tools = []
    for tool in request.get("tools", []):
        given = tool["function"]
        function = {name: given.get(name) for name in ("name", "description", "parameters")}
        function.update({name: given[name] for name in ("strict", "defer_loading") if name in given})
        tools.append({"type": "function", "function": function})
    if tools:
        out["tools"] = tools
    prompt = request.get("add_generation_prompt")
    out["add_generation_prompt"] = True if prompt is None else prompt
    return out


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--template", required=True)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--count", type=int, default=40, help="requests for each of the three sets")
    flags = arguments.parse_args()

    with open(flags.template, encoding="utf-8") as file:
        source = file.read()
    end = re.compile(r"<\|assistant\|>\{\{-.*?-?\}\}(?=\s*\{%-? endif)")
    always = "<|assistant|>{{- '<think>' -}}"
    switch = "<|assistant|>{{- '<think>' if enable_thinking is not defined or enable_thinking else '<think></think>' -}}"
    sources = {
        "always": end.sub(lambda _: always, source),
        "switch": end.sub(lambda _: switch, source),
        "glm-5.2": end.sub(lambda _: switch, source).replace("['low', 'high']", "['high']"),
    }
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                extensions=["jinja2.ext.loopcontrols"])
    environment.filters["tojson"] = lambda value, ensure_ascii=False: json.dumps(value, ensure_ascii=ensure_ascii)
    maker = Maker(flags.seed)
    for name, text in sources.items():
        template = environment.from_string(text)
        for _ in range(flags.count):
            request = maker.request()
            line = {"template": name, "request": request, "prompt": template.render(**variables(request))}
            sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
