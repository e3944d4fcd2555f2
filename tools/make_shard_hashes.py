"""Writes the table of sha256 sums that `glint make-checkpoint` must reproduce.

    python tools/make_shard_hashes.py ORACLE_DIR tests/data/checkpoint/shard_hashes.json

ORACLE_DIR holds the reference generator (write_checkpoint.py with configs.py, weights.py, quantize.py). Each entry lists
the shards in order; entries with many shards hold one sum over all shards' sums instead.
"""

import hashlib
import json
import sys
import tempfile
from pathlib import Path

SHARDS_LISTED_MAX = 16
# 41,088 bytes are the first two BF16 tensors of "micro" exactly: a tensor that just fits stays in its shard.
COMBINATIONS = [(case, fmt, size)
                for case, sizes in (("micro", (1, 41_088, 100_000, 5_000_000_000)), ("geometry", (40_000_000, 5_000_000_000)),
                                    ("longtopk", (4_000_000,)))
                for fmt in ("bf16", "fp8", "nvfp4") for size in sizes]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def main(oracle: str, out: str) -> None:
    sys.path.insert(0, oracle)
    import configs
    import write_checkpoint

    entries = []
    for case, fmt, shard_bytes in COMBINATIONS:
        with tempfile.TemporaryDirectory() as folder:
            write_checkpoint.main(case, fmt, folder, shard_bytes)
            sums = [sha256(path.read_bytes()) for path in sorted(Path(folder).glob("*.safetensors"))]
            index = sha256((Path(folder) / "model.safetensors.index.json").read_bytes())
        entry = {"case": case, "seed": configs.CASES[case][1], "format": fmt, "shard_bytes": shard_bytes,
                 "shards": len(sums), "index": index}
        if len(sums) <= SHARDS_LISTED_MAX:
            entry["sha256"] = sums
        else:
            entry["sha256_of_all"] = sha256("".join(sums).encode())
        entries.append(entry)
    Path(out).write_text("[\n" + ",\n".join(json.dumps(entry) for entry in entries) + "\n]\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
