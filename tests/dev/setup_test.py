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
DEBIAN_12_WHOLE = dict.fromkeys(
    ("g++ cmake ninja-build pkg-config python3-venv ca-certificates libboost1.81-dev libfmt-dev libspdlog-dev libcli11-dev "
     "libyaml-cpp-dev libssl-dev prometheus-cpp-dev libhwy-dev cargo-web libgtest-dev libgmock-dev").split(), "1") | DEBIAN_12
NEWER = {"libboost-dev": "1.83.0.2", "rustc": "1.90.0"}
OLD_RUST = {"libboost-dev": "1.83.0.2", "rustc": "1.75.0"}


class Machine:
    """A copy of ./dev with a path of stand-ins: an apt that knows `candidates` and records what it is told."""

    def __init__(self, folder: str, candidates: dict[str, str], user: int, update_works: bool = True):
        self.folder = pathlib.Path(folder)
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        self.environment = {"HOME": folder}
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
                              env={"PATH": str(self.bin)} | self.environment, check=False)

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
        machine = self.machine(DEBIAN_12_WHOLE, user=0)
        done = machine.dev("demo")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no such package", done.stderr)
        self.assertIn("run again", done.stderr)
        self.assertIn("g++", machine.apt_calls()[-1].split())

    def test_root_without_a_network_is_told_so(self):
        done = self.machine({}, user=0, update_works=False).dev("demo")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("check the network", done.stderr)

    def test_one_broken_source_does_not_stop_root(self):
        machine = self.machine(DEBIAN_12_WHOLE, user=0, update_works=False)
        self.assertIn("no such package", machine.dev("demo").stderr)
        self.assertIn("g++", machine.apt_calls()[-1].split())

    def test_a_home_is_found_where_none_is_set(self):
        machine = self.machine(DEBIAN_12, user=1000)
        machine.environment = {}
        self.assertRegex(machine.dev("demo").stdout, r"228 MB of packages, \d+ MB of wheels")

    def test_a_build_folder_that_cannot_be_written_is_named(self):
        machine = self.machine(DEBIAN_12_WHOLE, user=1000)
        (machine.folder / "build").write_text("in the way")
        done = machine.dev("demo")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write to build/", done.stderr)

    def test_a_disk_that_is_too_small_is_named_before_anything_is_fetched(self):
        for command, need in (("demo", 1500), ("test", 3600)):
            for free, refused in ((need - 1, True), (need, False)):
                machine = self.machine(DEBIAN_12_WHOLE, user=0)
                machine.program("df", f"echo Filesystem; echo disk 9 9 {free * 1024 + 1023} 99% /")
                done = machine.dev(command)
                self.assertEqual(f"disk has {free} MB left" in done.stderr, refused, done.stderr)
                self.assertEqual((machine.folder / "apt.log").exists(), not refused)

    def test_an_update_that_warns_and_fetches_nothing_is_seen(self):
        done = self.machine({}, user=0).dev("demo")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"apt knows no g\+\+ cmake .*: check the network")

    def browser(self, machine: Machine) -> str:
        """What setting up the browser says; it never fails the set-up."""
        (machine.folder / "build").mkdir()
        done = subprocess.run(["sh", "-euc", ". tools/dev/common.sh; . tools/dev/setup.sh; setup_browser"],
                              cwd=machine.folder, capture_output=True, text=True, timeout=50, check=False,
                              env={"PATH": str(machine.bin)} | machine.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_browser_is_installed_where_apt_has_one(self):
        machine = self.machine(DEBIAN_12 | {"chromium": "156.0.1"}, user=0)
        said = self.browser(machine)
        self.assertIn("100 MB", said)
        self.assertIn("chromium", machine.apt_calls()[-1].split())
        self.assertIn("journeys of the ring playground will be skipped", said, "this apt could not install it")

    def test_without_a_browser_the_journeys_are_skipped_and_nothing_fails(self):
        for candidates, user, word in ((DEBIAN_12, 0, "skipped"), (DEBIAN_12 | {"chromium": "2:1snap1-0"}, 0, "skipped"),
                                       (DEBIAN_12 | {"chromium": "156.0.1"}, 1000, "apt-get install -y")):
            machine = self.machine(candidates, user=user)
            self.assertIn(word, self.browser(machine))
            if (machine.folder / "apt.log").exists():
                self.assertFalse([call for call in machine.apt_calls() if "install" in call])

    def test_a_browser_that_is_there_is_enough(self):
        machine = self.machine(DEBIAN_12 | {"chromium": "156.0.1"}, user=0)
        machine.program("google-chrome", "")
        self.assertEqual(self.browser(machine), "")


if __name__ == "__main__":
    unittest.main()
