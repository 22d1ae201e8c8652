"""Runs a command so that nothing of it outlives ./dev. usage: supervise.py COMMAND [ARGUMENT…]

The command gets a process group of its own. The group is ended when this program is interrupted, and when the process
that started it is gone: a shell that is killed takes its children along only on a terminal. The exit code is the
command's, 128 + N after signal N.
"""
import os
import signal
import subprocess
import sys
import time

GRACE_S = 10.0
POLL_S = 0.2


def end_group(process: subprocess.Popen) -> None:
    """Asks the whole group, waits, then insists."""
    end = time.monotonic() + GRACE_S
    send(process, signal.SIGTERM)
    while time.monotonic() < end:
        process.poll()  # a child that was not waited for would keep the group alive
        if not send(process, 0):
            return
        time.sleep(0.05)
    send(process, signal.SIGKILL)
    process.wait()


def send(process: subprocess.Popen, number: int) -> bool:
    try:
        os.killpg(process.pid, number)
        return True
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS says so of a group that has only zombies
        return process.poll() is None


def end_self(number: int) -> None:
    """By the signal itself: a shell goes on with its script after a child that merely exits."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def own_group() -> None:
    os.setpgid(0, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # it may write to the terminal all the same


def main() -> int:
    parent = os.getppid()
    caught: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup's choice stands
            signal.signal(number, lambda n, _: caught.append(n))
    process = subprocess.Popen(sys.argv[1:], preexec_fn=own_group, close_fds=False)
    while True:
        try:
            code = process.wait(POLL_S)
            return code if code >= 0 else 128 - code
        except subprocess.TimeoutExpired:
            if caught or os.getppid() != parent:
                end_group(process)
                end_self(caught[0] if caught else signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
