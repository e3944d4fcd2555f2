"""The Grafana dashboard names nothing that /metrics does not have."""

import json
import re
import urllib.request
from pathlib import Path

DASHBOARD = Path(__file__).resolve().parent.parent.parent / "docs/grafana/glint.json"


def expressions():
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def test_every_metric_exists(real):
    with urllib.request.urlopen(real.url + "/metrics") as response:
        page = response.read().decode()
    # Families, not samples: some have none before the first draft or token. The disk tier's are there with a disk tier.
    families = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.M))
    parts = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}
    known = {name + part for name, kind in families.items() for part in parts.get(kind, ("",))}
    named = [(title, name) for title, text in expressions() for name in re.findall(r"(?:vllm|glint):\w+", text)]
    assert len(named) > 25
    conditional = ("vllm:spec_decode", "vllm:external_prefix_cache")
    unknown = [(title, name) for title, name in named if name not in known and not name.startswith(conditional)]
    assert not unknown
