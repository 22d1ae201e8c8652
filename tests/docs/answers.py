"""What a good answer is, by the path that was asked. Each check raises AssertionError with what is wrong."""
import json
import urllib.parse


def expect(condition: bool, what: str) -> None:
    if not condition:
        raise AssertionError(what)


def check_counts(usage: dict, limit: int | None, least: int = 1) -> None:
    expect(usage["prompt_tokens"] > 0, f"a prompt has tokens: {usage}")
    expect(usage["completion_tokens"] >= least, f"at least {least} tokens: {usage}")
    expect(limit is None or usage["completion_tokens"] <= limit, f"at most {limit} tokens: {usage}")


def check_chat(request: dict, reply: dict) -> None:
    expect(reply["object"] == "chat.completion", reply["object"])
    check_counts(reply["usage"], request.get("max_tokens"))
    for choice in reply["choices"]:
        expect(choice["message"]["role"] == "assistant", f"the assistant answers: {choice}")
        expect(choice["message"]["content"].strip() != "", f"the answer says something: {choice}")
        expect(choice["finish_reason"] in ("stop", "length"), f"it ended well: {choice}")


def check_completion(request: dict, reply: dict) -> None:
    expect(reply["object"] == "text_completion", reply["object"])
    limit = request.get("max_tokens", 16)
    check_counts(reply["usage"], limit, min(limit, 1))
    for choice in reply["choices"]:
        expect(choice["text"].strip() != "", f"the answer says something: {choice}")
        if request.get("echo"):
            expect(choice["text"].startswith(request["prompt"]), f"the prompt stands before it: {choice}")
        if "logprobs" in request:
            scores = choice["logprobs"]
            lengths = {len(scores[key]) for key in ("tokens", "token_logprobs", "top_logprobs", "text_offset")}
            expect(len(lengths) == 1 and lengths != {0}, f"lists of one length: {scores}")
            expect(all(score is None or score <= 0 for score in scores["token_logprobs"]), f"logarithms: {scores}")


def check_generate(request: dict, reply: dict) -> None:
    expect(reply["text"].strip() != "", f"the answer says something: {reply}")
    check_counts(reply["meta_info"], request["sampling_params"]["max_new_tokens"])


def check_tokens(_: dict, reply: dict) -> None:
    expect(len(reply["tokens"]) == reply["count"] > 0, f"tokens, and how many: {reply}")


def check_health(_: dict, reply: dict) -> None:
    expect(reply["status"] == "ok", f"healthy: {reply}")


def check_server_info(_: dict, reply: dict) -> None:
    expect(reply["status"] == "ready" and "memory_items" in json.dumps(reply), f"ready, with its memory: {reply}")


def check_models(_: dict, reply: dict) -> None:
    expect([card["object"] for card in reply["data"]] == ["model"], f"one model: {reply}")


def check_metrics(text: str) -> None:
    expect("\nsglang:num_running_reqs{" in text, f"SGLang's names: {text[:500]}")


def check_message(request: dict, reply: dict) -> None:
    expect((reply["type"], reply["role"]) == ("message", "assistant"), f"a message of the assistant: {reply}")
    expect("".join(block["text"] for block in reply["content"]).strip() != "", f"the answer says something: {reply}")
    usage = reply["usage"]
    prompt = usage["input_tokens"] + usage["cache_read_input_tokens"]
    check_counts({"prompt_tokens": prompt, "completion_tokens": usage["output_tokens"]}, request["max_tokens"])
    expect(reply["stop_reason"] in ("end_turn", "max_tokens"), f"it ended well: {reply}")


def check_count(_: dict, reply: dict) -> None:
    expect(reply["input_tokens"] > 0, f"a prompt has tokens: {reply}")


def check_ollama(request: dict, reply: dict) -> None:
    text = reply["message"]["content"] if "message" in reply else reply["response"]
    expect(text.strip() != "", f"the answer says something: {reply}")
    expect(reply["done"] and reply["done_reason"] in ("stop", "length"), f"it ended well: {reply}")
    check_counts({"prompt_tokens": reply["prompt_eval_count"], "completion_tokens": reply["eval_count"]},
                 request["options"]["num_predict"])


def check_ollama_models(_: dict, reply: dict) -> None:
    expect(len(reply["models"]) == 1 and reply["models"][0]["name"], f"one model: {reply}")


