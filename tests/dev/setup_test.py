"""./dev setup on a machine without anything: what it says to somebody who may not install, and what it installs."""
import pathlib
import platform
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
# What a minimal Debian has.
BASICS = ("awk", "cat", "cksum", "cut", "date", "dirname", "env", "getconf", "grep", "head", "mkdir", "rm", "sed", "sh", "tail",
          "touch", "tr", "uname")
DEBIAN_12 = {"libboost-dev": "1.74.0.3", "libboost-json1.81-dev": "1.81.0-5", "rustc": "1.63.0", "rustc-web": "1.90.0"}
NEWER = {"libboost-dev": "1.83.0.2", "rustc": "1.90.0"}
OLD_RUST = {"libboost-dev": "1.83.0.2", "rustc": "1.75.0"}


class Machine:
    """A copy of ./dev with a path of stand-ins: an apt that knows `candidates` and records what it is told."""

    def __init__(self, folder: str, candidates: dict[str, str], user: int, update_works: bool = True):
        self.folder = pathlib.Path(folder)
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        shutil.copy(ROOT / "dev", self.folder)
        shutil.copytree(ROOT / "tools/dev", self.folder / "tools/dev")
        for name in BASICS:
            (self.bin / name).symlink_to(shutil.which(name))
        policies = "".join(f"{name}) echo '  Candidate: {version}' ;; " for name, version in candidates.items())
        self.program("apt-cache", f'case $2 in {policies}*) echo "  Candidate: (none)" ;; esac')
        self.program("id", f"echo {user}")
        self.program("dpkg", "")
        self.program("apt-get", f"""echo "$*" >>{self.folder}/apt.log
case "$*" in
  *--assume-no*) {'echo "Need to get 228 MB of archives."' if update_works else ''} ;;
  update*) exit {0 if update_works else 100} ;;
  *) echo "no such package"; exit 100 ;;
esac""")

    def program(self, name: str, script: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / name).chmod(0o755)

    def dev(self, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run(["sh", "./dev", *words], cwd=self.folder, capture_output=True, text=True, timeout=50,
                              env={"PATH": str(self.bin), "HOME": str(self.folder)}, check=False)

    def apt_calls(self) -> list[str]:
        return (self.folder / "apt.log").read_text().splitlines()


@unittest.skipUnless(platform.system() == "Linux", "apt is Debian's")
class SetupTest(unittest.TestCase):
    def machine(self, *arguments, **more) -> Machine:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return Machine(folder.name, *arguments, **more)

    def line_for_root(self, done: subprocess.CompletedProcess) -> list[str]:
        self.assertNotEqual(done.returncode, 0, done.stdout)
        lines = [line for line in done.stderr.splitlines() if line.startswith("apt-get update && apt-get install -y")]
        self.assertEqual(len(lines), 1, done.stderr)
        return lines[0].split()

    def test_a_user_is_told_size_minutes_and_the_line(self):
        machine = self.machine(DEBIAN_12, user=1000)
        done = machine.dev("demo")
        line = self.line_for_root(done)
        for package in ("g++", "libboost1.81-dev", "libboost-json1.81-dev", "rustc-web", "cargo-web", "python3-venv"):
            self.assertIn(package, line)
        self.assertIn("to download: 228 MB of packages", done.stdout)
        self.assertRegex(done.stdout, r"expected: about \d+ minutes on \d+ cores")
        self.assertFalse([call for call in machine.apt_calls() if "install" in call and "--assume-no" not in call])

    def test_the_line_has_the_names_of_this_distribution(self):
        line = self.line_for_root(self.machine(NEWER, user=1000).dev("demo"))
        for package in ("libboost-dev", "libboost-json-dev", "rustc", "cargo"):
            self.assertIn(package, line)

    def test_a_user_without_a_network_is_told_the_same(self):
        done = self.machine({}, user=1000, update_works=False).dev("demo")
        self.assertIn("g++", self.line_for_root(done))
        self.assertRegex(done.stdout, r"to download: about \d+ MB of packages")

    def test_rustup_is_no_package(self):
        line = self.line_for_root(self.machine(OLD_RUST, user=1000).dev("demo"))
        self.assertNotIn("rustup", line)
        self.assertIn("curl", line)

    def test_tests_need_more_than_the_program(self):
        line = self.line_for_root(self.machine(DEBIAN_12, user=1000).dev("test"))
        self.assertIn("git", line)
        self.assertIn("curl", line)

    def test_root_installs(self):
        machine = self.machine(DEBIAN_12, user=0)
        done = machine.dev("demo")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no such package", done.stderr)
        self.assertIn("g++", machine.apt_calls()[-1].split())

    def test_root_without_a_network_is_told_so(self):
        done = self.machine(DEBIAN_12, user=0, update_works=False).dev("demo")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("check the network", done.stderr)


if __name__ == "__main__":
    unittest.main()
