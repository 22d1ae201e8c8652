"""Every example of the documents does what it shows. usage: examples_test.py POME

The curl commands and the Python programs are sent to a server as they stand, on the echo engine and, where the demo
model is in the cache, on that; answers.py says what a good answer is. What is named in code exists: commands, flags,
rings, presets, endpoints.
"""
import dataclasses
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from answers import check_answer
from pages import ROOT, Example, code_spans, endpoints_of, examples, name_of, pages, programs

POME = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ROOT / "build/dev/apps/pome").resolve()
CACHE = pathlib.Path(os.environ.get("POME_CACHE", pathlib.Path.home() / ".cache/pome"))
PYTHON = os.environ.get("POME_TEST_PYTHON", str(ROOT / ".venv-tests/bin/python"))  # has the clients' packages
API = ROOT / "docs/api.md"
DEFAULT_PORT = "30000"
# First words of examples that are not run here, and why that is enough.
NOT_RUN = {"./dev": "its words are checked below", "export": "readme_test.py runs it",
           "ninja": "developers' own tools", "ctest": "developers' own tools",
           "python3": "the tidy ring runs it",
           "build/dev/src/scheduler/pome_scheduler_test": "the unit ring runs it",
           "build/dev/apps/pome": "its words are checked as those of pome",
           "build/cuda/apps/pome": "the same program on another machine"}

HAS_CLIENTS = pathlib.Path(PYTHON).exists() and subprocess.run([PYTHON, "-c", "import anthropic, ollama, openai"], check=False,
                                                               capture_output=True).returncode == 0
CLIENTS = unittest.skipUnless(HAS_CLIENTS, "the clients' packages are not there: run './dev setup'")
DEMO_MODEL = next((str(path) for path in CACHE.rglob("SmolLM2-135M-Instruct.Q4_1.gguf")), "")
MODEL = unittest.skipUnless(DEMO_MODEL, "the demo model is not there: run 'pome pull smollm2'")


