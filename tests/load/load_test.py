"""`pome serve` under a load of many clients that cancel, pause and die: every answer is the one that the same request
gets alone, none is lost, and afterwards the server is idle, healthy, and ends when it is told to.

usage: load_test.py POME [--seconds 10] [--clients 64] [--model tiny|PATH] [--kind roomy|tight|all] [--seed N]
                    [--timeout 300] [-- FLAG…]     flags of `pome serve` for the server under load

`tight` gives it so few pages and so short a queue that requests are retracted, told to come back (429) and refused
(400), and asserts that all three happened."""
import argparse
import collections
import http.client
import json
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "process"))

import catalogue  # noqa: E402
import exchange  # noqa: E402
import program  # noqa: E402
import tiny_model  # noqa: E402

PROCESSES = 8
KILLS_EVERY_S = 4.0
PAUSES_EVERY_S = 1.0
# A pool of so many tokens, and what else makes it run out.
TIGHT_TOKENS = {"tiny": 192, "real": 1024}
TIGHT_FLAGS = ("--max-running-requests", "12", "--max-queued-requests", "24", "--schedule-policy", "priority",
               "--schedule-conservativeness", "0.05")
ALONE_FLAGS = ("--max-running-requests", "1", "--disable-radix-cache", "--disable-overlap-schedule")


class Server:
    def __init__(self, folder: pathlib.Path, model: str, *flags: str):
        self.port = program.free_port()
        self.log = open(folder / f"server-{self.port}.log", "w+")
        command = [program.POME, "serve", "--model-path", model, "--port", str(self.port), "--log-level", "warning",
                   *flags]
        self.process = subprocess.Popen(command, env=program.environment(folder), stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log)
        try:
            program.wait_for(self.ready, 120, "the server")
        except AssertionError:
            self.kill()
            raise

    def ready(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"serve ended: {self.said()}")
        return program.healthy(self.port)

    def said(self) -> str:
        self.log.flush()
        return pathlib.Path(self.log.name).read_text()

    def metrics(self) -> dict[str, float]:
        """Name -> value, summed over labels; replies by status as `replies 429`."""
        status, text = exchange.get(self.port, "/metrics")
        assert status == 200, text
        values: dict[str, float] = collections.defaultdict(float)
        for name, labels, value in re.findall(r"^([a-z_:]+)(\{[^}]*\})? (\S+)$", text, re.M):
            values[name] += float(value)
            if name == "pome:http_replies_total":
                values["replies " + re.search(r'status="(\d+)"', labels)[1]] += float(value)
        return values

    def resident_mib(self) -> float:
        status = pathlib.Path(f"/proc/{self.process.pid}/status")
        match = re.search(r"VmRSS:\s+(\d+) kB", status.read_text()) if status.exists() else None
        return int(match[1]) / 1024 if match else 0.0

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.close()


class Failure(Exception):
    pass


# What a server that is too slow, gone or wrong raises here.
FAILURES = (Failure, AssertionError, OSError, http.client.HTTPException, exchange.Broken, subprocess.TimeoutExpired)


def sentence(failure: BaseException) -> str:
    if isinstance(failure, TimeoutError):
        return f"no answer within {exchange.TIMEOUT_S:g} s; a machine that is busy otherwise may need a larger --timeout"
    return str(failure) if isinstance(failure, (Failure, AssertionError)) else f"{type(failure).__name__}: {failure}"


def expect(condition: bool, message: str) -> None:
    if not condition:
        raise Failure(message)


def ask_alone(server: Server, request: dict, stream: bool, rid: str) -> dict:
    try:
        return exchange.ask(server.port, request, stream, rid)
    except FAILURES as failure:
        raise Failure(f"{rid}: {request}: {sentence(failure)}") from failure


def answers_alone(folder: pathlib.Path, model: str, requests: list[dict]) -> list[dict]:
    server = Server(folder, model, *ALONE_FLAGS)
    try:
        alone = [ask_alone(server, request, False, f"alone-{i}") for i, request in enumerate(requests)]
        # A stream says the same, and so does the second time.
        for i, request in enumerate(requests):
            if alone[i]["status"] == 200 and i % 4 == 0:
                streamed = ask_alone(server, request, True, f"streamed-{i}")
                expect(streamed == alone[i], f"streamed: {request}: {exchange.differences(streamed, alone[i])}")
        expect(server.end() == 0, f"the server alone did not end well: {server.said()}")
    finally:
        server.kill()
    for request, answer in zip(requests, alone):
        wanted = 400 if request.get("refused") else 200
        expect(answer["status"] == wanted, f"alone: {request}: {answer}")
    return alone


