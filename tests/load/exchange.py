"""One request to the server, and its answer in one form whether it was streamed or not."""
import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator

TIMEOUT_S = 300


class Broken(Exception):
    """The answer is not what the protocol promises."""


class GoneAway(Exception):
    """The caller left in the middle of the answer."""


def get(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    finally:
        connection.close()


def post(port: int, path: str, body: dict) -> tuple[int, dict, dict]:
    """Status, headers, body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        return reply.status, dict(reply.getheaders()), json.loads(reply.read())
    finally:
        connection.close()


def ask(port: int, request: dict, stream: bool, rid: str, watch: Callable[[int], None] | None = None) -> dict:
    """The answer in one form; `status` and `message` alone when it was refused. `watch` is called with the number of
    events so far, and may wait, or leave by raising GoneAway."""
    body = request["body"] | {"rid": rid} | ({"stream": True} if stream else {})
    if stream and request["path"] != "/generate":
        body["stream_options"] = {"include_usage": True}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    answer = Answer()
    try:
        connection.request("POST", request["path"], json.dumps(body), {"Content-Type": "application/json"})
        if watch:
            watch(0)
        reply = connection.getresponse()
        if reply.status != 200:
            error = json.loads(reply.read())["error"]
            return {"status": reply.status, "message": error["message"], "retry_after": reply.getheader("Retry-After")}
        if not stream:
            answer.add_whole(request["path"], json.loads(reply.read()))
            return answer.as_dict()
        for count, event in enumerate(events(reply), 1):
            answer.add_event(request["path"], event)
            if watch:
                watch(count)
        return answer.as_dict()
    except GoneAway:
        connection.sock.shutdown(socket.SHUT_RDWR)
        return answer.as_dict() | {"left": True}
    finally:
        connection.close()


def events(reply: http.client.HTTPResponse) -> Iterator[dict]:
    """Of a stream of server-sent events, which must end with [DONE]."""
    for line in reply:
        if line.startswith(b"data: "):
            text = line[len(b"data: "):].strip()
            if text == b"[DONE]":
                if reply.read().strip():
                    raise Broken("something follows [DONE]")
                return
            event = json.loads(text)
            if "error" in event:
                raise Broken(f"an error in the stream: {event['error']}")
            yield event
    raise Broken("the stream ended without [DONE]")


class Answer:
    def __init__(self):
        self.choices: dict[int, dict] = {}
        self.usage: list[int] | None = None

    def choice(self, index: int) -> dict:
        return self.choices.setdefault(index, {"text": "", "finish": None, "logprobs": []})

    def add_whole(self, path: str, body: dict | list) -> None:
        if path == "/generate":
            for index, item in enumerate(body if isinstance(body, list) else [body]):
                self.native(index, item)
            return
        for item in body["choices"]:
            choice = self.choice(item["index"])
            choice["text"] = item["message"]["content"] if "message" in item else item["text"]
            choice["finish"] = item["finish_reason"]
            choice["logprobs"] = logprob_rows(item.get("logprobs"))
        self.note_usage(body["usage"])

    def add_event(self, path: str, event: dict) -> None:
        if path == "/generate":
            self.native(event.get("index", 0), event)  # holds all that came before, too
            return
        for item in event["choices"]:
            choice = self.choice(item["index"])
            if choice["finish"] is not None:
                raise Broken("a choice goes on after its end")
            choice["text"] += (item["delta"].get("content") or "") if "delta" in item else item["text"]
            choice["finish"] = item["finish_reason"]
            choice["logprobs"] += logprob_rows(item.get("logprobs"))
        if event.get("usage"):
            self.note_usage(event["usage"])

    def native(self, index: int, item: dict) -> None:
        meta = item["meta_info"]
        reason = meta["finish_reason"]
        before = self.choices.get(index, {"text": ""})
        if not item["text"].startswith(before["text"]):
            raise Broken("the text so far was changed")
        self.choices[index] = {
            "text": item["text"], "finish": reason["type"] if reason else None, "ids": item.get("output_ids"),
            "logprobs": [meta.get("input_token_logprobs"), meta.get("output_token_logprobs")]}
        self.usage = [meta["prompt_tokens"], meta["completion_tokens"]]

    def note_usage(self, usage: dict) -> None:
        if self.usage is not None:
            raise Broken("usage came twice")
        self.usage = [usage["prompt_tokens"], usage["completion_tokens"]]

    def as_dict(self) -> dict:
        return {"status": 200, "choices": {str(index): choice for index, choice in sorted(self.choices.items())},
                "usage": self.usage}


def logprob_rows(logprobs: dict | None) -> list:
    """One entry a token."""
    if not logprobs:
        return []
    if "content" in logprobs:
        return logprobs["content"]
    return [list(row) for row in zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"])]


def differences(answer: dict, alone: dict) -> str | None:
    """What a whole answer has otherwise than the one that was given alone."""
    if answer == alone:
        return None
    for index, choice in alone["choices"].items():
        other = answer["choices"].get(index)
        if other != choice:
            return f"choice {index}: expected {choice}, got {other}"
    return f"expected usage {alone['usage']} of {len(alone['choices'])} choices, got {answer['usage']} of {len(answer['choices'])}"


def strays(answer: dict, alone: dict) -> str | None:
    """The same for an answer that was cut: its texts are beginnings of the whole ones."""
    for index, choice in answer["choices"].items():
        whole = alone["choices"].get(index)
        # An answer that is ended in mid-character has U+FFFD for the bytes that are there.
        text = choice["text"].rstrip("\ufffd") if choice["finish"] == "abort" else choice["text"]
        ids = choice.get("ids") or []
        if whole is None or not whole["text"].startswith(text) or (whole.get("ids") or [])[:len(ids)] != ids:
            return f"choice {index}: expected a beginning of {whole}, got {choice}"
    return None


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return condition()
