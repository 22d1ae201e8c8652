"""What a user of the openai package does. The echo engine says the prompt back, so its answers are exact."""
import concurrent.futures
import json
import time
import urllib.request

import openai
import pytest


def ask(text: str) -> list[dict]:
    return [{"role": "user", "content": text}]


def get(server, path: str) -> dict:
    return json.load(urllib.request.urlopen(server.url + path, timeout=10))


def test_models_lists_the_served_one(echo):
    assert [model.id for model in echo.client.models.list()] == ["tested"]
    assert echo.client.models.retrieve("tested").id == "tested"
    with pytest.raises(openai.NotFoundError) as error:
        echo.client.models.retrieve("other")
    assert error.value.code == "model_not_found"


def test_a_chat_answers_under_the_served_name(echo):
    reply = echo.client.chat.completions.create(model="whatever", messages=ask("Hello"))
    assert reply.model == "tested"
    assert reply.choices[0].message.content == "Hello"
    assert reply.choices[0].finish_reason == "stop"
    assert reply.usage.prompt_tokens == 5
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens


def test_a_stream_says_the_same_and_reports_usage_once(echo):
    chunks = list(echo.client.chat.completions.create(
        model="m", messages=ask("čau 👋"), stream=True, stream_options={"include_usage": True}))
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == "čau 👋"
    assert [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason] == ["stop"]
    assert [bool(c.usage) for c in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1].choices == []


def test_stop_strings_end_the_text_before_them(echo):
    reply = echo.client.chat.completions.create(model="m", messages=ask("one END two"), stop=["END"])
    assert reply.choices[0].message.content == "one "
    assert reply.choices[0].finish_reason == "stop"


def test_max_tokens_ends_with_length(echo):
    reply = echo.client.chat.completions.create(model="m", messages=ask("abcdef"), max_tokens=3)
    assert (reply.choices[0].message.content, reply.choices[0].finish_reason) == ("abc", "length")
    assert reply.usage.completion_tokens == 3


def test_n_choices_come_back_streamed_and_not(echo):
    reply = echo.client.chat.completions.create(model="m", messages=ask("ab"), n=3)
    assert [(c.index, c.message.content) for c in reply.choices] == [(0, "ab"), (1, "ab"), (2, "ab")]
    texts = ["", "", ""]
    for chunk in echo.client.chat.completions.create(model="m", messages=ask("ab"), n=3, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == ["ab", "ab", "ab"]


def test_logprobs_have_one_entry_a_token(echo):
    reply = echo.client.chat.completions.create(model="m", messages=ask("ab"), logprobs=True, top_logprobs=2)
    content = reply.choices[0].logprobs.content
    assert [entry.token for entry in content] == ["a", "b"]
    assert all(len(entry.top_logprobs) == 2 for entry in content)
    assert all(entry.logprob <= 0 for entry in content)


def test_completions(echo):
    reply = echo.client.completions.create(model="m", prompt=["ab", "cd"], logprobs=1)
    assert [choice.text for choice in reply.choices] == ["ab", "cd"]
    logprobs = reply.choices[0].logprobs
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.top_logprobs) \
        == len(logprobs.text_offset) == 3, "the end has an entry, as it has in the usage"
    pieces = [chunk.choices[0].text for chunk in echo.client.completions.create(model="m", prompt="xyz", stream=True)]
    assert "".join(pieces) == "xyz"


def test_an_echo_scores_the_prompt_whole_and_streamed(echo):
    asked = {"model": "m", "prompt": "añb", "max_tokens": 2, "echo": True, "logprobs": 1}
    whole = echo.client.completions.create(**asked).choices[0]
    assert whole.text == "añba\ufffd"
    assert whole.logprobs.token_logprobs[0] is None and whole.logprobs.top_logprobs[0] is None
    assert all(value < 0 for value in whole.logprobs.token_logprobs[1:])
    assert whole.logprobs.text_offset == [0, 1, 2, 2, 3, 4]
    chunks = [chunk.choices[0] for chunk in echo.client.completions.create(**asked, stream=True)]
    assert "".join(chunk.text for chunk in chunks) == whole.text
    for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        pieces = [getattr(chunk.logprobs, name) for chunk in chunks if chunk.logprobs]
        assert sum(pieces, []) == getattr(whole.logprobs, name), name


