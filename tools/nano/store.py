"""Training's parameters: matrices of one shape in one tensor, so that the optimizer and the rounding take few calls."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

import checkpoint
import model

SMALL = ("embed_tokens.weight", "lm_head.weight", "mlp.gate.weight", "weights_proj.weight")


class Store:
    def __init__(self, c: dict, p: model.Tensors):
        self.c = c
        self.bias = {n: t for n, t in p.items() if n.endswith("e_score_correction_bias")}
        self.small = {n: t.clone().requires_grad_() for n, t in p.items() if n not in self.bias and (t.dim() == 1 or n.endswith(SMALL))}
        groups: dict[tuple, list[str]] = {}
        for n, t in p.items():
            if n not in self.bias and n not in self.small:
                groups.setdefault((*t.shape[-2:], checkpoint.is_fp8(n), ".mlp.experts." in n), []).append(n)
        self.names = groups
        self.counts = {k: [p[n].shape[0] if p[n].dim() == 3 else 1 for n in names] for k, names in groups.items()}
        self.stacked = {k: torch.cat([p[n].reshape(-1, *p[n].shape[-2:]) for n in names]).clone().requires_grad_() for k, names in groups.items()}

    def tensors(self, dtype: torch.dtype, rounding: str = "none") -> model.Tensors:
        """Named views. rounding: none, fp8, or nvfp4 (the routed experts of the main layers in 4 bits, all else FP8), with straight-through gradients."""
        out = dict(self.small) | self.bias
        for key, t in self.stacked.items():
            if key[2] and rounding != "none":
                with torch.no_grad():
                    seen = checkpoint.fp8_rounded(t)
                    if rounding == "nvfp4" and key[3]:
                        seen = checkpoint.nvfp4_rounded(seen, seen.abs().amax((-2, -1), keepdim=True))
                t = t + (seen - t).detach()
            for n, part, count in zip(self.names[key], t.to(dtype).split(self.counts[key]), self.counts[key]):
                out[n] = part[0] if count == 1 else part
        return out

    def plain(self) -> model.Tensors:
        return {n: t.detach().float().clone() for n, t in self.tensors(torch.float32).items()}


def save(folder: Path, p: model.Tensors, file_bytes: int = 15_000_000) -> None:
    """Parameters as BF16 (the router's bias as float32) in files that can travel."""
    folder.mkdir(parents=True, exist_ok=True)
    files: list[model.Tensors] = [{}]
    size = 0
    for n, t in p.items():
        t = t.detach().cpu()
        t = (t if n.endswith("e_score_correction_bias") else t.bfloat16()).contiguous()
        if size + t.nbytes > file_bytes:
            files.append({})
            size = 0
        files[-1][n] = t
        size += t.nbytes
    for i, tensors in enumerate(files):
        save_file(tensors, folder / f"state-{i}.safetensors")


def load(folder: Path) -> model.Tensors:
    out: model.Tensors = {}
    for file in sorted(folder.glob("state-*.safetensors")):
        out |= {n: t.float() for n, t in load_file(file).items()}
    return out
