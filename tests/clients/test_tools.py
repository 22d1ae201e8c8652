"""Tools and reasoning as a user of the openai package meets them; conftest.py has what the caller says."""
import json
import urllib.request

import openai
import pytest


def tool(name: str, **more) -> dict:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
    return {"type": "function", "function": {"name": name, "parameters": parameters, **more}}


def streamed(server, **question):
    """What a stream adds up to, by the package's own accumulator."""
    with server.client.chat.completions.stream(model="m", **question) as stream:
        for _event in stream:
            pass
        return stream.get_final_completion().choices[0]


def whole(server, **question):
    return server.client.chat.completions.create(model="m", **question).choices[0]


@pytest.mark.parametrize("ask", [whole, streamed])
def test_a_tool_loop_ends_with_an_answer(caller, ask):
    weather = {"get_weather": lambda city, days: f"rain in {city} for {days + 1} days"}
    messages = [{"role": "user", "content": "Oslo"}]
    for turn in range(4):
        choice = ask(caller, messages=messages, tools=[tool("get_weather")])
        if choice.finish_reason != "tool_calls":
            break
        messages.append(choice.message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
        for call in choice.message.tool_calls:
            said = weather[call.function.name](**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": said})
    assert turn == 1
    assert (choice.finish_reason, choice.message.content) == ("stop", "It is rain in Oslo for 4 days.")


def test_a_stream_adds_up_to_the_whole_answer(caller):
    question = {"messages": [{"role": "user", "content": "Bergen"}], "tools": [tool("a"), tool("b")]}
    answers = [ask(caller, **question) for ask in (whole, streamed)]
    for choice in answers:
        assert choice.finish_reason == "tool_calls"
        assert choice.message.content == "One moment."
        assert choice.message.reasoning_content == "Which tool? All."
        calls = [(call.function.name, json.loads(call.function.arguments)) for call in choice.message.tool_calls]
        assert calls == [("a", {"city": "Bergen", "days": 3}), ("b", {"city": "Bergen", "days": 3})]
        assert len({call.id for call in choice.message.tool_calls}) == 2


def test_what_a_request_says_about_tools_and_thoughts_is_done(caller):
    question = {"messages": [{"role": "user", "content": "Bergen"}], "tools": [tool("a"), tool("b")]}
    assert whole(caller, **question, tool_choice="none").message.content == "Bergen"
    one = whole(caller, **question, parallel_tool_calls=False)
    assert [call.function.name for call in one.message.tool_calls] == ["a"]
    quiet = whole(caller, **question, extra_body={"chat_template_kwargs": {"enable_thinking": False}})
    assert quiet.message.reasoning_content == "Which tool? None."
    raw = whole(caller, **question, extra_body={"separate_reasoning": False})
    assert raw.message.content.startswith("<think>Which tool?")


@pytest.mark.parametrize("bad, field", [
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tool_choice": {"type": "function", "function": {"name": "a"}}}, "tool_choice"),
    ({"tools": [tool("a", strict=True)]}, "tools[0].function.strict"),
    ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
])
def test_what_cannot_be_forced_is_refused_by_name(caller, bad, field):
    question = {"messages": [{"role": "user", "content": "x"}], "tools": [tool("a")]} | bad
    with pytest.raises(openai.BadRequestError) as error:
        whole(caller, **question)
    assert error.value.param == field


def test_sglangs_endpoints_read_finished_texts(caller):
    def post(path: str, body: dict) -> dict:
        request = urllib.request.Request(caller.url + path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request, timeout=10))

    calls = post("/parse_function_call", {"text": "Hm [a(city='Oslo')]", "tool_call_parser": "pythonic",
                                          "tools": [tool("a")]})
    assert calls == {"normal_text": "Hm", "calls": [{"tool_index": 0, "name": "a", "parameters": '{"city":"Oslo"}'}]}
    parts = post("/separate_reasoning", {"text": "Hm</think>Yes", "reasoning_parser": "deepseek-r1"})
    assert parts == {"reasoning_text": "Hm", "text": "Yes"}


def test_the_real_model_calls_a_tool_streamed_as_whole(real):
    call = '<tool_call>{"name": "get_weather", "arguments": {"city": "%s"}}</tool_call>'
    messages = [{"role": "system", "content": "You call tools. To call one, write " + call % "NAME" + ", nothing else."},
                {"role": "user", "content": "Weather in Paris?"}, {"role": "assistant", "content": call % "Paris"},
                {"role": "user", "content": "Weather in Rome?"}]
    question = {"messages": messages, "tools": [tool("get_weather")], "temperature": 0, "max_tokens": 80}
    for choice in (whole(real, **question), streamed(real, **question)):
        assert choice.finish_reason == "tool_calls"
        calls = [(call.function.name, json.loads(call.function.arguments)) for call in choice.message.tool_calls]
        assert calls == [("get_weather", {"city": "Rome"})]
