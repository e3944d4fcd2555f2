"""Tests and measures the CUDA operations on this machine's GPU within a fixed time, writes one JSON file and prints a
short table last. Called by ./dev gpu; exit status 0 only if every stage ran to its end and found nothing wrong.

Usage: gpu_run.py PROGRAMS OUT.json COMMIT SECONDS [STAGE=SECONDS ...]

PROGRAMS holds glint-gpu-tests and glint-gpu-bench. No stage starts that the SECONDS left do not cover at all, and each
ends (with everything that it started) when its own share or the whole time is over: that is said in the table and is a
failure, whatever was found before."""

import glob
import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time

SHARES = {"tests": 100, "model tests": 140, "bench": 170, "torch peers": 60}  # the most that a stage may take
# Whole models: some look at how much memory the device has, and the CPU's spinning threads want its cores to themselves.
ALONE = re.compile("golden|expert load|nano|disk tier|rounds|memory")
SIDE_BY_SIDE = 4  # processes for the other tests: much of their time is arithmetic of few threads of the host
CLOCKS = "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.limit,temperature.gpu"


def clocks():
    asked = subprocess.run(["nvidia-smi", "--query-gpu=" + CLOCKS, "--format=csv"], capture_output=True, text=True)
    return asked.stdout.splitlines()


def with_cublaslt(environment):
    """Lets dlopen find this machine's cuBLASLt: the toolkit's, or that of Python's packages."""
    places = ["/usr/local/cuda/lib64", *glob.glob(sysconfig.get_paths()["purelib"] + "/nvidia/*/lib")]
    found = [place for place in places if glob.glob(place + "/libcublasLt.so.13")]
    path = ":".join(filter(None, [environment.get("LD_LIBRARY_PATH"), *found]))
    return {**environment, "LD_LIBRARY_PATH": path} if path else environment


def test_groups(program):
    """Names for each of the processes that run side by side, and those of the tests that run alone after them. Tests of
    one kind (the name's first word) share what they prepare, so they stay together."""
    names = subprocess.run([program, "--list"], capture_output=True, text=True).stdout.splitlines()
    alone = [name for name in names if ALONE.match(name)]
    kinds = {}
    for name in names:
        if name not in alone:
            kinds.setdefault(name.split()[0], []).append(name)
    groups = [[] for _ in range(SIDE_BY_SIDE)]
    for kind in sorted(kinds.values(), key=len, reverse=True):
        min(groups, key=len).extend(kind)
    return [group for group in groups if group], [alone] if alone else []


def without_folder(argument):
    """As the results show it: where programs and results lay on this machine is nobody's business."""
    return os.path.basename(argument) if argument.startswith("/") else argument


class Run:
    def __init__(self, out, seconds, shares):
        self.end = time.monotonic() + seconds
        self.out = out
        self.shares = shares
        self.stages = []

    def stage(self, name, commands, environment):
        """Runs the commands side by side, shows their output, and returns its lines."""
        limit = min(self.shares[name], self.end - time.monotonic())
        result = {"name": name, "commands": [" ".join(map(without_folder, command)) for command in commands], "limit_s": round(limit, 1)}
        self.stages.append(result)
        if limit <= 1:
            result |= {"seconds": 0, "ended": "not run: no time was left", "ok": False}
            return []
        print(f"== {name}", flush=True)
        begin = time.monotonic()
        logs = [tempfile.TemporaryFile("w+", errors="replace") for _ in commands]
        processes = [
            subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
            for command, log in zip(commands, logs)
        ]
        failures = [failure for process in processes if (failure := end_of(process, begin + limit))]
        lines = []
        for log in logs:
            log.seek(0)
            lines += log.read().splitlines()
        print("\n".join(lines), flush=True)
        if not commands:
            failures.append("there is nothing to run")
        result |= {"seconds": round(time.monotonic() - begin, 1), "ended": "; ".join(failures) or "ok", "ok": not failures}
        return lines


def end_of(process, deadline):
    """Waits for a process, ends all that it started, and returns what went wrong."""
    failure = None
    begin = time.monotonic()
    try:
        status = process.wait(timeout=max(0, deadline - begin))
        if status != 0:
            failure = f"exit status {status}"
    except subprocess.TimeoutExpired:
        failure = "CUT OFF"
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    return failure


