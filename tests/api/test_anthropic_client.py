"""The official anthropic client against the small trained model: /v1/messages whole and streamed, tools, errors, counting."""

import anthropic
import pytest

from conftest import start_real

MODEL = "glm-5.3"
SUM = [{"role": "user", "content": "What is 345 + 278?"}]
CALCULATE = {
    "name": "calculate",
    "description": "Calculator",
    "input_schema": {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
}
TOOL_QUESTION = [{"role": "user", "content": "Use the calculator for 226 + 645."}]
# The client has no word for it any more; the API has.
GREEDY = {"temperature": 0}
COMMON = dict(model=MODEL, max_tokens=400, extra_body=GREEDY)


def kinds(message):
    return [block.type for block in message.content]


def test_plain(nano):
    message = nano.anthropic().messages.create(messages=SUM, **COMMON)
    assert message.type == "message" and message.role == "assistant" and message.model == MODEL
    assert message.id.startswith("msg_")
    assert kinds(message) == ["thinking", "text"]
    assert message.content[0].thinking and message.content[0].signature
    assert "623" in message.content[1].text
    assert message.stop_reason == "end_turn" and message.stop_sequence is None
    assert message.usage.input_tokens > 10
    assert 0 < message.usage.output_tokens_details.thinking_tokens < message.usage.output_tokens
    assert message._request_id


def test_stream_equals_whole(nano):
    client = nano.anthropic()
    whole = client.messages.create(messages=SUM, **COMMON)
    names, thinking, text = [], "", ""
    with client.messages.stream(messages=SUM, **COMMON) as stream:
        for event in stream:
            names.append(event.type)
            if event.type == "thinking":
                thinking += event.thinking
            if event.type == "text":
                text += event.text
        final = stream.get_final_message()
    assert names[0] == "message_start" and names[-1] == "message_stop"
    assert [thinking, text] == [whole.content[0].thinking, whole.content[1].text]
    assert kinds(final) == kinds(whole) and final.stop_reason == whole.stop_reason
    assert final.usage.output_tokens == whole.usage.output_tokens
    assert final.usage.input_tokens == whole.usage.input_tokens
    raw = list(client.messages.create(messages=SUM, stream=True, **COMMON))
    assert [event.type for event in raw][-2:] == ["message_delta", "message_stop"]


@pytest.mark.parametrize("streamed", [False, True])
def test_tool_round_trip(nano, streamed):
    client = nano.anthropic()

    def ask(messages):
        if not streamed:
            return client.messages.create(messages=messages, tools=[CALCULATE], **COMMON)
        with client.messages.stream(messages=messages, tools=[CALCULATE], **COMMON) as stream:
            return stream.get_final_message()

    first = ask(TOOL_QUESTION)
    assert first.stop_reason == "tool_use"
    call = first.content[-1]
    assert call.type == "tool_use" and call.name == "calculate" and call.id
    assert call.input == {"expression": "226 + 645"}
    result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "871"}]}
    # The answer goes back as it came, thinking and signature included.
    second = ask([*TOOL_QUESTION, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}])
    assert second.stop_reason == "end_turn"
    assert "871" in second.content[-1].text


def test_system_prompts_and_counting(nano):
    client = nano.anthropic()
    bare = client.messages.count_tokens(model=MODEL, messages=SUM).input_tokens
    system = client.messages.count_tokens(model=MODEL, messages=SUM, system="You add numbers.").input_tokens
    blocks = client.messages.count_tokens(
        model=MODEL,
        messages=SUM,
        system=[
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=00000;"},
            {"type": "text", "text": "You add ", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "numbers."},
        ],
    ).input_tokens
    tools = client.messages.count_tokens(model=MODEL, messages=SUM, tools=[CALCULATE]).input_tokens
    assert bare < system == blocks < tools
    assert client.messages.create(messages=SUM, **COMMON).usage.input_tokens == bare
    message = client.messages.create(messages=SUM, system="You add numbers.", **COMMON)
    assert message.usage.input_tokens == system and "623" in message.content[-1].text


def test_stop_sequences_and_length(nano):
    client = nano.anthropic()
    stopped = client.messages.create(messages=SUM, stop_sequences=["never", "2"], **COMMON)
    assert stopped.stop_reason == "stop_sequence" and stopped.stop_sequence == "2"
    short = client.messages.create(model=MODEL, messages=SUM, max_tokens=3)
    assert short.stop_reason == "max_tokens" and short.usage.output_tokens == 3


def test_thinking(nano):
    client = nano.anthropic()
    budget = client.messages.create(messages=SUM, thinking={"type": "enabled", "budget_tokens": 5}, **COMMON)
    assert budget.usage.output_tokens_details.thinking_tokens <= 5
    hidden = client.messages.create(messages=SUM, thinking={"type": "disabled"}, **COMMON)
    assert kinds(hidden) == ["text"] and "623" in hidden.content[0].text
    low = client.messages.create(messages=SUM, output_config={"effort": "low"}, **COMMON)
    most = client.messages.create(messages=SUM, **COMMON)
    assert low.usage.output_tokens_details.thinking_tokens < most.usage.output_tokens_details.thinking_tokens


def test_a_begun_answer_is_continued(nano):
    message = nano.anthropic().messages.create(messages=[*SUM, {"role": "assistant", "content": "345 + 278 ="}], **COMMON)
    assert kinds(message) == ["text"]


def test_errors(nano):
    client = nano.anthropic()
    with pytest.raises(anthropic.NotFoundError) as unknown:
        client.messages.create(model="claude-none", messages=SUM, max_tokens=5)
    assert unknown.value.body["error"]["type"] == "not_found_error"
    with pytest.raises(anthropic.BadRequestError) as hot:
        client.messages.create(model=MODEL, messages=SUM, max_tokens=5, extra_body={"temperature": 7})
    assert hot.value.body["type"] == "error" and hot.value.body["error"]["type"] == "invalid_request_error"
    with pytest.raises(anthropic.BadRequestError) as image:
        block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
        client.messages.create(model=MODEL, messages=[{"role": "user", "content": [block]}], max_tokens=5)
    assert "text only" in str(image.value)
    with pytest.raises(anthropic.BadRequestError) as long:
        client.messages.create(model=MODEL, messages=[{"role": "user", "content": "word " * 9000}], max_tokens=5)
    assert "prompt is too long" in str(long.value)
    with pytest.raises(anthropic.BadRequestError) as both:
        client.messages.create(model=MODEL, messages=SUM, max_tokens=8192)
    assert "exceed context limit" in str(both.value)


def test_keys_and_a_full_queue(standin):
    server = start_real(standin, "--api-key", "secret", "--max-num-seqs", "1", "--max-queued-requests", "1")
    try:
        with pytest.raises(anthropic.AuthenticationError) as denied:
            server.anthropic().messages.create(model="x", messages=SUM, max_tokens=1)
        assert denied.value.body["error"]["type"] == "authentication_error"
        client = server.anthropic(api_key="secret")
        model = client.models.list().data[0].id
        options = dict(model=model, messages=SUM, max_tokens=3000, stream=True, extra_body={"ignore_eos": True})
        streams = [client.messages.create(**options) for _ in range(2)]
        next(iter(streams[0]))  # it runs, the other waits
        with pytest.raises(anthropic.InternalServerError) as full:
            client.messages.create(model=model, messages=SUM, max_tokens=1)
        assert full.value.status_code == 529
        assert full.value.body["error"]["type"] == "overloaded_error"
        assert int(full.value.response.headers["retry-after"]) >= 1
        for stream in streams:
            stream.close()
    finally:
        server.process.kill()
        server.process.wait()
