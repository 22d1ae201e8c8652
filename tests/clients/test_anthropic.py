"""What a user of the anthropic package does; conftest.py has what the caller says."""
import json
import urllib.request

import anthropic
import pytest

from conftest import Server

WEATHER = {"name": "get_weather", "description": "The weather in a city",
           "input_schema": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}


def ask(text: str) -> list[dict]:
    return [{"role": "user", "content": text}]


def whole(server, **question) -> anthropic.types.Message:
    return server.anthropic.messages.create(**{"model": "m", "max_tokens": 256} | question)


def streamed(server, **question) -> anthropic.types.Message:
    """What a stream adds up to, by the package's own accumulator."""
    with server.anthropic.messages.stream(**{"model": "m", "max_tokens": 256} | question) as stream:
        text = "".join(stream.text_stream)
        message = stream.get_final_message()
    assert text == "".join(block.text for block in message.content if block.type == "text")
    return message


def parts(message: anthropic.types.Message) -> list:
    """Without ids, which are drawn."""
    blocks = [block.model_dump(exclude_none=True, exclude={"id", "parsed_output"}) for block in message.content]
    return [blocks, message.stop_reason, message.stop_sequence, message.usage.output_tokens]


def test_a_message(echo):
    message = whole(echo, messages=ask("Hello"))
    assert (message.role, message.model, message.type) == ("assistant", "tested", "message")
    assert [block.text for block in message.content] == ["Hello"]
    assert (message.stop_reason, message.stop_sequence) == ("end_turn", None)
    assert (message.usage.input_tokens, message.usage.output_tokens) == (5, 6)
    assert message._request_id


def test_a_stream_says_the_same_and_its_start_knows_the_prompts_tokens(echo):
    assert parts(streamed(echo, messages=ask("čau 👋"))) == parts(whole(echo, messages=ask("čau 👋")))
    events = list(echo.anthropic.messages.create(model="m", max_tokens=9, messages=ask("abc"), stream=True))
    assert [event.type for event in events] == ["message_start", "content_block_start"] + \
        ["content_block_delta"] * 3 + ["content_block_stop", "message_delta", "message_stop"]
    assert events[0].message.usage.input_tokens == 3
    assert events[-2].usage.output_tokens == 4


def test_stop_sequences_and_max_tokens(echo):
    message = whole(echo, messages=ask("one END two"), stop_sequences=["X", "END"])
    assert (message.content[0].text, message.stop_reason, message.stop_sequence) == ("one ", "stop_sequence", "END")
    assert parts(streamed(echo, messages=ask("one END two"), stop_sequences=["X", "END"])) == parts(message)
    cut = whole(echo, messages=ask("abcdef"), max_tokens=3)
    assert (cut.content[0].text, cut.stop_reason, cut.usage.output_tokens) == ("abc", "max_tokens", 3)