def test_a_prompt_can_be_scored_alone(echo):
    asked = {"model": "m", "prompt": [[97, 98, 99], [100, 101]], "max_tokens": 0, "echo": True, "logprobs": 0}
    reply = echo.client.completions.create(**asked)
    assert [len(choice.logprobs.tokens) for choice in reply.choices] == [3, 2]
    assert [choice.text for choice in reply.choices] == ["abc", "de"]
    assert reply.usage.completion_tokens == 0


@pytest.mark.parametrize("bad, field", [
    ({"max_tokens": 0}, "max_tokens"),
    ({"n": 100}, "n"),
    ({"temperature": -1}, "temperature"),
    ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
    ({"extra_body": {"nonsense": 1}}, "nonsense"),
    ({"max_tokens": 1_000_000}, "max_tokens"),
])
def test_a_bad_field_is_a_bad_request_that_names_it(echo, bad, field):
    with pytest.raises(openai.BadRequestError) as error:
        echo.client.chat.completions.create(model="m", messages=ask("x"), **bad)
    assert error.value.param == field


def test_harmless_hints_are_accepted(echo):
    reply = echo.client.chat.completions.create(model="m", messages=ask("x"), user="me", metadata={"a": "b"},
                                                store=False, service_tier="auto", seed=0)
    assert reply.choices[0].message.content == "x"


def test_the_real_model_knows_the_capital_of_france(real):
    reply = real.client.chat.completions.create(
        model="m", messages=ask("What is the capital of France?"), temperature=0, max_tokens=32)
    assert "Paris" in reply.choices[0].message.content


def test_the_real_model_streams_what_it_answers(real):
    question = {"model": "m", "messages": ask("Name three colours."), "temperature": 0, "max_tokens": 40}
    whole = real.client.chat.completions.create(**question)
    pieces = [c.choices[0].delta.content or "" for c in real.client.chat.completions.create(**question, stream=True)]
    assert "".join(pieces) == whole.choices[0].message.content
    assert len([piece for piece in pieces if piece]) > 5


def test_a_seed_repeats_alone_and_among_others(real):
    question = {"model": "m", "messages": ask("Tell me a story."), "temperature": 1.0, "seed": 7, "max_tokens": 24}
    alone = real.client.chat.completions.create(**question).choices[0].message.content
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        others = [pool.submit(real.client.chat.completions.create,
                              **(question | {"seed": seed})) for seed in (7, 1, 2, 3)]
        assert others[0].result().choices[0].message.content == alone


def test_the_chosen_tokens_logprob_is_the_best_when_greedy(real):
    reply = real.client.chat.completions.create(model="m", messages=ask("Hi"), temperature=0, max_tokens=8,
                                                logprobs=True, top_logprobs=5)
    content = reply.choices[0].logprobs.content
    assert "".join(entry.token for entry in content) == reply.choices[0].message.content
    for entry in content:
        assert entry.logprob == pytest.approx(entry.top_logprobs[0].logprob, abs=1e-5)
        assert [t.logprob for t in entry.top_logprobs] == sorted((t.logprob for t in entry.top_logprobs), reverse=True)


def test_a_scored_text_has_the_log_probabilities_of_when_it_was_said(real):
    said = real.client.completions.create(model="m", prompt="The sea is", temperature=0, max_tokens=12, logprobs=1)
    text, logprobs = said.choices[0].text, said.choices[0].logprobs
    scored = real.client.completions.create(model="m", prompt="The sea is" + text, temperature=0, max_tokens=0,
                                            echo=True, logprobs=1).choices[0].logprobs
    if scored.tokens[-12:] == logprobs.tokens:  # else the text is cut into other tokens than it was said in
        assert scored.token_logprobs[-12:] == logprobs.token_logprobs
    for value, best in zip(scored.token_logprobs[1:], scored.top_logprobs[1:]):
        assert value <= max(best.values())


def test_leaving_a_stream_ends_its_work(real):
    stream = real.client.chat.completions.create(model="m", messages=ask("Count to a thousand."), max_tokens=2000,
                                                 stream=True, extra_body={"ignore_eos": True})
    for _, _chunk in zip(range(5), stream):
        pass
    stream.close()
    deadline = time.monotonic() + 5
    while get(real, "/health")["running"] > 0:
        assert time.monotonic() < deadline, "the request still runs five seconds after its client left"
        time.sleep(0.05)
