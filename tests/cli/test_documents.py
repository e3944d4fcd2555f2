"""Every server command of the recipe and the card, word by word, on stand-ins of the same names."""

import json
import os
import re
import signal
import subprocess
import urllib.request

import pytest
from conftest import GLINT, glint
from documents import COMMANDS

PARSED = {command.where: command for command in COMMANDS}
AMD = "recipe-2"


def environment(command) -> dict[str, str]:
    return {**os.environ, **command.environment}


def test_the_documents_are_read_whole():
    assert list(PARSED) == ["recipe-1", "recipe-2", "recipe-3", "recipe-4", "card-1", "card-2"]
    assert PARSED[AMD].environment["VLLM_ROCM_USE_AITER"] == "1"
    assert PARSED["card-1"].words[-1] == "--sleep-on-idle"


@pytest.mark.parametrize("where", [where for where in PARSED if where != AMD])
def test_the_plan_takes_the_command(models, where):
    """For the machine that the document names."""
    devices = {"recipe-1": "8xH200", "recipe-3": "8xB200", "recipe-4": "8xB200", "card-1": "7x96GB", "card-2": "1x96GB"}
    command = PARSED[where]
    words = ["plan", *command.words[1:], "--device-memory", devices[where], "--json"]
    made = glint(*words, cwd=models, env=environment(command))
    assert made.returncode == 0, made.stderr
    plan = json.loads(made.stdout)
    if "--max-num-seqs" in command.words:
        assert plan["max_num_seqs"] == 32
    if where.startswith("recipe-1"):
        assert (plan["tensor_parallel"], plan["num_speculative_tokens"], plan["kv_cache_dtype"]) == (8, 5, "fp8_e4m3")
    if where == "recipe-4":
        assert plan["expert_parallel"]
    if where == "card-1":
        assert (len(plan["partition"]), plan["max_model_len"], plan["max_num_batched_tokens"]) == (7, 1048576, 12288)
        assert plan["kv_cache_dtype"] == "bfloat16"
    if where == "card-2":
        assert plan["max_model_len"] == 131072


def start(command, models, *more: str) -> tuple[subprocess.Popen, list[str]]:
    """The server and its log up to the address. A free port instead of the command's, and a small cache."""
    memory = "1700M" if "--context-length" in command.words else "256M"
    words = [GLINT, *command.words, "--host", "127.0.0.1", "--port", "0", "--kv-cache-memory-bytes", memory, "--threads", "1"]
    server = subprocess.Popen([*words, *more], cwd=models, env=environment(command), stderr=subprocess.PIPE, text=True)
    lines = []
    for line in server.stderr:
        lines.append(line.rstrip())
        if "Uvicorn running on" in line:
            return server, lines
    raise AssertionError("\n".join(lines))


@pytest.mark.parametrize("where", [where for where in PARSED if where != AMD])
def test_the_command_serves(models, where):
    command = PARSED[where]
    long = [] if "--max-model-len" in command.words or "--context-length" in command.words else ["--max-model-len", "8K"]
    server, lines = start(command, models, *long)
    try:
        url = re.search(r"http://\S+", lines[-1]).group(0)
        name = next((command.words[i + 1] for i, word in enumerate(command.words) if word == "--served-model-name"), None)
        with urllib.request.urlopen(f"{url}/v1/models", timeout=10) as answer:
            assert name in (None, json.load(answer)["data"][0]["id"])
        body = {"model": name or "GLM-5.3-NVFP4", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}
        request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert json.load(answer)["usage"]["completion_tokens"] == 4
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=30) == 0
        server.stderr.close()
    text = "\n".join(lines)
    if "--tensor-parallel-size" in command.words or "--pp-size" in command.words:
        assert text.count("on the CPU one process computes all") == 1, text
    for line in ("Loading weights took ", "Available KV cache memory: ", "GPU KV cache size: ", "Maximum concurrency for ",
                 "Chunked prefill is enabled with max_num_batched_tokens=", "Available routes are:", "Application startup complete."):
        assert text.count(line) == 1, line
    if where == "card-2":
        assert "--enable-auto-tool-choice" in text and "glm47, is read" in text
    if where == "card-1":
        assert re.search(r"max_total_num_tokens=\d+, chunked_prefill_size=12288, max_prefill_tokens=12288, max_running_requests=16, context_len=\d+, available_gpu_mem=[\d.]+ GB", text)
        for flag in ("--trust-remote-code", "--fp4-gemm-backend", "--disable-flashinfer-autotune", "--disable-custom-all-reduce"):
            assert len(re.findall(rf"^WARNING: {flag} has no effect in this engine \(.+\)$", text, re.M)) == 1, flag
        assert "attention-backend flashinfer -> native DSA (CPU)" in text
        assert "moe-backend flashinfer_cutlass -> native kernels (CPU)" in text


def test_the_amd_command_is_refused_before_anything_is_opened(tmp_path):
    command = PARSED[AMD]
    refused = glint(*command.words, cwd=tmp_path, env=environment(command))
    assert refused.returncode == 2
    assert re.fullmatch(
        r"glint serve: error: argument --linear-backend: linear backend 'aiter' needs an AMD GPU; "
        r"this build supports: auto, .*\n",
        refused.stderr,
    )


def test_the_amd_command_serves_without_its_backends(models):
    """The variables alone: one notice."""
    command = PARSED[AMD]
    words = [word for word in command.words if word not in ("--linear-backend", "--moe-backend", "aiter")]
    made = glint(*words, "--kv-cache-memory-bytes", "3G", "--plan-only", "--json", cwd=models, env=environment(command))
    assert made.returncode == 0, made.stderr
    notices = re.findall(r"^WARNING: (VLLM_ROCM_\S+), (VLLM_ROCM_\S+) have no effect in this engine", made.stderr, re.M)
    assert notices == [tuple(command.environment)], made.stderr
