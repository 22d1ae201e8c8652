"""What Claude Code sends, as far as a server sees it: claude_code.json is made up in the form of its requests."""
import json
import pathlib
import urllib.request

import pytest

RECORDED = json.loads((pathlib.Path(__file__).parent / "claude_code.json").read_text())


def send(server, request: dict, **changes) -> list[dict]:
    """The events of a stream, or the one reply."""
    body = json.dumps(request["body"] | changes).encode()
    headers = RECORDED["headers"] | {"content-type": "application/json", "x-api-key": "none"}
    asked = urllib.request.Request(server.url + request["path"], body, headers)
    with urllib.request.urlopen(asked, timeout=120) as reply:
        assert reply.headers["request-id"]
        text = reply.read().decode()
    if not reply.headers["Content-Type"].startswith("text/event-stream"):
        return [json.loads(text)]
    return [json.loads(frame.split("\ndata: ")[1]) for frame in text.split("\n\n") if frame]


def check(events: list[dict], streamed: bool):
    kinds = [event.get("type") for event in events]
    if streamed:
        assert (kinds[0], kinds[-2:]) == ("message_start", ["message_delta", "message_stop"])
        assert events[-2]["delta"]["stop_reason"] in ("end_turn", "tool_use", "max_tokens",
                                                      "model_context_window_exceeded")
    else:
        assert kinds == ["message"] or "input_tokens" in events[0]


@pytest.mark.parametrize("request_", RECORDED["requests"], ids=lambda request: request["what"])
def test_every_request_is_answered(caller, request_):
    check(send(caller, request_), request_["body"].get("stream", False))


def test_the_first_turn_calls_its_tools(caller):
    turn = next(request for request in RECORDED["requests"] if request["what"] == "the first turn")
    events = send(caller, turn)
    blocks = [event["content_block"] for event in events if event["type"] == "content_block_start"]
    assert [block["type"] for block in blocks] == ["thinking", "text"] + ["tool_use"] * 3
    assert [block["name"] for block in blocks[2:]] == ["Bash", "Read", "TodoWrite"]


def test_turns_of_a_session_share_their_prefix_on_the_real_model(real):
    """The system prompt is computed once, although each request begins with another billing note."""
    turns = [request for request in RECORDED["requests"] if request["body"].get("thinking")][:2]
    read = []
    for turn in turns:
        events = send(real, turn, max_tokens=4)
        check(events, streamed=True)
        usage = events[-2]["usage"]
        assert usage["output_tokens"] <= 4
        read.append(usage["cache_read_input_tokens"] / (usage["cache_read_input_tokens"] + usage["input_tokens"]))
    assert read[1] > 0.5, f"{read}: the second turn repeats most of the first"
