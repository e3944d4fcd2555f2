"""The training code's forward pass against other implementations of the same model.

    python -m pytest tools/nano/test_model.py --glint build/release/apps/glint/glint

Goldens: logits and drafts of the micro case, made by transformers and an MTP layer of its own (tests/data/goldens).
transformers: logits of nano's own shape with index lists in use.
"""

from __future__ import annotations

import copy
import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import checkpoint
import model
import nano_config

ROOT = Path(__file__).resolve().parents[2]
torch.set_num_threads(1)


class Kept(model.Functions):
    """Keeps the logits that the losses are made from."""

    def __init__(self):
        super().__init__(compiled=False)
        self.logits: list[torch.Tensor] = []
        plain = self.head_loss

        def head_loss(x, norm, head, target, weight, eps):
            self.logits.append(model.rms(x, norm, eps) @ head.T)
            return plain(x, norm, head, target, weight, eps)
        self.head_loss = head_loss


def run(c: dict, p: model.Tensors, documents: torch.Tensor, mode: model.Mode, dtype=torch.float32) -> Kept:
    """documents [B, S], all of one length, after a segment of padding that must not matter."""
    b, s = documents.shape
    padding = torch.zeros(7, dtype=torch.long)
    segments = [model.Segment(0, 1, 3, 7), model.Segment(7, b, s, b * s + 2)]
    ids = torch.cat([padding, documents.flatten(), padding[:2]])
    positions = torch.cat([torch.arange(3).repeat(3)[:7], torch.arange(s).repeat(b), torch.zeros(2, dtype=torch.long)])
    weight = torch.ones(len(ids))
    rows = [torch.tensor([[1, 2]]), torch.arange(4, s, 5).expand(b, -1)]
    kept = Kept()
    forward = model.Forward(c, kept, "cpu")
    forward(model.prepare(c, p, dtype), model.Batch(ids, positions, weight, segments, rows), mode)
    kept.logits = [t[7: 7 + b * s].unflatten(0, (b, s)) for t in kept.logits]
    return kept


@pytest.mark.parametrize("case", ["micro", "micro-fp8"])
def test_goldens(case, tmp_path, glint):
    golden = ROOT / "tests/data/goldens" / case
    form = "fp8" if case.endswith("fp8") else "bf16"
    subprocess.run([glint, "make-checkpoint", "--config", str(golden / "config.json"), "--seed", "1", "--format", form, "--out", str(tmp_path / "m")], check=True)
    c, p = checkpoint.read(tmp_path / "m")
    want = load_file(golden / "golden.safetensors")
    ids = torch.cat([want["input_ids"], want["mtp_tokens"]]).long()
    n = len(want["input_ids"])
    kept = run(c, p, ids[None], model.Mode(sparse=True, drafts=5, taught=(1,), hold=True))
    logits = kept.logits[0][0, n - len(want["logits"]): n]
    assert (logits - want["logits"]).abs().max() < 2.5e-4
    for step in range(5):
        assert (kept.logits[1 + step][0, n - 1] - want["mtp_logits"][step]).abs().max() < 2.5e-4, step


def spread(c: dict, seed: int) -> model.Tensors:
    """Parameters with nothing left at its first value."""
    g = torch.Generator().manual_seed(seed)
    p = model.init(c, seed)
    for name, t in p.items():
        if t.dim() > 1:
            p[name] = torch.randn(t.shape, generator=g) * (1.0 if "embed" in name else 1.2 * t.shape[-1] ** -0.5)
        else:
            p[name] = t + 0.3 * torch.randn(t.shape, generator=g)
    return p


def transformers_model(c: dict, p: model.Tensors):
    from transformers import GlmMoeDsaConfig, GlmMoeDsaForCausalLM
    given = {k: v for k, v in copy.deepcopy(c).items() if k not in ("architectures", "transformers_version", "quantization_config")}
    cfg = GlmMoeDsaConfig(**given)
    cfg._attn_implementation = cfg._experts_implementation = "eager"
    net = GlmMoeDsaForCausalLM(cfg).float().eval()
    own = checkpoint_state(c, p)
    missing = set(net.state_dict()) - set(own)
    assert not missing, missing
    net.load_state_dict({k: own[k] for k in net.state_dict()})
    for name, sub in net.named_modules():
        if name.endswith(("q_a_layernorm", "kv_a_layernorm")):
            sub.variance_epsilon = c["rms_norm_eps"]
    return net


def checkpoint_state(c: dict, p: model.Tensors) -> model.Tensors:
    """transformers' in-memory names: gate and up of the experts in one tensor."""
    out = dict(p)
    for name in p:
        if name.endswith("mlp.experts.gate_proj.weight"):
            stem = name[: -len("gate_proj.weight")]
            out[stem + "gate_up_proj"] = torch.cat([p[name], p[stem + "up_proj.weight"]], 1)
            out[stem + "down_proj"] = p[stem + "down_proj.weight"]
    return out


@pytest.mark.parametrize("config", [nano_config.tiny(), nano_config.config()], ids=["tiny", "nano"])
def test_transformers(config):
    p = spread(config, 6)
    documents = torch.randint(0, 1500, (2, 160), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        want = transformers_model(config, p)(input_ids=documents).logits
        got = run(config, p, documents, model.Mode(sparse=True, drafts=1)).logits[0]
        dense = run(config, p, documents, model.Mode(sparse=False, drafts=0)).logits[0]
    scale = want.std()
    assert (got - want).abs().max() / scale < 2e-5
    assert (dense - want).abs().max() / scale > 1e-2, "the lists must matter"


def test_fp8_blocks_are_the_published_form(tmp_path, glint):
    """Values of Glint's own FP8 writer, through this reader and rounder, stay as they are."""
    golden = ROOT / "tests/data/goldens/micro-fp8"
    subprocess.run([glint, "make-checkpoint", "--config", str(golden / "config.json"), "--seed", "1", "--format", "fp8", "--out", str(tmp_path / "8")], check=True)
    subprocess.run([glint, "make-checkpoint", "--config", str(golden / "config.json"), "--seed", "1", "--format", "bf16", "--out", str(tmp_path / "16")], check=True)
    c, eight = checkpoint.read(tmp_path / "8")
    _, full = checkpoint.read(tmp_path / "16")
    for name, t in full.items():
        want = checkpoint.fp8_rounded(t) if checkpoint.is_fp8(name) else t
        assert torch.equal(want, eight[name]), name
