"""Training's parameters: names, files, and gradients through the rounded forms."""

import pytest
import torch

import checkpoint
import nano_config
import store
from test_model import spread


@pytest.mark.parametrize("rounding", ["fp8", "nvfp4"])
def test_rounding_is_seen_and_lets_gradients_through(rounding):
    p = spread(nano_config.tiny(), 1)
    s = store.Store(nano_config.tiny(), p)
    plain, seen = s.tensors(torch.float32), s.tensors(torch.float32, rounding)
    for name, t in p.items():
        assert torch.equal(plain[name], t), name
        quantised = checkpoint.is_fp8(name)
        assert torch.equal(seen[name], t) != quantised, name
        assert (seen[name] - t).abs().max() <= 0.3 * t.abs().max()
        if name not in s.bias:
            leaf = s.small.get(name)
            g = torch.autograd.grad(seen[name].sum(), [leaf] if leaf is not None else list(s.stacked.values()), allow_unused=True)
            assert sum(x.sum() for x in g if x is not None) == t.numel(), name


def test_files(tmp_path):
    p = spread(nano_config.tiny(), 1)
    store.save(tmp_path, p, 200_000)
    back = store.load(tmp_path)
    assert len(list(tmp_path.iterdir())) > 3
    for name, t in p.items():
        assert torch.equal(back[name], t if name.endswith("correction_bias") else t.bfloat16().float())


def test_checkpoint_forms(tmp_path):
    c, p = nano_config.tiny(), spread(nano_config.tiny(), 1)
    for form in ("bf16", "fp8"):
        checkpoint.write(tmp_path / form, c, p, form, 300_000)
        config, back = checkpoint.read(tmp_path / form)
        assert ("quantization_config" in config) == (form == "fp8")
        for name, t in p.items():
            want = t if name.endswith("correction_bias") else checkpoint.fp8_rounded(t) if form == "fp8" and checkpoint.is_fp8(name) else t.bfloat16().float()
            assert torch.equal(back[name], want), name
