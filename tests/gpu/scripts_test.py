"""./dev gpu and ./dev gpu-sanitize with programs that only pretend: what is cut off or fails is said and fails."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TESTS = """[ "$1" = --list ] && { printf 'cache bytes\\nnorms a\\nnorms b\\nexperts, full width\\nnano x\\n'; exit; }
[ "$1" = --small ] && shift
for name; do echo "ok   $name (1.5 s) worst 1e-7"; done; echo "$# passed, 0 failed" """
BENCH = """echo '[{"name": "fp8 linear o_proj M 4096", "us": 500, "teraflops": 1300.4},
{"name": "cuBLASLt fp8 blocks o_proj M 4096", "us": 600, "teraflops": 1100.2}]' >"$1" """


class Scripts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.program("nvidia-smi", "echo 'NVIDIA Pretended'")
        self.program("glint-gpu-tests", TESTS)
        self.program("glint-gpu-bench", BENCH)

    def program(self, name, body):
        path = self.folder / name
        path.write_text("#!/bin/bash\n" + body + "\n")
        path.chmod(0o755)

    def call(self, *command):
        environment = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "OUT": str(self.folder / "out")}
        done = subprocess.run(command, cwd=SOURCE, env=environment, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout

    def measure(self, seconds="60", *shares):
        (self.folder / "out").mkdir()
        out = self.folder / "out/r.json"
        status, text = self.call(sys.executable, "tools/gpu_run.py", str(self.folder), str(out), "abc", seconds, *shares)
        return status, text, json.loads(out.read_text())

    def test_dev_gpu_writes_one_file_and_ends_with_the_table(self):
        status, text = self.call("./dev", "gpu", f"FROM={self.folder}", "COMMIT=abc")
        self.assertEqual(status, 0, text)
        (out,) = (self.folder / "out").iterdir()
        self.assertTrue(out.name.endswith("-nvidia-pretended.json"), out.name)
        result = json.loads(out.read_text())
        self.assertEqual(result["commit"], "abc")
        self.assertEqual(result["tests"][-2:], ["ok   nano x (1.5 s) worst 1e-7", "1 passed, 0 failed"])
        self.assertEqual(len(result["glint"]), 2)
        commands = result["stages"][0]["commands"]
        self.assertEqual(commands, ["glint-gpu-tests " + names for names in ("norms a norms b", "cache bytes", "experts, full width")])
        self.assertRegex(text, r"o_proj, M 4096 +1300 TF +- +1100 TF")
        self.assertRegex(text, r"tests: 5 passed, 0 failed; slowest: norms b 2 s")

    def test_what_hangs_is_cut_off_with_its_children_and_the_rest_runs(self):
        hangs = "echo 'ok   norms (0.1 s)'; sleep 77 & sleep 77"
        self.program("glint-gpu-tests", TESTS.replace("for name", f'[ "$1" = "norms a" ] && {{ {hangs}; }}; for name'))
        begin = time.monotonic()
        status, text, result = self.measure("60", "tests=1.5")
        self.assertLess(time.monotonic() - begin, 20)
        self.assertEqual(status, 1)
        self.assertRegex(text, r"tests +1\.\d s of 2 s +CUT OFF")
        self.assertIn("ok   norms (0.1 s)", result["tests"])
        self.assertIn("ok   experts, full width (1.5 s) worst 1e-7", result["tests"])
        self.assertTrue(result["stages"][1]["ok"])
        self.assertEqual(len(result["glint"]), 2)

    def test_a_failure_is_a_failure(self):
        self.program("glint-gpu-tests", TESTS + "; echo 'FAIL norms (0.1 s): error 2'; exit 1")
        status, text, _ = self.measure()
        self.assertEqual(status, 1)
        self.assertIn("\nFAIL norms (0.1 s): error 2\n", text)
        self.program("glint-gpu-tests", TESTS)
        self.program("glint-gpu-bench", "echo 'FAIL peer: gone'; exit 1")
        (self.folder / "out/r.json").unlink()
        (self.folder / "out").rmdir()
        self.assertEqual(self.measure()[0], 1)

    def test_without_time_nothing_runs(self):
        status, text, result = self.measure("0")
        self.assertEqual(status, 1)
        self.assertIn("not run: no time was left", text)
        self.assertEqual(result["tests"], [])

    def test_the_sanitizer_runs_all_but_wide_tests(self):
        self.program("compute-sanitizer", 'shift 4; "$@"; echo "========= ERROR SUMMARY: 0 errors"')
        status, text = self.call("./dev", "gpu-sanitize", f"FROM={self.folder}")
        self.assertEqual(status, 0, text)
        self.assertIn("racecheck: ", text)
        self.assertNotIn("full width", text)

    def test_what_the_sanitizer_finds_or_does_not_reach_fails(self):
        self.program("compute-sanitizer", 'echo "========= Invalid __global__ read"; exit 9')
        status, text = self.call("./dev", "gpu-sanitize", f"FROM={self.folder}")
        self.assertEqual(status, 1)
        self.assertIn("Invalid __global__ read", text)
        self.program("compute-sanitizer", "sleep 77")
        tests = str(self.folder / "glint-gpu-tests")
        status, text = self.call(sys.executable, "tools/gpu_sanitize.py", tests, "1", "memcheck")
        self.assertEqual(status, 1)
        self.assertIn("CUT OFF before: ", text)


unittest.main()
