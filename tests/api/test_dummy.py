"""--load-format dummy: the answers of the checkpoint that `glint make-checkpoint` writes, without its files."""

import pathlib
import subprocess

from conftest import _program, _stop, start_real


def answer(folder: str, *flags: str) -> str:
    server = start_real(folder, "--served-model-name", "dummy", *flags)
    try:
        completion = server.client().completions.create(model="dummy", prompt="one two three", max_tokens=12, temperature=0)
        return completion.choices[0].text
    finally:
        assert _stop(server) == 0


def test_dummy_weights_are_those_of_make_checkpoint(tmp_path: pathlib.Path):
    written, bare = tmp_path / "written", tmp_path / "bare"
    command = [_program("GLINT_BIN"), "make-checkpoint", "--config", _program("GLINT_TEST_CONFIG"), "--out", str(written)]
    subprocess.run([*command, "--seed", "0", "--format", "fp8"], check=True, capture_output=True)
    bare.mkdir()
    for file in written.iterdir():
        if ".safetensors" not in file.name:
            (bare / file.name).write_bytes(file.read_bytes())
    text = answer(str(written))
    assert text
    assert answer(str(bare), "--load-format", "dummy") == text
    refused = subprocess.run([_program("GLINT_BIN"), "serve", str(bare), "--port", "0"], capture_output=True, text=True)
    assert refused.returncode != 0 and "safetensors" in refused.stderr
