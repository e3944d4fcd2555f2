"""The commands of glint with a model of a hub: what is fetched for which, and the names that a server answers to."""

import json
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from conftest import Client
from loopback_hub import File, Model

NANO = Path(__file__).resolve().parents[3] / "models/nano"
NAME = "zai-org/GLM-nano"


@pytest.fixture
def glint(hub, tmp_path) -> Client:
    program = os.environ.get("GLINT_BIN", "")
    if not program:
        pytest.skip("GLINT_BIN is not set")
    files = {path.name: File(path.read_bytes(), large=path.suffix == ".safetensors" or path.name == "tokenizer.json")
             for path in NANO.iterdir() if path.is_file()}
    hub.models[NAME] = Model()
    hub.models[NAME].commit(files)
    home = tmp_path / "home"
    home.mkdir()
    client = Client(hub, home)
    client.program = program
    return client


def command(client: Client, *arguments: str, **env: str) -> subprocess.CompletedProcess:
    return subprocess.run([client.program, *arguments], env={**client.env, **env}, text=True, capture_output=True, timeout=60)


def test_plan_fetches_the_config_alone(glint, hub):
    done = command(glint, "plan", NAME, "--json")
    assert done.returncode == 0, done.stderr
    # The machine's free memory moves between two calls; what config.json decides does not.
    plan, same = (json.loads(text) for text in (done.stdout, command(glint, "plan", str(NANO), "--json").stdout))
    for key in ("format", "partition", "kv_cache_dtype", "max_model_len", "pages", "tokens"):
        assert plan[key] == same[key], key
    assert (plan["format"], plan["max_model_len"], plan["partition"]) == ("fp8", 4096, [8])
    assert [path.name for path in glint.cache.glob("models--*/snapshots/*/*")] == ["config.json"]
    missing = command(glint, "plan", "zai-org/none")
    assert missing.returncode == 2 and len(missing.stderr.strip().splitlines()) == 1 and "(401)" in missing.stderr


def test_download_inspect_verify_and_text(glint, hub, tmp_path):
    done = command(glint, "download", NAME)
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    assert folder.is_dir() and "100 %" in done.stderr
    hub.close()
    assert "15,7" in command(glint, "inspect", NAME).stdout
    assert command(glint, "verify-checkpoint", NAME).returncode == 0
    text = subprocess.run([glint.program, "text", "tokenize", "--model", NAME], input='{"text": "1 + 1"}\n', env=glint.env,
                          text=True, capture_output=True, timeout=60)
    assert json.loads(text.stdout)["tokens"], text.stderr
    converted = command(glint, "quantize", NAME, str(tmp_path / "bf16"), "--format", "bf16")
    assert converted.returncode == 0, converted.stderr
    assert NAME in (tmp_path / "bf16/run-manifest.json").read_text()
    # Offline, because six attempts at a hub that is gone take their time.
    lost = command(glint, "inspect", NAME, HF_HOME=str(tmp_path / "else"), HF_HUB_OFFLINE="1")
    assert lost.returncode == 2 and "HF_HUB_OFFLINE" in lost.stderr


class Server:
    def __init__(self, client: Client, *flags: str):
        arguments = [client.program, "serve", NAME, "--host", "127.0.0.1", "--port", "0", *flags]
        self.process = subprocess.Popen(arguments, env=client.env, stderr=subprocess.PIPE, text=True)
        self.lines: list[str] = []
        self.url = self.wait_for(r"Listening on (http://\S+);")

    def wait_for(self, pattern: str) -> str:
        for line in self.process.stderr:
            self.lines.append(line)
            if found := re.search(pattern, line):
                return found.group(1)
        raise AssertionError("".join(self.lines))

    def get(self, path: str, body: dict | None = None) -> tuple[int, dict]:
        data = json.dumps(body).encode() if body else None
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"{}")

    def ask(self, model: str) -> int:
        return self.get("/v1/completions", {"model": model, "prompt": "1", "max_tokens": 1})[0]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        for line in self.process.stderr:
            self.lines.append(line)
        return self.process.wait(timeout=30)


def test_serve_downloads_with_its_port_open_and_answers_to_both_names(glint, hub):
    hub.pause_s = 0.01
    server = Server(glint, "--served-model-name", "glm-nano")
    stages = set()
    while (answer := server.get("/health"))[0] == 503:
        stages.add(answer[1].get("stage"))
        time.sleep(0.02)
    assert "downloading the model" in stages
    assert [server.ask(name) for name in ("glm-nano", NAME, "other")] == [200, 200, 404]
    status, models = server.get("/v1/models")
    assert [(model["id"], model["root"]) for model in models["data"]] == [("glm-nano", NAME)]
    assert server.stop() == 0


def test_the_id_is_the_name_without_another(glint, hub):
    assert command(glint, "download", NAME).returncode == 0
    hub.close()
    server = Server(glint, "--strict-model-name")
    server.wait_for("(Application startup complete)")
    assert [server.ask(name) for name in (NAME, "glm-nano")] == [200, 404]
    assert server.get("/v1/models")[1]["data"][0]["id"] == NAME
    assert server.stop() == 0


def test_a_look_at_the_config_decides_which_weights_a_server_gets(glint, hub):
    """Plan and weights are of one commit, also if the hub has a newer one by then."""
    assert command(glint, "plan", NAME).returncode == 0
    [first] = [path.name for path in glint.cache.glob("models--*/snapshots/*")]
    files = {name: file for name, file in hub.models[NAME].commits[first].items()}
    second = hub.models[NAME].commit({**files, "config.json": File(files["config.json"].data + b"\n")})
    assert second != first
    server = Server(glint)
    server.wait_for("(Application startup complete)")
    assert server.stop() == 0
    assert [path.name for path in glint.cache.glob("models--*/snapshots/*")] == [first]
    folder = command(glint, "download", NAME).stdout.strip()
    assert Path(folder).name == second


def test_a_revision_is_of_a_hub(glint):
    done = command(glint, "serve", str(NANO), "--revision", "v1", "--port", "0")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "--revision" in done.stderr


def test_a_server_that_cannot_get_its_model_ends_with_one_line(glint, hub):
    hub.models[NAME].token = "hf_x"
    done = command(glint, "serve", NAME, "--port", "0")
    assert done.returncode == 2 and "(401)" in done.stderr.strip().splitlines()[-1]


def test_a_signal_ends_a_download_and_the_next_run_goes_on(glint, hub):
    hub.pause_s = 0.02
    # A shard of which something came: the small files are whole too soon.
    shards = [file.sum for name, file in next(iter(hub.models[NAME].commits.values())).items() if name.endswith(".safetensors")]
    blobs = glint.cache / "models--zai-org--GLM-nano/blobs"
    partial = lambda: [sum for sum in shards if (blobs / f"{sum}.incomplete").exists() and (blobs / f"{sum}.incomplete").stat().st_size > 0]
    server = Server(glint)
    while not partial():
        time.sleep(0.01)
    assert server.stop() == 0
    assert partial()
    hub.pause_s = 0
    again = command(glint, "download", NAME)
    assert again.returncode == 0 and "Continuing" in again.stderr
