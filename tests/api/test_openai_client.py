"""The official openai client against the server: what it sends is accepted, what comes back is what it expects.

With the scripted model answers are compared word for word; a stand-in model has random weights, so there only the shape and
the counts are checked.
"""

import json
import signal
import threading
import time

import openai
import pytest

from conftest import start_real, wait_until

HELLO = [{"role": "user", "content": "Hello there"}]
WEATHER = [{"role": "user", "content": "What is the weather?"}]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather of the next days.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["city"],
            },
        },
    }
]


def model_of(client: openai.OpenAI) -> str:
    return client.models.list().data[0].id


def collect(stream):
    """Adds a chat stream up as an application would; checks the order of its chunks."""
    total = {"reasoning": "", "content": "", "calls": {}, "finish": None, "usage": None, "chunks": 0}
    for chunk in stream:
        assert chunk.object == "chat.completion.chunk"
        if not chunk.choices:
            assert total["finish"], "usage comes behind the finish"
            total["usage"] = chunk.usage
            continue
        choice = chunk.choices[0]
        if total["chunks"] == 0:
            assert choice.delta.role == "assistant" and choice.delta.content == ""
        total["chunks"] += 1
        assert total["finish"] is None
        total["reasoning"] += getattr(choice.delta, "reasoning", None) or ""
        total["content"] += choice.delta.content or ""
        for call in choice.delta.tool_calls or []:
            entry = total["calls"].setdefault(call.index, {"id": None, "name": None, "arguments": ""})
            if call.id:
                entry["id"], entry["name"] = call.id, call.function.name
            entry["arguments"] += call.function.arguments or ""
        total["finish"] = choice.finish_reason
    assert total["finish"]
    return total


def test_models(server):
    client = server.client()
    models = client.models.list().data
    assert models and models[0].object == "model"
    assert models[0].max_model_len > 0


def test_chat(server):
    client = server.client()
    answer = client.chat.completions.create(model=model_of(client), messages=HELLO, max_tokens=80, temperature=1.0)
    choice = answer.choices[0]
    assert answer.object == "chat.completion"
    assert choice.message.role == "assistant"
    assert choice.finish_reason in ("stop", "length")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert 0 < answer.usage.completion_tokens <= 80
    assert 0 <= answer.usage.completion_tokens_details.reasoning_tokens <= answer.usage.completion_tokens
    if server.scripted:
        assert choice.message.content == "You said: Hello there"
        assert choice.message.reasoning == "Effort Max: thinking about Hello there."
        assert choice.finish_reason == "stop"
        assert choice.stop_reason == 154827


def test_stream(server):
    client = server.client()
    stream = client.chat.completions.create(
        model=model_of(client), messages=HELLO, max_tokens=80, stream=True, stream_options={"include_usage": True}
    )
    total = collect(stream)
    assert total["usage"].completion_tokens <= 80
    if server.scripted:
        assert total["content"] == "You said: Hello there"
        assert total["reasoning"] == "Effort Max: thinking about Hello there."


def test_stream_equals_whole(server):
    client = server.client()
    arguments = dict(model=model_of(client), messages=HELLO, max_tokens=60, temperature=0.0)
    whole = client.chat.completions.create(**arguments)
    total = collect(client.chat.completions.create(**arguments, stream=True))
    assert total["content"] == (whole.choices[0].message.content or "")
    assert total["reasoning"] == (whole.choices[0].message.reasoning or "")
    assert total["finish"] == whole.choices[0].finish_reason


def test_seed_repeats(server):
    client = server.client()
    arguments = dict(model=model_of(client), messages=HELLO, max_tokens=20, seed=7, temperature=1.0)
    first = client.chat.completions.create(**arguments).choices[0].message
    second = client.chat.completions.create(**arguments).choices[0].message
    assert first.reasoning == second.reasoning and first.content == second.content


