"""Check that chat.py renders as Glint does, and that the pieces' tokens are those of the whole text.

    python check_format.py --glint build/release/apps/glint/glint --model DIR [--examples 400]
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path

from tokenizers import Tokenizer

import data
from chat import openai_message, prompt, render


def glint(flags, command: str, lines: list[dict]) -> list[dict]:
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    out = subprocess.run([flags.glint, "text", command, "--model", str(flags.model)], input=text, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in out.stdout.split("\n") if line]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--glint", required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--examples", type=int, default=400)
    flags = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(flags.model / "tokenizer.json"))
    examples = [data.one("nano-format", n) for n in range(flags.examples)]

    requests = [e.request() for e in examples]
    for e, mine, theirs in zip(examples, map(prompt, examples), glint(flags, "render", [{"request": r} for r in requests])):
        assert mine == theirs.get("prompt"), (e.task, mine, theirs)
    # The whole conversation, without the token that ends it, as a history.
    whole = [{**r, "messages": [openai_message(m, i) for i, m in enumerate(e.messages)], "add_generation_prompt": False} for e, r in zip(examples, requests)]
    texts = ["".join(t for t, _ in render(e)[:-1]) for e in examples]
    for e, mine, theirs in zip(examples, texts, glint(flags, "render", [{"request": r} for r in whole])):
        assert mine == theirs.get("prompt"), (e.task, mine, theirs)
    for text, e, theirs in zip(texts, examples, glint(flags, "tokenize", [{"text": t} for t in texts])):
        ids = data.tokens(tokenizer, e)[0]
        assert ids[:-1] == tokenizer.encode(text, add_special_tokens=False).ids == (theirs.get("ids") or theirs.get("tokens")), e.task
        assert tokenizer.decode(ids[:-1], skip_special_tokens=False) == text
    print(f"{len(examples)} prompts, histories and token lists agree")


if __name__ == "__main__":
    main()
