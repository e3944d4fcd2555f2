"""The commands of the serving recipe, as they stand there but for sizes: a stand-in in the Hugging Face cache under the published name."""

import json
import os
import re
import subprocess
import threading
from pathlib import Path

import pytest

from conftest import program

SERVE = """serve zai-org/GLM-5.3 --kv-cache-dtype fp8 --tensor-parallel-size 8 --speculative-config.method mtp
  --speculative-config.num_speculative_tokens 5 --tool-call-parser glm47 --reasoning-parser glm45 --enable-auto-tool-choice
  --served-model-name glm-5.3 --no-enable-prefix-caching"""
BENCH = """bench serve --model zai-org/GLM-5.3 --dataset-name random --random-input-len 8000 --random-output-len 1024 --request-rate 10
  --num-prompts 32 --ignore-eos"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    """$HF_HOME with one model."""
    home = tmp_path_factory.mktemp("hf")
    model = home / "hub" / "models--zai-org--GLM-5.3"
    snapshot = model / "snapshots" / "0123456789abcdef"
    config = json.loads(Path(program("GLINT_TEST_CONFIG")).read_text()) | {"max_position_embeddings": 16384}
    (home / "config.json").write_text(json.dumps(config))
    command = [program("GLINT_BIN"), "make-checkpoint", "--config", str(home / "config.json"), "--seed", "1", "--format", "fp8"]
    snapshot.parent.mkdir(parents=True)
    subprocess.run([*command, "--out", str(snapshot)], check=True, capture_output=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("0123456789abcdef")
    return home


def test_recipe(cache, tmp_path):
    environment = os.environ | {"HF_HOME": str(cache), "HF_HUB_OFFLINE": "1"}
    environment.pop("HF_HUB_CACHE", None)
    small = ["--host", "127.0.0.1", "--port", "0", "--max-model-len", "1024", "--max-num-seqs", "32", "--kv-cache-memory-bytes", "64M"]
    process = subprocess.Popen([program("GLINT_BIN"), *SERVE.split(), *small], stderr=subprocess.PIPE, text=True, env=environment)
    try:
        lines, url = [], None
        for line in process.stderr:
            lines.append(line)
            if found := re.search(r"running on (http://\S+)", line):
                url = found.group(1)
                break
        assert url, "".join(lines)
        threading.Thread(target=process.stderr.read, daemon=True).start()
        words = BENCH.replace("8000", "80").replace("1024", "10").replace("rate 10", "rate 100").split()
        file = tmp_path / "result.json"
        done = subprocess.run([program("GLINT_BIN"), *words, "--base-url", url, "--save-result", "--result-filename", str(file)],
                              capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        result = json.loads(file.read_text())
        assert (result["completed"], result["failed"]) == (32, 0)
        assert result["total_input_tokens"] == 32 * 80 and result["total_output_tokens"] == 32 * 10
        assert result["spec_decode_num_drafts"] > 0
        text = done.stdout
        assert "Traffic request rate: 100.0\nBurstiness factor: 1.0 (Poisson process)\nMaximum request concurrency: None\n" in text
        assert "---------------Speculative Decoding---------------\n" in text
    finally:
        process.terminate()
        process.wait(timeout=30)
