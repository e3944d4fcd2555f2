"""The page /metrics, read by the library that Prometheus' own exporters use, and what it says about known traffic."""

import urllib.request

from prometheus_client.parser import text_string_to_metric_families

# serving.md's list as far as the engine has the thing itself; type by name as dashboards know it.
GAUGES = ["num_requests_running", "num_requests_waiting", "num_requests_waiting_by_reason", "kv_cache_usage_perc"]
GAUGES += ["engine_sleep_state", "cache_config_info"]
COUNTERS = ["prompt_tokens", "generation_tokens", "num_preemptions", "request_success", "prefix_cache_queries"]
COUNTERS += ["prefix_cache_hits", "prompt_tokens_cached", "prompt_tokens_by_source", "corrupted_requests"]
COUNTERS += ["admission_rejections"]
TIMES = ["time_to_first_token_seconds", "inter_token_latency_seconds", "request_time_per_output_token_seconds"]
TIMES += ["time_per_output_token_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds"]
TIMES += ["request_inference_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds"]
COUNTS = ["iteration_tokens_total", "request_prompt_tokens", "request_generation_tokens", "request_params_n"]
COUNTS += ["request_max_num_generation_tokens", "request_params_max_tokens", "request_prefill_kv_computed_tokens"]
SPECULATION = ["num_drafts", "num_draft_tokens", "num_accepted_tokens", "num_accepted_tokens_per_pos"]

TTFT = "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1.0 2.5 5.0 7.5 10.0 20.0 40.0 80.0 160.0 640.0 2560.0"
ITL = "0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1.0 2.5 5.0 7.5 10.0 20.0 40.0 80.0"
REQUEST = "0.3 0.5 0.8 1.0 1.5 2.0 2.5 5.0 10.0 15.0 20.0 30.0 40.0 50.0 60.0 120.0 240.0 480.0 960.0 1920.0 7680.0"


def page(server) -> dict:
    with urllib.request.urlopen(server.url + "/metrics") as response:
        assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        families = list(text_string_to_metric_families(response.read().decode()))
    names = [family.name for family in families]
    assert len(names) == len(set(names)), "every family once"
    return {family.name: family for family in families}


def value(families: dict, name: str, suffix: str = "", **labels: str) -> float:
    found = [
        sample.value
        for sample in families[name].samples
        if sample.name == name + suffix and labels.items() <= sample.labels.items()
    ]
    assert len(found) == 1, (name, labels, found)
    return found[0]


def bounds(family) -> list[str]:
    return [sample.labels["le"] for sample in family.samples if sample.name.endswith("_bucket")]


def test_names_types_labels_and_buckets(real):
    real.client().completions.create(model="glm-5.3", prompt="one", max_tokens=2)
    families = page(real)
    expected = {f"vllm:{name}": "gauge" for name in GAUGES}
    expected |= {f"vllm:{name}": "counter" for name in COUNTERS}
    expected |= {f"vllm:{name}": "histogram" for name in TIMES + COUNTS}
    for name, kind in expected.items():
        assert name in families, name
        assert families[name].type == kind, name
        assert families[name].documentation, name
        for sample in families[name].samples:
            assert sample.labels["model_name"] == "glm-5.3" and sample.labels["engine"] == "0", name
    for name in TIMES + COUNTS:
        family = families[f"vllm:{name}"]
        buckets = [sample.value for sample in family.samples if sample.name.endswith("_bucket")]
        assert buckets == sorted(buckets), "buckets are cumulated"
        assert buckets[-1] == value(families, family.name, "_count"), name
        assert bounds(family)[-1] == "+Inf"
    assert bounds(families["vllm:time_to_first_token_seconds"])[:-1] == TTFT.split()
    assert set(ITL.split()) <= set(bounds(families["vllm:inter_token_latency_seconds"]))
    assert bounds(families["vllm:e2e_request_latency_seconds"])[:-1] == REQUEST.split()
    assert bounds(families["vllm:request_params_n"])[:-1] == "1.0 2.0 5.0 10.0 20.0".split()
    tokens = bounds(families["vllm:request_prompt_tokens"])
    assert tokens[:4] == ["1.0", "2.0", "5.0", "10.0"] and tokens[-2] == "5000.0", "up to max_model_len, 8192"
    assert not [name for name in families if "spec_decode" in name], "nothing is drafted"


def test_counts_of_known_traffic(real):
    client = real.client()
    before = page(real)
    sizes = [3, 5, 7]
    for size in sizes:
        client.completions.create(
            model="glm-5.3", prompt=list(range(10, 60)), max_tokens=size, extra_body={"ignore_eos": True}
        )
    with client.completions.create(
        model="glm-5.3", prompt=[7] * 20, max_tokens=4000, stream=True, extra_body={"ignore_eos": True}
    ) as stream:
        next(iter(stream))
    after = page(real)

    def grown(name: str, suffix: str = "_total", **labels: str) -> float:
        return value(after, name, suffix, **labels) - value(before, name, suffix, **labels)

    assert grown("vllm:prompt_tokens") == 170
    assert grown("vllm:generation_tokens") >= sum(sizes) + 1
    assert grown("vllm:request_success", finished_reason="length") == len(sizes)
    assert grown("vllm:request_generation_tokens", "_sum") == sum(sizes)
    assert grown("vllm:request_prompt_tokens", "_sum") == 150
    assert grown("vllm:time_to_first_token_seconds", "_count") == len(sizes) + 1
    assert grown("vllm:e2e_request_latency_seconds", "_count") == len(sizes)


def test_speculation_counters(standin):
    from conftest import _stop, start_real

    server = start_real(
        standin,
        "--served-model-name",
        "glm-5.3",
        "--speculative-config.method",
        "mtp",
        "--speculative-config.num_speculative_tokens",
        "3",
        "--metrics-compat",
        "vllm,sglang",
    )
    try:
        server.client().completions.create(
            model="glm-5.3", prompt=[1, 2, 3], max_tokens=20, extra_body={"ignore_eos": True}
        )
        families = page(server)
        drafts, drafted, accepted = (value(families, f"vllm:spec_decode_{name}", "_total") for name in SPECULATION[:3])
        assert drafts > 0 and drafted >= drafts and accepted <= drafted
        positions = families["vllm:spec_decode_num_accepted_tokens_per_pos"].samples
        assert [sample.labels["position"] for sample in positions] == ["0", "1", "2"]
        by_position = [sample.value for sample in positions]
        assert by_position == sorted(by_position, reverse=True), "position i counts only if all before it were accepted"
        assert sum(by_position) == accepted
        assert value(families, "sglang:generation_tokens", "_total") == 20
        for name in ["num_running_reqs", "num_queue_reqs", "token_usage", "cache_hit_rate", "gen_throughput"]:
            assert families[f"sglang:{name}"].type == "gauge"
        with urllib.request.urlopen(server.url + "/get_server_info") as response:
            import json

            info = json.loads(response.read())
        length = info["internal_states"][0]["avg_spec_accept_length"]
        assert abs(length - (1 + accepted / drafts)) < 1e-9
    finally:
        assert _stop(server) == 0
