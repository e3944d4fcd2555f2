"""Evaluate nano in PyTorch: every claim, speculation, selection and routing.

    python evaluate.py --model DIR --tokenizer DIR/tokenizer.json [--state TRAIN_OUT] [--count 40] [--form fp8] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer

import checkpoint
import data
import infer
import judge
import nano_config
import store
from chat import EFFORTS, prompt

TYPES = {"integer": int, "number": float, "boolean": lambda t: {"true": True, "false": False}[t], "array": json.loads, "object": json.loads, "string": str}


def parse(text: str, example, ended: bool) -> judge.Answer:
    """As Glint's parser does for well-formed answers."""
    reasoning, _, rest = text.partition("</think>")
    call = None
    if "<tool_call>" in rest:
        rest, _, tail = rest.partition("<tool_call>")
        body = tail.rpartition("</tool_call>")[0]
        name, *pairs = body.split("<arg_key>")
        known = {t["function"]["name"]: t["function"]["parameters"]["properties"] for t in example.tools}
        arguments = {}
        try:
            for pair in pairs:
                key, _, value = pair.partition("</arg_key><arg_value>")
                arguments[key] = TYPES[known[name][key]["type"]](value.rpartition("</arg_value>")[0])
            call = {"name": name, "arguments": arguments}
        except (KeyError, ValueError):
            call = {"name": name, "arguments": None}
    return judge.Answer(reasoning, rest, call, ended)


def run(c: dict, p: dict, tokenizer, count: int, device: str, dtype, batch: int, tokens_max: int, claims=None) -> dict:
    generate = infer.Generator(c, p, dtype, device)
    todo = [(claim, e) for claim in claims or judge.CLAIMS for e in judge.examples(claim, count)]
    prompts = [tokenizer.encode(prompt(e), add_special_tokens=False).ids for _, e in todo]
    order = sorted(range(len(todo)), key=lambda n: len(prompts[n]))
    results: dict[str, list] = {claim: [] for claim in claims or judge.CLAIMS}
    lengths: dict[str, list[int]] = {e: [] for e in EFFORTS}
    texts, wrong = [], []
    end = set(c["eos_token_id"])
    for at in range(0, len(order), batch):
        part = order[at: at + batch]
        made = generate([prompts[n] for n in part], tokens_max, end)
        for n, ids in zip(part, made):
            claim, e = todo[n]
            ended = bool(ids) and ids[-1] in end
            text = tokenizer.decode(ids[:-1] if ended else ids, skip_special_tokens=False)
            a = parse(text, e, ended)
            ok = judge.right(e, a)
            results[claim].append((e, a, ok))
            if claim == "arithmetic" or claim == "tool_call" or claim == "lookup":
                lengths[e.effort].append(len(tokenizer.encode(a.reasoning, add_special_tokens=False).ids))
            texts.append((prompts[n] + ids, len(prompts[n])))
            if not ok:
                wrong.append({"claim": claim, "effort": e.effort, "prompt": prompt(e)[-700:], "got": text, "want": e.answer})
    out = {"claims": judge.table(results), "mean_thinking_tokens": {e: round(statistics.mean(v), 1) for e, v in lengths.items() if v}}
    out |= infer.study(c, p, dtype, device, [t for t in texts if len(t[0]) <= 2200])
    out["wrong"] = wrong
    return out


def rounded(c: dict, p: dict, form: str) -> dict:
    if form == "none":
        return p
    out = {n: checkpoint.fp8_rounded(t.float()) if checkpoint.is_fp8(n) else t for n, t in p.items()}
    if form == "nvfp4":
        for n in list(out):
            if ".mlp.experts." in n and f"layers.{c['num_hidden_layers']}." not in n:
                other = n.replace("gate_proj", "up_proj") if "gate_proj" in n else n.replace("up_proj", "gate_proj")
                amax = torch.maximum(out[n].abs().amax((-2, -1), keepdim=True), p[other].abs().amax((-2, -1), keepdim=True) if other != n else out[n].abs().amax((-2, -1), keepdim=True))
                out[n] = checkpoint.nvfp4_rounded(out[n], amax)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--state", type=Path)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--count", type=int, default=40, help="examples of each claim and effort")
    parser.add_argument("--form", default="none", choices=("none", "fp8", "nvfp4"))
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float32"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--tokens-max", type=int, default=480)
    parser.add_argument("--claims", nargs="*")
    parser.add_argument("--study-only", action="store_true", help="no generation: speculation, lists and routing on the right answers")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--out", type=Path)
    flags = parser.parse_args()
    start = time.time()
    if flags.state:
        c, p = (nano_config.tiny() if flags.tiny else nano_config.config()), store.load(flags.state / "state")
    else:
        c, p = checkpoint.read(flags.model)
    if flags.study_only:
        tokenizer = Tokenizer.from_file(flags.tokenizer)
        examples = [e for claim in flags.claims or judge.CLAIMS for e in judge.examples(claim, flags.count)]
        texts = sorted(((data.tokens(tokenizer, e)[0], len(tokenizer.encode(prompt(e), add_special_tokens=False).ids)) for e in examples), key=lambda t: len(t[0]))
        torch.set_num_threads(1 if flags.device == "cpu" else torch.get_num_threads())
        print(json.dumps(infer.study(c, rounded(c, p, flags.form), getattr(torch, flags.dtype), flags.device, texts, batch=flags.batch)))
        return
    out = run(c, rounded(c, p, flags.form), Tokenizer.from_file(flags.tokenizer), flags.count, flags.device, getattr(torch, flags.dtype), flags.batch, flags.tokens_max, flags.claims)
    print(judge.show(flags.form, out["claims"]))
    print(json.dumps({k: v for k, v in out.items() if k not in ("claims", "wrong", "expert_share_by_layer")}))
    print(f"{time.time() - start:.0f} s")
    if flags.out:
        flags.out.write_text(json.dumps(out, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
