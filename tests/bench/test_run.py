"""glint bench serve against a server whose device takes 20 ms a step and 8 streams at once: what it must measure is known.

Steps never take less than their time, so lower bounds are sharp; a busy machine makes them longer, so upper bounds are not.
tools/compare_bench_clients.py is the sharp comparison.
"""

import json
import os
import subprocess

import pytest

from conftest import program

STEP = 0.020
STREAMS = 8


def about(seconds: float, value: float) -> bool:
    return 0.98 * seconds <= value <= 1.6 * seconds + 0.1


@pytest.fixture(scope="module")
def server(nano):
    command = [program("GLINT_TIMED_SERVER"), nano, str(int(STEP * 1000)), str(STREAMS)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    yield int(process.stdout.readline())
    process.kill()


def bench(server: int, *flags: str, environment=None):
    command = [program("GLINT_BIN"), "bench", "serve", "--port", str(server), *flags]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | (environment or {}))


def measured(server: int, nano: str, folder, *flags: str) -> tuple[dict, str]:
    file = folder / "result.json"
    done = bench(server, "--model", nano, "--save-result", "--save-detailed", "--result-filename", str(file), *flags)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(file.read_text()), done.stdout


def test_what_is_known(server, nano, tmp_path):
    """16 requests of 50 tokens on 8 streams: two rounds of 50 steps each."""
    result, text = measured(server, nano, tmp_path, *"--random-input 100 --random-output 50 --num_prompts 16".split())
    assert (result["completed"], result["failed"]) == (16, 0)
    # Prompts of a small vocabulary do not all come to the wanted length.
    assert result["total_output_tokens"] == 16 * 50 and result["total_input_tokens"] == sum(result["input_lens"])
    assert result["total_input_tokens"] == pytest.approx(16 * 100, rel=0.1)
    assert about(2 * 50 * STEP, result["duration"])
    # The last gap is that of the chunk with the finish reason, which comes at once.
    assert about(STEP, result["median_tpot_ms"] / 1000)
    assert about(STEP, result["median_itl_ms"] / 1000)
    # Eight get their first token in the first step or two, eight behind the first round.
    ttfts = sorted(result["ttfts"])
    assert ttfts[7] < 20 * STEP and about(50 * STEP, ttfts[8])
    assert result["max_concurrent_requests"] == 16
    assert "Successful requests:                     16        \n" in text
    assert text.index("Traffic request rate: inf") < text.index("============ Serving Benchmark Result ============")
    assert len(result["itls"]) == 16 and all(len(gaps) >= 49 for gaps in result["itls"])


def test_rate_and_concurrency(server, nano, tmp_path):
    """Arrivals at a constant rate, two at a time: requests wait in the client, and that does not count as TTFT."""
    flags = "--random-input-len 20 --random-output-len 10 --num-prompts 12 --request-rate 20 --burstiness inf --max-concurrency 2"
    result, text = measured(server, nano, tmp_path, *flags.split(), "--percentile-metrics", "ttft,e2el,client_queue_time")
    assert result["completed"] == 12 and result["max_concurrent_requests"] == 2
    assert about(12 * 10 * STEP / 2, result["duration"])
    assert max(result["ttfts"]) < 20 * STEP
    assert max(result["queue_times"]) > 5 * STEP
    starts = sorted(start - wait for start, wait in zip(result["start_times"], result["queue_times"]))
    assert starts[-1] - starts[0] == pytest.approx(11 / 20, abs=0.1)
    assert "Maximum request concurrency:             2         \n" in text and "P99 Client Queue Time (ms):" in text
    assert result["request_rate"] == 20.0 and result["max_concurrency"] == 2 and result["burstiness"] == "inf"


def test_chat_and_files(server, nano, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"prompt": f"Say {i}", "output_tokens": 4}) + "\n" for i in range(5)))
    flags = f"--backend openai-chat --dataset-name custom --dataset-path {rows} --custom-output-len -1 --num-prompts 10"
    more = "--skip-chat-template --ignore-eos --num-warmups 2 --ready-check-timeout-sec 20 --goodput e2el:5000 ttft:1"
    result, text = measured(server, nano, tmp_path, *flags.split(), *more.split(), "--extra-body", '{"temperature": 0}')
    assert result["completed"] == 10 and result["total_output_tokens"] == 40 and result["num_prompts"] == 10
    assert result["request_goodput"] == 0, "no first token comes within a millisecond"
    assert "Initial test run completed." in text and "Warmup run completed." in text


def test_ramp(server, nano, tmp_path):
    flags = "--random-input-len 8 --random-output-len 2 --num-prompts 20 --ramp-up-strategy linear --ramp-up-start-rps 5"
    result, text = measured(server, nano, tmp_path, *flags.split(), "--ramp-up-end-rps", "40", "--metadata", "a=b", "c=d")
    assert [change["rps"] for change in result["rps_change_events"]] == list(range(5, 41))
    assert "Will increase RPS from 5 to 40 RPS over the duration of the benchmark." in text
    assert (result["a"], result["c"]) == ("b", "d")


