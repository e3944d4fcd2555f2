"""Train nano's tokenizer.json: byte-level BPE in the published form, with the added tokens of GLM-5.3 in their order.

    python make_tokenizer.py OUT_DIR [--vocab-size 1536] [--examples 20000]

No merge holds a digit, so that a number is its digits.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

import data
from chat import render

PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
NOT_SPECIAL = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<arg_key>", "</arg_key>",
               "<arg_value>", "</arg_value>", "/nothink")
ADDED = ("<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>",
         "<|begin_of_image|>", "<|end_of_image|>", "<|begin_of_video|>", "<|end_of_video|>", "<|begin_of_audio|>", "<|end_of_audio|>",
         "<|begin_of_transcription|>", "<|end_of_transcription|>", "<|code_prefix|>", "<|code_middle|>", "<|code_suffix|>", *NOT_SPECIAL,
         "<|begin_of_box|>", "<|end_of_box|>", "<|image|>", "<|video|>")


def pre_tokenizer(*first):
    return pre_tokenizers.Sequence([*first, pre_tokenizers.Split(Regex(PATTERN), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def train(vocab_size: int, examples: int) -> dict:
    """The trained model's part of tokenizer.json: vocab and merges without the added tokens."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizer(pre_tokenizers.Digits(individual_digits=True))
    added = sorted(ADDED, key=len, reverse=True)

    def texts():
        for n in range(examples):
            for text, _ in render(data.one("nano-tokenizer", n)):
                for token in added:
                    text = text.replace(token, "\n")
                yield text
    trainer = trainers.BpeTrainer(vocab_size=vocab_size - len(ADDED), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(texts(), trainer)
    return json.loads(tokenizer.to_str())["model"]


def tokenizer_json(vocab_size: int, examples: int) -> dict:
    model = train(vocab_size, examples)
    first = len(model["vocab"])
    assert first == vocab_size - len(ADDED), first
    assert not any(any(c.isdigit() for c in "".join(m)) for m in model["merges"])
    model["vocab"] |= {content: first + i for i, content in enumerate(ADDED)}
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizer()
    tokenizer.decoder = decoders.ByteLevel()
    out = json.loads(tokenizer.to_str())
    out["model"] = model
    out["added_tokens"] = [{"id": first + i, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                            "special": content not in NOT_SPECIAL} for i, content in enumerate(ADDED)]
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--vocab-size", type=int, default=1536)
    parser.add_argument("--examples", type=int, default=20000)
    flags = parser.parse_args()
    flags.out.mkdir(parents=True, exist_ok=True)
    made = tokenizer_json(flags.vocab_size, flags.examples)
    (flags.out / "tokenizer.json").write_text(json.dumps(made, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    print(f"{flags.out}/tokenizer.json: {flags.vocab_size} tokens")


if __name__ == "__main__":
    main()
