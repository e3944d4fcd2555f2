"""Writes the safetensors files that the tests of room `tensor` compare with.

    python tools/make_safetensors_fixture.py tests/data/tensor

rust.safetensors comes from the reference library. json.safetensors has a header from Python's json.dumps with names
that need escapes; the C++ writer must produce the same bytes.
"""

import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

out = Path(sys.argv[1])

save_file({
    "matrix": np.arange(12, dtype=np.float32).reshape(3, 4) / 8,
    "scalar": np.array(2.5, np.float64),
    "empty": np.zeros((0, 4), np.int32),
    "bytes": np.arange(5, dtype=np.uint8),
    "flags": np.array([True, False]),
    "long": np.array([-1, 2**40], np.int64),
}, out / "rust.safetensors", metadata={"format": "np", "note": "\u00e4"})

header = {"__metadata__": {"format": "pt"}}
offset = 0
parts = []
for i, name in enumerate(("plain.weight", "quote\"backslash\\", "tab\tnewline\n\x01\x7f", "\u00e4\u4e2d\U0001f600/")):
    array = np.arange(i + 1, dtype=np.float32)
    header[name] = {"dtype": "F32", "shape": [i + 1], "data_offsets": [offset, offset + array.nbytes]}
    offset += array.nbytes
    parts.append(array.tobytes())
text = json.dumps(header, separators=(",", ":")).encode()
text += b" " * (-len(text) % 8)
(out / "json.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))
