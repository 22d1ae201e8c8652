"""Serves a checkpoint and asks it many things at once; what came back, as a dictionary.

The answers are greedy, so each can be compared with what the same prompt gets alone. On a GPU products depend on the
number of rows in the last digits, so the comparison is reported, not judged.
"""
import concurrent.futures
import json
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import programs

CONTEXT_TOKENS = 2048
# Tokens that any real model has, for a file whose vocabulary is not looked up.
FILE_VOCABULARY = 30000


def with_tokenizer(model: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """A copy of a checkpoint folder with a longer context and words t0, t1, … as tokenizer."""
    shutil.copytree(model, folder)
    config = json.loads((folder / "config.json").read_text())
    config["max_position_embeddings"] = max(CONTEXT_TOKENS, config["max_position_embeddings"])
    (folder / "config.json").write_text(json.dumps(config))
    words = {f"t{token}": token for token in range(config["vocab_size"])}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "t0"}}))
    return folder


class Served:
    """A running `pome serve`."""

    def __init__(self, pome: pathlib.Path, model: pathlib.Path, environment: dict, log: pathlib.Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{free.getsockname()[1]}"
        self.log = log.open("w")
        started = time.monotonic()
        self.process = subprocess.Popen([pome, "serve", "--model-path", model, "--port", self.url.rsplit(":", 1)[1]],
                                        env=environment, stdout=self.log, stderr=subprocess.STDOUT)
        while not self.healthy():
            if self.process.poll() is not None or time.monotonic() - started > 120:
                self.end()
                raise RuntimeError(f"serve did not start: {log.read_text()[-500:]}")
            time.sleep(0.05)
        self.start_s = round(time.monotonic() - started, 2)

    def healthy(self) -> bool:
        try:
            return self.get("/health")[0] == 200
        except (urllib.error.URLError, OSError):
            return False

    def get(self, path: str) -> tuple[int, str]:
        with urllib.request.urlopen(self.url + path, timeout=10) as reply:
            return reply.status, reply.read().decode()

    def memory(self) -> dict:
        """item -> planned and measured MiB, where there is such a figure."""
        details = json.loads(self.get("/get_server_info")[1])["internal_states"][0]["details"]
        return {item["item"]: [round(item[key] / 2**20, 1) for key in ("planned_bytes", "measured_bytes") if key in item]
                for item in details["memory_items"]}

    def generate(self, tokens: list[int], count: int) -> list[int]:
        body = {"input_ids": tokens, "return_logprob": True,
                "sampling_params": {"max_new_tokens": count, "temperature": 0, "ignore_eos": True}}
        request = urllib.request.Request(self.url + "/generate", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as reply:
            said = json.load(reply)
        return [entry[1] for entry in said["meta_info"]["output_token_logprobs"]]

    def chat(self, text: str) -> str:
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": 40, "temperature": 0}
        request = urllib.request.Request(self.url + "/v1/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as reply:
            return json.load(reply)["choices"][0]["message"]["content"]

    def end(self) -> int | None:
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.log.close()
        return code


def load(served: Served, prompts: list[list[int]], count: int, clients: int) -> tuple[dict, list]:
    answers, errors = [None] * len(prompts), []

    def ask(index: int) -> None:
        try:
            answers[index] = served.generate(prompts[index], count)
        except (urllib.error.URLError, OSError, KeyError) as error:
            errors.append(str(error))
    started = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        list(pool.map(ask, range(len(prompts))))
    seconds = time.monotonic() - started
    complete = sum(answer is not None and len(answer) == count for answer in answers)
    return {"requests": len(prompts), "clients": clients, "complete": complete, "errors": errors[:5],
            "output_tokens_per_s": round(complete * count / seconds, 1), "seconds": round(seconds, 2)}, answers


def serve_load(pome: pathlib.Path, model: pathlib.Path, environment: dict, log: pathlib.Path, requests: int,
               tokens: tuple[int, int], count: int = 32, question: str = "") -> dict:
    """16 clients ask `requests` prompts of random lengths between the two; the first 16 also alone before."""
    # What pome sets by itself must be enough.
    plain = {name: value for name, value in environment.items() if name not in programs.ENVIRONMENT}
    vocabulary = FILE_VOCABULARY
    if model.is_dir():
        vocabulary = json.loads((model / "config.json").read_text())["vocab_size"]
    source = random.Random(11)
    prompts = [[source.randrange(vocabulary) for _ in range(source.randint(*tokens))] for _ in range(requests)]
    served = Served(pome, model, plain, log)
    try:
        alone = [served.generate(prompt, count) for prompt in prompts[:16]]
        result, answers = load(served, prompts, count, 16)
        result["same_as_alone"] = f"{sum(a == b for a, b in zip(alone, answers))} of {len(alone)}"
        if question:
            result["question"], result["answer"] = question, served.chat(question)
        result["memory"] = served.memory()
        result["healthy_afterwards"] = served.healthy()
        result["start_s"] = served.start_s
    finally:
        code = served.end()
    result["exit_code"] = code
    result["ok"] = result["complete"] == requests and result["healthy_afterwards"] and code == 0
    return result
