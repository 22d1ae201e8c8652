"""Nothing of ./dev outlives it, and two of them do not build one folder at once."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).parents[2]
SUPERVISE = f"{sys.executable} {ROOT}/tools/dev/run/supervise.py"


def wait_for(condition, what: str):
    end = time.monotonic() + 40
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} did not come true")


def running(pid: int) -> bool:
    """Neither gone nor a zombie that nobody waits for."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.strip().startswith("Z")


class SuperviseTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="pome-dev-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.shells: list[subprocess.Popen] = []
        self.pids: list[int] = []
        self.addCleanup(self.end_all)

    def end_all(self):
        for pid in self.pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for shell in self.shells:
            shell.kill()
            shell.wait()
            shell.stdout.close()

    def shell(self, script: str, **more) -> subprocess.Popen:
        process = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True, cwd=self.folder, **more)
        self.shells.append(process)
        return process

    def pid_from(self, name: str) -> int:
        text = wait_for(lambda: (self.folder / name).exists() and (self.folder / name).read_text().strip(), name)
        self.pids.append(int(text))
        return int(text)

    def start_tree(self, **more) -> tuple[subprocess.Popen, int, int]:
        """A shell like ./dev's with a supervised command that has a child: (the shell, the command, its child)."""
        shell = self.shell(f"echo $$ >shell; {SUPERVISE} sh -c 'sleep 600 & echo $! >child; echo $$ >command; wait'; "
                           "echo went on >after", **more)
        return shell, self.pid_from("command"), self.pid_from("child")

    def assert_both_end(self, command: int, child: int):
        wait_for(lambda: not running(command), "the command's end")
        wait_for(lambda: not running(child), "its child's end")

    def test_the_exit_code_is_the_commands(self):
        for script, code in (("true", 0), ("exit 7", 7), ("kill -KILL $$", 137)):
            done = subprocess.run([*SUPERVISE.split(), "sh", "-c", script], check=False)
            self.assertEqual(done.returncode, code, script)

    def test_a_killed_shell_takes_everything_along(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            for name in ("command", "child"):
                (self.folder / name).unlink(missing_ok=True)
            shell, command, child = self.start_tree()
            shell.send_signal(number)
            self.assert_both_end(command, child)

    def test_an_interrupted_shell_does_not_go_on(self):
        shell, command, child = self.start_tree(start_new_session=True)
        os.killpg(shell.pid, signal.SIGINT)  # as a terminal does
        self.assert_both_end(command, child)
        shell.wait(40)
        self.assertFalse((self.folder / "after").exists())

    def test_nohup_is_respected(self):
        ignore = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)  # noqa: E731
        shell, command, child = self.start_tree(start_new_session=True, preexec_fn=ignore)
        os.killpg(shell.pid, signal.SIGHUP)
        time.sleep(1)  # long enough for a hangup that is not ignored to end them
        self.assertTrue(running(command) and running(child))
        os.kill(command, signal.SIGTERM)
        shell.wait(40)
        self.assertTrue((self.folder / "after").exists(), "the shell went on after the command")

    def lock_script(self, after: str) -> str:
        (self.folder / "build").mkdir(exist_ok=True)
        if not (self.folder / "tools").exists():
            shutil.copytree(ROOT / "tools/dev", self.folder / "tools/dev")
        return f"set -eu; . tools/dev/common.sh; take_lock; {after}"

    def test_a_second_one_waits_for_the_last_child_of_the_first(self):
        first = self.shell(self.lock_script("sleep 600 & echo $! >child; echo locked; wait"))
        self.assertEqual(first.stdout.readline(), "locked\n")
        child = self.pid_from("child")
        second = self.shell(self.lock_script("echo locked too"))
        self.assertIn(f"another ./dev is at work in this folder (process {first.pid})", second.stdout.readline())
        first.kill()
        first.wait()
        self.assertIsNone(second.poll(), "the first one's child still works in the folder")
        os.kill(child, signal.SIGKILL)
        self.assertEqual(second.stdout.readline(), "locked too\n")
        self.assertEqual(second.wait(40), 0)

    def test_a_lock_is_taken_once(self):
        self.assertEqual(self.shell(self.lock_script("take_lock; echo still here")).stdout.readline(), "still here\n")


if __name__ == "__main__":
    unittest.main()
