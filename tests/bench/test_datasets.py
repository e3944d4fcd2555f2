"""Prompts: string for string those of serving.md 2.2, written down again in Python over NumPy and the Rust library."""

import json
import math
import random
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer


class Client:
    """The tokenizer of a folder as transformers sees it."""

    def __init__(self, folder: str):
        self.tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
        self.vocab_size = self.tokenizer.get_vocab_size(with_added_tokens=False)
        config = json.loads((Path(folder) / "tokenizer_config.json").read_text())
        named = [config.get(f"{name}_token") for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask")]
        named += config.get("additional_special_tokens", [])
        special = {self.tokenizer.token_to_id(token) for token in named if token}
        self.allowed = [i for i in range(self.vocab_size) if i not in special]

    def encode(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids):
        return self.tokenizer.decode(ids, skip_special_tokens=False)

    def fit(self, ids, target, draw):
        left = 10
        while True:
            text = self.decode(ids)
            ids = self.encode(text)
            if left <= 0 or len(ids) == target:
                return text, ids
            if len(ids) < target:
                ids = ids + draw(0, self.vocab_size, size=target - len(ids)).tolist()
            else:
                ids = ids[:target]
            left -= 1


def random_requests(client, num_prompts, input_len, output_len, input_ratio, output_ratio, prefix_len, seed):
    rng = np.random.default_rng(seed)
    spread = lambda length, ratio: (math.floor(length * (1 - ratio)), math.ceil(length * (1 + ratio)))
    low, high = spread(input_len, input_ratio)
    input_lens = rng.integers(low, high + 1, size=num_prompts)
    low, high = spread(output_len, output_ratio)
    output_lens = rng.integers(max(low, 1), max(high, 1) + 1, size=num_prompts)
    offsets = rng.integers(0, client.vocab_size, size=num_prompts)
    allowed = np.array(client.allowed)
    prefix = []
    if prefix_len > 0:
        prefix = allowed[rng.integers(0, len(allowed), size=prefix_len)].tolist()
        prefix = client.fit(prefix, prefix_len, rng.integers)[1]
    requests = []
    for i in range(num_prompts):
        inner = allowed[(offsets[i] + i + np.arange(input_lens[i])) % len(allowed)].tolist()
        text, ids = client.fit(prefix + inner, prefix_len + int(input_lens[i]), rng.integers)
        requests.append({"prompt": text, "prompt_len": len(ids), "output_len": int(output_lens[i])})
    return requests


def only(requests, *names):
    return [{name: request[name] for name in names} for request in requests]


CASES = [
    dict(num_prompts=32, input_len=800, output_len=100, input_ratio=0.0, output_ratio=0.0, prefix_len=0, seed=0),
    dict(num_prompts=20, input_len=100, output_len=10, input_ratio=0.5, output_ratio=0.9, prefix_len=17, seed=1),
    dict(num_prompts=7, input_len=1, output_len=1, input_ratio=0.0, output_ratio=0.3, prefix_len=0, seed=99),
    dict(num_prompts=3, input_len=0, output_len=5, input_ratio=0.0, output_ratio=0.0, prefix_len=64, seed=2**32 - 1),
]


@pytest.mark.parametrize("case", CASES)
def test_random(ask, nano, case):
    mine = ask("random", folder=nano, **case)
    assert only(mine, "prompt", "prompt_len", "output_len") == random_requests(Client(nano), **case)
    assert [request["request_id"] for request in mine] == [f"id-{i}" for i in range(case["num_prompts"])]


@pytest.mark.parametrize("shuffle", [True, False])
def test_prefix_repetition(ask, nano, shuffle):
    client = Client(nano)
    case = dict(num_prompts=11, num_prefixes=3, prefix_len=40, suffix_len=25, output_len=9, seed=5)
    np.random.seed(5)
    expected = []
    exactly = lambda length: client.fit(
        np.random.randint(0, client.vocab_size, size=length).tolist(), length, np.random.randint
    )[1]
    for _ in range(3):
        prefix = exactly(40)
        for _ in range(3):
            ids = prefix + exactly(25)
            expected.append({"prompt": client.decode(ids), "prompt_len": len(ids), "output_len": 9})
    if shuffle:
        random.Random(5).shuffle(expected)
    answer = ask("prefix_repetition", folder=nano, shuffle=shuffle, **case)
    assert only(answer["requests"], "prompt", "prompt_len", "output_len") == expected
    assert answer["next"] == np.random.randint(0, 1000, size=5).tolist()


def write_lines(path: Path, rows) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_custom(ask, nano, tmp_path):
    client = Client(nano)
    rows = [{"prompt": f"What is {i} + {i * 7}?", "output_tokens": i + 1} for i in range(9)]
    path = write_lines(tmp_path / "rows.jsonl", rows)
    mine = ask("file", kind="custom", folder=nano, path=path, num_prompts=14, output_len=-1, seed=3, skip_chat_template=True)
    shuffled = list(rows)
    random.Random(3).shuffle(shuffled)
    more = random.Random(3)
    shuffled += [more.choice(shuffled[:9]) for _ in range(5)]
    assert [request["prompt"] for request in mine] == [row["prompt"] for row in shuffled]
    assert [request["output_len"] for request in mine] == [row["output_tokens"] for row in shuffled]
    assert [request["prompt_len"] for request in mine] == [len(client.encode(row["prompt"])) for row in shuffled]
    assert len({request["request_id"] for request in mine}) == 14
    rendered = ask("file", kind="custom", folder=nano, path=path, num_prompts=2, output_len=5, seed=3, shuffle=False)
    assert "<|user|>What is 0 + 0?<|assistant|>" in rendered[0]["prompt"]
    assert rendered[0]["output_len"] == 5


def test_chats(ask, nano, tmp_path):
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}, {"role": "user", "content": "Hu"}]
    path = write_lines(tmp_path / "chats.jsonl", [{"messages": messages}])
    arguments = dict(kind="custom", folder=nano, path=path, num_prompts=1, output_len=4, seed=0)
    assert ask("file", chat=True, **arguments)[0]["messages"] == messages
    plain = ask("file", **arguments)[0]
    assert plain["messages"] is None and "<|user|>Hu<|assistant|>" in plain["prompt"]


