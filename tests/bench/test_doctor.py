"""glint doctor: our own server passes, and every fault that a proxy brings in is found by the check that is meant to find it."""

import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from conftest import program


def start(command, pattern):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in process.stdout:
        found = re.search(pattern, line)
        if found:
            return process, found.group(1)
    raise AssertionError(f"{command[0]} did not start")


@pytest.fixture(scope="module")
def server(nano):
    command = [program("GLINT_BIN"), "serve", nano, "--host", "127.0.0.1", "--port", "0", "--threads", "1", "--served-model-name", "nano",
               "--disable-access-log", "--kv-cache-memory-bytes", "64M", "--speculative-config.method", "mtp",
               "--speculative-config.num_speculative_tokens", "5", "--tool-call-parser", "glm47", "--enable-auto-tool-choice"]
    process, url = start(command, r"running on (http://\S+)")
    threading.Thread(target=process.stdout.read, daemon=True).start()
    yield url
    process.terminate()
    assert process.wait(timeout=30) == 0


def doctor(url, *flags):
    done = subprocess.run([program("GLINT_BIN"), "doctor", url, *flags], capture_output=True, text=True, timeout=280)
    results = {}
    for line in done.stdout.splitlines():
        found = re.fullmatch(r"(PASS|DIFF|FAIL|missing|skipped) +([^:]+: .+?)(?:: (.*))?", line)
        if found:
            results[found.group(2)] = (found.group(1), found.group(3) or "")
    return done, results


def test_our_server(server):
    """The whole suite: nothing fails, nothing differs."""
    done, results = doctor(server)
    bad = {name: result for name, result in results.items() if result[0] in ("FAIL", "DIFF")}
    assert not bad and done.returncode == 0, done.stdout
    assert len(results) > 90
    assert done.stdout.splitlines()[-1].startswith(f"{len(results)} checks: ")
    # Nothing is missing in this server, and the model of this test calls tools: every check had something to look at.
    assert {result[0] for result in results.values()} == {"PASS"}, done.stdout
    assert "did not call" not in done.stdout


FOUND = [
    ("role-late", "chat: stream order", "FAIL"),
    ("two-finishes", "chat: stream order", "FAIL"),
    ("other-ids", "chat: stream order", "FAIL"),
    ("no-done", "chat: stream order", "FAIL"),
    ("lost-chunk", "chat: streamed equals whole", "FAIL"),
    ("usage-everywhere", "chat: usage chunk", "DIFF"),
    ("cut-names", "tools: streamed calls", "FAIL"),
    ("wrong-sum", "chat: whole answer", "FAIL"),
    ("think-tags", "chat: reasoning", "FAIL"),
    ("few-logprobs", "sampling: logprobs of chat", "FAIL"),
    ("arguments-as-object", "tools: auto", "FAIL"),
    ("bare-errors", "errors: unknown model", "FAIL"),
    ("no-root", "server: models", "DIFF"),
    ("unstopped", "chat: max_tokens", "FAIL"),
    ("errors-are-500", "errors: temperature 3", "FAIL"),
    ("no-cors", "server: CORS", "DIFF"),
]


@pytest.mark.parametrize("fault, check, verdict", FOUND)
def test_faults_are_found(server, fault, check, verdict):
    process, port = start([sys.executable, str(Path(__file__).parent / "faulty_proxy.py"), server, fault], r"(\d+)")
    try:
        done, results = doctor(f"http://127.0.0.1:{port}/v1", "--only", check)
        assert results[check][0] == verdict, done.stdout
        assert done.returncode == (1 if verdict == "FAIL" else 0)
    finally:
        process.kill()


def test_the_proxy_alone_changes_nothing(server):
    process, port = start([sys.executable, str(Path(__file__).parent / "faulty_proxy.py"), server, "none"], r"(\d+)")
    try:
        done, results = doctor(f"http://127.0.0.1:{port}", "--only", "chat:")
        assert {result[0] for result in results.values()} <= {"PASS", "skipped", "missing"}, done.stdout
    finally:
        process.kill()


def test_wrong_words(server):
    assert doctor("http://127.0.0.1:1")[0].returncode == 1
    for flags in ([server, "--only", "no such check"], ["ftp://x"], []):
        done = subprocess.run([program("GLINT_BIN"), "doctor", *flags], capture_output=True, text=True)
        assert done.returncode == 2 and done.stderr.startswith("glint doctor: error: "), done.stderr
