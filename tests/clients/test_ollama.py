"""What a user of the ollama package does; conftest.py has what the caller says."""
import json
import urllib.request

import ollama
import pytest

from conftest import Server


def ask(text: str) -> list[dict]:
    return [{"role": "user", "content": text}]


def get_weather(city: str, days: int) -> str:
    """The weather in a city.

    Args:
        city: its name
        days: how many

    Returns:
        str: the weather
    """
    return f"rain in {city} for {days + 1} days"


def whole(server, **question) -> ollama.ChatResponse:
    return server.ollama.chat(**{"model": "m"} | question)


def streamed(server, **question) -> ollama.ChatResponse:
    """The last line with what all of them said."""
    content, thinking, calls = "", "", []
    for line in server.ollama.chat(**{"model": "m", "stream": True} | question):
        content += line.message.content or ""
        thinking += line.message.thinking or ""
        calls += line.message.tool_calls or []
    line.message.content, line.message.thinking, line.message.tool_calls = content, thinking or None, calls or None
    return line


def parts(reply: ollama.ChatResponse) -> dict:
    """Without times."""
    return reply.model_dump(include={"message", "done", "done_reason", "prompt_eval_count", "eval_count", "model"})


def test_a_chat_streamed_as_whole(echo):
    reply = whole(echo, messages=ask("čau 👋"))
    assert (reply.message.role, reply.message.content) == ("assistant", "čau 👋")
    assert (reply.model, reply.done, reply.done_reason) == ("tested", True, "stop")
    assert (reply.prompt_eval_count, reply.eval_count) == (9, 10)
    assert parts(streamed(echo, messages=ask("čau 👋"))) == parts(reply)


def test_what_is_measured_adds_up(real):
    reply = whole(real, messages=ask("Tell me a story."), options={"num_predict": 24, "temperature": 0})
    assert reply.eval_count == 24 and reply.done_reason == "length"
    assert reply.eval_duration > 0 and reply.prompt_eval_duration > 0
    assert reply.prompt_eval_duration + reply.eval_duration <= reply.total_duration
    assert reply.load_duration == 0


@pytest.mark.parametrize("send", [whole, streamed])
def test_a_tool_loop_ends_with_an_answer(caller, send):
    messages = ask("Oslo")
    for turn in range(4):
        reply = send(caller, messages=messages, tools=[get_weather])
        if not reply.message.tool_calls:
            break
        assert (reply.message.thinking, reply.message.content) == ("Which tool? All.", "One moment.")
        messages.append(reply.message)
        for call in reply.message.tool_calls:
            messages.append({"role": "tool", "tool_name": call.function.name,
                             "content": get_weather(**call.function.arguments)})
    assert turn == 1
    assert reply.message.content == "It is rain in Oslo for 4 days."


def test_thinking_is_switched_off_by_the_template(caller):
    reply = whole(caller, messages=ask("Oslo"), tools=[get_weather], think=False)
    assert reply.message.thinking == "Which tool? None."


def test_a_generation_and_its_context(echo):
    first = echo.ollama.generate(model="m", prompt="one", system="s")
    assert (first.response, first.done_reason) == ("sone", "stop")
    lines = list(echo.ollama.generate(model="m", prompt="one", system="s", stream=True))
    assert "".join(line.response for line in lines) == "sone"
    assert lines[-1].context == first.context
    assert echo.ollama.generate(model="m", prompt="two", context=first.context).response.startswith("sonesone")
    assert echo.ollama.generate(model="m", prompt="as it is", raw=True).response == "as it is"


def test_options_are_used(echo):
    reply = whole(echo, messages=ask("one END two"), options={"stop": ["END"], "seed": 1, "num_ctx": 2048})
    assert reply.message.content == "one "
    assert whole(echo, messages=ask("abcdef"), options={"num_predict": 3}).message.content == "abc"


