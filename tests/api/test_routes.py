"""Routes beside the generating ones, over HTTP as scripts use them, against the small trained model."""

import json
import urllib.error
import urllib.request

import pytest


def call(server, path, body=None, method=None, headers=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"} if data is not None and headers is None else headers or {}
    request = urllib.request.Request(server.url + path, data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if text else None


@pytest.fixture(scope="module")
def tokenizer():
    import os

    from tokenizers import Tokenizer

    return Tokenizer.from_file(os.environ["GLINT_NANO"] + "/tokenizer.json")


TEXTS = ["What is 345 + 278?", " two  spaces\n", "é, 漢字, <|user|> and <think>", ""]


@pytest.mark.parametrize("text", TEXTS)
def test_tokenize_is_what_the_library_says(nano, tokenizer, text):
    status, answer = call(nano, "/tokenize", {"model": "glm-5.3", "prompt": text, "return_token_strs": True})
    assert status == 200
    wanted = tokenizer.encode(text, add_special_tokens=True)
    assert answer == {
        "count": len(wanted.ids),
        "max_model_len": 8192,
        "tokens": wanted.ids,
        "token_strs": wanted.tokens,
    }
    bare = call(nano, "/tokenize", {"prompt": text, "add_special_tokens": False})[1]
    assert bare["tokens"] == tokenizer.encode(text, add_special_tokens=False).ids and bare["token_strs"] is None
    status, back = call(nano, "/detokenize", {"model": "glm-5.3", "tokens": bare["tokens"]})
    assert (status, back) == (200, {"prompt": text})


def test_tokenize_of_messages_is_the_chat_prompt(nano):
    messages = [{"role": "user", "content": "What is 345 + 278?"}]
    body = {"messages": messages, "chat_template_kwargs": {"reasoning_effort": "low"}}
    tokens = call(nano, "/tokenize", body)[1]["tokens"]
    text = call(nano, "/detokenize", {"tokens": tokens})[1]["prompt"]
    assert text == "[gMASK]<sop><|system|>Reasoning Effort: Low<|user|>What is 345 + 278?<|assistant|><think>"
    chat = {**body, "max_tokens": 1, "return_token_ids": True, "return_prompt_text": True}
    answer = call(nano, "/v1/chat/completions", chat)[1]
    assert answer["prompt_token_ids"] == tokens and answer["prompt_text"] == text
    assert len(answer["choices"][0]["token_ids"]) == 1
    without = call(nano, "/tokenize", {**body, "add_generation_prompt": False})[1]["count"]
    assert without == len(tokens) - 2
    assert call(nano, "/tokenize", {"messages": []})[0] == 400
    assert call(nano, "/tokenize", {"prompt": 3})[0] == 400
    assert call(nano, "/tokenize", {"model": "other", "prompt": "x"})[0] == 404
    assert call(nano, "/detokenize", {"tokens": [10**9]})[0] == 400


def test_models(nano):
    client = nano.client()
    assert client.models.retrieve("glm-5.3").id == "glm-5.3"
    status, answer = call(nano, "/v1/models/none%2Fsuch")
    assert status == 404 and "none/such" in answer["error"]["message"]
    assert call(nano, "/get_model_info")[1]["is_generation"] is True


def cache_hits(server):
    """Tokens that were found in the prefix cache so far."""
    with urllib.request.urlopen(server.url + "/metrics", timeout=30) as page:
        lines = page.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("vllm:prefix_cache_hits_total"))


def test_the_next_turn_finds_the_last_one(nano):
    """Thoughts, calls and all: what is sent back is, id for id, what was computed; and a reset forgets it."""
    client = nano.client()
    calculate = {"name": "calculate", "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}}}
    options = dict(model="glm-5.3", temperature=0, max_tokens=400, tools=[{"type": "function", "function": calculate}])
    messages = [{"role": "user", "content": "Use the calculator for 226 + 645."}]
    first = client.chat.completions.create(messages=messages, **options)
    call = first.choices[0].message.tool_calls[0]
    messages += [first.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "871"}]
    for reset in (None, "/reset_prefix_cache", "/reset_prefix_cache?reset_running_requests=true", "/flush_cache"):
        if reset:
            assert call_without_body(nano, reset) == 200
        before = cache_hits(nano)
        client.chat.completions.create(messages=messages, **options)
        # Of the first turn all but the ending token is computed; the cache has whole pages of 64 tokens.
        pages = 0 if reset else (first.usage.total_tokens - 1) // 64
        assert reset or pages >= 2
        assert cache_hits(nano) - before == 64 * pages, reset


def call_without_body(server, path):
    with urllib.request.urlopen(urllib.request.Request(server.url + path, method="POST"), timeout=30) as answer:
        return answer.status


def test_requests_can_be_aborted(nano):
    client = nano.client()
    options = dict(
        model="glm-5.3",
        messages=[{"role": "user", "content": "Hello"}],
        max_tokens=6000,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    for body in ({"rid": "stop-me"}, {"request_ids": ["chatcmpl-stop-me"]}, {"abort_all": True}):
        stream = iter(client.chat.completions.create(extra_headers={"X-Request-Id": "stop-me"}, **options))
        assert next(stream).id == "chatcmpl-stop-me"
        assert call(nano, "/abort_request", body)[0] == 200
        assert list(stream)[-1].choices[0].finish_reason == "abort"
    assert call(nano, "/abort_request", {"rid": "unknown"})[0] == 200
    assert call(nano, "/abort_request", {})[0] == 400