@pytest.mark.parametrize("effort", ["low", "high", "max"])
def test_reasoning_effort(server, effort):
    client = server.client()
    model = model_of(client)
    by_field = client.chat.completions.create(
        model=model, messages=HELLO, max_tokens=60, temperature=0, extra_body={"reasoning_effort": effort}
    )
    by_kwargs = client.chat.completions.create(
        model=model,
        messages=HELLO,
        max_tokens=60,
        temperature=0,
        extra_body={"chat_template_kwargs": {"reasoning_effort": effort}},
    )
    assert by_field.choices[0].message.reasoning == by_kwargs.choices[0].message.reasoning
    assert by_field.usage.prompt_tokens == by_kwargs.usage.prompt_tokens
    if server.scripted:
        assert by_field.choices[0].message.reasoning.startswith(f"Effort {effort.capitalize()}:")


def test_tools(server):
    client = server.client()
    answer = client.chat.completions.create(
        model=model_of(client), messages=WEATHER, tools=TOOLS, tool_choice="auto", max_tokens=120
    )
    bare = client.chat.completions.create(model=model_of(client), messages=WEATHER, max_tokens=1)
    assert answer.usage.prompt_tokens > bare.usage.prompt_tokens + 50, "the tools are in the prompt"
    if not server.scripted:
        return
    choice = answer.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    call = choice.message.tool_calls[0]
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments) == {"city": "Köln", "days": 3}


def test_streamed_tools(server):
    client = server.client()
    total = collect(
        client.chat.completions.create(
            model=model_of(client), messages=WEATHER, tools=TOOLS, max_tokens=120, stream=True
        )
    )
    if server.scripted:
        assert total["finish"] == "tool_calls"
        assert total["calls"][0]["name"] == "get_weather" and total["calls"][0]["id"]
        assert json.loads(total["calls"][0]["arguments"]) == {"city": "Köln", "days": 3}


def test_tool_loop(server):
    """A call, its result, the answer: the message that came back is sent again as it is."""
    client = server.client()
    first = client.chat.completions.create(model=model_of(client), messages=WEATHER, tools=TOOLS, max_tokens=120)
    message = first.choices[0].message
    if not message.tool_calls:
        pytest.skip("random weights do not call tools")
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "sunny, 21 °C"}
    second = client.chat.completions.create(
        model=model_of(client), messages=[*WEATHER, message, result], tools=TOOLS, max_tokens=120
    )
    assert second.choices[0].message.content == "The tool said: sunny, 21 °C"


def test_completions(server):
    client = server.client()
    answer = client.completions.create(model=model_of(client), prompt="Once upon a time", max_tokens=5)
    assert answer.object == "text_completion"
    assert answer.usage.completion_tokens <= 5
    pieces = list(
        client.completions.create(model=model_of(client), prompt=["a b", "c d"], max_tokens=4, stream=True)
    )
    assert {choice.index for piece in pieces for choice in piece.choices} == {0, 1}


def test_errors(server):
    client = server.client()
    model = model_of(client)
    with pytest.raises(openai.NotFoundError) as unknown:
        client.chat.completions.create(model="no-such-model", messages=HELLO)
    assert "`no-such-model` does not exist" in str(unknown.value)
    with pytest.raises(openai.BadRequestError) as hot:
        client.chat.completions.create(model=model, messages=HELLO, temperature=3)
    assert hot.value.body["param"] == "temperature"
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model=model, messages=[])
    if server.scripted:  # it has no grammars; `glint serve` holds the answer to the tools instead
        with pytest.raises(openai.BadRequestError) as forced:
            client.chat.completions.create(model=model, messages=WEATHER, tools=TOOLS, tool_choice="required")
        assert forced.value.body["param"] == "tool_choice"
    with pytest.raises(openai.BadRequestError) as logprobs:
        client.chat.completions.create(model=model, messages=HELLO, logprobs=True, top_logprobs=21)
    assert logprobs.value.body["param"] == "logprobs"
    with pytest.raises(openai.BadRequestError) as bias:
        client.chat.completions.create(model=model, messages=HELLO, logit_bias={"-5": 1})
    assert bias.value.body["param"] == "logit_bias"
    limit = client.models.list().data[0].max_model_len
    with pytest.raises(openai.BadRequestError) as long:
        client.chat.completions.create(model=model, messages=HELLO, max_tokens=limit + 1)
    assert "maximum context length" in str(long.value)
    with pytest.raises(openai.APIStatusError):
        client.embeddings.create(model=model, input="x")


