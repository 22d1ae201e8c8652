"""One client process of the load: threads that send requests of the catalogue at random and hold each answer against
the one that the server gave when it was alone. usage: worker.py PLAN REPORT SEED

Every answer is a line of REPORT as soon as it is known, so that what was seen before a kill is not lost."""
import collections
import json
import pathlib
import random
import sys
import threading
import time

import exchange

STILL_RUNS_S = 120  # after the load's end, for an answer that is under way
REQUESTS_MIN = 4    # of each client, however long a busy machine takes to start it


class Client(threading.Thread):
    def __init__(self, plan: dict, name: str, note):
        super().__init__()
        self.plan = plan
        self.client_name = name
        self.note = note
        self.random = random.Random(name)
        self.sent = 0

    def run(self) -> None:
        done = 0
        while time.time() < self.plan["until"] or done < REQUESTS_MIN:
            done += 1
            index = self.random.randrange(len(self.plan["requests"]))
            request, alone = self.plan["requests"][index], self.plan["alone"][index]
            action = self.random.choices((self.read, self.read_slowly, self.leave, self.leave_early, self.abort),
                                         (60, 10, 10, 10, 10))[0]
            try:
                action(request, alone)
            except Exception as error:  # whatever went wrong is what the load is looking for
                self.note("wrong", f"{action.__name__} of {request}: {type(error).__name__}: {error}")

    def rid(self) -> str:
        self.sent += 1
        return f"{self.client_name}-{self.sent}"

    def ask(self, request: dict, watch=None, stream: bool | None = None, rid: str | None = None) -> dict:
        """Tried again while the server says that it is full."""
        stream = self.random.random() < 0.6 if stream is None else stream
        while True:
            answer = exchange.ask(self.plan["port"], request, stream, rid or self.rid(), watch)
            if answer["status"] != 429:
                return answer
            if not answer["retry_after"]:
                raise exchange.Broken("429 without Retry-After")
            self.note("full", "")
            if time.time() > self.plan["until"] + STILL_RUNS_S:
                raise exchange.Broken("no place in the queue for two minutes")
            time.sleep(self.random.uniform(0.05, 0.3))

    def hold(self, kind: str, answer: dict, alone: dict, request: dict) -> None:
        left = answer.pop("left", False)
        if left and not answer["choices"]:
            self.note("left", "")
            return
        if answer["status"] != 200 or alone["status"] != 200:
            same = answer["status"] == alone["status"]
            self.note("refused" if same else "wrong", "" if same else f"{request}: expected {alone}, got {answer}")
            return
        cut = left or any(c["finish"] in (None, "abort") for c in answer["choices"].values())
        if cut and kind in ("read", "slow"):
            self.note("wrong", f"{request}: cut short by nobody: {answer}")
            return
        found = exchange.strays(answer, alone) if cut else exchange.differences(answer, alone)
        if found:
            self.note("wrong", f"{kind} of {request}: {found}")
        else:
            self.note(kind if cut or kind in ("read", "slow") else "read", "")

    def read(self, request: dict, alone: dict) -> None:
        self.hold("read", self.ask(request), alone, request)

    def read_slowly(self, request: dict, alone: dict) -> None:
        pause_at = self.random.randint(0, 5)

        def watch(count: int) -> None:
            if count == pause_at:
                time.sleep(self.random.uniform(0.2, 2))
        self.hold("slow", self.ask(request, watch, stream=True), alone, request)

    def leave(self, request: dict, alone: dict) -> None:
        leave_at = self.random.randint(1, 12)

        def watch(count: int) -> None:
            if count == leave_at:
                raise exchange.GoneAway
        self.hold("left", self.ask(request, watch, stream=True), alone, request)

    def leave_early(self, request: dict, alone: dict) -> None:
        """Before the answer begins: while the prompt is read, or waits."""
        def watch(count: int) -> None:
            time.sleep(self.random.uniform(0, 0.1))
            raise exchange.GoneAway
        self.hold("left", self.ask(request, watch), alone, request)

    def abort(self, request: dict, alone: dict) -> None:
        rid = self.rid()
        timer = threading.Timer(self.random.uniform(0, 0.3), self.send_abort, (rid,))
        timer.start()
        try:
            answer = self.ask(request, rid=rid)
        finally:
            timer.cancel()
            timer.join()
        if answer["status"] == 499:
            self.note("aborted", "")
        else:
            self.hold("aborted", answer, alone, request)

    def send_abort(self, rid: str) -> None:
        status, _, body = exchange.post(self.plan["port"], "/abort_request", {"rid": rid})
        if status != 200:
            self.note("wrong", f"/abort_request: {status} {body}")


def main() -> None:
    plan = json.loads(pathlib.Path(sys.argv[1]).read_text())
    exchange.TIMEOUT_S = plan["timeout"]
    lock = threading.Lock()
    counts = collections.Counter()
    with open(sys.argv[2], "w", buffering=1) as report:
        def note(kind: str, text: str) -> None:
            with lock:
                counts[kind] += 1
                report.write(json.dumps([kind, text]) + "\n")
        clients = [Client(plan, f"{sys.argv[3]}-{i}", note) for i in range(plan["threads"])]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        note("ended", "")


if __name__ == "__main__":
    main()
