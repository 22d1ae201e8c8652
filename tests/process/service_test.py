"""`pome service`, with stand-ins for the system's service managers."""
import os
import pathlib
import stat
import sys
import unittest

import program


@unittest.skipIf(sys.platform == "darwin", "launchd has no stand-in here")
class ServiceTest(program.ProgramTest):
    def setUp(self):
        super().setUp()
        self.tools = self.home / "tools"
        self.tools.mkdir()
        self.calls = self.home / "calls.txt"
        for name in ("systemctl", "loginctl", "journalctl"):
            tool = self.tools / name
            tool.write_text(f'#!/bin/sh\necho "{name} $*" >> "{self.calls}"\n'
                            f'[ ! -e "{self.home}/fails" ] || exit 3\n')
            tool.chmod(0o755)

    def service(self, *words: str, code: int = 0):
        result = self.run_pome("service", *words, PATH=f"{self.tools}:{os.environ['PATH']}", HOME=str(self.home),
                               XDG_CONFIG_HOME=str(self.home / "config"))
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def called(self) -> list[str]:
        lines = self.calls.read_text().splitlines() if self.calls.exists() else []
        self.calls.unlink(missing_ok=True)
        return lines

    def test_a_service_is_installed_started_read_and_removed(self):
        self.service("install", "echo", "--port", "1234", "--api-key", "it's \"secret\"", "--strict-model-name",
                     "--allowed-hosts", "a.example", "b.example")
        self.assertEqual(self.called(), ["systemctl --user daemon-reload", "systemctl --user enable pome.service",
                                         "loginctl enable-linger", "systemctl --user start pome.service"])
        config = self.home / "config/pome/service.yaml"
        self.assertEqual(stat.S_IMODE(config.stat().st_mode), 0o600)
        unit = (self.home / "config/systemd/user/pome.service").read_text()
        self.assertIn(f'serve --config "{config}"', unit)
        self.assertNotIn("secret", unit)
        shown = self.run_pome("show-config", "--config", str(config)).stdout
        for expected in ("--model-path +echo ", "--port +1234 ", r"--api-key +\(set\) ",
                         "--strict-model-name +true ", "--allowed-hosts +a.example b.example "):
            self.assertRegex(shown, expected)
        self.service("status")
        self.service("logs", "--follow")
        self.service("stop")
        self.assertEqual(self.called(), ["systemctl --user --no-pager status pome.service",
                                         "journalctl --user --no-pager -n 100 -u pome.service -f",
                                         "systemctl --user stop pome.service"])
        self.service("uninstall")
        self.assertEqual(self.called(), ["systemctl --user disable --now pome.service"])
        self.assertFalse(config.exists())
        self.assertIn("no service of pome", self.service("start", code=1).stderr)

    def test_what_the_server_would_refuse_is_refused_before_anything_is_written(self):
        result = self.service("install", "echo", "--port", "many", code=2)
        self.assertIn("--port", result.stderr)
        self.assertEqual(self.called(), [])
        self.assertFalse((self.home / "config").exists())

    def test_a_manager_that_refuses_or_is_missing_is_named(self):
        (self.home / "fails").write_text("")
        self.assertIn("systemctl --user daemon-reload", self.service("install", "echo", code=1).stderr)
        for tool in self.tools.iterdir():
            tool.unlink()
        result = self.run_pome("service", "install", "echo", PATH=str(self.tools), HOME=str(self.home),
                               XDG_CONFIG_HOME=str(self.home / "config"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("systemctl is not there", result.stderr)

    def test_a_dry_run_does_nothing(self):
        shown = self.service("install", "echo", "--dry-run").stdout
        self.assertIn("ExecStart=", shown)
        self.assertIn("systemctl --user enable pome.service", shown)
        self.assertEqual(self.called(), [])
        self.assertFalse((self.home / "config").exists())

    def test_words_that_mean_nothing_are_refused(self):
        for words in (["begin"], ["stop", "--port", "1"], ["logs", "echo"]):
            result = self.service(*words, code=2)
            self.assertIn("service", result.stderr)


class LogFileTest(program.ProgramTest):
    def test_the_log_goes_to_a_file_and_nowhere_else(self):
        file = self.home / "pome.log"
        process, _ = self.serve("--log-file", str(file), "--log-requests", "--log-requests-format", "json")
        self.end(process)
        self.assertEqual(process.stderr.read(), "")
        self.assertRegex(file.read_text(), r"(?m)^\[\d{4}-\d\d-\d\d .*\] info ")
        result = self.run_pome("serve", "echo", "--log-file", str(self.home))
        self.assertEqual(result.returncode, 2)


if __name__ == "__main__":
    program.main()
