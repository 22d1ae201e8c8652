"""How `pome serve` starts, ends and outlives: on the echo engine, which needs no model."""
import json
import os
import pathlib
import pty
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import hub_stand_in
import program


class StartTest(program.ProgramTest):
    def test_the_start_report_has_at_most_twelve_lines_and_a_request_to_paste(self):
        process, port = self.serve("--served-model-name", "parrot")
        program.wait_for(lambda: program.healthy(port))
        self.assertEqual(self.end(process), 0)
        report = process.stdout.read().splitlines()
        self.assertLessEqual(len(report), 12)
        text = "\n".join(report)
        for word in ("parrot", "context", "backend", "off ", f"http://127.0.0.1:{port}"):
            self.assertIn(word, text)
        self.assertIn("curl ", report[-1])

    def test_the_curl_of_the_start_report_works_as_it_stands(self):
        process, port = self.serve()
        line = ""
        while "curl" not in line:
            line = process.stdout.readline()
        reply = subprocess.run(["sh", "-c", "curl -sS " + line.split("curl ", 1)[1]], capture_output=True, text=True,
                               timeout=60)
        self.assertIn("Hello", json.loads(reply.stdout)["choices"][0]["message"]["content"])
        self.assertEqual(self.end(process), 0)

    def test_a_port_in_use_is_one_line_and_a_code(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            process = self.start("serve", "echo", "--port", str(taken.getsockname()[1]))
            self.assertEqual(process.wait(30), 1)
        lines = process.stderr.read().strip().splitlines()
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("in use", lines[0])

    def test_a_port_in_use_is_told_before_the_model_is_looked_for(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            process = self.start("serve", str(self.home / "absent.gguf"), "--port", str(taken.getsockname()[1]))
            self.assertEqual(process.wait(30), 1)
        lines = process.stderr.read().strip().splitlines()
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("in use", lines[0])

    def test_health_is_starting_while_the_model_is_still_fetched(self):
        hub = hub_stand_in.StandIn()
        self.addCleanup(hub.close)
        hub.repos["org/tiny"] = hub_stand_in.tiny_repo()
        hub.faults["model.safetensors"] = [("stall", 1000)]
        port = program.free_port()
        process = self.start("serve", "org/tiny", "--port", str(port), env={"HF_ENDPOINT": hub.url})
        program.wait_for(lambda: hub.downloads("model.safetensors"), what="the download")
        for path, retry in [("/health", None), ("/v1/models", "1"), ("/metrics", "1")]:
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20)
            with refused.exception as reply:
                self.assertEqual((reply.code, reply.headers["Retry-After"]), (503, retry), path)
                if path == "/health":
                    self.assertEqual(json.load(reply)["status"], "starting")
        self.assertEqual(self.end(process), 130)
        self.assertIn("the same command goes on", process.stderr.read().splitlines()[-1])
        self.assertEqual(process.stdout.read(), "")

    def test_an_unreadable_model_is_one_line_and_a_code(self):
        broken = self.home / "broken.gguf"
        broken.write_bytes(b"GGUF\x03\0\0\0garbage")
        for model, expected in [(str(broken), "broken.gguf"), (str(self.home / "absent.gguf"), "absent.gguf"),
                                ("no-such-name", "short name")]:
            with self.subTest(model=model):
                result = self.run_pome("serve", "--model-path", model, "--port", "0")
                self.assertNotEqual(result.returncode, 0)
                self.assertIn(expected, result.stderr.splitlines()[-1])
                self.assertNotIn("ready", result.stdout)

    def test_a_template_that_is_not_there_is_one_line_and_a_code(self):
        absent = str(self.home / "absent.jinja")
        for flags, expected in [(("--chat-template", absent), absent),
                                (("--hf-chat-template-name", "rag"), "it has default")]:
            with self.subTest(flags=flags):
                result = self.run_pome("serve", "--model-path", "echo", "--port", "0", *flags)
                self.assertEqual(result.returncode, 1)
                self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
                self.assertIn(expected, result.stderr)

    def test_the_network_without_a_key_is_refused_with_both_cures(self):
        for host in ("0.0.0.0", "::"):
            result = self.run_pome("serve", "--model-path", "echo", "--port", "0", "--host", host)
            self.assertNotEqual(result.returncode, 0)
            self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
            self.assertIn("--api-key", result.stderr)
            self.assertIn("--insecure-no-auth", result.stderr)
        for cure in (["--insecure-no-auth"], ["--api-key", "secret"]):
            process, _ = self.serve("--host", "0.0.0.0", *cure)
            self.end(process)

    def test_an_admins_key_guards_what_touches_everybody(self):
        _, port = self.serve("--api-key", "user", "--admin-api-key", "admin")

        def status(path: str, key: str) -> int:
            request = urllib.request.Request(f"http://127.0.0.1:{port}{path}",
                                             headers={"Authorization": f"Bearer {key}"})
            try:
                with urllib.request.urlopen(request, timeout=20) as reply:
                    return reply.status
            except urllib.error.HTTPError as refusal:
                return refusal.code
        self.assertEqual([status("/v1/models", key) for key in ("user", "admin", "other")], [200, 200, 401])
        self.assertEqual([status("/flush_cache", key) for key in ("user", "admin")], [401, 200])

    def test_pages_of_other_origins_are_let_in_by_name(self):
        page = "https://chat.example"

        def status(port: int) -> tuple[int, str | None]:
            request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/models", headers={"Origin": page})
            try:
                with urllib.request.urlopen(request, timeout=20) as reply:
                    return reply.status, reply.headers["Access-Control-Allow-Origin"]
            except urllib.error.HTTPError as refusal:
                self.assertIn("--allowed-origins", refusal.read().decode())
                return refusal.code, None
        _, port = self.serve()
        self.assertEqual(status(port), (403, None))
        _, port = self.serve("--allowed-origins", "http://other.example:8080", page)
        self.assertEqual(status(port), (200, page))

    def test_a_host_is_a_name_and_nothing_else(self):
        for host in ("https://mac.example", "mac.example:80", "a/b", "", "."):
            result = self.run_pome("serve", "echo", "--allowed-hosts", host)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("--allowed-hosts (command line): expected names", result.stderr)

    def test_an_origin_is_no_address_of_a_page(self):
        for origin in ("chat.example", "https://", "https://chat.example/", "https://chat.example/a"):
            result = self.run_pome("serve", "echo", "--allowed-origins", origin)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("--allowed-origins (command line): expected origins", result.stderr)


class EndTest(program.ProgramTest):
    def slow_request(self, port: int) -> tuple[threading.Thread, list]:
        """A request whose answer takes a while: the echo of a long prompt, read to its end."""
        result = []

        def ask():
            try:
                with program.post(port, "/v1/completions", {"model": "m", "prompt": "word " * 1000,
                                                            "max_tokens": 3000, "stream": True}) as reply:
                    result.append(reply.read().decode())
            except (urllib.error.URLError, OSError) as error:
                result.append(error)
        thread = threading.Thread(target=ask)
        thread.start()
        return thread, result

    def test_sigterm_finishes_what_runs_and_exits_0(self):
        process, port = self.serve()
        thread, result = self.slow_request(port)
        time.sleep(0.05)
        self.assertEqual(self.end(process), 0)
        thread.join(20)
        self.assertIsInstance(result[0], str)
        self.assertTrue(result[0].rstrip().endswith("[DONE]"), result[0][-200:])

    def test_sigint_ends_it_too(self):
        process, _ = self.serve()
        self.assertEqual(self.end(process, signal.SIGINT), 0)

    def test_a_second_sigint_ends_it_at_once(self):
        process, port = self.serve("--drain-timeout", "60")
        # A client that holds its answer back keeps a drain waiting.
        held = socket.create_connection(("127.0.0.1", port))
        body = json.dumps({"model": "m", "prompt": "x" * 7000, "max_tokens": 7000, "stream": True}).encode()
        held.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                     b"Content-Length: %d\r\n\r\n" % len(body) + body)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            self.assertIn(process.wait(5), (0, program.signal.SIGINT + 128))
        held.close()

    def test_a_signal_during_the_start_ends_it(self):
        process = self.start("serve", "echo", "--port", "0")
        time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        self.assertIn(process.wait(20), (0, -signal.SIGTERM))


