#!/usr/bin/env python3
"""Writes tests/data/text/tokenizer_vectors.json: small tokenizers with what the Rust library makes of some texts.

    tools/make_tokenizer_vectors.py --tool build/release/tests/text/tokenizer_tool
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import tempfile
from pathlib import Path

import check_tokenizer as check
from tokenizers import Regex, Tokenizer, pre_tokenizers

OUT = Path(__file__).resolve().parent.parent / "tests/data/text/tokenizer_vectors.json"

HAND_MADE = [
    "", " ", "\n", "Hello, world!", "I'm sure they'LL say we'Ve won; it's 'S 'ſ 'K", "x's\u017f y'ſz", "1234567 12 3", "a  b   c    ",
    "  \n\n  x", "tab\tword \t word", "a\r\n\r\nb", "end of text   ", "line\u0085next\u2028para\u2029x", "\u3000全角 空白\u00a0nbsp",
    "naïve café ﬁ ǅ ŉ", "你好，世界！", " 世界", "👩‍👩‍👧‍👦👍🏽🇩🇪1️⃣", "e\u0301 \u0301x \u200d\ufe0f", "\u0000\u0001\u007f", "Ⅷ½٣٤٥٦ ①②③④",
    "[gMASK]<sop><|system|>Reasoning Effort: Max<|user|>Hi<|assistant|><think>", "<|user|<|user|>|>", "<<think>></think>/nothink",
    "<tool_call>f<arg_key>k</arg_key><arg_value>v</arg_value></tool_call>", "\U0010ffff\U000e0067\ue000\ufffd", "a" * 60, "ab" * 40 + "!" * 70,
    "abc ab abcd xab", "<x>  <xy>  <xyz>  x", " word sword word, _word", "two words é界 \u00a0nb  '  x", "a  [MASK]  <sop> b",
    "\u31350\U00031350\U0002ebf0 \U00016d40\U00010d40 letters of later Unicode versions",
]


def encode_vectors(library: Tokenizer, texts: list[str], special: bool) -> list:
    return [[text, library.encode(text, add_special_tokens=special).ids] for text in texts]


def decode_vectors(library: Tokenizer, rng: random.Random) -> list:
    size = max(library.get_vocab().values()) + 1
    rows = [[rng.randrange(size) for _ in range(rng.randint(1, 8))] for _ in range(40)]
    rows += [list("你好👍🏽".encode()), [0xE4, 0xBD], [0xF0, 0x9F, 0x98, 0x41], [0xED, 0xA0, 0x80], [0xC0, 0xAF, 0xFF]]
    return [[row, skip, library.decode(row, skip_special_tokens=skip)] for row in rows for skip in (False, True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True, help="tests/text/tokenizer_tool")
    tool = parser.parse_args().tool

    rng = random.Random(7)
    corpus = [text for text in check.make_corpus(8, 90_000) if len(text) < 60]
    changes = {"plain": lambda spec: None, "strings": check.with_strings, "template": check.with_template,
               "flags": check.with_flags, "bytes": check.without_some_bytes,
               "possessive": check.with_pattern(check.FOREIGN["possessive"])}
    split = pre_tokenizers.Split(Regex(check.GLM), "isolated")
    texts = HAND_MADE + rng.sample(corpus, 150)
    out = {"pieces": [[piece for piece, _ in split.pre_tokenize_str(text)] for text in texts if text], "tokenizers": []}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([tool, "standin", "340", "300", "301", "302", folder], check=True, stdout=subprocess.DEVNULL)
        base = (Path(folder) / "tokenizer.json").read_text(encoding="utf-8")
    for name, change in changes.items():
        spec = json.loads(base)
        change(spec)
        library = Tokenizer.from_str(json.dumps(spec))
        some = HAND_MADE + rng.sample(corpus, 60)
        out["tokenizers"].append({"name": name, "special": name == "template", "spec": spec,
                                  "encode": encode_vectors(library, some, name == "template"),
                                  "decode": decode_vectors(library, rng)})
    parts = ",\n".join(json.dumps(t, ensure_ascii=True, separators=(",", ":")) for t in out["tokenizers"])
    pieces = json.dumps(out["pieces"], ensure_ascii=True, separators=(",", ":"))
    OUT.write_text(f'{{"pieces":{pieces},\n"tokenizers":[\n{parts}]}}\n', encoding="utf-8")
    print(f"{OUT.name}: {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
