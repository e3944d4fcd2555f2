"""compute-sanitizer over the tests of the CUDA operations: memcheck and racecheck, several processes at once.
Every test runs that is not named wide below, at its small and odd shapes. Ends within SECONDS; what was not reached by
then is said and is a failure.

Usage: gpu_sanitize.py GLINT_GPU_TESTS [SECONDS=300] [TOOL ...]"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time

# Large by their shapes, or whole engines: the same kernels run in the others.
WIDE = re.compile(r"64 heads|full width|of \d{5,}|^nano|^disk tier|^rounds|^memory|^expert load|^golden (?!float32 micro)|^standin")
GROUPS = 4  # processes a tool
TOOLS = ("memcheck", "racecheck")


class Group:
    def __init__(self, tool, program, names):
        self.tool, self.names = tool, names
        self.log = tempfile.TemporaryFile("w+")
        command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", program, "--small", *names]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True)

    def end(self, deadline):
        """What is wrong, and how many tests ran."""
        try:
            status = self.process.wait(timeout=max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            status = None
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.log.seek(0)
        lines = self.log.read().splitlines()
        ran = {found[2]: found[1] for line in lines if (found := re.match(r"(ok|FAIL)\s+(.+?) \([\d.]+ s\)", line))}
        wrong = [line for line in lines if line.startswith("FAIL")]
        if status == 9 or any("ERROR SUMMARY" in line and " 0 errors" not in line for line in lines):
            wrong += [line for line in lines if line.startswith("=========")][:60]
        if status is None:
            wrong.append("CUT OFF before: " + ", ".join(name for name in self.names if name not in ran))
        elif status != 0:
            wrong.append(f"exit status {status}; last line: {lines[-1] if lines else ''}")
        return wrong, sum(name in ran for name in self.names)  # names are fragments: others may have run, too


def main():
    program = os.path.abspath(sys.argv[1])
    deadline = time.monotonic() + float(sys.argv[2] if len(sys.argv) > 2 else 300)
    os.environ.setdefault("GLINT_TEST_DATA", os.path.abspath("tests/data"))
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.splitlines()
    names = [name for name in listed if not WIDE.search(name)]
    groups = [Group(tool, program, names[first::GROUPS]) for tool in sys.argv[3:] or TOOLS for first in range(GROUPS)]
    failed = False
    for group in groups:
        wrong, ran = group.end(deadline)
        failed = failed or bool(wrong)
        print(f"{group.tool}: {ran} of {len(group.names)} tests, {'nothing found' if not wrong else 'see below'}")
        for line in wrong:
            print("  " + line)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
