"""The launch command and the request of SGLang's roadmap for Apple silicon, with `pome serve` in place of
`python -m sglang.launch_server`: port 43440, `localhost` over IPv4 and IPv6, the model pulled from a hub. The hub is a
stand-in, and the model under its name is a tiny one with random weights."""
import json
import shutil
import socket
import subprocess

import hub_stand_in
import program
import tiny_model

MODEL = "Qwen/Qwen3-0.6B"
LAUNCH = (f"SGLANG_USE_MLX=1 pome serve --model-path {MODEL} --trust-remote-code --disable-radix-cache "
          "--disable-cuda-graph --tp-size 1 --port 43440")
REQUEST = f"""curl http://localhost:43440/v1/chat/completions \\
  -H "Content-Type: application/json" \\
  -d '{{
    "model": "{MODEL}",
    "messages": [{{"role": "user", "content": "What is the capital of France?"}}],
    "max_tokens": 10
  }}'"""


class RoadmapTest(program.ProgramTest):
    def setUp(self):
        super().setUp()
        if "MLX" not in self.run_pome("check-env").stdout:
            self.skipTest("built without MLX")
        self.hub = hub_stand_in.StandIn()
        self.addCleanup(self.hub.close)
        self.hub.repos[MODEL] = hub_stand_in.Repo(tiny_model.files())

    def launch(self) -> subprocess.Popen:
        (self.home / "bin").mkdir()
        (self.home / "bin/pome").symlink_to(program.POME)
        env = program.environment(self.home, HF_ENDPOINT=self.hub.url)
        env["PATH"] = f"{self.home}/bin:{env['PATH']}"
        # `exec` makes the program itself our child, so a signal reaches it.
        command = LAUNCH.replace("pome serve", "exec pome serve", 1)
        process = subprocess.Popen(["sh", "-c", command], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.started.append(process)

        def ready():
            self.assertIsNone(process.poll(), process.stderr.read() if process.poll() is not None else "")
            return program.healthy(43440)
        program.wait_for(ready, 90, "the server")
        return process

    def ask(self, *curl_flags: str) -> dict:
        command = REQUEST.replace("curl ", " ".join(["curl -sS", *curl_flags, ""]), 1)
        reply = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
        self.assertEqual(reply.returncode, 0, reply.stderr)
        return json.loads(reply.stdout)

    def test_the_launch_command_pulls_serves_and_answers_on_both_loopbacks(self):
        process = self.launch()
        answers = [self.ask(), self.ask("-4")]
        if self.has_ipv6():
            answers.append(self.ask("-6"))
        for answer in answers:
            self.assertEqual(answer["object"], "chat.completion")
            self.assertEqual(answer["model"], MODEL)
            self.assertIn(answer["choices"][0]["finish_reason"], ("stop", "length"))
            self.assertGreater(answer["usage"]["completion_tokens"], 0)
        self.assertEqual(self.end(process), 0)
        log = process.stderr.read()
        self.assertIn("downloading", log)
        for flag in ("--trust-remote-code", "--disable-cuda-graph"):
            self.assertEqual(log.count(f"{flag} has no effect"), 1, log)
        self.assertNotIn("--tp-size", log)

    @staticmethod
    def has_ipv6() -> bool:
        """Whether this machine has an IPv6 loopback at all; whether pome answers on it is what the test asks."""
        try:
            with socket.socket(socket.AF_INET6) as probe:
                probe.bind(("::1", 0))
            return True
        except OSError:
            return False


if __name__ == "__main__":
    if not shutil.which("curl"):
        print("curl is not installed")
        raise SystemExit(program.SKIPPED)
    program.main()
