"""The servers that the journeys meet, each a process of its own."""
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time
import urllib.request

MODEL_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"

# The echo engine says its prompt, so the template decides what the model says: the last message after the system's, what a
# tool has said, or a thought and a call of every tool.
TEMPLATE = '''{%- set last = messages[-1] -%}
{%- if messages[0].role == "system" %}[{{ messages[0].content }}] {% endif -%}
{%- if last.role == "tool" -%}
It is {{ last.content }}.
{%- elif tools -%}
<think>Which tool? All of them.</think>

One moment.
{%- for tool in tools %}
<tool_call>{"name": "{{ tool.function.name }}", "arguments": {"city": "{{ last.content }}", "days": 3}}</tool_call>
{%- endfor -%}
{%- else -%}
{{ last.content }}
{%- endif -%}'''
PARSERS = {"tool_call_parser": "qwen25", "reasoning_parser": "qwen3"}


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def demo_model() -> str | None:
    """POME_TEST_MODEL names a file; otherwise the demo model in pome's cache."""
    if named := os.environ.get("POME_TEST_MODEL"):
        return named
    cache = pathlib.Path(os.environ.get("POME_CACHE", pathlib.Path.home() / ".cache/pome"))
    return next((str(path) for path in cache.rglob(MODEL_NAME)), None)


class Server:
    def __init__(self, command: list[str], port: int):
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_until(self.answers, 60)

    def get(self, path: str) -> dict:
        with urllib.request.urlopen(self.url + path, timeout=10) as reply:
            return json.load(reply)

    def answers(self) -> bool:
        assert self.process.poll() is None, f"the server ended with {self.process.returncode}"
        with contextlib.suppress(urllib.error.URLError, OSError):
            with socket.create_connection(("127.0.0.1", self.port), timeout=5):
                return True
        return False

    def wait_until(self, condition, seconds: float = 20):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "it did not come true"
            time.sleep(0.02)

    def wait_until_idle(self):
        self.wait_until(lambda: self.get("/health")["running"] == 0)

    def end(self, how: int = signal.SIGKILL):
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(timeout=30)

    def occupy(self) -> "Occupation":
        return Occupation(self)


class Occupation:
    """A request of somebody else that runs until it is ended."""

    def __init__(self, server: Server):
        self.server = server
        body = {"prompt": "busy ", "max_tokens": 4000, "ignore_eos": True, "stream": True}
        request = urllib.request.Request(server.url + "/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        self.reply = urllib.request.urlopen(request, timeout=60)
        self.reply.readline()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            while self.reply.readline():
                pass

    def end(self):
        self.server_abort()
        self.thread.join(timeout=20)
        self.reply.close()
        self.server.wait_until_idle()

    def server_abort(self):
        request = urllib.request.Request(self.server.url + "/abort_request", b'{"abort_all": true}',
                                         {"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=10).close()


def serve(model: str, *flags: str) -> Server:
    """`pome serve`, the program itself."""
    port = free_port()
    return Server([os.environ["POME"], "serve", "--model-path", model, "--port", str(port), "--served-model-name", "tested",
                   *flags], port)


def scripted(port: int = 0, **options) -> Server:
    """A server whose model is slow, or fails: tests/playground/scripted_server.cpp."""
    port = port or free_port()
    words = [f"{name}={value}" for name, value in (options | {"port": port}).items()]
    return Server([os.environ["POME_SCRIPTED_SERVER"], *words], port)