class Load:
    """Client processes, of which some are paused and some are killed and replaced."""

    def __init__(self, folder: pathlib.Path, plan: dict, seed: int):
        self.folder = folder
        self.random = random.Random(seed)
        self.plan_file = folder / f"plan-{plan['port']}.json"
        self.plan_file.write_text(json.dumps(plan))
        self.until = plan["until"]
        self.count = 0
        self.reports: list[pathlib.Path] = []
        self.killed = self.paused = 0
        self.processes: list[subprocess.Popen] = []

    def start_one(self) -> subprocess.Popen:
        self.count += 1
        report = self.folder / f"{self.plan_file.stem}-report-{self.count}.jsonl"
        self.reports.append(report)
        return subprocess.Popen([sys.executable, HERE / "worker.py", self.plan_file, report, str(self.count)],
                                stdin=subprocess.DEVNULL)

    def run(self, server: Server) -> collections.Counter:
        try:
            self.processes = [self.start_one() for _ in range(PROCESSES)]
            next_kill = time.time() + KILLS_EVERY_S
            while time.time() < self.until:
                time.sleep(self.random.uniform(0.5, 1.5) * PAUSES_EVERY_S)
                expect(server.process.poll() is None, f"the server ended: {server.said()[-4000:]}")
                self.pause_one()
                if time.time() >= next_kill:
                    next_kill = time.time() + KILLS_EVERY_S
                    self.replace_one()
            for process in self.processes:
                expect(process.wait(300) == 0, "a client process ended badly")
        finally:
            for process in self.processes:
                if process.poll() is None:
                    process.send_signal(signal.SIGCONT)
                    process.kill()
                process.wait()
        return self.read_reports()

    def pause_one(self) -> None:
        process = self.random.choice(self.processes)
        process.send_signal(signal.SIGSTOP)
        time.sleep(self.random.uniform(0.1, 1.0))
        process.send_signal(signal.SIGCONT)
        self.paused += 1

    def replace_one(self) -> None:
        place = self.random.randrange(len(self.processes))
        self.processes[place].kill()
        self.processes[place].wait()
        self.processes[place] = self.start_one()
        self.killed += 1

    def read_reports(self) -> collections.Counter:
        counts: collections.Counter = collections.Counter(killed=self.killed, paused=self.paused)
        wrong = []
        for report in self.reports:
            for line in report.read_text().splitlines() if report.exists() else ():
                kind, text = json.loads(line)
                counts[kind] += 1
                if kind == "wrong":
                    wrong.append(text)
        expect(not wrong, f"{len(wrong)} answers are wrong or lost, for example:\n" + "\n".join(wrong[:5]))
        expect(counts["ended"] == PROCESSES, "a client process has not ended")
        return counts


def run_kind(kind: str, folder: pathlib.Path, arguments: argparse.Namespace, requests: list[dict],
             alone: list[dict]) -> None:
    flags = list(arguments.flags)
    if kind == "tight":
        pool = TIGHT_TOKENS["tiny" if arguments.model == "tiny" else "real"]
        flags += [*TIGHT_FLAGS, "--max-total-tokens", str(pool)]
        alone = [{"status": 400} if request.get("huge") else answer for request, answer in zip(requests, alone)]
    server = Server(folder, arguments.model_path, *flags)
    try:
        resident = server.resident_mib()
        plan = {"port": server.port, "until": time.time() + arguments.seconds, "requests": requests, "alone": alone,
                "timeout": exchange.TIMEOUT_S, "threads": max(1, arguments.clients // PROCESSES)}
        counts = Load(folder, plan, arguments.seed).run(server)
        check_afterwards(server, kind)
        print(f"{kind}: {dict(counts)}; resident {resident:.0f} MiB before, {server.resident_mib():.0f} MiB after",
              flush=True)
        expect(counts["read"] + counts["slow"] > arguments.clients // 2, "hardly anything was answered")
        expect(server.end() == 0, f"SIGTERM: exit code {server.process.returncode}: {server.said()[-4000:]}")
    finally:
        server.kill()


def check_afterwards(server: Server, kind: str) -> None:
    def idle() -> bool:
        m = server.metrics()
        return m["sglang:num_running_reqs"] == m["sglang:num_queue_reqs"] == m["sglang:num_used_tokens"] == 0
    expect(exchange.wait_until(idle, 60), f"not idle after the load: {server.metrics()}")
    for path in ("/health", "/health_generate"):
        status, text = exchange.get(server.port, path)
        expect(status == 200, f"{path}: {status} {text}")
    m = server.metrics()
    names = {"steps": "pome:steps_total", "cached tokens": "sglang:cached_tokens_total",
             "aborted": "sglang:num_aborted_requests_total", "retracted": "sglang:num_retracted_requests_total",
             "evicted tokens": "sglang:evicted_tokens_total", "refused": "replies 400", "queue full": "replies 429"}
    figures = {shown: int(m[name]) for shown, name in names.items()}
    print(f"{kind}: {figures}", flush=True)
    expect(m["pome:failed_requests_total"] == m["pome:failed_steps_total"] == 0, f"something failed: {m}")
    must_happen = ["cached tokens", "aborted", "refused"] + (["retracted", "queue full", "evicted tokens"]
                                                            if kind == "tight" else [])
    for shown in must_happen:
        expect(figures[shown] > 0, f"'{shown}' never happened: {figures}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--kind", choices=("roomy", "tight", "all"), default="all")
    parser.add_argument("--requests", type=int, default=100, help="different ones")
    parser.add_argument("--timeout", type=float, default=exchange.TIMEOUT_S, help="seconds without a byte")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    own, flags = sys.argv[1:], []
    if "--" in own:
        own, flags = own[:own.index("--")], own[own.index("--") + 1:]
    arguments = parser.parse_args(own)
    arguments.flags = flags
    return arguments


def main() -> int:
    arguments = parse()
    exchange.TIMEOUT_S = arguments.timeout
    print(f"seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="pome-load-") as name:
        folder = pathlib.Path(name)
        arguments.model_path = arguments.model
        if arguments.model == "tiny":
            arguments.model_path = str(folder / "tiny")
            tiny_model.write_to(folder / "tiny")
        sizes = catalogue.TINY if arguments.model == "tiny" else catalogue.REAL
        requests = catalogue.Catalogue(sizes, arguments.requests, arguments.seed).requests
        try:
            alone = answers_alone(folder, arguments.model_path, requests)
            for kind in ("roomy", "tight") if arguments.kind == "all" else (arguments.kind,):
                run_kind(kind, folder, arguments, requests, alone)
        except FAILURES as failure:
            print(f"FAILED with seed {arguments.seed}: {sentence(failure)}")
            return 1
    return 0


if __name__ == "__main__":
    if not program.POME.exists():
        print(f"{program.POME} is not built")
        sys.exit(program.SKIPPED)
    sys.exit(main())
