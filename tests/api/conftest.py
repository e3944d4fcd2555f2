"""Servers for the client tests: one with a scripted model (exact answers), one real `glint serve` on a stand-in checkpoint.

GLINT_SCRIPTED_SERVER and GLINT_BIN name the programs, GLINT_TEST_CONFIG a config.json for the stand-in, GLINT_NANO the folder
of the small trained model. GLINT_URL, if set, adds a server that runs already.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import time
from dataclasses import dataclass

import anthropic
import openai
import pytest


@dataclass
class Server:
    url: str
    scripted: bool
    process: subprocess.Popen | None = None

    def client(self, **options) -> openai.OpenAI:
        return openai.OpenAI(base_url=self.url + "/v1", api_key="EMPTY", max_retries=0, timeout=60, **options)

    def anthropic(self, **options) -> anthropic.Anthropic:
        options = {"api_key": "EMPTY", "max_retries": 0, "timeout": 60, **options}
        return anthropic.Anthropic(base_url=self.url, **options)


def _program(variable: str) -> str:
    path = os.environ.get(variable, "")
    if not path:
        pytest.skip(f"{variable} is not set")
    return path


def _start_scripted() -> Server:
    process = subprocess.Popen([_program("GLINT_SCRIPTED_SERVER")], stdout=subprocess.PIPE, text=True)
    port = int(process.stdout.readline())
    return Server(f"http://127.0.0.1:{port}", True, process)


def start_real(folder: str, *flags: str, max_model_len: int = 8192) -> Server:
    tools = ["--tool-call-parser", "glm47", "--enable-auto-tool-choice"]
    small = ["--max-model-len", str(max_model_len), "--kv-cache-memory-bytes", "32M", "--threads", "1"]
    command = [_program("GLINT_BIN"), "serve", folder, "--host", "127.0.0.1", "--port", "0", *tools, *small, *flags]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    url = None
    lines = []
    for line in process.stderr:
        lines.append(line)
        found = re.search(r"running on ((?:https?:|unix:)\S+)", line)
        if found:
            url = found.group(1)
            break
    assert url, "the server did not start:\n" + "".join(lines)
    return Server(url, False, process)


@pytest.fixture(scope="session")
def standin(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("standin") / "model"
    command = [_program("GLINT_BIN"), "make-checkpoint", "--config", _program("GLINT_TEST_CONFIG"), "--seed", "1"]
    subprocess.run([*command, "--format", "bf16", "--out", str(folder)], check=True, capture_output=True)
    return str(folder)


def _stop(server: Server) -> int:
    server.process.send_signal(signal.SIGTERM)
    return server.process.wait(timeout=30)


@pytest.fixture(scope="session")
def scripted():
    server = _start_scripted()
    yield server
    _stop(server)


@pytest.fixture(scope="session")
def real(standin):
    server = start_real(standin, "--served-model-name", "glm-5.3")
    yield server
    assert _stop(server) == 0, "a drained server ends with 0"


@pytest.fixture(scope="session")
def nano(tmp_path_factory):
    drafts = ["--speculative-config.method", "mtp", "--speculative-config.num_speculative_tokens", "5"]
    parsers = ["--tool-call-parser", "glm47", "--reasoning-parser", "glm45", "--enable-auto-tool-choice"]
    # Linked, with a longer context than it was trained on: the recipe asks for max_tokens 4096.
    folder = tmp_path_factory.mktemp("nano")
    for file in pathlib.Path(_program("GLINT_NANO")).iterdir():
        if file.name != "config.json":
            (folder / file.name).symlink_to(file)
            continue
        config = json.loads(file.read_text())
        config["max_position_embeddings"] = 8192
        (folder / file.name).write_text(json.dumps(config))
    server = start_real(str(folder), "--served-model-name", "glm-5.3", *drafts, *parsers)
    yield server
    assert _stop(server) == 0


@pytest.fixture(scope="session", params=["scripted", "real", "url"])
def server(request):
    if request.param == "url":
        if "GLINT_URL" not in os.environ:
            pytest.skip("GLINT_URL is not set")
        return Server(os.environ["GLINT_URL"].rstrip("/"), False)
    return request.getfixturevalue(request.param)


def wait_until(condition, seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return condition()
