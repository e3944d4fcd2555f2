#!/usr/bin/env python3
"""Compares `glint text tokenize` id for id with the Rust `tokenizers` library, in both directions.

A corpus of at least 200,000 strings is generated from a seed: every code point of every plane, words, code, digits,
white space, CJK, emoji with joiners, joiners where none belong, added tokens whole and broken, long runs. It is encoded
by both with several tokenizers (stand-ins of three sizes; merges as strings; a post-processor; added tokens with every
flag; foreign patterns), and the ids, plus random ones, are decoded by both, with and without special tokens.

    tools/check_tokenizer.py --glint build/release/apps/glint/glint \\
        --tool build/release/tests/text/tokenizer_tool
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tokenizers import Tokenizer

GLM = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
       r"|\s+(?!\S)|\s+")
FOREIGN = {
    "the GLM pattern through PCRE2": f"(?:{GLM})",
    "possessive": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$"
                  r"|\s*[\r\n]|\s+(?!\S)|\s",
    "upper and lower": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve)?"
                       r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*"
                       r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    "with gaps and empty matches": r"\d{,2}|[一-龥぀-ヿ]+|\P{L}\p{Sc}|^\S|[\P{N}\D]\u0041\x{1F600}?",
}

WORDS = ("the of and in Paris weather don't I'm you'LL they'Ve HTTPServer snake_case 3.14 2024 ſtraße K'ſ café naïve "
         "Привет мир שלום مرحبا नमस्ते สวัสดี 你好 世界 日本語 ひらがな カタカナ 한국어 Ελλάδα ﬁ ﬆ ŉ İstanbul ǅ").split()
EMOJI = ["👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "1️⃣", "😀", "❤️", "\u200d", "\ufe0f", "\u20e3", "🏽"]
SPACES = [" ", "  ", "\t", "\n", "\r", "\r\n", "\n\n", "\x0b", "\x0c", "\x1c", "\x85", "\xa0", "\u1680", "\u2003",
          "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\u180e", "\u200b", "\ufeff", "   \n  ", " \t "]
PUNCTUATION = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") + ["...", "--", "=>", "'s", "'ſ", "’s", "''", "{{", "—", "„", "、", "。"]
CODE = ["def f(x):\n    return x\n", "for (int i = 0; i < n; ++i) {\n\t\tsum += a[i];\n}\n", '{"a": [1, 2.5e-3, null]}\r\n',
        "<div class=\"x\">&amp;</div>", "#include <vector>\n\n\n", "x = y  # TODO\n\n    ", "SELECT * FROM t;"]
NUMBERS = ["0", "12", "345", "6789", "1234567", "٣٤٥٦", "Ⅷ", "½", "௧௨௩௪", "𝟙𝟚𝟛𝟜", "一二三四", "①②③④"]
ADDED = ["<|endoftext|>", "[MASK]", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>",
         "<think>", "</think>", "<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>",
         "<tool_response>", "</tool_response>", "/nothink", "<|begin_of_box|>", "<|image|>", "<|code_middle|>",
         "<x>", "<xy>", "<xyz>", "word", "two words", "é", "界", "\u00a0nb", "ab", "abc"]
BROKEN = ["<", "<|", "<|user", "<|user|", "|>", "<thin", "<think", "think>", "<<think>>", "</", "/noth", "[gMASK", "MASK]",
          "<|end", "< |user|>", "<|User|>", "<xy", "xyz>", "wor", "words", "_word", "\u0301word", "word\u200d", "7word"]
MARKS = ["\u0301", "\u0323\u0307", "\u093f", "\u200c", "\u200d", "\u202e", "\ufe0f", "\U000e0067", "\u1160", "\u11a8", "\u3099"]


def code_point(rng: random.Random, low: int = 0, high: int = 0x10FFFF) -> str:
    while True:
        code = rng.randint(low, high)
        if not 0xD800 <= code <= 0xDFFF:
            return chr(code)


def every_code_point(rng: random.Random) -> Iterator[str]:
    """All 1,112,064 of them, a few in each string, with neighbours that let each class show."""
    codes = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
    glue = ["", " ", "a", "1", "'", "'s", "\n", "!", " x", "\u3000", "\u0301"]
    for start in range(0, len(codes), 14):
        between = rng.choice(glue)
        yield rng.choice(glue) + between.join(map(chr, codes[start:start + 14])) + rng.choice(glue)


def mixed(rng: random.Random) -> Iterator[str]:
    blocks: list[Callable[[], str]] = [
        lambda: rng.choice(WORDS), lambda: rng.choice(WORDS).upper(), lambda: " " + rng.choice(WORDS),
        lambda: rng.choice(SPACES), lambda: rng.choice(SPACES) * rng.randint(1, 4), lambda: rng.choice(PUNCTUATION),
        lambda: rng.choice(NUMBERS), lambda: rng.choice(EMOJI), lambda: rng.choice(MARKS), lambda: rng.choice(CODE),
        lambda: rng.choice(ADDED), lambda: rng.choice(BROKEN), lambda: code_point(rng), lambda: code_point(rng, 0, 0xFF),
        lambda: code_point(rng, 0, 0x7F), lambda: code_point(rng, 0x4E00, 0x9FFF), lambda: code_point(rng, 0x2000, 0x2BFF),
    ]
    while True:
        kinds = rng.sample(blocks, rng.randint(1, 5))
        yield "".join(rng.choice(kinds)() for _ in range(rng.randint(1, 14)))


def planes(rng: random.Random) -> Iterator[str]:
    while True:
        plane = rng.randrange(17) << 16
        yield "".join(code_point(rng, plane, plane | 0xFFFF) for _ in range(rng.randint(1, 12)))


def long_runs(rng: random.Random) -> Iterator[str]:
    while True:
        unit = rng.choice([rng.choice(SPACES), rng.choice(PUNCTUATION), rng.choice(WORDS), rng.choice(NUMBERS),
                           rng.choice(EMOJI), rng.choice(ADDED), "a", "ab", "7", "\n", "界", code_point(rng)])
        yield rng.choice(["", " ", "x"]) + unit * rng.randint(30, 900) + rng.choice(["", " ", "x", "\n"])


def make_corpus(seed: int, strings: int) -> list[str]:
    rng = random.Random(seed)
    corpus = ["", " ", "\n", "\0", "a", "\U0010ffff"] + list(every_code_point(rng))
    runs = long_runs(rng)
    corpus += [next(runs) for _ in range(200)]
    sources = [mixed(rng), mixed(rng), mixed(rng), planes(rng)]
    while len(corpus) < strings:
        corpus.append(next(rng.choice(sources)))
    rng.shuffle(corpus)
    return corpus


def added(content: str, token: int, **flags: bool) -> dict:
    return {"id": token, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": False} | flags


def with_strings(spec: dict) -> None:
    spec["model"]["merges"] = [" ".join(pair) for pair in spec["model"]["merges"]]
    spec["model"]["ignore_merges"] = False


def with_template(spec: dict) -> None:
    ids = {t["content"]: t["id"] for t in spec["added_tokens"]}
    special = {"PREFIX": {"id": "PREFIX", "ids": [ids["[gMASK]"], ids["<sop>"]], "tokens": ["[gMASK]", "<sop>"]},
               "END": {"id": "END", "ids": [ids["<|endoftext|>"]], "tokens": ["<|endoftext|>"]}}
    piece = {"PREFIX": {"SpecialToken": {"id": "PREFIX", "type_id": 0}}, "A": {"Sequence": {"id": "A", "type_id": 0}},
             "END": {"SpecialToken": {"id": "END", "type_id": 0}}, "B": {"Sequence": {"id": "B", "type_id": 1}}}
    spec["post_processor"] = {"type": "Sequence", "processors": [
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
        {"type": "TemplateProcessing", "single": [piece[k] for k in ("PREFIX", "A", "END")],
         "pair": [piece[k] for k in ("PREFIX", "A", "B")], "special_tokens": special}]}


def with_flags(spec: dict) -> None:
    """Added tokens of every kind, also overlapping ones, behind the ids that exist."""
    flags = [("<x>", {"lstrip": True}), ("<xy>", {"rstrip": True, "special": True}), ("<xyz>", {"lstrip": True, "rstrip": True}),
             ("word", {"single_word": True}), ("two words", {}), ("é", {"normalized": True}), ("界", {"normalized": True}),
             ("\u00a0nb", {"single_word": True, "lstrip": True}), ("ab", {"normalized": True, "single_word": True}),
             ("abc", {"normalized": True, "rstrip": True}), ("'", {"single_word": True, "rstrip": True})]
    top = len(spec["model"]["vocab"])
    known = spec["model"]["vocab"]
    for content, which in flags:
        spec["added_tokens"].append(added(content, known.get(content, top), **which))
        top += content not in known
    for token in spec["added_tokens"][:10]:
        token["lstrip"] = token["id"] % 2 == 0
        token["normalized"] = token["id"] % 3 == 0


def without_some_bytes(spec: dict) -> None:
    """A vocabulary that lacks tokens for some bytes and has holes between its ids."""
    vocab = spec["model"]["vocab"]
    gone = {"e", "Ġ", "ä", "7"}
    spec["model"]["merges"] = [pair for pair in spec["model"]["merges"] if not any(set(p) & gone for p in pair)]
    for token in [t for t in vocab if set(t) & gone and not t.startswith(("<", "[", "/"))]:
        del vocab[token]


def with_pattern(pattern: str) -> Callable[[dict], None]:
    def change(spec: dict) -> None:
        spec["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {"Regex": pattern}
    return change


class Checker:
    def __init__(self, glint: str, folder: Path, corpus: list[str], seed: int):
        self.glint, self.folder, self.corpus = glint, folder, corpus
        self.rng = random.Random(seed + 1)
        self.failures = 0

    def run_glint(self, model: Path, lines: list[str]) -> list[str]:
        path = self.folder / "lines.jsonl"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        command = [self.glint, "text", "tokenize", "--model", str(model), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: status {done.returncode}: {done.stderr}")
        return done.stdout.split("\n")[:-1]

    def report(self, what: str, given: object, expected: object, got: object) -> None:
        self.failures += 1
        if self.failures <= 5:
            print(f"DIFFERENT {what}\n  input    {given!r:.300}\n  library  {expected!r:.300}\n  glint    {got!r:.300}")

    def check_encode(self, name: str, model: Path, library: Tokenizer, texts: list[str], special: bool) -> list[list[int]]:
        flag = ', "add_special_tokens": true' if special else ""
        lines = [f'{{"text": {json.dumps(t, ensure_ascii=False)}{flag}}}' for t in texts]
        got = self.run_glint(model, lines)
        expected = [e.ids for e in library.encode_batch_fast(texts, add_special_tokens=special)]
        if len(got) != len(expected):
            self.report(f"{name}: number of answers", len(texts), len(expected), len(got))
        for text, ids, line in zip(texts, expected, got):
            if line != '{"tokens":' + str(ids).replace(" ", "") + "}":
                self.report(f"{name}: encode", text, ids, line)
        return expected

    def check_decode(self, name: str, model: Path, library: Tokenizer, ids: list[list[int]]) -> None:
        for skip in (False, True):
            flag = ', "skip_special_tokens": true' if skip else ""
            lines = ['{"tokens": [' + ",".join(map(str, row)) + f"]{flag}}}" for row in ids]
            got = self.run_glint(model, lines)
            expected = library.decode_batch(ids, skip_special_tokens=skip)
            for row, text, line in zip(ids, expected, got, strict=True):
                if json.loads(line)["text"] != text:
                    self.report(f"{name}: decode, skip_special_tokens {skip}", row, text, line)

    def random_ids(self, size: int, rows: int) -> list[list[int]]:
        return [[self.rng.randrange(size) for _ in range(self.rng.randint(1, 20))] for _ in range(rows)]

    def check(self, name: str, model: Path, texts: list[str], special: bool = False) -> None:
        start = time.time()
        library = Tokenizer.from_file(str(model / "tokenizer.json"))
        ids = self.check_encode(name, model, library, texts, special)
        size = max(library.get_vocab().values()) + 1
        rows = self.rng.sample(ids, min(len(ids), 8000)) + self.random_ids(min(size, 256), 2000) + self.random_ids(size, 4000)
        self.check_decode(name, model, library, rows)
        tokens = sum(map(len, ids))
        print(f"{name}: {len(texts)} strings, {tokens} tokens, {len(rows)} decoded, {time.time() - start:.1f} s", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--glint", required=True, help="the program")
    parser.add_argument("--tool", required=True, help="tests/text/tokenizer_tool, which writes the stand-ins")
    parser.add_argument("--seed", type=int, default=20240)
    parser.add_argument("--strings", type=int, default=210_000, help="size of the corpus")
    options = parser.parse_args()

    corpus = make_corpus(options.seed, options.strings)
    part = corpus[: len(corpus) // 9]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        checker = Checker(options.glint, folder, corpus, options.seed)

        def standin(name: str, vocab: int, eos: list[int]) -> Path:
            (folder / name).mkdir()
            command = [options.tool, "standin", str(vocab), *map(str, eos), str(folder / name)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            return folder / name

        def variant(name: str, base: Path, change: Callable[[dict], None]) -> Path:
            spec = json.loads((base / "tokenizer.json").read_text(encoding="utf-8"))
            change(spec)
            (folder / name).mkdir()
            (folder / name / "tokenizer.json").write_text(json.dumps(spec, ensure_ascii=False), encoding="utf-8")
            return folder / name

        micro = standin("micro", 320, [300, 301, 302])
        geometry = standin("geometry", 1024, [1000, 1001, 1002])
        middle = standin("middle", 12000, [7, 11000, 300])
        real = standin("real", 154880, [154820, 154827, 154829])
        checker.check("stand-in of 154,880", real, corpus)
        checker.check("stand-in of 320", micro, part)
        checker.check("stand-in of 1,024", geometry, part)
        checker.check("stand-in of 12,000", middle, part)
        checker.check("merges as strings, ignore_merges false", variant("strings", middle, with_strings), part)
        checker.check("post-processor", variant("template", geometry, with_template), part, special=True)
        checker.check("added tokens with flags", variant("flags", middle, with_flags), corpus[: len(corpus) // 4])
        checker.check("bytes without a token", variant("bytes", geometry, without_some_bytes), part)
        for i, (name, pattern) in enumerate(FOREIGN.items()):
            checker.check(f"pattern: {name}", variant(f"foreign{i}", middle, with_pattern(pattern)), part[: len(part) // 2])
    print(f"{checker.failures} differences" if checker.failures else "no difference")
    return 1 if checker.failures else 0


if __name__ == "__main__":
    sys.exit(main())