def test_many_at_once(server):
    client = server.client()
    model = model_of(client)
    results = []

    def ask(index):
        total = collect(
            client.chat.completions.create(
                model=model, messages=[{"role": "user", "content": f"number {index}"}], max_tokens=40, stream=True
            )
        )
        results.append((index, total))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 12
    if server.scripted:
        for index, total in results:
            assert f"number {index}".startswith(total["reasoning"].split("about ")[1][:6])


def test_a_client_that_leaves(server):
    client = server.client()
    model = model_of(client)
    stream = client.chat.completions.create(model=model, messages=HELLO, stream=True, max_tokens=60)
    next(iter(stream))
    stream.close()
    assert client.chat.completions.create(model=model, messages=HELLO, max_tokens=1).choices


def test_api_key(standin):
    server = start_real(standin, "--api-key", "secret")
    try:
        with pytest.raises(openai.AuthenticationError):
            server.client().models.list()
        key = openai.OpenAI(base_url=server.url + "/v1", api_key="secret", max_retries=0)
        assert key.models.list().data
    finally:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=30) == 0


def test_sigterm_lets_a_stream_end(standin):
    server = start_real(standin, "--shutdown-timeout", "30")
    client = server.client()
    stream = client.chat.completions.create(
        model=model_of(client), messages=HELLO, stream=True, max_tokens=64, extra_body={"ignore_eos": True}
    )
    iterator = iter(stream)
    next(iterator)
    server.process.send_signal(signal.SIGTERM)
    assert list(iterator)[-1].choices[0].finish_reason == "length"
    assert server.process.wait(timeout=30) == 0


def test_shutdown_timeout_ends_a_stream_with_an_error(standin):
    server = start_real(standin, "--shutdown-timeout", "0")
    client = server.client()
    stream = client.chat.completions.create(
        model=model_of(client), messages=HELLO, stream=True, max_tokens=8000, extra_body={"ignore_eos": True}
    )
    iterator = iter(stream)
    next(iterator)
    server.process.send_signal(signal.SIGTERM)
    with pytest.raises(openai.APIError) as ended:
        list(iterator)
    assert "shutting down" in str(ended.value)
    assert server.process.wait(timeout=30) == 0


def test_a_second_signal_ends_at_once(standin):
    server = start_real(standin, "--shutdown-timeout", "600")
    client = server.client()
    stream = client.chat.completions.create(
        model=model_of(client), messages=HELLO, stream=True, max_tokens=8000, extra_body={"ignore_eos": True}
    )
    iterator = iter(stream)
    next(iterator)
    server.process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert server.process.poll() is None
    server.process.send_signal(signal.SIGINT)
    assert wait_until(lambda: server.process.poll() is not None, 3.0)


def test_chat_logprobs(server):
    client = server.client()
    model = model_of(client)
    options = dict(model=model, messages=HELLO, max_tokens=12, temperature=0, logprobs=True, top_logprobs=3)
    answer = client.chat.completions.create(**options)
    content = answer.choices[0].logprobs.content
    assert len(content) == answer.usage.completion_tokens
    for token in content:
        assert token.logprob <= 0
        assert [other.logprob for other in token.top_logprobs] == sorted(
            (other.logprob for other in token.top_logprobs), reverse=True
        )
        assert len(token.top_logprobs) == 3
        assert token.top_logprobs[0].bytes == token.bytes, "greedy takes the most likely"
        if "\ufffd" not in token.token:
            assert bytes(token.bytes).decode() == token.token
    streamed = []
    for chunk in client.chat.completions.create(stream=True, **options):
        if chunk.choices and chunk.choices[0].logprobs:
            streamed += chunk.choices[0].logprobs.content
    assert streamed == content


