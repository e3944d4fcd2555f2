"""The printed table, character for character, and the result's figures, from outcomes made up here."""

import math
import random

import numpy as np
import pytest


def make_outcomes(count: int, seed: int, failed: int = 0):
    rng = random.Random(seed)
    outcomes = []
    for i in range(count):
        gaps = [rng.uniform(0.001, 0.05) for _ in range(rng.choice([0, 1, 5, 40, 120]))]
        ttft = rng.uniform(0.01, 0.4)
        good = i >= failed
        outcomes.append(
            dict(success=good, error="" if good else "500", text="", start=100 + rng.uniform(0, 3), ttft=ttft,
                 latency=ttft + sum(gaps), itl=gaps, queue=rng.uniform(0, 0.2), prompt_tokens=rng.randint(1, 9000),
                 output_tokens=1 + len(gaps) * rng.choice([1, 3])))
    return outcomes


def row(label, value):
    return "{:<40} {:<10}".format(label, value) if isinstance(value, int) else "{:<40} {:<10.2f}".format(label, value)


def expected_table(ask):
    """The table of serving.md 2.6 by Python's own formatting and NumPy's statistics."""
    outcomes, duration = ask["outcomes"], ask["duration"]
    good = [one for one in outcomes if one["success"]]
    lines = ["{s:{c}^{n}}".format(s=" Serving Benchmark Result ", n=50, c="=")]
    lines += [row("Successful requests:", len(good)), row("Failed requests:", len(outcomes) - len(good))]
    if ask["max_concurrency"] is not None:
        lines.append(row("Maximum request concurrency:", ask["max_concurrency"]))
    if ask["request_rate"] is not None:
        lines.append(row("Request rate configured (RPS):", ask["request_rate"]))
    given, made = sum(one["prompt_tokens"] for one in good), sum(one["output_tokens"] for one in good)
    lines += [row("Benchmark duration (s):", duration), row("Total input tokens:", given)]
    lines += [row("Total generated tokens:", made), row("Request throughput (req/s):", len(good) / duration)]
    tpots = [(one["latency"] - one["ttft"]) / (one["output_tokens"] - 1) if one["output_tokens"] > 1 else 0 for one in good]
    if ask["goodput"]:
        values = {"ttft": [one["ttft"] for one in good], "tpot": tpots, "e2el": [one["latency"] for one in good]}
        kept = sum(all(values[name][i] <= bound / 1000 for name, bound in ask["goodput"].items()) for i in range(len(good)))
        lines.append(row("Request goodput (req/s):", kept / duration))
    first = min(one["start"] for one in good)
    seconds = np.zeros(1000)
    for one in good:
        for time in np.cumsum([one["start"] + one["ttft"], *one["itl"]]):
            seconds[int(time - first)] += 1
    events = sorted([(one["start"], 1) for one in good] + [(one["start"] + one["latency"], -1) for one in good])
    peak = int(np.max(np.cumsum([change for _, change in events])))
    lines += [row("Output token throughput (tok/s):", made / duration)]
    lines += [row("Peak output token throughput (tok/s):", float(seconds.max())), row("Peak concurrent requests:", float(peak))]
    lines.append(row("Total token throughput (tok/s):", (given + made) / duration))
    queue = [one["queue"] for one in good]
    blocks = [
        ("ttft", "TTFT", "Time to First Token", [one["ttft"] for one in good]),
        ("tpot", "TPOT", "Time per Output Token (excl. 1st token)",
         [value for value, one in zip(tpots, good) if one["output_tokens"] > 1]),
        ("itl", "ITL", "Inter-token Latency", [gap for one in good for gap in one["itl"]]),
        ("e2el", "E2EL", "End-to-end Latency", [one["latency"] for one in good]),
    ]
    if ask["max_concurrency"] is not None:
        blocks.append(("client_queue_time", "Client Queue Time", "Client-side Queueing", queue))
        if ask["request_rate"] is not None:
            blocks.append(("e2el_including_client_queue", "E2EL incl. Client Queue", "Queue-inclusive End-to-end Latency",
                           [one["latency"] + one["queue"] for one in good]))
    figures = {}
    for key, name, title, values in blocks:
        if key not in ask["metrics"]:
            continue
        values = np.array(values or [0]) * 1000
        figures |= {f"mean_{key}_ms": values.mean(), f"median_{key}_ms": np.median(values), f"std_{key}_ms": np.std(values)}
        lines += ["{s:{c}^{n}}".format(s=title, n=50, c="-")]
        lines += [row(f"Mean {name} (ms):", values.mean()), row(f"Median {name} (ms):", float(np.median(values)))]
        for percent in ask["percentiles"]:
            word = str(int(percent)) if int(percent) == percent else str(percent)
            figures[f"p{word}_{key}_ms"] = np.percentile(values, percent)
            lines.append(row(f"P{word} {name} (ms):", float(np.percentile(values, percent))))
    return lines, figures