def test_system_blocks_and_prefill(echo):
    system = [{"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "T"}]
    assert whole(echo, system=system, messages=ask("u")).content[0].text == "S\nTu"
    assert whole(echo, messages=[*ask("u"), {"role": "assistant", "content": "a"}]).content[0].text == "ua"


@pytest.mark.parametrize("send", [whole, streamed])
def test_a_tool_loop_ends_with_an_answer(caller, send):
    messages = ask("Oslo")
    for turn in range(4):
        message = send(caller, messages=messages, tools=[WEATHER], thinking={"type": "adaptive"})
        if message.stop_reason != "tool_use":
            break
        assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
        assert message.content[0].signature
        messages.append({"role": "assistant", "content": message.content})
        call = message.content[-1]
        messages.append({"role": "user", "content": [{
            "type": "tool_result", "tool_use_id": call.id, "content": f"rain in {call.input['city']} for "
            f"{call.input['days'] + 1} days"}]})
    assert turn == 1
    assert (message.stop_reason, message.content[0].text) == ("end_turn", "It is rain in Oslo for 4 days.")


def test_a_stream_of_calls_adds_up_to_the_whole_answer(caller):
    question = {"messages": ask("Bergen"), "tools": [WEATHER | {"name": "a"}, WEATHER | {"name": "b"}]}
    message = whole(caller, **question)
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert [block.input for block in message.content[2:]] == [{"city": "Bergen", "days": 3}] * 2
    assert parts(streamed(caller, **question)) == parts(message)
    one = whole(caller, **question, tool_choice={"type": "auto", "disable_parallel_tool_use": True})
    assert [block.name for block in one.content if block.type == "tool_use"] == ["a"]
    none = whole(caller, **question, tool_choice={"type": "none"})
    assert [block.text for block in none.content] == ["Bergen"]


def test_tokens_are_counted_as_the_answer_counts_them(caller):
    question = {"messages": ask("Oslo"), "tools": [WEATHER], "system": "Be brief."}
    counted = caller.anthropic.messages.count_tokens(model="m", **question)
    usage = whole(caller, **question).usage
    assert counted.input_tokens == usage.input_tokens + usage.cache_read_input_tokens


@pytest.mark.parametrize("bad, says", [
    ({"max_tokens": -1}, "max_tokens"),
    ({"temperature": -1}, "temperature"),
    ({"extra_body": {"nonsense": 1}}, "nonsense"),
    ({"tool_choice": {"type": "any"}, "tools": [WEATHER]}, "tool_choice.type"),
    ({"messages": [{"role": "user", "content": [{"type": "image", "source": {
        "type": "base64", "media_type": "image/png", "data": "AA=="}}]}]}, "messages[0].content[0].type"),
    ({"extra_headers": {"anthropic-version": "2000-01-01"}}, "anthropic-version"),
])
def test_a_bad_field_is_an_error_that_names_it(caller, bad, says):
    with pytest.raises(anthropic.BadRequestError) as error:
        whole(caller, **{"messages": ask("x")} | bad)
    assert error.value.body["error"]["type"] == "invalid_request_error"
    assert error.value.body["error"]["message"].startswith(f"'{says}'") or f"'{says}'" in error.value.body["error"]["message"]
    assert error.value.request_id == error.value.body["request_id"]


def test_a_tool_for_a_model_without_calls_is_refused(echo):
    with pytest.raises(anthropic.BadRequestError, match="tools"):
        whole(echo, messages=ask("x"), tools=[WEATHER])


def test_the_key_and_the_models_name(tmp_path):
    server = Server("echo", "--api-key", "secret", "--strict-model-name")
    try:
        for key, error in (("wrong", anthropic.AuthenticationError), ("secret", anthropic.NotFoundError)):
            client = anthropic.Anthropic(base_url=server.url, api_key=key, max_retries=0)
            with pytest.raises(error):
                client.messages.create(model="other", max_tokens=5, messages=ask("x"))
        bearer = anthropic.Anthropic(base_url=server.url, auth_token="secret", max_retries=0)
        assert bearer.messages.create(model="tested", max_tokens=5, messages=ask("x")).content[0].text == "x"
    finally:
        assert server.stop() == 0


def test_the_real_model_knows_the_capital_of_france_streamed_as_whole(real):
    question = {"messages": ask("What is the capital of France?"), "temperature": 0, "max_tokens": 32}
    message = whole(real, **question)
    assert "Paris" in message.content[0].text
    assert parts(streamed(real, **question)) == parts(message)


def test_usage_tells_what_the_cache_saved(real):
    question = {"messages": ask("The quick brown fox jumps over the lazy dog. " * 8), "max_tokens": 4}
    first, second = whole(real, **question).usage, whole(real, **question).usage
    assert second.cache_read_input_tokens > 0
    assert second.input_tokens + second.cache_read_input_tokens == first.input_tokens + first.cache_read_input_tokens
    with real.anthropic.messages.stream(model="m", **question) as stream:
        start = next(event for event in stream if event.type == "message_start")
    assert start.message.usage.cache_read_input_tokens == second.cache_read_input_tokens


def test_the_real_model_calls_a_tool_streamed_as_whole(real):
    call = '<tool_call>{"name": "get_weather", "arguments": {"city": "%s"}}</tool_call>'
    question = {"system": "You call tools. To call one, write " + call % "NAME" + ", nothing else.",
                "messages": [*ask("Weather in Paris?"), {"role": "assistant", "content": call % "Paris"},
                             *ask("Weather in Rome?")],
                "tools": [WEATHER], "temperature": 0, "max_tokens": 80}
    message = whole(real, **question)
    assert message.stop_reason == "tool_use"
    assert [block.input for block in message.content if block.type == "tool_use"] == [{"city": "Rome"}]
    assert parts(streamed(real, **question)) == parts(message)


def test_leaving_a_stream_ends_its_work(real):
    with real.anthropic.messages.stream(model="m", max_tokens=2000, messages=ask("Count to a thousand.")) as stream:
        for _, _text in zip(range(3), stream.text_stream):
            pass
    real.wait_until(lambda: json.load(urllib.request.urlopen(real.url + "/health", timeout=10))["running"] == 0, 5)