def test_completion_logprobs_and_echo(server):
    client = server.client()
    options = dict(model=model_of(client), prompt="One two three", max_tokens=6, temperature=0, logprobs=2, echo=True)
    choice = client.completions.create(**options).choices[0]
    logprobs = choice.logprobs
    assert choice.text.startswith("One two three")
    assert logprobs.token_logprobs[0] is None and logprobs.top_logprobs[0] is None
    count = len(logprobs.tokens)
    assert count == len(logprobs.token_logprobs) == len(logprobs.top_logprobs) == len(logprobs.text_offset)
    for token, offset in zip(logprobs.tokens, logprobs.text_offset):
        if "\ufffd" not in token and not token.startswith("<|"):
            assert choice.text[offset : offset + len(token)] == token
    for token, value, top in list(zip(logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs))[1:]:
        assert top[token] >= value and len(top) <= 3
    texts = {"text": "", "tokens": []}
    for chunk in client.completions.create(stream=True, **options):
        texts["text"] += chunk.choices[0].text
        if chunk.choices[0].logprobs:
            texts["tokens"] += chunk.choices[0].logprobs.tokens
    assert texts == {"text": choice.text, "tokens": logprobs.tokens}


def test_sampling_fields(real):
    client = real.client()
    model = model_of(client)

    def ids_of(**options):
        extra = {"return_tokens_as_token_ids": True, "ignore_eos": True, **options.pop("extra_body", {})}
        answer = client.completions.create(
            model=model, prompt="Hello", max_tokens=16, logprobs=0, extra_body=extra, **options
        )
        return [int(name.split(":")[1]) for name in answer.choices[0].logprobs.tokens]

    plain = ids_of(temperature=0)
    assert ids_of(temperature=0) == plain and len(plain) == 16
    assert ids_of(temperature=1, extra_body={"top_k": 1}) == plain
    assert set(ids_of(temperature=2, seed=1, extra_body={"allowed_token_ids": [40, 41]})) <= {40, 41}
    assert ids_of(temperature=0, logit_bias={"77": 100}) == [77] * 16
    # Penalties and bad words keep it from repeating.
    assert len(set(ids_of(temperature=0, logit_bias={"77": 100, "78": 99.5}, presence_penalty=2))) == 2
    seeded = ids_of(temperature=1, seed=7)
    assert ids_of(temperature=1, seed=7) == seeded != ids_of(temperature=1, seed=8)
    # A choice of n is what its own seed gives alone.
    both = client.completions.create(
        model=model, prompt="word " * 100, max_tokens=8, temperature=1, seed=3, n=2, extra_body={"ignore_eos": True}
    )
    for copy in range(2):
        alone = client.completions.create(
            model=model, prompt="word " * 100, max_tokens=8, temperature=1, seed=3 + copy, extra_body={"ignore_eos": True}
        )
        assert alone.choices[0].text == both.choices[copy].text


def test_thinking_budget(real):
    client = real.client()
    for budget in (0, 5):
        answer = client.chat.completions.create(
            model=model_of(client),
            messages=HELLO,
            max_tokens=20,
            seed=1,
            logprobs=True,
            extra_body={"thinking_token_budget": budget, "ignore_eos": True},
        )
        tokens = [entry.token for entry in answer.choices[0].logprobs.content]
        ends = [i for i, token in enumerate(tokens) if token in ("</think>", "<tool_call>")]
        assert ends and ends[0] <= budget
        assert answer.usage.completion_tokens_details.reasoning_tokens <= budget
