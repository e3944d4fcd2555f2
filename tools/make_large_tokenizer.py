"""Writes a tokenizer.json with as many ids as the real model's (154,856, GLM's added tokens at their published ids): the entries of a
small one, and made-up words, digits, punctuation, code and Chinese in about the proportions of a large vocabulary. For measuring
what depends on the vocabulary's size: python tools/make_large_tokenizer.py models/nano OUT_FOLDER
"""

import json
import random
import sys
from pathlib import Path

ORDINARY = 154820


def byte_map() -> dict[int, str]:
    """GPT-2's printable stand-ins for bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return {byte: chr(byte) if byte in plain else chr(next(others)) for byte in range(256)}


def words(random_: random.Random):
    syllables = [c + v + e for c in "bcdfghjklmnprstvwz" for v in "aeiou" for e in ["", "n", "r", "s", "t"]]
    marks = list("{}[]()<>:;,.\"'`=+-*/\\|&%$#@!?^~_") + ["\n", "\t", "  ", "\": \"", "\", \"", "\"}", "\"]", "},", "],", "();", "->", "=>", "::", "/*"]
    while True:
        pick = random_.random()
        word = "".join(random_.choice(syllables) for _ in range(random_.randrange(1, 5)))
        if pick < 0.45:
            yield " " + word
        elif pick < 0.55:
            yield word.capitalize()
        elif pick < 0.65:
            yield word
        elif pick < 0.85:
            yield "".join(chr(random_.randrange(0x4E00, 0x9FFF)) for _ in range(random_.randrange(1, 5)))
        elif pick < 0.88:
            yield "".join(random_.choice("0123456789") for _ in range(random_.randrange(1, 4)))
        elif pick < 0.95:
            yield "".join(random_.choice(marks) for _ in range(random_.randrange(1, 5)))
        else:
            yield word + random_.choice(marks)


def main(source: str, target: str) -> None:
    model = json.loads((Path(source) / "tokenizer.json").read_text(encoding="utf-8"))
    mapped = byte_map()
    added = {entry["content"] for entry in model["added_tokens"]}
    names = [name for name, _ in sorted(model["model"]["vocab"].items(), key=lambda item: item[1]) if name not in added]
    vocabulary = dict.fromkeys(names)
    for word in words(random.Random(1)):
        if len(vocabulary) == ORDINARY:
            break
        vocabulary.setdefault("".join(mapped[byte] for byte in word.encode()))
    model["model"]["vocab"] = {name: number for number, name in enumerate(vocabulary)}
    for number, entry in enumerate(sorted(model["added_tokens"], key=lambda entry: entry["id"])):
        entry["id"] = ORDINARY + number
    model["added_tokens"].sort(key=lambda entry: entry["id"])
    Path(target).mkdir(parents=True, exist_ok=True)
    (Path(target) / "tokenizer.json").write_text(json.dumps(model), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:3])
