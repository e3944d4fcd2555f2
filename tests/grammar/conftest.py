"""Walks through constraints by tests/text/grammar_tool.cc. GLINT_GRAMMAR_TOOL names the program, GLINT_TEST_TOKENIZER a folder
with a tokenizer.json.
"""

import json
import os
import subprocess

import pytest


class GrammarTool:
    def __init__(self, program: str, folder: str):
        self.process = subprocess.Popen([program, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **request) -> dict:
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the tool ended on {request}"
        return json.loads(line)

    def texts(self, kind: str, text: str, **more) -> list[str]:
        """The finished texts; every walk could go on at every position."""
        answer = self.ask(kind=kind, text=text, **more)
        assert "error" not in answer, (answer, text)
        assert answer["dead_ends"] == 0, text
        return [one for one in answer["texts"] if one is not None]

    def error(self, kind: str, text: str, **more) -> str:
        answer = self.ask(kind=kind, text=text, **more)
        assert "error" in answer, (text[:200], answer)
        return answer["error"]


@pytest.fixture(scope="session")
def tool():
    program, folder = os.environ.get("GLINT_GRAMMAR_TOOL"), os.environ.get("GLINT_TEST_TOKENIZER")
    if not program or not folder:
        pytest.skip("GLINT_GRAMMAR_TOOL and GLINT_TEST_TOKENIZER are not set")
    tool = GrammarTool(program, folder)
    yield tool
    tool.process.stdin.close()
    assert tool.process.wait(timeout=30) == 0
