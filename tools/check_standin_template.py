#!/usr/bin/env python3
"""Renders the stand-in's chat_template.jinja with Python's jinja2 and compares with known prompts of GLM-5.3.

    tools/check_standin_template.py --tool build/release/tests/text/tokenizer_tool
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from jinja2.sandbox import ImmutableSandboxedEnvironment

from make_chat_prompts import variables

DATA = Path(__file__).resolve().parent.parent / "tests/data/text"


def cases() -> list[tuple[str, dict, str]]:
    """Name, request and prompt: the template cases, and the random requests made with the unchanged template."""
    out = []
    for line in (DATA / "text-cases.jsonl").read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        if case["kind"] == "template" and "prompt" in case["expected"]:
            out.append((case["id"], case["request"], case["expected"]["prompt"]))
    for number, line in enumerate((DATA / "chat-prompts.jsonl").read_text(encoding="utf-8").split("\n")):
        case = json.loads(line) if line else {}
        if case.get("template") == "always":
            out.append((f"chat-prompts.jsonl line {number + 1}", case["request"], case["prompt"]))
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True, help="tests/text/tokenizer_tool")
    tool = parser.parse_args().tool
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([tool, "standin", "320", "300", "301", "302", folder], check=True, stdout=subprocess.DEVNULL)
        source = (Path(folder) / "chat_template.jinja").read_text(encoding="utf-8")
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                extensions=["jinja2.ext.loopcontrols"])
    environment.filters["tojson"] = lambda value, ensure_ascii=False: json.dumps(value, ensure_ascii=ensure_ascii)
    template = environment.from_string(source)
    different = 0
    checked = cases()
    for name, request, prompt in checked:
        got = template.render(**variables(request))
        if got != prompt:
            different += 1
            print(f"DIFFERENT {name}\n  expected {prompt!r}\n  rendered {got!r}")
    print(f"{len(checked)} prompts, {different} different")
    return 1 if different or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
