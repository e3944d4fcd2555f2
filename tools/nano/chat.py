"""Chat examples and the prompt format of GLM-5.3, in which the parts that the model must write are marked."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

EFFORTS = ("low", "high", "max")

_TOOLS_HEAD = ("<|system|>\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
               "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n")
_TOOLS_TAIL = ("</tools>\n\nFor each function call, output the function name and arguments within the following XML format:\n"
               "<tool_call>{function-name}<arg_key>{arg-key-1}</arg_key><arg_value>{arg-value-1}</arg_value>"
               "<arg_key>{arg-key-2}</arg_key><arg_value>{arg-value-2}</arg_value>...</tool_call>")


@dataclass
class Example:
    """A conversation that ends with what the model should say.

    `messages` are OpenAI's, with `reasoning_content` on assistant turns and arguments as objects; `answer` is what the
    last turn is judged by (see evaluate.py); `task` names the kind.
    """
    task: str
    effort: str
    messages: list[dict]
    tools: list[dict] = field(default_factory=list)
    answer: object = None

    def request(self) -> dict:
        """The request whose answer is the last message."""
        out: dict = {"messages": [openai_message(m, i) for i, m in enumerate(self.messages[:-1])],
                     "reasoning_effort": self.effort}
        if self.tools:
            out["tools"] = self.tools
        return out


def openai_message(message: dict, index: int) -> dict:
    """As a client sends it: arguments as JSON text, calls with ids."""
    if not message.get("tool_calls"):
        return message
    calls = [{"id": f"call_{index}_{n}", "type": "function",
              "function": {"name": c["name"], "arguments": json.dumps(c["arguments"], ensure_ascii=False)}}
             for n, c in enumerate(message["tool_calls"])]
    return {**message, "tool_calls": calls}


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def assistant(reasoning: str, content: str = "", call: dict | None = None) -> dict:
    message = {"role": "assistant", "reasoning_content": reasoning, "content": content}
    if call is not None:
        message["tool_calls"] = [call]
    return message


def function(name: str, description: str, properties: dict, required: list[str]) -> dict:
    return {"type": "function", "function": {
        "name": name, "description": description,
        "parameters": {"type": "object", "properties": properties, "required": required}}}


def render(example: Example, with_answer: bool = True) -> list[tuple[str, bool]]:
    """Pieces of text in order; True where the model writes them. Every border is at a special token."""
    out = [("[gMASK]<sop><|system|>Reasoning Effort: " + {"low": "Low", "high": "High"}.get(example.effort, "Max"), False)]
    if example.tools:
        lines = "".join(json.dumps(t["function"], ensure_ascii=False) + "\n" for t in example.tools)
        out.append((_TOOLS_HEAD + lines + _TOOLS_TAIL, False))
    messages = example.messages if with_answer else example.messages[:-1]
    written = False  # whether the previous turn, the model's, has already named the next role
    for i, m in enumerate(messages):
        if m["role"] == "assistant":
            out.append(("<|assistant|><think>", False))
            out.append((m["reasoning_content"] + "</think>" + m["content"].strip() + calls(m), True))
            out.append(("<|observation|>" if m.get("tool_calls") else "<|user|>", True))
            written = True
            continue
        if m["role"] == "tool":
            first = messages[i - 1]["role"] != "tool"
            out.append((("<|observation|>" if first and not written else "")
                        + "<tool_response>" + m["content"] + "</tool_response>", False))
        else:
            out.append((("" if written else f"<|{m['role']}|>") + m["content"], False))
        written = False
    if not with_answer:
        out.append(("<|assistant|><think>", False))
    return out


def calls(message: dict) -> str:
    return "".join("<tool_call>" + c["name"] + "".join(
        f"<arg_key>{k}</arg_key><arg_value>{v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)}</arg_value>"
        for k, v in c["arguments"].items()) + "</tool_call>" for c in message.get("tool_calls") or [])


def prompt(example: Example) -> str:
    return "".join(text for text, _ in render(example, with_answer=False))
