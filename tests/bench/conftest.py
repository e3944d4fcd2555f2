"""The benchmark's client against independent oracles: NumPy, Python's own modules, the Rust tokenizer library.

GLINT_BENCH_TOOL, GLINT_TIMED_SERVER and GLINT_BIN name the programs, GLINT_NANO the folder of the small model.
"""

import json
import os
import subprocess

import pytest


def program(variable: str) -> str:
    path = os.environ.get(variable, "")
    if not path:
        pytest.skip(f"{variable} is not set")
    return path


@pytest.fixture(scope="session")
def nano() -> str:
    return program("GLINT_NANO")


@pytest.fixture(scope="session")
def ask():
    """Asks the tool; the answer as Python values."""
    path = program("GLINT_BENCH_TOOL")

    def question(op: str, **arguments):
        done = subprocess.run([path], input=json.dumps({"op": op, **arguments}), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return question