def test_first_model_and_file_name(server, nano, tmp_path):
    flags = "--random-input-len 8 --random-output-len 2 --num-prompts 2 --append-result --label trial --request-rate 100"
    for _ in range(2):
        done = bench(server, *flags.split(), "--result-dir", str(tmp_path / "deep" / "er"), "--max-concurrency", "2")
        assert done.returncode == 0, done.stderr
        assert f"First model name: timed, first model id: {nano}" in done.stdout
    files = list((tmp_path / "deep" / "er").iterdir())
    assert files and files[0].name.startswith("trial-100.0qps-concurrency2-nano-")
    for file in files:
        for line in file.read_text().splitlines():
            result = json.loads(line)
            assert "ttfts" not in result and "latencies" in result and result["label"] == "trial"


def test_unknown_model(server, nano):
    done = bench(server, "--model", "no/such", "--tokenizer", nano, *"--num-prompts 3 --random-input-len 4 --random-output-len 2".split())
    assert done.returncode == 1
    assert "Failed requests:                         3         \n" in done.stdout
    lines = done.stderr.strip().splitlines()
    assert "404 Not Found" in lines[-1] and "`no/such` does not exist" in lines[-1] and "the server serves timed" in lines[-1]
    assert "\n" not in lines[-1] and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "flags, word",
    [
        (["--num-prompts", "x"], "argument --num-prompts"),
        (["--random", "5"], "ambiguous"),
        (["--random-range-ratio", "1.0", "--model", "NANO"], "--random-range-ratio"),
        (["--dataset-name", "sonnet"], "invalid choice"),
        (["--dataset-path", "x", "--model", "NANO"], "Cannot use 'random' dataset with --dataset-path"),
        (["--model", "nowhere/else", "--served-model-name", "q"], "--tokenizer"),
        (["--request-rate", "0"], "--request-rate"),
        (["--max-concurrency", "0"], "--max-concurrency"),
        (["--ramp-up-strategy", "linear"], "--ramp-up-start-rps"),
        (["--goodput", "tokens:5"], "tokens"),
        (["--extra-body", "[1]"], "--extra-body"),
        (["--endpoint", "/v1/chat/completions"], "--endpoint"),
        (["--plot-timeline"], "--plot-timeline"),
        (["--metric-percentiles", "101"], "101"),
        (["--frobnicate"], "frobnicate"),
    ],
)
def test_wrong_flags(server, nano, flags, word):
    done = bench(server, *(nano if flag == "NANO" else flag for flag in flags))
    assert done.returncode == 2, done.stdout + done.stderr
    line = done.stderr.strip().splitlines()[-1]
    assert word in line and line.startswith("glint bench serve: error: ")


def test_nobody_listens(nano):
    done = bench(1, "--model", nano)
    assert done.returncode == 1 and "127.0.0.1:1" in done.stderr and "Connection refused" in done.stderr


def test_key_and_headers(nano, tmp_path):
    """What goes over the wire, seen by a server that only listens."""
    import http.server
    import threading

    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append((self.path, dict(self.headers.items()), json.loads(body)))
            answer = b'data: {"choices":[{"text":"x"}]}\n\ndata: [DONE]\n\n'
            self.send_response(200 if self.path.endswith("completions") else 404)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def do_GET(self):
            self.send_error(404)

        def log_message(self, *arguments):
            pass

    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    flags = "--random-input-len 5 --random-output-len 3 --num-prompts 2 --header X-One=1 x_two=a=b --top-p 0.5 --logprobs 2"
    more = ["--request-id-prefix", "me-", "--served-model-name", "served", "--extra-body", '{"max_tokens": 9, "q": null}']
    done = bench(listener.server_port, "--model", nano, *flags.split(), *more, environment={"OPENAI_API_KEY": "sk-1"})
    listener.shutdown()
    assert done.returncode == 0, done.stderr
    asked = [entry for entry in seen if entry[0] == "/v1/completions"]
    assert sorted(headers["x-request-id"] for _, headers, _ in asked) == ["me-0", "me-1"]
    path, headers, body = asked[0]
    assert headers["Authorization"] == "Bearer sk-1" and headers["X-One"] == "1" and headers["x_two"] == "a=b"
    prompt = body.pop("prompt")
    assert isinstance(prompt, str)
    assert body == {
        "model": "served", "repetition_penalty": 1.0, "max_tokens": 9, "logprobs": 2, "stream": True,
        "stream_options": {"include_usage": True}, "ignore_eos": True, "top_p": 0.5, "q": None,
    }
    assert list(body) == ["model", "repetition_penalty", "max_tokens", "logprobs", "stream", "stream_options", "ignore_eos",
                          "top_p", "q"]
    assert "sk-1" not in done.stdout + done.stderr
