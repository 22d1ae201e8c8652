"""The README's examples, run as they stand. usage: readme_test.py POME

Examples are the sh blocks that follow a line `<!-- example: … -->`. `pome` is the built program; a block whose first
command is `pome serve` runs that in the background, on a port of ours, until the rest of the block has run.
"""
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).parents[2]
POME = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ROOT / "build/dev/apps/pome").resolve()
MODEL = pathlib.Path(os.environ.get("POME_CACHE", pathlib.Path.home() / ".cache/pome"))
SKIPPED = 77


def examples() -> dict[str, str]:
    text = (ROOT / "README.md").read_text()
    return dict(re.findall(r"<!-- example: (.+?) -->\n```sh\n(.*?)```", text, re.S))


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def shell(script: str) -> subprocess.CompletedProcess:
    """Runs a block with the built `pome` on the path."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "pome").symlink_to(POME)
        environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
        return subprocess.run(["sh", "-e", "-c", script], capture_output=True, text=True, env=environment, timeout=120,
                              check=False)


class ReadmeTest(unittest.TestCase):
    def test_there_are_examples(self):
        self.assertEqual(set(examples()), {"answers on standard output", "a server and two clients"})

    def test_one_prompt_is_answered(self):
        done = shell(examples()["answers on standard output"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Paris", done.stdout)

    def test_the_server_answers_both_clients(self):
        serve, clients = examples()["a server and two clients"].split("\n", 1)
        port = free_port()
        command = shlex.split(serve.replace("30000", str(port)))
        self.assertEqual(command[:2], ["pome", "serve"])
        server = subprocess.Popen([POME, *command[1:]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.wait_until_healthy(server, port)
            done = shell(clients.replace("30000", str(port)))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("data: [DONE]", done.stdout)
            self.assertIn('"text"', done.stdout.split("[DONE]")[1])
        finally:
            server.send_signal(signal.SIGTERM)
            self.assertEqual(server.wait(timeout=30), 0)

    def wait_until_healthy(self, server: subprocess.Popen, port: int) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and server.poll() is None:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5)
                return
            except OSError:
                time.sleep(0.1)
        self.fail(f"the server is not healthy (exit code {server.poll()})")


if __name__ == "__main__":
    if not list(MODEL.rglob("SmolLM2-135M-Instruct.Q4_1.gguf")):
        print("the demo model is not there: run 'pome pull smollm2'")
        sys.exit(SKIPPED)
    unittest.main()
