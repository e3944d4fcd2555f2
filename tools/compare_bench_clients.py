#!/usr/bin/env python3
"""`glint bench serve` beside guidellm, an independent client, on a server whose steps take 20 ms and that runs 8 streams.

Both send the same load (prompts and answers of the same lengths, so many requests at once), in turn, several times. Counts of requests
and tokens must be equal, throughput must agree within 2 %, the medians of time to first token, time per output token and latency within
3 %. There are two loads:

  8 at once   every request has a place. The first token then comes 20 to 40 ms after the request, by where in a step of the server the
              client happens to send it, which is not the same for two clients that react at different speeds: so our mean time is held
              against the server's own histogram instead (within 3 %), and both clients' own share of it is shown.
  16 at once  half of them wait for a place, about two seconds, and where in a step they were sent no longer matters.

    python3 -m venv build/guidellm && build/guidellm/bin/pip install -r tools/requirements-bench.txt
    tools/compare_bench_clients.py --glint build/release/apps/glint/glint \\
        --timed-server build/release/tests/bench/timed_server --guidellm build/guidellm/bin/guidellm
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

STEP_MS, PLACES = 20, 8
LOADS = (PLACES, 2 * PLACES)
NANO = Path(__file__).resolve().parents[1] / "models" / "nano"
BOUNDS = {"requests": 0, "output tokens": 0, "output tokens/s": 0.02, "median TTFT ms": 0.03, "median TPOT ms": 0.03,
          "median latency ms": 0.03}
SERVER_BOUND = 0.03


def with_glint(options, port: int, streams: int, folder: Path) -> dict[str, float]:
    file = folder / "glint.json"
    command = [options.glint, "bench", "serve", "--port", str(port), "--model", str(NANO), "--served-model-name", "timed",
               "--num-prompts", str(options.requests), "--max-concurrency", str(streams), "--random-input-len", str(options.input),
               "--random-output-len", str(options.output), "--percentile-metrics", "ttft,tpot,itl,e2el",
               "--save-result", "--result-filename", str(file), "--client", options.client]
    subprocess.run(command, check=True, capture_output=True, text=True)
    result = json.loads(file.read_text())
    return {"requests": result["completed"], "output tokens": result["total_output_tokens"],
            "output tokens/s": result["output_throughput"], "mean TTFT ms": result["mean_ttft_ms"],
            "median TTFT ms": result["median_ttft_ms"], "median TPOT ms": result["median_tpot_ms"],
            "median latency ms": result["median_e2el_ms"]}


def with_guidellm(options, port: int, streams: int, folder: Path) -> dict[str, float]:
    """guidellm's own numbers, request by request, put together by the same definitions."""
    file = folder / "guidellm.json"
    command = [options.guidellm, "run", "--disable-console",
               "--backend", f"kind=openai_http,target=http://127.0.0.1:{port},model=timed,request_format=/v1/completions",
               "--profile", f"kind=concurrent,streams={streams}", "--constraint", f"kind=max_requests,count={options.requests}",
               "--tokenizer", f"kind=hf_auto,model={NANO}",
               "--data", f"kind=synthetic_text,prompt_tokens={options.input},output_tokens={options.output}",
               "--output", f"kind=json,path={file}"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"HF_HUB_OFFLINE": "1"})
    if done.returncode != 0:
        sys.exit(f"guidellm failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    benchmark = json.loads(file.read_text())["benchmarks"][0]
    requests = benchmark["requests"]["successful"]
    begin = min(request["request_start_time"] for request in requests)
    end = max(request["request_end_time"] for request in requests)
    tokens = sum(request["output_tokens"] for request in requests)
    latency = [1000 * (request["request_end_time"] - request["request_start_time"]) for request in requests]
    ttft = [request["time_to_first_token_ms"] for request in requests]
    tpot = [request["inter_token_latency_ms"] for request in requests]
    return {"requests": len(requests), "output tokens": tokens, "output tokens/s": tokens / (end - begin),
            "mean TTFT ms": statistics.mean(ttft), "median TTFT ms": statistics.median(ttft),
            "median TPOT ms": statistics.median(tpot), "median latency ms": statistics.median(latency)}


def server_ttft(port: int) -> tuple[float, float]:
    """Sum in seconds and count of the server's histogram."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        lines = page.read().decode().splitlines()
    value = lambda end: sum(float(line.split()[-1]) for line in lines
                            if line.startswith(f"vllm:time_to_first_token_seconds_{end}"))
    return value("sum"), value("count")


def measured(client, options, port: int, streams: int, folder: Path) -> dict[str, float]:
    sum_before, count_before = server_ttft(port)
    result = client(options, port, streams, folder)
    sum_after, count_after = server_ttft(port)
    result["server's mean TTFT ms"] = 1000 * (sum_after - sum_before) / (count_after - count_before)
    return result


def print_load(streams: int, mine: list[dict], theirs: list[dict]) -> bool:
    print(f"\n{streams} at once{'':10}{'glint':>12}{'guidellm':>12}{'difference':>12}{'bound':>8}")
    good = True
    middle = lambda name: [statistics.median(run[name] for run in runs) for runs in (mine, theirs)]
    for name, bound in BOUNDS.items():
        left, right = middle(name)
        difference = left / right - 1
        bounded = streams > PLACES or name != "median TTFT ms"
        far = bounded and abs(difference) > bound
        good = good and not far
        print(f"{name:20}{left:12.2f}{right:12.2f}{difference:12.2%}{f'{bound:.0%}' if bounded else '':>8}{'  TOO FAR' if far else ''}")
    server, client = middle("server's mean TTFT ms"), middle("mean TTFT ms")
    beside = [of_client / of_server - 1 for of_client, of_server in zip(client, server)]
    far = abs(beside[0]) > SERVER_BOUND
    print(f"{'mean TTFT ms':20}{client[0]:12.2f}{client[1]:12.2f}")
    print(f"{'  of the server':20}{server[0]:12.2f}{server[1]:12.2f}")
    print(f"{'  the client more':20}{beside[0]:12.2%}{beside[1]:12.2%}{'':12}{SERVER_BOUND:8.0%}{'  TOO FAR' if far else ''}")
    return good and not far


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--glint", required=True)
    parser.add_argument("--timed-server", required=True)
    parser.add_argument("--guidellm", required=True)
    parser.add_argument("--client", default="native", help="native or compat")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--requests", type=int, default=48)
    parser.add_argument("--input", type=int, default=200)
    parser.add_argument("--output", type=int, default=100)
    options = parser.parse_args()
    server = subprocess.Popen([options.timed_server, str(NANO), str(STEP_MS), str(PLACES)], stdout=subprocess.PIPE, text=True)
    mine, theirs = {streams: [] for streams in LOADS}, {streams: [] for streams in LOADS}
    try:
        port = int(server.stdout.readline())
        with tempfile.TemporaryDirectory() as folder:
            for run in range(options.runs):
                for streams in LOADS:
                    mine[streams].append(measured(with_glint, options, port, streams, Path(folder)))
                    theirs[streams].append(measured(with_guidellm, options, port, streams, Path(folder)))
                    print(f"run {run + 1}, {streams} at once:", flush=True)
                    for name, runs in (("glint", mine), ("guidellm", theirs)):
                        print(f"  {name:9}" + ", ".join(f"{key} {value:.2f}" for key, value in runs[streams][-1].items()), flush=True)
    finally:
        server.kill()
    version = subprocess.run([options.guidellm, "--version"], capture_output=True, text=True).stdout.strip()
    glint = subprocess.run([options.glint, "--version"], capture_output=True, text=True).stdout.strip()
    print(f"\n{glint} ({options.client} client), {version}, Python {platform.python_version()}; steps of {STEP_MS} ms, {PLACES} streams,"
          f" {options.requests} requests of {options.input} + {options.output} tokens; medians of {options.runs} runs")
    return 0 if all([print_load(streams, mine[streams], theirs[streams]) for streams in LOADS]) else 1


if __name__ == "__main__":
    sys.exit(main())