class Server:
    """`pome serve` as a page shows it, on a free port and with the model that is tested."""

    def __init__(self, model: str, flags: list[str]):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = str(s.getsockname()[1])
        self.folder = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(
            [POME, "serve", *flags, "--model-path", model, "--port", self.port, "--log-level", "warning"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            env={**os.environ, "SGLANG_TORCH_PROFILER_DIR": self.folder.name})
        end = time.monotonic() + 60
        while not self.healthy():
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
                raise AssertionError(f"pome serve is not healthy (exit code {self.process.wait()})")
            time.sleep(0.05)

    def healthy(self) -> bool:
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5).status == 200
        except OSError:
            return False

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)

    def curl(self, example: Example) -> tuple[int, str, str]:
        """(status, content type, body) of a curl command as it stands, but for the port."""
        words = [word.replace(f"localhost:{DEFAULT_PORT}", f"localhost:{self.port}") for word in example.words]
        words[1:1] = ["--silent", "--show-error", "--max-time", "150", "--write-out", "%{stderr}\n%{http_code} %{content_type}"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=170, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{example}: curl ended with {done.returncode}: {done.stderr}")
        status, _, content_type = done.stderr.strip().splitlines()[-1].partition(" ")
        return int(status), content_type, done.stdout

    def python(self, example: Example) -> str:
        """What a program says, as it stands, but for the port."""
        done = subprocess.run([PYTHON, "-c", example.text.replace(f"localhost:{DEFAULT_PORT}", f"localhost:{self.port}")],
                              capture_output=True, text=True, timeout=170, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{example}: {done.stderr}")
        return done.stdout

    def ask(self, method: str, path: str, body: dict | None = None) -> tuple[int, str]:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method,
                                         data=None if body is None else json.dumps(body).encode(),
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.read().decode()


def commands(page: pathlib.Path) -> list[Example]:
    return [example for example in examples(page) if example.words[:1] == ["curl"]]


def request_of(example: Example) -> tuple[str, dict]:
    """The URL and the body that a curl command sends."""
    words = example.words
    url = next(word for word in words if word.startswith("http://"))
    return url, json.loads(words[words.index("-d") + 1]) if "-d" in words else {}


def serve_flags(page: str) -> list[str]:
    """The flags of the page's own `pome serve`, without model and port."""
    for example in examples(ROOT / page):
        if example.words[:2] == ["pome", "serve"]:
            words, flags = iter(example.words[2:]), []
            for word in words:
                if word in ("--model-path", "--port"):
                    next(words)
                elif flags or word.startswith("--"):  # a first plain word is the model
                    flags.append(word)
            return flags
    return []


class AnswersTest(unittest.TestCase):
    def on_every_page(self, model: str, kind, check):
        """Calls check(server, example) for a page's examples of one kind, on a server as the page starts it."""
        for page in pages():
            if not (found := kind(page)):
                continue
            server = Server(model, serve_flags(name_of(page)))
            try:
                for example in found:
                    with self.subTest(str(example)):
                        check(server, example)
            finally:
                self.assertEqual(server.stop(), 0)

    def answer_commands(self, model: str):
        self.on_every_page(model, commands, lambda server, e: check_answer(*request_of(e), *server.curl(e)))

    def answer_programs(self, model: str):
        self.on_every_page(model, programs, lambda server, e: self.assertNotEqual(server.python(e).strip(), ""))

    def test_the_echo_engine_answers_every_command(self):
        self.answer_commands("echo")

    @CLIENTS
    def test_the_echo_engine_answers_every_program(self):
        self.answer_programs("echo")

    @MODEL
    def test_the_demo_model_answers_every_command(self):
        self.answer_commands(DEMO_MODEL)

    @CLIENTS
    @MODEL
    def test_the_demo_model_answers_every_program(self):
        self.answer_programs(DEMO_MODEL)

    def run_benchmarks(self, model: str, kinds: set[str]):
        """Each `pome bench` of the kinds as it stands, but for the port and the model."""
        server = Server(model, [])
        try:
            for example in (e for page in pages() for e in examples(page) if e.words[:2] == ["pome", "bench"]):
                words = [word.replace(f"localhost:{DEFAULT_PORT}", f"localhost:{server.port}") for word in example.words[1:]]
                if words[1] not in kinds:
                    continue
                with self.subTest(str(example)), tempfile.TemporaryDirectory() as folder:
                    if "--model-path" in words:
                        words[words.index("--model-path") + 1] = model
                    elif "--base-url" not in words:
                        words += ["--port", server.port]
                    done = subprocess.run([POME, *words], cwd=folder, capture_output=True, text=True, timeout=170, check=False,
                                          env={**os.environ, "SGLANG_TORCH_PROFILER_DIR": folder})
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertIn("throughput", done.stdout)
        finally:
            server.stop()

    def test_the_echo_engine_runs_every_benchmark_of_servers(self):
        self.run_benchmarks("echo", {"serving", "one-batch-server", "offline-throughput"})

    @MODEL
    def test_the_demo_model_runs_every_benchmark(self):
        self.run_benchmarks(DEMO_MODEL, {"serving", "one-batch-server", "offline-throughput", "one-batch"})

    def test_there_are_examples(self):
        self.assertGreaterEqual(sum(len(commands(page)) for page in pages()), 10)
        self.assertGreaterEqual(sum(len(programs(page)) for page in pages()), 1)
        self.assertTrue(commands(API) and programs(API))

    def test_a_broken_example_is_seen(self):
        server = Server("echo", [])
        try:
            good = next(e for e in commands(API) if '"max_tokens": 32\n' in e.text)
            for text in (good.text.replace("max_tokens\": 32", "max_tokens\": -1"),
                         good.text.replace("/v1/chat/completions", "/v1/chats"),
                         good.text.replace("/v1/chat/completions", "/v1/completions"),
                         good.text.replace("32\n", "32, \"stream\": \"yes\"\n")):
                self.assertNotEqual(text, good.text)
                broken = dataclasses.replace(good, text=text)
                with self.assertRaises(AssertionError, msg=text):
                    check_answer(*request_of(broken), *server.curl(broken))
            program = programs(API)[0]
            with self.assertRaises(AssertionError):  # without the package too
                server.python(dataclasses.replace(program, text=program.text.replace("messages=", "message=")))
        finally:
            server.stop()

    def test_a_refusal_that_is_shown_is_what_is_said(self):
        shown = re.search(r'^    (\{"error":.*?\}\})$', API.read_text(), re.S | re.M)
        error = json.loads(shown[1])
        wrong = {"messages": [{"role": "user", "content": "x"}],
                 error["error"]["param"]: int(re.search(r"got (\d+)", error["error"]["message"])[1])}
        server = Server("echo", [])
        try:
            status, body = server.ask("POST", "/v1/chat/completions", wrong)
        finally:
            server.stop()
        self.assertEqual((status, json.loads(body)), (400, error))


class EndpointsTest(unittest.TestCase):
    def test_the_table_names_every_route(self):
        source = "".join(path.read_text() for path in (ROOT / "src/server/handlers").rglob("*.cpp"))
        routes = {(method, path + ("{id}" if path.endswith("s/") else ""))
                  for method, path in re.findall(r'[{(]"(\w+)", "(/[^"]*)", handle_', source)}
        hidden = {("PUT", "/generate")}  # a habit of old clients
        self.assertEqual(routes - hidden, endpoints_of(API))

    def test_every_named_endpoint_is_there(self):
        server = Server("echo", ["--served-model-name", "tested"])
        try:
            for method, path in sorted(endpoints_of(API)):
                body = {} if method == "POST" else None
                status, text = server.ask(method, path.replace("{id}", "tested"), body)
                self.assertIn(status, (200, 400), f"{method} {path}: {text}")
        finally:
            server.stop()


class NamesTest(unittest.TestCase):
    """What the documents name in code exists."""

    def setUp(self):
        self.help = subprocess.run(["sh", ROOT / "dev", "help"], capture_output=True, text=True, check=True).stdout
        self.rings = re.search(r'^all_rings="(.*)"', (ROOT / "tools/dev/test.sh").read_text(), re.M)[1].split()
        self.presets = [p["name"] for p in json.loads((ROOT / "CMakePresets.json").read_text())["buildPresets"]]
        # Those of the table, and those that a command alone has.
        own = subprocess.run([POME, "service", "--help"], capture_output=True, text=True, check=True).stdout
        self.flags = set(re.findall(r"--[a-z0-9][a-z0-9-]*", (ROOT / "docs/cli.md").read_text() + own))

    def test_every_example_is_of_a_kind_that_is_run_or_checked(self):
        for page in pages():
            for example in examples(page):
                if words := example.words:
                    self.assertIn(words[0], {"curl", "pome", *NOT_RUN}, str(example))

    def test_no_client_hides_outside_of_an_example(self):
        for page in pages():
            shown = "\n".join(example.text for example in examples(page) + programs(page))
            for line in page.read_text().splitlines():
                if line.strip().startswith(("curl ", "from openai", "import openai", "from anthropic", "import anthropic", "from ollama",
                                            "import ollama")):
                    self.assertIn(line, shown, f"{name_of(page)}: no test runs this")

    def test_every_dev_command_exists(self):
        commands = set(re.findall(r"^  ([a-z][a-z-]+) ", self.help, re.M))
        self.assertIn("demo", commands)
        for span in self.spans("./dev "):
            words = span.words[1:]
            self.assertIn(words[0], commands | {"help"}, str(span))
            if words[0] == "test":
                self.assertLessEqual(set(words[1:]), set(self.rings), str(span))
            elif words[0] == "build" and len(words) > 1:
                self.assertIn(words[1], self.presets, str(span))

    def test_every_pome_command_and_flag_exists(self):
        listed = subprocess.run([POME, "--help"], capture_output=True, text=True, check=True).stdout
        commands = set(re.findall(r"^  ([a-z][a-z-]+) {2,}", listed, re.M))
        self.assertIn("serve", commands)
        helps = {name: subprocess.run([POME, name, "--help"], capture_output=True, text=True, check=True).stdout
                 for name in commands}
        for span in self.spans("pome ") + self.spans("build/dev/apps/pome "):
            words = span.words[1:]
            if words[0].startswith("--"):
                self.assertIn(words[0], {"--help", "--version", "--help-markdown"}, str(span))
                continue
            if words[0] == "COMMAND":
                continue
            self.assertIn(words[0], commands, str(span))
            command = words[0]
            if command == "bench" and len(words) > 1 and words[1].islower():
                command = f"bench {words[1]}"
                if command not in helps:
                    shown = subprocess.run([POME, "bench", words[1], "--help"], capture_output=True, text=True, check=False)
                    self.assertEqual(shown.returncode, 0, f"{span}: {shown.stderr}")
                    helps[command] = shown.stdout
            for flag in (word for word in words[1:] if word.startswith("-")):
                self.assertRegex(helps[command], rf"(?<![\w-]){flag}(?![\w-])", str(span))

    def test_every_flag_that_a_page_names_exists(self):
        for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
            for span in code_spans(page):
                if re.match(r"--[a-z]", span.text):
                    self.assertTrue(span.words[0].split("=")[0] in self.flags, f"{span}: there is no such flag")

    def test_every_flag_that_a_message_names_exists(self):
        others = {"--merge"}  # of llama-gguf-split
        for source in sorted((ROOT / "src").rglob("*")):
            if source.suffix in (".cpp", ".h") and not source.name.endswith("_test.cpp"):
                said = " ".join(re.findall(r'"(?:[^"\\\n]|\\.)*"', source.read_text()))
                for flag in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]{2,}", said):
                    self.assertTrue(flag in self.flags | others, f"{name_of(source)}: there is no flag {flag}")

    @staticmethod
    def spans(start: str) -> list[Example]:
        return [span for page in pages() for span in code_spans(page) if span.text.startswith(start)]


if __name__ == "__main__":
    unittest.main()