# Starts `pome serve` as a child and then does as it is told on its standard input.
PARENT = r"""
import subprocess, sys, threading, time
child = {}
def spawn():
    child["p"] = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
thread = threading.Thread(target=spawn)
thread.start()
thread.join()  # the thread that spawned it is gone from here on
print(child["p"].pid, flush=True)
sys.stdin.readline()
"""


class ParentTest(program.ProgramTest):
    def parent_of(self, *flags: str) -> tuple[subprocess.Popen, int, int]:
        port = program.free_port()
        parent = subprocess.Popen([sys.executable, "-c", PARENT, program.POME, "serve", "echo", "--port", str(port),
                                   *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  env=program.environment(self.home))
        self.started.append(parent)
        pid = int(parent.stdout.readline())
        self.addCleanup(lambda: program.alive(pid) and os.kill(pid, signal.SIGKILL))
        program.wait_for(lambda: program.healthy(port), 60)
        return parent, pid, port

    def test_with_exit_with_parent_it_ends_when_the_process_ends(self):
        parent, pid, _ = self.parent_of("--exit-with-parent")
        parent.kill()
        program.wait_for(lambda: not program.alive(pid), 10, "the end of pome")

    def test_the_end_of_the_thread_that_spawned_it_is_not_the_end_of_its_parent(self):
        _, pid, port = self.parent_of("--exit-with-parent")
        time.sleep(0.5)
        self.assertTrue(program.alive(pid))
        self.assertTrue(program.healthy(port))

    def test_without_it_pome_outlives_its_parent(self):
        parent, pid, port = self.parent_of()
        parent.kill()
        parent.wait()
        time.sleep(0.5)
        self.assertTrue(program.healthy(port))
        os.kill(pid, signal.SIGTERM)
        program.wait_for(lambda: not program.alive(pid), 10)

    def test_a_closed_terminal_does_not_end_it(self):
        port = program.free_port()
        child, terminal = pty.fork()
        if child == 0:
            os.execve(program.POME, [str(program.POME), "serve", "echo", "--port", str(port)],
                      program.environment(self.home))
        self.addCleanup(lambda: program.alive(child) and os.kill(child, signal.SIGKILL))
        program.wait_for(lambda: program.healthy(port), 60)
        os.close(terminal)  # the system sends SIGHUP, and writing to the terminal fails from now on
        time.sleep(0.3)
        with program.post(port, "/v1/completions", {"model": "m", "prompt": "hi", "max_tokens": 2}) as reply:
            self.assertEqual(reply.status, 200)
        os.kill(child, signal.SIGTERM)
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)

    def test_hang_up_and_nohup_leave_it_running(self):
        process, port = self.serve()
        process.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        self.assertTrue(program.healthy(port))
        self.assertEqual(self.end(process), 0)

    def test_it_leaves_no_child_behind(self):
        process, port = self.serve()
        with program.post(port, "/v1/completions", {"model": "m", "prompt": "hi", "max_tokens": 2}) as reply:
            self.assertEqual(reply.status, 200)
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        if children.exists():
            self.assertEqual(children.read_text(), "")
        self.assertEqual(self.end(process), 0)


if __name__ == "__main__":
    program.main()
