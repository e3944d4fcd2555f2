"""Between training's parameters (experts stacked) and a checkpoint's tensors, and the published FP8 block form."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

import model

FP8_SUFFIXES = ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj", "indexer.wq_b", "indexer.wk", "gate_proj", "up_proj", "down_proj")


def is_fp8(name: str) -> bool:
    return name.endswith(tuple(s + ".weight" for s in FP8_SUFFIXES))


def fp8_blocks(w: torch.Tensor, block: int = 128) -> tuple[torch.Tensor, torch.Tensor]:
    """w [..., out, in] float32 -> (E4M3 values as float32, scale of each block [..., ceil(out / 128), ceil(in / 128)]).

    scale = amax / 448 (1 for a block of zeros), value = E4M3(w / scale), as the published checkpoints have it.
    """
    out, cols = w.shape[-2:]
    pad = torch.nn.functional.pad(w, (0, -cols % block, 0, -out % block))
    tiles = pad.unflatten(-1, (-1, block)).unflatten(-3, (-1, block))  # [..., rows, block, cols, block]
    amax = tiles.abs().amax((-3, -1))
    scale = torch.where(amax > 0, amax / 448.0, torch.ones_like(amax))
    spread = scale[..., :, None, :, None]
    codes = (tiles / spread).clamp(-448, 448).to(torch.float8_e4m3fn).float()
    return codes.flatten(-2).flatten(-3, -2)[..., :out, :cols], scale


def fp8_rounded(w: torch.Tensor, block: int = 128) -> torch.Tensor:
    """What a reader of the FP8 form sees."""
    codes, scale = fp8_blocks(w, block)
    spread = scale.repeat_interleave(block, -2).repeat_interleave(block, -1)[..., : w.shape[-2], : w.shape[-1]]
    return codes * spread


_E2M1 = ((0.25, 0.5), (0.75, 0.5), (1.25, 0.5), (1.75, 0.5), (2.5, 1.0), (3.5, 1.0), (5.0, 2.0))  # from |q| on, the value grows by


def nvfp4_rounded(w: torch.Tensor, amax: torch.Tensor) -> torch.Tensor:
    """Nearly what a reader of the NVFP4 form sees (ties go down); `amax` [..., 1, 1] is the largest magnitude."""
    g = torch.where(amax > 0, amax / 2688.0, torch.ones_like(amax))
    blocks = w.unflatten(-1, (-1, 16))
    raw = blocks.abs().amax(-1, keepdim=True) / (6.0 * g)[..., None]
    raw = torch.where(raw == 0, torch.ones_like(raw), raw).clamp(2.0 ** -9, 448.0)
    s = raw.to(torch.float8_e4m3fn).float() * g[..., None]
    q = blocks / s
    value = sum(((q.abs() > bound).float() * more for bound, more in _E2M1), torch.zeros_like(q))
    return (torch.copysign(value, q) * s).flatten(-2)


def as_checkpoint(c: dict, p: model.Tensors) -> model.Tensors:
    """Published names: one tensor an expert, in file order."""
    out: model.Tensors = {}
    for name, t in p.items():
        if ".mlp.experts." in name:
            head, tail = name.split(".mlp.experts.")
            for e in range(t.shape[0]):
                out[f"{head}.mlp.experts.{e}.{tail}"] = t[e]
        else:
            out[name] = t
    return out


def from_checkpoint(c: dict, tensors: model.Tensors) -> model.Tensors:
    out = {}
    for name in model.shapes(c):
        if ".mlp.experts." in name:
            head, tail = name.split(".mlp.experts.")
            out[name] = torch.stack([tensors[f"{head}.mlp.experts.{e}.{tail}"] for e in range(c["n_routed_experts"])])
        else:
            out[name] = tensors[name]
    return out


def read(folder: Path) -> tuple[dict, model.Tensors]:
    """(config, parameters as float32) of a folder in BF16 or FP8 form."""
    c = json.loads((folder / "config.json").read_text())
    raw: model.Tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        raw |= load_file(file)
    tensors = {}
    for name, t in raw.items():
        if name.endswith("_scale_inv"):
            continue
        value = t.float()
        if name + "_scale_inv" in raw:
            scale = raw[name + "_scale_inv"]
            value = value * scale.repeat_interleave(128, 0).repeat_interleave(128, 1)[: t.shape[0], : t.shape[1]]
        tensors[name] = value
    return c, from_checkpoint(c, tensors)


def write(folder: Path, c: dict, p: model.Tensors, form: str, shard_bytes: int = 7_500_000) -> int:
    """Shards, index and config.json; returns the bytes of the tensors."""
    shards: list[model.Tensors] = [{}]
    size = total = 0
    for name, t in as_checkpoint(c, p).items():
        parts = {name: t.contiguous().bfloat16()}
        if name.endswith("e_score_correction_bias"):
            parts = {name: t.float()}
        elif form == "fp8" and is_fp8(name):
            codes, scale = fp8_blocks(t.float())
            parts = {name: codes.to(torch.float8_e4m3fn), name + "_scale_inv": scale}
        for key, value in parts.items():
            value = value.contiguous().cpu()
            if size + value.nbytes > shard_bytes and shards[-1]:
                shards.append({})
                size = 0
            shards[-1][key] = value
            size += value.nbytes
            total += value.nbytes
    folder.mkdir(parents=True, exist_ok=True)
    where = {}
    for i, tensors in enumerate(shards, 1):
        file = f"model-{i:05d}-of-{len(shards):05d}.safetensors"
        save_file(tensors, folder / file, metadata={"format": "pt"})
        where |= {name: file for name in tensors}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": dict(sorted(where.items()))}, indent=2) + "\n")
    c = dict(c)
    if form == "fp8":
        c["quantization_config"] = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128],
                                    "modules_to_not_convert": ["lm_head", "model.embed_tokens", "model.norm"]}
    (folder / "config.json").write_text(json.dumps(c, indent=2) + "\n")
    return total
