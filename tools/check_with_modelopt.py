"""Read a converted NVFP4 checkpoint with NVIDIA Model-Optimizer's own code and compare.

    python tools/check_with_modelopt.py SOURCE_BF16 NVFP4 BACK_TO_BF16

SOURCE_BF16 is the checkpoint before the conversion, NVFP4 is what `glint quantize` made of it, BACK_TO_BF16 is what
`glint quantize --format bf16` made of NVFP4. For every NVFP4 projection:

- NVFP4QTensor.dequantize of the stored tensors must give the values of BACK_TO_BF16 (its table has no negative zero:
  code 8 becomes +0 there and -0 here; the number of such zeros is printed);
- NVFP4QTensor.quantize of the source's weight, with gate and up sharing the larger maximum, must give the stored bytes.

Needs nvidia-modelopt and torch (a CPU is enough); not part of CI. The exit status is 1 if anything differs.
"""

from __future__ import annotations

import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path

import torch
from modelopt.torch.quantization.qtensor import NVFP4QTensor
from safetensors import safe_open

BLOCKS = {-1: 16}


class Folder:
    """The tensors of a checkpoint folder by name."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.map = json.loads((self.path / "model.safetensors.index.json").read_text())["weight_map"]
        self.open: dict[str, object] = {}

    def __getitem__(self, name: str) -> torch.Tensor:
        file = self.map[name]
        if file not in self.open:
            self.open[file] = safe_open(self.path / file, "pt")
        return self.open[file].get_tensor(name)


def dequantized(folder: Folder, name: str) -> torch.Tensor:
    packed = folder[name]
    shape = torch.Size([packed.shape[0], packed.shape[1] * 2])
    return NVFP4QTensor(shape, torch.bfloat16, packed).dequantize(
        dtype=torch.bfloat16, scale=folder[name + "_scale"], double_scale=folder[name + "_scale_2"], block_sizes=BLOCKS)


def quantized(source: Folder, name: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    weight = source[name]
    group = [weight]
    for this, other in (("gate_proj", "up_proj"), ("up_proj", "gate_proj")):
        if f".{this}." in name:
            group.append(source[name.replace(this, other)])
    amax = max(w.abs().amax().float() for w in group)
    scale_2 = amax / (6.0 * 448.0)
    q, scale, scale_2 = NVFP4QTensor.quantize(weight, 16, weights_scaling_factor_2=scale_2, try_tensorrt=False)
    return q._quantized_data, scale, scale_2


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def main(source_path: str, nvfp4_path: str, back_path: str) -> int:
    source, nvfp4, back = Folder(source_path), Folder(nvfp4_path), Folder(back_path)
    names = [n for n in nvfp4.map if n.endswith(".weight") and nvfp4[n].dtype == torch.uint8]
    read = written = weights = zeros = 0
    for name in names:
        weights += 2 * nvfp4[name].numel()
        got, wanted = dequantized(nvfp4, name), back[name]
        read += got.shape == wanted.shape and torch.equal(got, wanted)
        zeros += int((got.view(torch.int16) != wanted.view(torch.int16)).sum())
        packed, scale, scale_2 = quantized(source, name)
        written += (same_bits(packed, nvfp4[name]) and same_bits(scale, nvfp4[name + "_scale"])
                    and float(scale_2) == float(nvfp4[name + "_scale_2"]))
    print(f"nvidia-modelopt {version('nvidia-modelopt')}, torch {torch.__version__}, safetensors {version('safetensors')}, "
          f"python {platform.python_version()}, CPU")
    print(f"{nvfp4.path.name}: {len(names)} NVFP4 projections, {weights} weights")
    print(f"  dequantised by ModelOpt to the values of glint's BF16: {read} of {len(names)} (zeros with another sign: {zeros})")
    print(f"  quantised by ModelOpt to the bytes of glint's NVFP4: {written} of {len(names)}")
    return 0 if read == written == len(names) > 0 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
