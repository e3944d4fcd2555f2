"""Stand-ins under the names that the published commands use. GLINT_BIN names the program, GLINT_SOURCE the repository."""

import json
import os
import subprocess
from pathlib import Path

import pytest

GLINT = os.environ["GLINT_BIN"]
SOURCE = Path(os.environ["GLINT_SOURCE"])


def glint(*words: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([GLINT, *words], capture_output=True, text=True, timeout=60, **options)


def standin_config() -> dict:
    """The smallest golden's config with heads for eight ranks and layers for seven stages; 1.5 KB of cache a token."""
    config = json.loads((SOURCE / "tests/data/goldens/micro/config.json").read_text())
    layers = 20
    full = [max(layer - 2, 0) % 4 == 0 for layer in range(layers)]
    config.update(
        num_hidden_layers=layers,
        num_attention_heads=8,
        num_key_value_heads=8,
        kv_lora_rank=16,
        indexer_types=["full" if own else "shared" for own in full],
        mlp_layer_types=["dense" if layer < 3 else "sparse" for layer in range(layers)],
    )
    return config


@pytest.fixture(scope="session")
def models(tmp_path_factory) -> Path:
    """A folder in which zai-org/GLM-5.3 (BF16), Inferact/GLM-5.3-NVFP4 and GLM-5.3-NVFP4 are local checkpoints."""
    root = tmp_path_factory.mktemp("models")
    (root / "config.json").write_text(json.dumps(standin_config()))
    for name, form in [("zai-org/GLM-5.3", "bf16"), ("GLM-5.3-NVFP4", "nvfp4")]:
        (root / name).parent.mkdir(exist_ok=True)
        made = glint("make-checkpoint", "--config", "config.json", "--seed", "1", "--format", form, "--out", name, cwd=root)
        assert made.returncode == 0, made.stderr
    (root / "Inferact").mkdir()
    (root / "Inferact/GLM-5.3-NVFP4").symlink_to(root / "GLM-5.3-NVFP4")
    return root
