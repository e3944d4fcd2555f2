"""The commands of the serving recipe, word for word but for the program's name, against a stand-in in the Hugging Face cache under the
published name: shapes small enough for two cores, but with the 8 heads that its 8 ranks divide and a context that holds its lengths.

Two cores do not compute 32 prompts of 8,000 tokens in the time of a test. So the recipe's bench command runs twice: once with its
lengths and one prompt of the 32, once with its 32 prompts and a hundredth of the lengths.
"""

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
COMMIT = "0123456789abcdef0123456789abcdef01234567"
SHAPE = dict(num_hidden_layers=3, first_k_dense_replace=2, num_attention_heads=8, num_key_value_heads=8, index_n_heads=1,
             num_experts_per_tok=1, max_position_embeddings=16384)


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> dict[str, str]:
    """With a Hugging Face home of one model, and no way to the hub."""
    home = tmp_path_factory.mktemp("hf")
    model = home / "hub" / "models--zai-org--GLM-5.3"
    snapshot = model / "snapshots" / COMMIT
    config = json.loads(Path(program("GLINT_TEST_CONFIG")).read_text()) | SHAPE
    config = {key: value for key, value in config.items() if key not in ("indexer_types", "mlp_layer_types")}  # for more layers
    (home / "config.json").write_text(json.dumps(config))
    command = [program("GLINT_BIN"), "make-checkpoint", "--config", str(home / "config.json"), "--seed", "1", "--format", "bf16"]
    snapshot.parent.mkdir(parents=True)
    subprocess.run([*command, "--out", str(snapshot)], check=True, capture_output=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(COMMIT)
    environment = os.environ | {"HF_HOME": str(home), "HF_HUB_OFFLINE": "1"}
    environment.pop("HF_HUB_CACHE", None)
    return environment


@pytest.fixture(scope="module")
def url(environment):
    address = ["--host", "127.0.0.1", "--port", "0"]
    process = subprocess.Popen([program("GLINT_BIN"), *SERVE.split(), *address], stderr=subprocess.PIPE, text=True, env=environment)
    lines, found = [], None
    for line in process.stderr:
        lines.append(line)
        if found := re.search(r"running on (http://\S+)", line):
            break
    assert found, "".join(lines)
    threading.Thread(target=process.stderr.read, daemon=True).start()
    yield found.group(1)
    process.terminate()
    assert process.wait(timeout=30) == 0


def bench(url, environment, folder, **changed) -> tuple[dict, str]:
    """The recipe's command with some of its values changed."""
    words = BENCH.split()
    for flag, value in changed.items():
        words[words.index("--" + flag.replace("_", "-")) + 1] = str(value)
    file = folder / "result.json"
    done = subprocess.run([program("GLINT_BIN"), *words, "--base-url", url, "--save-result", "--result-filename", str(file)],
                          capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    text = done.stdout
    assert "Traffic request rate: 10.0\nBurstiness factor: 1.0 (Poisson process)\nMaximum request concurrency: None\n" in text
    assert "Request rate configured (RPS):           10.00     \n" in text
    assert "---------------Speculative Decoding---------------\n" in text
    result = json.loads(file.read_text())
    assert result["failed"] == 0 and result["spec_decode_num_drafts"] > 0
    assert result["model_id"] == result["tokenizer_id"] == "zai-org/GLM-5.3"
    return result, text


def test_its_lengths(url, environment, tmp_path):
    result, _ = bench(url, environment, tmp_path, num_prompts=1)
    assert result["completed"] == 1
    # The stand-in's vocabulary of 320 words does not always come to the wanted length; vLLM gives up after ten rounds too.
    assert result["total_input_tokens"] == pytest.approx(8000, rel=0.01) and result["total_output_tokens"] == 1024


def test_its_prompts(url, environment, tmp_path):
    result, text = bench(url, environment, tmp_path, random_input_len=80, random_output_len=10)
    assert result["completed"] == 32 and "Successful requests:                     32        \n" in text
    assert result["total_input_tokens"] == pytest.approx(32 * 80, rel=0.1) and result["total_output_tokens"] == 32 * 10
    assert result["duration"] >= 3.2, "the last of 32 arrives at 3.2 s"
