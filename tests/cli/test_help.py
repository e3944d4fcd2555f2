"""Help, manual page and completions as users meet them."""

import re
import shutil
import subprocess

import pytest
from conftest import glint

FORMS = ["serve", "launch_server", "plan"]


@pytest.mark.parametrize("form", FORMS)
def test_help_is_whole_and_says_nothing_twice(form):
    text = glint(form, "--help").stdout
    headings = re.findall(r"^  (-\S.*)$", text, re.M)
    names = [name for heading in headings for name in re.findall(r"(?<!\S)--[\w.-]+", heading)]
    assert len(headings) > 200
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)
    assert glint(form, "--help=all").stdout == text
    groups = [line.split(" (")[0] for line in glint(form, "--help=listgroup").stdout.splitlines()]
    assert "".join(glint(form, f"--help={group}").stdout for group in groups).count("\n  -") >= len(headings) - len(groups)
    assert all(len(line) <= 100 for line in text.splitlines() if " " in line.strip()), "wrapped at 100 columns"


def test_defaults_of_the_forms():
    assert "default of launch_server: 30000" in re.sub(r"\s+", " ", glint("serve", "--help=port").stdout)
    assert glint("serve", "--help=zzz").returncode == 2


@pytest.fixture(scope="module")
def manual() -> str:
    return glint("help", "--man").stdout


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is missing")
def test_the_manual_page_has_no_warnings(manual):
    rendered = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], input=manual, text=True, capture_output=True)
    assert (rendered.returncode, rendered.stderr) == (0, "")


def test_the_manual_page_has_every_flag(manual):
    plain = manual.replace("\\-", "-")
    for form in FORMS:
        for name in re.findall(r"^  (?:-\S+ .*?)?(--[\w.-]+)", glint(form, "--help").stdout, re.M):
            assert name in plain, name


def complete(*words: str) -> list[str]:
    """What bash offers for the last word."""
    script = glint("help", "--completion", "bash").stdout
    ask = f"COMP_WORDS=({' '.join(repr(word) for word in words)}); COMP_CWORD={len(words) - 1}; _glint; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    shown = subprocess.run(["bash", "-uc", script + ask], capture_output=True, text=True)
    assert (shown.returncode, shown.stderr) == (0, "")
    return shown.stdout.split()


def test_bash_completes():
    assert complete("glint", "se") == ["serve"]
    assert complete("glint", "serve", "--tensor-par") == ["--tensor-parallel-size"]
    assert complete("glint", "serve", "--kv-cache-dtype", "fp8_e") == ["fp8_e4m3"]
    assert complete("glint", "serve", "--kv-cache-dtype", "=", "bfl") == ["bfloat16"]
    assert complete("glint", "serve", "--speculative-config.m") == ["--speculative-config.method"]
    assert complete("glint", "quantize", "--dry") == ["--dry-run"]
    assert "cpu" in complete("glint", "bench", "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_take_their_script(shell):
    script = glint("help", "--completion", shell)
    assert script.returncode == 0 and "tensor-parallel-size" in script.stdout
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n"], input=script.stdout, text=True, capture_output=True)
        assert (checked.returncode, checked.stderr) == (0, "")


def test_unknown_shell():
    assert glint("help", "--completion", "csh").returncode == 2
    assert glint("help", "nothing").returncode == 2


@pytest.mark.parametrize("words", ["chat", "serve", "plan", "doctor", "bench serve", "bench cpu", "text render"])
def test_help_explains_every_command(words):
    explained = glint("help", *words.split())
    assert explained.returncode == 0, explained.stderr
    assert re.search(rf"^usage: glint {words}\b", explained.stdout, re.I | re.M), explained.stdout[:300]
    assert glint("help", *words.split(), "nothing").returncode == 2
