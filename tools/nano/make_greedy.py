"""Greedy texts of transformers in float32, to compare a server's with.

    python make_greedy.py --model models/nano --out FILE.jsonl [--count 200]
    python make_greedy.py --check FILE.jsonl --url http://127.0.0.1:8000/v1 [--model-name nano]

The folder's FP8 weights are dequantised; the latent norms get the config's eps. A line is {"prompt", "tokens", "text", "gap"}:
gap is the smallest distance between the two largest logits of any step, text leaves the end token out. The check sends the
prompt to /v1/completions with temperature 0 and compares text and count; the server must run with --dtype float32.
"""

from __future__ import annotations

import argparse
import json
import urllib.request
from pathlib import Path


def texts_of(folder: Path, count: int, tokens_max: int):
    import torch
    from tokenizers import Tokenizer

    import checkpoint
    import data
    from chat import prompt
    from test_model import transformers_model
    torch.set_num_threads(1)
    c, p = checkpoint.read(folder)
    net = transformers_model(c, p)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for n in range(count):
        example = data.one("nano-greedy", n, test=True)
        ids = tokenizer.encode(prompt(example), add_special_tokens=False).ids
        made, gap, cache, step = [], float("inf"), None, torch.tensor([ids])
        with torch.no_grad():
            while len(made) < tokens_max:
                out = net(input_ids=step, past_key_values=cache, use_cache=True)
                cache, top = out.past_key_values, out.logits[0, -1].topk(2)
                gap = min(gap, float(top.values[0] - top.values[1]))
                made.append(int(top.indices[0]))
                if made[-1] in c["eos_token_id"]:
                    break
                step = torch.tensor([made[-1:]])
        ended = made[-1] in c["eos_token_id"]
        yield {"prompt": prompt(example), "tokens": len(made), "text": tokenizer.decode(made[:-1] if ended else made, skip_special_tokens=False), "gap": round(gap, 5)}


def check(flags) -> int:
    different = 0
    lines = [json.loads(line) for line in flags.check.read_text(encoding="utf-8").splitlines()]
    for n, line in enumerate(lines):
        body = {"model": flags.model_name, "prompt": line["prompt"], "temperature": 0, "max_tokens": line["tokens"], "skip_special_tokens": False,
                "add_special_tokens": False}
        request = urllib.request.Request(flags.url.rstrip("/") + "/completions", json.dumps(body).encode(), {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as reply:
            out = json.load(reply)
        text = out["choices"][0]["text"]
        if (text, out["usage"]["completion_tokens"]) != (line["text"], line["tokens"]):
            different += 1
            at = next((i for i, (a, b) in enumerate(zip(text, line["text"])) if a != b), min(len(text), len(line["text"])))
            print(f"text {n + 1}: differs at character {at}, smallest gap {line['gap']}: {text[at: at + 40]!r} for {line['text'][at: at + 40]!r}")
    print(f"{len(lines) - different} of {len(lines)} texts are equal")
    return 1 if different else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--tokens-max", type=int, default=160)
    parser.add_argument("--check", type=Path)
    parser.add_argument("--url", default="http://127.0.0.1:8000/v1")
    parser.add_argument("--model-name", default="nano")
    flags = parser.parse_args()
    if flags.check:
        return check(flags)
    with flags.out.open("w", encoding="utf-8") as out:
        for line in texts_of(flags.model, flags.count, flags.tokens_max):
            out.write(json.dumps(line, ensure_ascii=False) + "\n")
            out.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