def load(path):
    """The figures of a stage that wrote some; what it wrote them to goes away."""
    try:
        with open(path) as file:
            figures = json.load(file)
    except (OSError, ValueError):
        return []
    os.remove(path)
    return figures


def rate(figures, name):
    figure = figures.get(name)
    if figure is None:
        return "-"
    if "teraflops" in figure and "terabytes_per_s" not in figure:
        return f"{figure['teraflops']:.0f} TF"
    return f"{figure['us']:.1f} us"


def product_table(figures):
    """The FP8 products beside NVIDIA's own of the same run."""
    columns = {
        "ours": "fp8 linear {} M {}",
        "CUTLASS": "CUTLASS fp8 blocks {} M {}",
        "cuBLASLt blocks": "cuBLASLt fp8 blocks {} M {}",
        "cuBLASLt rows": "cuBLASLt fp8 rows {} M {}",
        "torch blocks": "torch scaled_mm block-wise {} M {}",
        "torch rows": "torch scaled_mm row-wise {} M {}",
    }
    lines = [f"{'FP8 products':22s}" + "".join(f"{column:>17s}" for column in columns)]
    for shape in ("o_proj", "q_b", "gate, dense", "q_a"):
        for m in (1, 16, 4096):
            cells = [rate(figures, form.format(shape, m)) for form in columns.values()]
            if any(cell != "-" for cell in cells):
                lines.append(f"{shape + ', M ' + str(m):22s}" + "".join(f"{cell:>17s}" for cell in cells))
    return lines if len(lines) > 1 else []


def host_table(figures):
    lines = []
    for figure in figures.values():
        if "gigabytes_per_s" in figure:
            lines.append(f"{figure['name']:58s} {figure['s']:8.2f} s {figure['gigabytes_per_s']:7.1f} GB/s")
        elif figure["name"].startswith(("device-to-device", "1 dense")):
            lines.append(f"{figure['name']:58s} {figure['us']:8.1f} us")
    return lines


def slowest(lines, count=5):
    timed = [(float(found[2]), found[1]) for line in lines if (found := re.match(r"(?:ok|FAIL)\s+(.+?) \(([\d.]+) s\)", line))]
    return ", ".join(f"{name} {seconds:.0f} s" for seconds, name in sorted(timed, reverse=True)[:count])


def main():
    programs, out, commit, seconds = sys.argv[1:5]
    shares = SHARES | {name: float(share) for name, share in (text.rsplit("=", 1) for text in sys.argv[5:])}
    run = Run(out, float(seconds), shares)
    found_clocks = clocks()
    environment = with_cublaslt({"GLINT_TEST_DATA": os.path.abspath("tests/data"), **os.environ})
    program = programs + "/glint-gpu-tests"
    groups, alone = test_groups(program)
    tests = run.stage("tests", [[program, *names] for names in groups], environment)
    tests += run.stage("model tests", [[program, *names] for names in alone], environment)
    run.stage("bench", [[programs + "/glint-gpu-bench", out + ".ours"]], environment)
    ours = load(out + ".ours")
    if subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode == 0:
        run.stage("torch peers", [[sys.executable, "tools/gpu_peers.py", out + ".peers"]], os.environ)
    peers = load(out + ".peers")
    with open(out, "w") as file:
        json.dump(
            {"commit": commit, "clocks": found_clocks, "clocks_after": clocks(), "stages": run.stages, "tests": tests,
             "glint": ours, "peers": peers},
            file, indent=1)
        file.write("\n")
    figures = {figure["name"]: figure for figure in ours + peers}
    print(f"\n{out}")
    for line in host_table(figures) + product_table(figures):
        print(line)
    for line in tests:
        if line.startswith("FAIL"):
            print(line)
    counts = [re.fullmatch(r"(\d+) passed, (\d+) failed", line) for line in tests]
    passed, failed = (sum(int(count[i]) for count in counts if count) for i in (1, 2))
    print(f"tests: {passed} passed, {failed} failed; slowest: {slowest(tests)}")
    for stage in run.stages:
        print(f"{stage['name']:13s} {stage['seconds']:6.1f} s of {stage['limit_s']:.0f} s  {stage['ended']}")
    return 0 if all(stage["ok"] for stage in run.stages) else 1


if __name__ == "__main__":
    sys.exit(main())
