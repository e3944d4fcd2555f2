"""Write a checkpoint folder in the published layout from a training state.

    python export.py --state TRAIN_OUT --tokenizer DIR/tokenizer.json --out models/nano [--form fp8|bf16] [--replace]
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import checkpoint
import nano_config
import store


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--form", default="fp8", choices=("fp8", "bf16"))
    parser.add_argument("--replace", action="store_true")
    flags = parser.parse_args()
    if any(flags.out.glob("*.safetensors")) and not flags.replace:
        raise SystemExit(f"{flags.out} holds a checkpoint already; --replace writes over it")
    for old in flags.out.glob("model-*.safetensors"):
        old.unlink()
    c = nano_config.config()
    total = checkpoint.write(flags.out, c, store.load(flags.state / "state"), flags.form)
    nano_config.write_side_files(flags.out, None)
    shutil.copy(flags.tokenizer, flags.out / "tokenizer.json")
    size = sum(f.stat().st_size for f in flags.out.iterdir())
    print(f"{flags.out}: {flags.form}, {total} bytes of tensors, {size} bytes in all")


if __name__ == "__main__":
    main()
