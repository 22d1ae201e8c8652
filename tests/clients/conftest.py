"""`pome serve` on a free port, once on the echo engine and once on the demo model where that is in the cache."""
import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.request

import anthropic
import ollama
import openai
import pytest

MODEL_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"


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
    def __init__(self, model: str, *flags: str):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        command = [os.environ["POME"], "serve", "--model-path", model, "--port", str(self.port),
                   "--served-model-name", "tested", *flags]
        self.process = subprocess.Popen(command)
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(self.url + "/health", timeout=5)
                break
            except OSError:
                assert self.process.poll() is None, f"pome serve ended with {self.process.returncode}"
                assert time.monotonic() < deadline, "pome serve is not healthy after a minute"
                time.sleep(0.05)
        self.client = openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0, timeout=60)
        self.ollama = ollama.Client(host=self.url, timeout=60)
        self.anthropic = anthropic.Anthropic(base_url=self.url, api_key="none", max_retries=0, timeout=60)

    def wait_until(self, condition, seconds: float = 20):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "it did not come true"
            time.sleep(0.02)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)


@pytest.fixture(scope="session")
def echo():
    server = Server("echo")
    yield server
    assert server.stop() == 0


# The echo engine says its prompt, so the template decides what the model says: what a tool has said, or a thought and a
# call of every tool.
CALLER = '''{%- set last = messages[-1] -%}
{%- if last.role == "tool" -%}
It is {{ last.content }}.
{%- elif tools -%}
<think>Which tool? {{ "None." if enable_thinking is defined else "All." }}</think>

One moment.
{%- for tool in tools %}
<tool_call>{"name": "{{ tool.function.name }}", "arguments": {"city": "{{ last.content }}", "days": 3}}</tool_call>
{%- endfor -%}
{%- else -%}
{{ last.content }}
{%- endif -%}'''


@pytest.fixture(scope="session")
def caller(tmp_path_factory):
    template = tmp_path_factory.mktemp("caller") / "caller.jinja"
    template.write_text(CALLER)
    server = Server("echo", "--chat-template", str(template), "--tool-call-parser", "qwen25",
                    "--reasoning-parser", "qwen3", "--context-length", "32768")
    yield server
    assert server.stop() == 0


@pytest.fixture(scope="session")
def real():
    model = demo_model()
    if model is None:
        pytest.skip("the demo model is not there: run 'pome pull smollm2'")
    # Its template shows no tools, so the parser is named; without tools in a request that changes nothing.
    server = Server(model, "--tool-call-parser", "hermes")
    yield server
    assert server.stop() == 0