CASES = [
    dict(request_rate=None, max_concurrency=None, metrics=["ttft", "tpot", "itl"], percentiles=[99.0], goodput={}),
    dict(request_rate=10.0, max_concurrency=8, metrics=["ttft", "tpot", "itl", "e2el", "client_queue_time",
                                                        "e2el_including_client_queue"],
         percentiles=[0.0, 50.0, 99.9, 100.0], goodput={"ttft": 200.0, "tpot": 30.0, "e2el": 2000.0}),
    dict(request_rate=0.5, max_concurrency=None, metrics=["e2el"], percentiles=[25.0], goodput={"ttft": 100.0}),
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("count", [1, 2, 33])
def test_table(ask, case, count):
    failed = 1 if count == 33 else 0
    question = dict(outcomes=make_outcomes(count, count, failed), duration=12.345678, burstiness=1.0, before="", after="", **case)
    answer = ask("table", **question)
    lines, figures = expected_table(question)
    assert answer["text"] == "\n".join([*lines, "=" * 50, ""])
    for key, value in figures.items():
        assert math.isclose(answer["result"][key], value, rel_tol=1e-12, abs_tol=1e-12), key


METRICS = """# HELP vllm:spec_decode_num_drafts_total drafts
vllm:spec_decode_num_drafts_total{{engine="0",model_name="a b"}} {drafts}
vllm:spec_decode_num_drafts_created{{engine="0"}} 1.7e9
vllm:spec_decode_num_draft_tokens_total{{engine="0"}} {tokens}
vllm:spec_decode_num_draft_tokens_total{{engine="1"}} 0
vllm:spec_decode_num_accepted_tokens_total{{engine="0"}} {accepted}
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="0"}} {first}
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="1"}} {second}
"""


def test_speculation(ask):
    before = METRICS.format(drafts=10, tokens=20.0, accepted=5, first=4, second=1)
    after = METRICS.format(drafts="1.1e+02", tokens=220, accepted=140, first=84, second=56)
    question = dict(outcomes=make_outcomes(3, 3), duration=1.0, burstiness=1.0, before=before, after=after, **CASES[0])
    answer = ask("table", **question)
    block = answer["text"].splitlines()[-10:]
    assert block == [
        "{s:{c}^{n}}".format(s="Speculative Decoding", n=50, c="-"),
        row("Acceptance rate (%):", 67.5),
        row("Acceptance length:", 2.35),
        row("Drafts:", 100),
        row("Draft tokens:", 200),
        row("Accepted tokens:", 135),
        "Per-position acceptance (%):",
        row("  Position 0:", 80.0),
        row("  Position 1:", 55.0),
        "=" * 50,
    ]
    assert answer["result"]["spec_decode_per_position_acceptance_rates"] == [0.8, 0.55]
    quiet = ask("table", **(question | {"after": before}))
    assert "Speculative" not in quiet["text"] and "spec_decode_num_drafts" not in quiet["result"]


def test_bar(ask):
    assert ask("bar", done=10, total=32, seconds=12.1) == " 31%|███▏      | 10/32 [00:12<00:26,  1.21s/it]"
    assert ask("bar", done=32, total=32, seconds=3700) == "100%|██████████| 32/32 [1:01:40<00:00, 115.62s/it]"
