"""What other implementations compute on some of the greedy texts: the claims `logits` and `drafts` of `glint verify nano`.

    python make_reference.py --model ../../models/nano --out ../../models/nano/verify/reference.jsonl [--count 24]

A line is {"text", "logits", "steps"}: the line of greedy.jsonl, from 0; transformers' float32 logit of each token of the
text, the ending one included (the latent norms with the config's eps, as make_greedy.py does); how many steps of five drafts the
text takes behind its first token, by the MTP layer of model.py (transformers has none).
Texts are spread over the file; those that end by themselves are taken, behind prompts that the index lists cannot hold.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def chosen(lines: list[dict], lengths: list[int], topk: int, tokens_max: int, count: int) -> list[int]:
    fit = [n for n, line in enumerate(lines) if line["tokens"] < tokens_max and lengths[n] > topk]
    return [fit[i * len(fit) // count] for i in range(count)]


def greedy(net, ids: list[int], end: set[int]):
    """(tokens, their logits)"""
    import torch
    made, logits, cache, step = [], [], None, torch.tensor([ids])
    with torch.no_grad():
        while not made or made[-1] not in end:
            out = net(input_ids=step, past_key_values=cache, use_cache=True)
            cache, top = out.past_key_values, out.logits[0, -1].max(-1)
            made.append(int(top.indices))
            logits.append(float(top.values))
            step = torch.tensor([made[-1:]])
    return made, logits


def steps_of(c: dict, p: dict, ids: list[int], prompt: int, drafts: int) -> int:
    import torch

    import infer
    return infer.study(c, p, torch.float32, "cpu", [(ids, prompt)], drafts)["steps"]


def main() -> None:
    import torch
    from tokenizers import Tokenizer

    import checkpoint
    from test_model import transformers_model
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--tokens-max", type=int, default=160, help="of make_greedy.py")
    parser.add_argument("--drafts", type=int, default=5)
    flags = parser.parse_args()
    torch.set_num_threads(1)
    c, p = checkpoint.read(flags.model)
    net = transformers_model(c, p)
    tokenizer = Tokenizer.from_file(str(flags.model / "tokenizer.json"))
    lines = [json.loads(line) for line in (flags.model / "verify/greedy.jsonl").read_text(encoding="utf-8").splitlines()]
    prompts = [tokenizer.encode(line["prompt"], add_special_tokens=False).ids for line in lines]
    with flags.out.open("w", encoding="utf-8") as out:
        for n in chosen(lines, [len(ids) for ids in prompts], c["index_topk"], flags.tokens_max, flags.count):
            made, logits = greedy(net, prompts[n], set(c["eos_token_id"]))
            if tokenizer.decode(made[:-1], skip_special_tokens=False) != lines[n]["text"]:
                raise SystemExit(f"text {n} is not that of greedy.jsonl")
            line = {"text": n, "logits": [round(x, 5) for x in logits], "steps": steps_of(c, p, prompts[n] + made, len(prompts[n]), flags.drafts)}
            out.write(json.dumps(line, separators=(",", ":")) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