def test_the_model_is_listed_shown_and_running(echo):
    assert [model.model for model in echo.ollama.list().models] == ["tested"]
    assert [model.model for model in echo.ollama.ps().models] == ["tested"]
    shown = echo.ollama.show("tested")
    assert shown.capabilities == ["completion"]
    assert shown.modelinfo["general.architecture"] == "echo"
    assert shown.modelinfo["echo.context_length"] > 0
    assert json.load(urllib.request.urlopen(echo.url + "/api/version", timeout=10))["version"]


def test_an_empty_question_finds_the_model_loaded(echo):
    assert echo.ollama.generate(model="m", prompt="", keep_alive="5m").done_reason == "load"


@pytest.mark.parametrize("bad, says", [
    ({"options": {"temperature": -1}}, "options.temperature"),
    ({"format": "json"}, "format"),
    ({"format": {"type": "object"}}, "format"),
    ({"think": True}, "think"),
    ({"tools": [get_weather]}, "tools"),
    ({"messages": [{"role": "user", "content": "x", "images": [b"\x89PNG"]}]}, "messages[0].images"),
])
@pytest.mark.parametrize("stream", [False, True])
def test_a_bad_field_is_an_error_that_names_it(echo, bad, says, stream):
    with pytest.raises(ollama.ResponseError) as error:
        list(echo.ollama.chat(**{"model": "m", "messages": ask("x"), "stream": stream} | bad))
    assert error.value.status_code == 400
    assert f"'{says}'" in error.value.error


def test_another_model_is_not_found():
    server = Server("echo", "--strict-model-name")
    try:
        with pytest.raises(ollama.ResponseError) as error:
            server.ollama.chat(model="llama3", messages=ask("x"))
        assert error.value.status_code == 404
        assert server.ollama.chat(model="tested:latest", messages=ask("x")).message.content == "x"
    finally:
        assert server.stop() == 0


def test_the_real_model_knows_the_capital_of_france_streamed_as_whole(real):
    question = {"messages": ask("What is the capital of France?"), "options": {"temperature": 0, "num_predict": 32}}
    reply = whole(real, **question)
    assert "Paris" in reply.message.content
    assert parts(streamed(real, **question)) == parts(reply)


def test_the_real_model_goes_on_with_a_conversation(real):
    options = {"temperature": 0, "num_predict": 24}
    first = real.ollama.generate(model="m", prompt="My name is Ada. Say hello.", options=options)
    second = real.ollama.generate(model="m", prompt="What is my name?", context=first.context, options=options)
    assert second.prompt_eval_count > len(first.context)
    assert second.context[:len(first.context)] == first.context
    body = json.dumps({"tokens": second.context}).encode()
    asked = urllib.request.Request(real.url + "/v1/detokenize", body, {"Content-Type": "application/json"})
    said = json.loads(urllib.request.urlopen(asked, timeout=10).read())["text"]
    assert "My name is Ada." in said and first.response in said and said.endswith(second.response)


def test_the_real_model_calls_a_tool_streamed_as_whole(real):
    call = '<tool_call>{"name": "get_weather", "arguments": {"city": "%s"}}</tool_call>'
    question = {"messages": [
        {"role": "system", "content": "You call tools. To call one, write " + call % "NAME" + ", nothing else."},
        *ask("Weather in Paris?"), {"role": "assistant", "content": call % "Paris"}, *ask("Weather in Rome?")],
        "tools": [get_weather], "options": {"temperature": 0, "num_predict": 80}}
    for reply in (whole(real, **question), streamed(real, **question)):
        assert [call.function.arguments for call in reply.message.tool_calls] == [{"city": "Rome"}]


def test_leaving_a_stream_ends_its_work(real):
    stream = real.ollama.chat(model="m", messages=ask("Count to a thousand."), stream=True)
    for _, _line in zip(range(3), stream):
        pass
    stream.close()
    real.wait_until(lambda: json.load(urllib.request.urlopen(real.url + "/health", timeout=10))["running"] == 0, 5)