def check_ollama_model(_: dict, reply: dict) -> None:
    expect("completion" in reply["capabilities"], f"a model that answers: {reply}")


def check_version(_: dict, reply: dict) -> None:
    expect(reply["version"].count(".") == 2, f"a version: {reply}")


CHECKS = {
    "/v1/chat/completions": check_chat,
    "/v1/completions": check_completion,
    "/generate": check_generate,
    "/v1/tokenize": check_tokens,
    "/tokenize": check_tokens,
    "/v1/messages": check_message,
    "/v1/messages/count_tokens": check_count,
    "/api/chat": check_ollama,
    "/api/generate": check_ollama,
    "/api/tags": check_ollama_models,
    "/api/ps": check_ollama_models,
    "/api/show": check_ollama_model,
    "/api/version": check_version,
    "/health": check_health,
    "/health_generate": check_health,
    "/get_server_info": check_server_info,
    "/v1/models": check_models,
}


def chat_chunks(events: list[dict]) -> dict:
    """A stream of chat chunks as the whole reply that it stands for."""
    contents: dict[int, str] = {}
    reasons: dict[int, str] = {}
    for event in events:
        expect(event["object"] == "chat.completion.chunk", event["object"])
        for choice in event["choices"]:
            index = choice["index"]
            contents[index] = contents.get(index, "") + (choice["delta"].get("content") or "")
            reasons[index] = choice["finish_reason"] or reasons.get(index, "")
    return {"object": "chat.completion", "usage": events[-1].get("usage"),
            "choices": [{"message": {"role": "assistant", "content": contents[index]},
                         "finish_reason": reasons[index]} for index in contents]}


def message_of(frames: list[str]) -> dict:
    """A stream of Anthropic's events as the message that it stands for."""
    events = [json.loads(frame.partition("\ndata: ")[2]) for frame in frames]
    expect([e["type"] for e in (events[0], *events[-2:])] == ["message_start", "message_delta", "message_stop"], f"{frames}")
    text = "".join(e["delta"]["text"] for e in events if e["type"] == "content_block_delta")
    return events[0]["message"] | events[-2]["delta"] | {"usage": events[-2]["usage"],
                                                         "content": [{"type": "text", "text": text}]}


def check_stream(path: str, request: dict, body: str) -> None:
    frames = [frame for frame in body.split("\n\n") if frame]
    if path == "/v1/messages":
        check_message(request, message_of(frames))
        return
    expect(frames[-1] == "data: [DONE]", f"the stream's end: {frames[-1]}")
    events = [json.loads(frame.removeprefix("data: ")) for frame in frames[:-1]]
    expect(all("error" not in event for event in events), f"no error on the way: {body}")
    if path == "/v1/chat/completions":
        whole = chat_chunks(events)
        if not (request.get("stream_options") or {}).get("include_usage"):
            whole["usage"] = {"prompt_tokens": 1, "completion_tokens": 1}  # nobody asked for it
        expect(whole["usage"] is not None, f"the usage in the last chunk: {frames[-2]}")
        check_chat(request, whole)
    else:
        expect(len(events) > 0, f"events: {body}")


def check_answer(url: str, request: dict, status: int, content_type: str, body: str) -> None:
    path = urllib.parse.urlsplit(url).path
    expect(200 <= status < 300, f"{path} answered {status}: {body}")
    if content_type.startswith("application/x-ndjson"):
        lines = [json.loads(line) for line in body.splitlines()]
        expect(all(not line["done"] for line in lines[:-1]), f"one end: {body}")
        key = "message" if "message" in lines[-1] else "response"
        said = "".join(line[key]["content"] if key == "message" else line[key] for line in lines)
        CHECKS[path](request, lines[-1] | {key: {"content": said} if key == "message" else said})
    elif content_type.startswith("text/event-stream"):
        expect(request.get("stream") is True, f"{path}: nobody asked for a stream")
        check_stream(path, request, body)
    elif path == "/metrics":
        check_metrics(body)
    elif path in ("/start_profile", "/stop_profile"):
        expect("profiling.\n/" in body and ".trace.json" in body, f"where the files are: {body}")
    else:
        expect(request.get("stream") is not True, f"{path}: expected a stream: {body}")
        expect(path in CHECKS, f"{path}: no check says what a good answer is")
        reply = json.loads(body)
        expect("error" not in reply, f"{path}: {body}")
        CHECKS[path](request, reply)
