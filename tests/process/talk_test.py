"""`pome chat` and `pome run`, in process and against a server."""
import json
import os
import pty
import select
import signal
import socket
import subprocess
import time

import program


class TalkTest(program.ProgramTest):
    def test_run_streams_the_answer_and_reports_speeds(self):
        result = self.run_pome("run", "Hello there", "--model-path", "echo", "--max-tokens", "50")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "Hello there\n")
        self.assertRegex(result.stderr, r"\d+ prompt tokens at [\d.]+/s, \d+ answer tokens at [\d.]+/s")

    def test_run_reads_standard_input_for_a_dash(self):
        result = self.run_pome("run", "-", "--model-path", "echo", stdin="from a pipe")
        self.assertEqual(result.stdout, "from a pipe\n")

    def test_run_refuses_values_out_of_range(self):
        for flag, value in [("--max-tokens", "0"), ("--temperature", "2.1"), ("--top-p", "0"), ("--seed", "1.5")]:
            result = self.run_pome("run", "x", "--model-path", "echo", flag, value)
            self.assertEqual(result.returncode, 2, flag)
            self.assertIn(flag, result.stderr)
            self.assertNotIn("e+", result.stderr)

    def test_chat_keeps_the_conversation_and_obeys_commands(self):
        saved = self.home / "talk.json"
        script = f"one\ntwo\n/save {saved}\n/clear\nthree\n/stats\n/nonsense\n/help\n/quit\nnot reached\n"
        result = self.run_pome("chat", "echo", stdin=script)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.splitlines()
        self.assertEqual(lines[0], "one")
        self.assertIn("there is no /nonsense", result.stdout)
        self.assertIn("/clear ", result.stdout)
        self.assertNotIn("not reached", result.stdout)
        messages = json.loads(saved.read_text())["messages"]
        self.assertEqual([m["role"] for m in messages], ["user", "assistant", "user", "assistant"])
        self.assertEqual(messages[0]["content"], "one")
        # The echo engine repeats the whole prompt: what came before is in it, and after /clear is not.
        self.assertIn("one", messages[3]["content"])
        self.assertEqual([line for line in lines if line.startswith("three")], ["three"])

    def test_chat_begins_with_the_system_text_and_continues_lines(self):
        result = self.run_pome("chat", "echo", "--system", "Be brief.", stdin="a\\\nb\n")
        self.assertEqual(result.stdout, "Be brief.a\nb\n")

    def test_a_line_that_is_not_text_is_left_out_and_the_chat_goes_on(self):
        result = subprocess.run([program.POME, "chat", "echo"], env=program.environment(self.home), capture_output=True,
                                input=b"one\n\xff\xfe bad\n/system \xff\ntwo\n", timeout=60)
        errors = result.stderr.decode()
        self.assertEqual(errors.count("the line is not UTF-8 text: byte"), 2, errors)
        self.assertEqual(len(errors.strip().splitlines()), 2, errors)
        self.assertEqual(result.stdout.decode(), "one\noneonetwo\n", "the bad lines left no trace")
        self.assertEqual(result.returncode, 1)

    def test_run_refuses_text_that_is_none(self):
        for words in (("run", b"a\xff"), ("run", "a", "--system", b"\xff"), ("chat", "--system", b"\xff")):
            result = self.run_pome(*words, "--model-path", "echo")
            self.assertEqual(result.returncode, 2, words)
            self.assertIn("is not UTF-8 text: byte", result.stderr)

    def test_chat_goes_on_with_a_saved_conversation(self):
        saved = self.home / "talk.json"
        saved.write_text(json.dumps({"messages": [{"role": "user", "content": "first"}]}))
        result = self.run_pome("chat", "echo", stdin=f"/load {saved}\n/retry\n/load {self.home}/absent\n")
        self.assertIn("1 messages\nfirst\n", result.stdout)
        self.assertIn("no conversation", result.stdout)

    def test_chat_speaks_to_a_server(self):
        _, port = self.serve("--api-key", "k")
        for url in (f"http://127.0.0.1:{port}", f"http://localhost:{port}/v1/"):
            result = self.run_pome("chat", "--url", url, "--api-key", "k", stdin="hello\n/stats\n")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertTrue(result.stdout.startswith("hello\n"), result.stdout)
            self.assertIn("answer tokens", result.stdout)
        result = self.run_pome("chat", "--url", f"http://127.0.0.1:{port}", stdin="hello\n")
        self.assertEqual(result.returncode, 1)
        self.assertTrue(result.stderr.strip(), "the server's refusal is shown")

    def test_ctrl_c_ends_the_answer_of_a_silent_server(self):
        silent = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(silent.close)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        child, terminal = pty.fork()
        if child == 0:
            os.execve(program.POME, [str(program.POME), "chat", "--url", url], program.environment(self.home))
        self.addCleanup(lambda: program.alive(child) and os.kill(child, signal.SIGKILL))
        self.read_until(terminal, "> ")
        for head in (b"", b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"):
            os.write(terminal, b"hello\n")
            connection, _ = silent.accept()
            self.addCleanup(connection.close)
            connection.settimeout(20)
            connection.recv(65536)
            connection.sendall(head)
            os.write(terminal, b"\x03")
            while connection.recv(65536):  # until the client hangs up; its own read would wait for ten minutes
                pass
            self.read_until(terminal, "> ")
        os.write(terminal, b"\x04")
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)
        os.close(terminal)

    def test_ctrl_c_in_a_terminal_stops_no_program(self):
        child, terminal = pty.fork()
        if child == 0:
            os.execve(program.POME, [str(program.POME), "chat", "echo"], program.environment(self.home))
        self.addCleanup(lambda: program.alive(child) and os.kill(child, signal.SIGKILL))
        self.assertIn("> ", self.read_until(terminal, "> "))
        os.write(terminal, b"\x03")
        self.assertIn("/quit or Ctrl-D ends", self.read_until(terminal, "ends)"))
        os.write(terminal, b"still here\n")
        # The terminal's own echo and the answer; the prompt may come between them or before both.
        self.read_until(terminal, "still here", times=2)
        os.write(terminal, b"\x04")
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)
        os.close(terminal)

    def read_until(self, terminal: int, text: str, times: int = 1) -> str:
        seen = ""
        end = time.monotonic() + 20
        while seen.count(text) < times and time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                seen += os.read(terminal, 4096).decode(errors="replace")
        self.assertGreaterEqual(seen.count(text), times, seen)
        return seen


if __name__ == "__main__":
    program.main()
