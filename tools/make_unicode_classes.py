#!/usr/bin/env python3
"""Writes the Unicode tables of room `text` from what the Rust `tokenizers` library does (PyPI, see requirements.txt).

Every code point goes through the library's own engines, so the tables agree with them by construction, whatever
Unicode version those were built with:
- general categories and White_Space: Split(Regex(...)), the engine of the pre-tokenizer;
- word characters: the neighbours that stop a `single_word` added token;
- the case folds that matter to the contractions of the GLM pattern.

    tools/make_unicode_classes.py            # rewrites the table and the expectations of its test
    tools/make_unicode_classes.py --check    # compares instead; exit status 1 if they differ
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "src/text/unicode_classes_table.inc"
EXPECTED = ROOT / "tests/data/text/unicode_classes.json"

CATEGORIES = ("Cn Cc Cf Co Cs Ll Lm Lo Lt Lu Mc Me Mn Nd Nl No Pc Pd Pe Pf Pi Po Ps Sc Sk Sm So Zl Zp Zs").split()
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
TEXT = "".join(map(chr, CODE_POINTS))

# Characters by the Unicode version that first assigned them.
FIRST_IN = {"14.0": 0x1DF00, "15.0": 0x31350, "15.1": 0x2EBF0, "16.0": 0x16D40, "17.0": 0x10940}


def members(pattern: str) -> set[int]:
    """The code points that `pattern`, a class, matches."""
    found = set(CODE_POINTS)
    for piece, (start, end) in pre_tokenizers.Split(Regex(pattern + "+"), "removed").pre_tokenize_str(TEXT):
        assert len(piece) == end - start
        found.difference_update(CODE_POINTS[start:end])
    return found


def word_members() -> set[int]:
    """The code points beside which a single_word added token is not recognised."""
    tokenizer = Tokenizer(models.BPE(vocab={"a": 0}, merges=[]))
    tokenizer.add_tokens([AddedToken("|", single_word=True, normalized=False)])
    token = tokenizer.token_to_id("|")
    texts = [chr(c) + "|" for c in CODE_POINTS if c != ord("|")]
    before = [c for c in CODE_POINTS if c != ord("|")]
    left = {c for c, e in zip(before, tokenizer.encode_batch(texts)) if token not in e.ids}
    right = {c for c, e in zip(before, tokenizer.encode_batch([t[::-1] for t in texts])) if token not in e.ids}
    assert left == right
    return left


def folds() -> dict[str, list[int]]:
    """For each letter of the contractions, the other characters that (?i) takes for it."""
    found = {}
    for letter in "stredvml":
        split = pre_tokenizers.Split(Regex(f"(?i:{letter})+"), "removed")
        rest = set(CODE_POINTS)
        for _, (start, end) in split.pre_tokenize_str(TEXT):
            rest.difference_update(CODE_POINTS[start:end])
        found[letter] = sorted(rest)
    return found


def unicode_version(letters_and_more: dict[int, str]) -> str:
    return max((v for v, c in FIRST_IN.items() if letters_and_more[c] != "Cn"), key=lambda v: float(v))


def ranges(codes: set[int]) -> list[tuple[int, int]]:
    out: list[list[int]] = []
    for code in sorted(codes):
        if out and out[-1][1] == code - 1:
            out[-1][1] = code
        else:
            out.append([code, code])
    return [(a, b) for a, b in out]


def lines(cells: list[str], width: int = 110) -> str:
    text, line = [], ""
    for cell in cells:
        if len(line) + len(cell) + 1 > width:
            text.append(line.rstrip())
            line = ""
        line += cell + " "
    return "\n".join(text + [line.rstrip()])


def table(category: dict[int, str], space: set[int], word: set[int], version: str) -> str:
    cells = []
    last = ""
    for code in range(0x110000):
        now = category.get(code, "Cs")
        if now != last:
            cells.append(f"0x{code << 5 | CATEGORIES.index(now):X},")
            last = now
    usual = {c for c, k in category.items() if k[0] in "LM" or k in ("Nd", "Nl", "Pc")}
    pairs = lambda codes: lines([f"{{0x{a:X}, 0x{b:X}}}," for a, b in ranges(codes)])  # noqa: E731
    return f"""// Made by tools/make_unicode_classes.py from tokenizers {tokenizers.__version__}; do not edit. Unicode {version}.
constexpr std::string_view kUnicodeVersion = "{version}";
// Where each run of one general category starts: code << 5 | GeneralCategory.
constexpr uint32_t kCategoryRuns[] = {{
{lines(cells)}
}};
constexpr CodePointRange kWhiteSpace[] = {{
{pairs(space)}
}};
// Word characters outside L, M, Nd, Nl and Pc (all of those are word characters).
constexpr CodePointRange kOtherWord[] = {{
{pairs(word - usual)}
}};
"""


def fnv1a(codes: set[int]) -> str:
    value = 0xCBF29CE484222325
    for code in sorted(codes):
        for byte in code.to_bytes(4, "little"):
            value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the files instead of writing them")
    check = parser.parse_args().check

    sets = {name: members(rf"\p{{{name}}}") for name in CATEGORIES if name != "Cs"}
    category = {code: name for name, codes in sets.items() for code in codes}
    assert len(category) == sum(map(len, sets.values())) == len(CODE_POINTS)
    classes = {"L": members(r"\p{L}"), "N": members(r"\p{N}"), "White_Space": members(r"\s"), "word": word_members()}
    for name in "LN":
        assert classes[name] == {c for c, k in category.items() if k[0] == name}
    usual = {c for c, k in category.items() if k[0] in "LM" or k in ("Nd", "Nl", "Pc")}
    assert usual <= classes["word"], "some L, M, Nd, Nl or Pc is no word character: the table cannot say so"
    version = unicode_version(category)
    expected = {
        "tokenizers": tokenizers.__version__,
        "unicode": version,
        "classes": {k: {"count": len(v), "fnv1a": fnv1a(v)} for k, v in sorted((sets | classes).items())},
        "folds": folds(),
    }
    files = {TABLE: table(category, classes["White_Space"], classes["word"], version),
             EXPECTED: json.dumps(expected, indent=1) + "\n"}
    different = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    for path in different:
        print(f"{path.relative_to(ROOT)} {'differs' if check else 'written'}")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[path])
    return 1 if check and different else 0


if __name__ == "__main__":
    sys.exit(main())
