"""The built program under test, and servers that are sure to end."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).parents[2]
POME = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-")
                    else ROOT / "build/dev/apps/pome").resolve()
SKIPPED = 77
# Nothing of the machine's own configuration reaches a test.
FOREIGN = ("HF_", "HUGGING", "POME_", "PIP_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy",
           "all_proxy")


def environment(home: pathlib.Path, **more: str) -> dict[str, str]:
    own = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
    return own | {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "XDG_CONFIG_HOME": str(home / "config"),
                  "PIP_CONFIG_FILE": "/dev/null"} | more


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(condition, seconds: float = 20.0, what: str = "the condition"):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} did not come true in {seconds} s")


def healthy(port: int, host: str = "127.0.0.1") -> bool:
    try:
        with urllib.request.urlopen(f"http://{host}:{port}/health", timeout=5) as reply:
            return reply.status == 200
    except (urllib.error.URLError, OSError):
        return False


def alive(pid: int) -> bool:
    try:
        state = pathlib.Path(f"/proc/{pid}/stat")
        if state.exists():
            return state.read_text().rsplit(")", 1)[1].split()[0] != "Z"
        os.kill(pid, 0)
        return not pathlib.Path("/proc").exists()
    except (ProcessLookupError, FileNotFoundError):
        return False


def post(port: int, path: str, body: dict, timeout: float = 60):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    return urllib.request.urlopen(request, timeout=timeout)


class ProgramTest(unittest.TestCase):
    """A home folder of its own, and an end for every process that a test started."""

    def setUp(self):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="pome-process-"))
        self.started: list[subprocess.Popen] = []
        self.addCleanup(shutil.rmtree, self.home, True)
        self.addCleanup(self.end_all)

    def end_all(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()

    def run_pome(self, *words: str, timeout: float = 60, stdin: str | None = None, **env: str):
        return subprocess.run([POME, *words], env=environment(self.home, **env), capture_output=True, text=True,
                              timeout=timeout, input=stdin, stdin=subprocess.DEVNULL if stdin is None else None)

    def start(self, *words: str, **more) -> subprocess.Popen:
        env = environment(self.home, **more.pop("env", {}))
        process = subprocess.Popen([POME, *words], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, **more)
        self.started.append(process)
        return process

    def serve(self, *flags: str, model: str = "echo", **more) -> tuple[subprocess.Popen, int]:
        port = free_port()
        process = self.start("serve", "--model-path", model, "--port", str(port), *flags, **more)

        def ready():
            if process.poll() is not None:
                raise AssertionError(f"serve ended: {process.stderr.read()}")
            return healthy(port)
        wait_for(ready, 60, "the server")
        return process, port

    def end(self, process: subprocess.Popen, signal_number: int = signal.SIGTERM, seconds: float = 20) -> int:
        process.send_signal(signal_number)
        return process.wait(seconds)


def main():
    if not POME.exists():
        print(f"{POME} is not built")
        sys.exit(SKIPPED)
    unittest.main(verbosity=1)
