"""The official openai client's Responses API against the small trained model."""

import json
import time

import openai
import pytest

MODEL = "glm-5.3"
SUM = "What is 345 + 278?"
CALCULATE = {
    "type": "function",
    "name": "calculate",
    "description": "Calculator",
    "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
    "strict": False,
}
COMMON = dict(model=MODEL, temperature=0, max_output_tokens=400)


def test_plain(nano):
    response = nano.client().responses.create(input=SUM, **COMMON)
    assert response.object == "response" and response.status == "completed"
    assert [item.type for item in response.output] == ["reasoning", "message"]
    assert response.output[0].content[0].text
    assert "623" in response.output_text
    usage = response.usage
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    assert 0 < usage.output_tokens_details.reasoning_tokens < usage.output_tokens


def test_stream_equals_whole(nano):
    client = nano.client()
    whole = client.responses.create(input=SUM, **COMMON)
    with client.responses.stream(input=SUM, **COMMON) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert [event.sequence_number for event in events if event.type.startswith("response.")]
    assert events[0].type == "response.created" and events[-1].type == "response.completed"
    assert final.output_text == whole.output_text
    assert final.output[0].content[0].text == whole.output[0].content[0].text
    assert final.usage.output_tokens == whole.usage.output_tokens
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == whole.output_text


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("stored", [False, True])
def test_tool_round_trip(nano, streamed, stored):
    client = nano.client()

    def ask(**options):
        if not streamed:
            return client.responses.create(tools=[CALCULATE], **COMMON, **options)
        with client.responses.stream(tools=[CALCULATE], **COMMON, **options) as stream:
            return stream.get_final_response()

    question = {"role": "user", "content": "Use the calculator for 226 + 645."}
    first = ask(input=[question], store=stored)
    call = first.output[-1]
    assert call.type == "function_call" and call.name == "calculate"
    assert json.loads(call.arguments) == {"expression": "226 + 645"}
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "871"}
    if stored:
        second = ask(input=[result], previous_response_id=first.id)
    else:
        second = ask(input=[question, *[item.model_dump(exclude_none=True) for item in first.output], result], store=False)
    assert "871" in second.output_text


def test_instructions_and_effort(nano):
    client = nano.client()
    bare = client.responses.create(input=SUM, **COMMON)
    told = client.responses.create(input=SUM, instructions="You add numbers.", **COMMON)
    assert told.usage.input_tokens > bare.usage.input_tokens and "623" in told.output_text
    low = client.responses.create(input=SUM, reasoning={"effort": "low"}, **COMMON)
    tokens = [r.usage.output_tokens_details.reasoning_tokens for r in (low, bare)]
    assert tokens[0] < tokens[1]


def test_stop_and_length(nano):
    client = nano.client()
    short = client.responses.create(model=MODEL, input=SUM, max_output_tokens=3)
    assert short.status == "incomplete" and short.incomplete_details.reason == "max_output_tokens"
    stopped = client.responses.create(input=SUM, extra_body={"stop": ["623"]}, **COMMON)
    assert "623" not in stopped.output_text and stopped.status == "completed"


def test_store(nano):
    client = nano.client()
    response = client.responses.create(input=SUM, metadata={"who": "test"}, **COMMON)
    again = client.responses.retrieve(response.id)
    assert again == response
    client.responses.delete(response.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)


def test_background(nano):
    client = nano.client()
    response = client.responses.create(input=SUM, background=True, **COMMON)
    assert response.status == "queued"
    end = time.monotonic() + 20
    while client.responses.retrieve(response.id).status != "completed" and time.monotonic() < end:
        time.sleep(0.02)
    assert "623" in client.responses.retrieve(response.id).output_text
    endless = client.responses.create(
        model=MODEL, input=SUM, background=True, max_output_tokens=3000, extra_body={"ignore_eos": True}
    )
    assert client.responses.cancel(endless.id).status == "cancelled"
    assert client.responses.retrieve(endless.id).status == "cancelled"


def test_errors(nano):
    client = nano.client()
    for options in (
        {"tools": [{"type": "web_search"}]},
        {"temperature": 3},
        {"previous_response_id": "resp_none"},
        {"model": "none"},
    ):
        with pytest.raises((openai.BadRequestError, openai.NotFoundError)) as refused:
            client.responses.create(**{"model": MODEL, "input": SUM, **options})
        assert refused.value.body["message"] and refused.value.body["param"]