def test_sharegpt(ask, nano, tmp_path):
    client = Client(nano)
    talk = lambda *texts: {"conversations": [{"from": "x", "value": text} for text in texts]}
    rows = [
        talk("What is the sum of 12 and 30 please?", "It is forty-two, as far as I know."),
        talk("short", "one"),
        {"other": 1},
        talk("alone"),
        talk("word " * 1500, "too long a prompt to be taken"),
        talk("Tell me about rivers and lakes of the north.", "There are many of them, and they are long."),
    ]
    for kind in ("array", "lines"):
        path = tmp_path / f"{kind}.json"
        path.write_text(json.dumps(rows)) if kind == "array" else write_lines(path, rows)
        mine = ask("file", kind="sharegpt", folder=nano, path=str(path), num_prompts=10, output_len=-1, seed=4, oversample=False)
        talks = [row for row in rows if len(row.get("conversations", [])) >= 2]
        random.Random(4).shuffle(talks)
        expected = []
        for row in talks:
            prompt, answer = (turn["value"] for turn in row["conversations"][:2])
            lengths = len(client.encode(prompt)), len(client.encode(answer))
            if min(lengths) >= 4 and lengths[0] <= 1024 and sum(lengths) <= 2048:
                expected.append({"prompt": prompt, "prompt_len": lengths[0], "output_len": lengths[1]})
        assert len(expected) == 2
        assert only(mine, "prompt", "prompt_len", "output_len") == expected


def test_spec_bench(ask, nano, tmp_path):
    rows = [{"category": "math" if i % 2 else "writing", "turns": [f"Turn {i}", "more"]} for i in range(10)]
    path = write_lines(tmp_path / "question.jsonl", rows)
    mine = ask(
        "file", kind="spec_bench", folder=nano, path=path, num_prompts=5, output_len=8, seed=77, category="math",
        skip_chat_template=True,
    )
    expected = [row["turns"][0] for row in rows if row["category"] == "math"]
    random.Random(0).shuffle(expected)
    assert [request["prompt"] for request in mine] == expected
