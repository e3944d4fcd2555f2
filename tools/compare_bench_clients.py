#!/usr/bin/env python3
"""`glint bench serve` beside guidellm, an independent client, on a server whose steps take 20 ms and that runs 8 streams.

Both send the same load (8 at once, prompts and answers of the same lengths), in turn, several times. Counts of requests and
tokens must be equal, throughput must agree within 2 %, the medians of time to first token, time per output token and latency
within 3 %.

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
from pathlib import Path

STEP_MS, STREAMS = 20, 8
NANO = Path(__file__).resolve().parents[1] / "models" / "nano"
BOUNDS = {"requests": 0, "output tokens": 0, "output tokens/s": 0.02, "median TTFT ms": 0.03, "median TPOT ms": 0.03,
          "median latency ms": 0.03}


def with_glint(options, port: int, folder: Path) -> dict[str, float]:
    file = folder / "glint.json"
    command = [options.glint, "bench", "serve", "--port", str(port), "--model", str(NANO), "--served-model-name", "timed",
               "--num-prompts", str(options.requests), "--max-concurrency", str(STREAMS), "--random-input-len", str(options.input),
               "--random-output-len", str(options.output), "--percentile-metrics", "ttft,tpot,itl,e2el",
               "--save-result", "--result-filename", str(file), "--client", options.client]
    subprocess.run(command, check=True, capture_output=True, text=True)
    result = json.loads(file.read_text())
    return {"requests": result["completed"], "output tokens": result["total_output_tokens"],
            "output tokens/s": result["output_throughput"], "median TTFT ms": result["median_ttft_ms"],
            "median TPOT ms": result["median_tpot_ms"], "median latency ms": result["median_e2el_ms"]}


def with_guidellm(options, port: int, folder: Path) -> dict[str, float]:
    """guidellm's own numbers, request by request, put together by the same definitions."""
    file = folder / "guidellm.json"
    command = [options.guidellm, "run", "--disable-console",
               "--backend", f"kind=openai_http,target=http://127.0.0.1:{port},model=timed,request_format=/v1/completions",
               "--profile", f"kind=concurrent,streams={STREAMS}", "--constraint", f"kind=max_requests,count={options.requests}",
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
    middle = lambda values: statistics.median(values)
    latency = [1000 * (request["request_end_time"] - request["request_start_time"]) for request in requests]
    ttft = [request["time_to_first_token_ms"] for request in requests]
    tpot = [request["inter_token_latency_ms"] for request in requests]
    return {"requests": len(requests), "output tokens": tokens, "output tokens/s": tokens / (end - begin),
            "median TTFT ms": middle(ttft), "median TPOT ms": middle(tpot), "median latency ms": middle(latency)}


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
    server = subprocess.Popen([options.timed_server, str(NANO), str(STEP_MS), str(STREAMS)], stdout=subprocess.PIPE, text=True)
    mine, theirs = [], []
    try:
        port = int(server.stdout.readline())
        with tempfile.TemporaryDirectory() as folder:
            for run in range(options.runs):
                mine.append(with_glint(options, port, Path(folder)))
                theirs.append(with_guidellm(options, port, Path(folder)))
                print(f"run {run + 1}: glint {mine[-1]}\n       guidellm {theirs[-1]}", flush=True)
    finally:
        server.kill()
    version = subprocess.run([options.guidellm, "--version"], capture_output=True, text=True).stdout.strip()
    glint = subprocess.run([options.glint, "--version"], capture_output=True, text=True).stdout.strip()
    print(f"\n{glint} ({options.client} client), {version}, Python {platform.python_version()}; steps of {STEP_MS} ms, {STREAMS} streams,"
          f" {options.requests} requests of {options.input} + {options.output} tokens; medians of {options.runs} runs")
    print(f"{'':20}{'glint':>12}{'guidellm':>12}{'difference':>12}{'bound':>8}")
    good = True
    for name, bound in BOUNDS.items():
        left, right = (statistics.median(run[name] for run in runs) for runs in (mine, theirs))
        difference = left / right - 1
        good = good and abs(difference) <= bound
        print(f"{name:20}{left:12.2f}{right:12.2f}{difference:12.2%}{bound:8.0%}{'' if abs(difference) <= bound else '  TOO FAR'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
