"""Clients that stop reading, die or leave, beside others that want their answers: on the echo engine."""
import json
import signal
import subprocess
import sys
import urllib.request

import program

# Asks for an answer of 20 MB, says "started" when it begins to come, and takes what its input says.
CLIENT = """
import json, socket, sys
body = json.dumps({"prompt": "words and more words", "max_tokens": 8000, "stream": True, "logprobs": 20,
                   "ignore_eos": True}).encode()
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as s:
    s.sendall(b"POST /v1/completions HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body)
    s.recv(1000)
    print("started", flush=True)
    sys.stdin.read()
    while s.recv(1 << 16):
        pass
"""


def figure(port: int, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as reply:
        for line in reply.read().decode().splitlines():
            if line.startswith(name + "{"):
                return float(line.rsplit(" ", 1)[1])
    raise AssertionError(f"no {name}")


def state(port: int) -> dict:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10) as reply:
        return json.load(reply)


class HostileClientsTest(program.ProgramTest):
    def client(self, port: int) -> subprocess.Popen:
        process = subprocess.Popen([sys.executable, "-c", CLIENT, str(port)], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        self.started.append(process)
        self.assertEqual(process.stdout.readline(), "started\n")
        return process

    def others_are_answered(self, port: int):
        for _ in range(5):
            with program.post(port, "/v1/completions", {"model": "m", "prompt": "hello", "stream": True}) as reply:
                self.assertTrue(reply.read().decode().rstrip().endswith("data: [DONE]"))

    def test_a_client_that_is_stopped_is_dropped_after_the_client_timeout(self):
        server, port = self.serve("--client-timeout", "1")
        stopped = [self.client(port) for _ in range(3)]
        for client in stopped:
            client.send_signal(signal.SIGSTOP)
        self.others_are_answered(port)
        program.wait_for(lambda: figure(port, "sglang:num_aborted_requests_total") == 3)
        self.others_are_answered(port)
        self.assertEqual((state(port)["running"], state(port)["waiting"]), (0, 0))
        for client in stopped:
            client.send_signal(signal.SIGCONT)
        self.assertEqual(self.end(server), 0)

    def test_a_client_that_pauses_for_less_than_the_timeout_gets_its_whole_answer(self):
        server, port = self.serve("--client-timeout", "30")
        client = self.client(port)
        client.send_signal(signal.SIGSTOP)
        self.others_are_answered(port)
        client.send_signal(signal.SIGCONT)
        client.stdin.close()
        program.wait_for(lambda: figure(port, "sglang:num_requests_total") == 6)
        self.assertEqual(figure(port, "sglang:num_aborted_requests_total"), 0)
        client.kill()
        self.assertEqual(self.end(server), 0)

    def test_clients_that_are_killed_leave_nothing_behind(self):
        server, port = self.serve()
        for client in [self.client(port) for _ in range(8)]:
            client.kill()
        program.wait_for(lambda: figure(port, "sglang:num_requests_total") == 8)
        self.assertEqual(figure(port, "sglang:num_aborted_requests_total"), 8)
        self.assertEqual(state(port)["status"], "ok")
        self.others_are_answered(port)
        self.assertEqual(self.end(server), 0)


class RecordsTest(program.ProgramTest):
    def test_a_trace_opens_and_the_request_log_keeps_keys_and_content_to_itself(self):
        trace = self.home / "trace.json"
        server, port = self.serve("--trace-file", str(trace), "--log-requests", "--log-requests-format", "json",
                                  "--api-key", "SECRETKEY")
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/completions", json.dumps({"prompt": "MARKER", "rid": "r1"}).encode(),
            {"Authorization": "Bearer SECRETKEY"})
        with urllib.request.urlopen(request, timeout=30) as reply:
            self.assertIn("MARKER", reply.read().decode())
        self.assertEqual(self.end(server), 0)
        log = server.stderr.read()
        entries = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
        self.assertEqual([entry["event"] for entry in entries], ["request.received", "request.finished"])
        self.assertEqual(entries[1]["rid"], "r1")
        self.assertEqual(entries[1]["completion_tokens"], 7)
        self.assertNotIn("MARKER", log)
        self.assertNotIn("SECRETKEY", log + server.stdout.read())
        events = json.loads(trace.read_text())
        names = {event["name"] for event in events}
        self.assertLessEqual({"step", "plan", "run", "commit", "request", "answer"}, names)
        self.assertTrue(all(event["pid"] == 1 for event in events))

    def test_a_trace_that_cannot_be_written_is_one_line_and_a_code(self):
        result = self.run_pome("serve", "echo", "--port", "0", "--trace-file", str(self.home / "no/such/trace.json"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("trace.json", result.stderr.splitlines()[-1])


if __name__ == "__main__":
    program.main()
