"""Fixtures of the download tests: a loopback hub, an empty home, and hub_tool (GLINT_HUB_TOOL) as the client."""

import json
import os
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from loopback_hub import File, Hub, Model, git_sha1, sha256

NAME = "zai-org/GLM-tiny"
SHARDS = ["model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors"]
WANTED = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
          "model.safetensors.index.json", *SHARDS]
SHARD_BYTES = 700_000


def shard_bytes(seed: int, size: int = SHARD_BYTES) -> bytes:
    return random.Random(seed).randbytes(size)


def model_files(seed: int = 0, size: int = SHARD_BYTES) -> dict[str, File]:
    index = {"metadata": {}, "weight_map": {f"layer.{i}.weight": name for i, name in enumerate(SHARDS)}}
    files = {
        "README.md": File(b"# a model\n"),
        "config.json": File(json.dumps({"model_type": "glm_moe_dsa", "seed": seed}).encode()),
        "generation_config.json": File(b"{}\n"),
        "tokenizer.json": File(b'{"model": {}}' * 1000, large=True),
        "tokenizer_config.json": File(b"{}"),
        "chat_template.jinja": File(b"{{ messages }}"),
        "model.safetensors.index.json": File(json.dumps(index).encode()),
        "pytorch_model.bin": File(b"never wanted", large=True),
        "consolidated.safetensors": File(b"not in the index", large=True),
    }
    for i, name in enumerate(SHARDS):
        files[name] = File(shard_bytes(10 * seed + i, size), large=True)
    return files


@dataclass
class Result:
    status: int
    out: str
    err: str

    @property
    def source(self) -> str:
        return self.out.split()[0]

    @property
    def commit(self) -> str:
        return self.out.split()[1]

    @property
    def folder(self) -> Path:
        return Path(self.out.split(maxsplit=2)[2].strip())

    @property
    def last_line(self) -> str:
        return self.err.strip().splitlines()[-1]


class Client:
    """hub_tool and Python's huggingface_hub with the same environment."""

    def __init__(self, hub: Hub, home: Path):
        self.hub = hub
        self.home = home
        self.program = os.environ.get("GLINT_HUB_TOOL", "")
        if not self.program:
            pytest.skip("GLINT_HUB_TOOL is not set")
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "ASAN_OPTIONS") if name in os.environ}
        self.env = {**kept, "HOME": str(home), "HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_XET": "1",
                    "HF_HUB_DOWNLOAD_TIMEOUT": "2", "HF_HUB_DISABLE_TELEMETRY": "1"}

    @property
    def cache(self) -> Path:
        return self.home / ".cache/huggingface/hub"

    def start(self, name: str = NAME, *flags: str, **env: str) -> subprocess.Popen:
        return subprocess.Popen([self.program, name, *flags], env={**self.env, **env}, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, name: str = NAME, *flags: str, **env: str) -> Result:
        process = self.start(name, *flags, **env)
        out, err = process.communicate(timeout=60)
        return Result(process.returncode, out, err)

    def python(self, code: str, **env: str) -> str:
        done = subprocess.run([sys.executable, "-c", code], env={**self.env, **env}, text=True, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


def check_published(cache: Path, files: dict[str, File]) -> int:
    """Every blob is what its name says, every snapshot file what the hub has; returns the snapshot files."""
    for blob in cache.glob("models--*/blobs/*"):
        if not blob.name.endswith(".incomplete"):
            data = blob.read_bytes()
            assert blob.name == (sha256(data) if len(blob.name) == 64 else git_sha1(data)), blob
    pointers = list(cache.glob("models--*/snapshots/*/*"))
    for pointer in pointers:
        assert pointer.read_bytes() == files[pointer.name].data, pointer
    return len(pointers)


@pytest.fixture
def hub():
    server = Hub()
    server.models[NAME] = Model()
    server.models[NAME].commit(model_files())
    yield server
    server.close()


@pytest.fixture
def client(hub, tmp_path) -> Client:
    home = tmp_path / "home"
    home.mkdir()
    return Client(hub, home)
