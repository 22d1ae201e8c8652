"""Flags, configuration files, variables and help."""
import json
import pathlib
import shutil
import subprocess
import unittest

import program


class HelpTest(program.ProgramTest):
    def test_every_command_has_help_of_lines_that_fit(self):
        top = self.run_pome("--help")
        self.assertEqual(top.returncode, 0)
        for command in ("serve", "chat", "run", "pull", "list", "rm", "show-config", "check-env",
                        "completions"):
            self.assertIn(f"  {command} ", top.stdout)
            for flag in ("--help", "--help-all"):
                result = self.run_pome(command, flag)
                self.assertEqual((result.returncode, result.stderr), (0, ""), command)
                self.assertTrue(result.stdout.startswith(f"usage: pome {command}"))
                self.assertEqual([line for line in result.stdout.splitlines() if len(line) > 110], [])

    def test_what_is_missing_is_answered_with_the_usage_on_standard_error(self):
        for command in ("run", "pull", "rm", "replay"):
            result = self.run_pome(command)
            self.assertEqual((result.returncode, result.stdout), (2, ""), command)
            self.assertTrue(result.stderr.startswith(f"usage: pome {command}"))

    def test_version_is_one_line(self):
        self.assertRegex(self.run_pome("--version").stdout, r"^pome \d+\.\d+\.\d+\n$")

    def test_an_unknown_command_is_named(self):
        result = self.run_pome("sevre")
        self.assertEqual(result.returncode, 2)
        self.assertIn("no command 'sevre'", result.stderr)


class CompletionsTest(program.ProgramTest):
    def complete(self, *words: str) -> list[str]:
        """What bash offers for the last word of a command line."""
        script = self.run_pome("completions", "bash").stdout
        line = " ".join(f"'{word}'" for word in words)
        result = subprocess.run(
            ["bash", "--norc", "-c", f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _pome; "
             "printf '%s\\n' \"${COMPREPLY[@]}\""], capture_output=True, text=True, cwd=self.home, timeout=20)
        self.assertEqual(result.stderr, "")
        return result.stdout.split()

    @unittest.skipUnless(shutil.which("bash"), "there is no bash")
    def test_bash_completes_commands_flags_and_their_values(self):
        self.assertEqual(self.complete("pome", "re"), ["replay"])
        self.assertIn("--max-running-requests", self.complete("pome", "serve", "--max-"))
        self.assertEqual(self.complete("pome", "pull", "--"), ["--help"])
        self.assertEqual(self.complete("pome", "serve", "--kv-cache-dtype", "int"), ["int8", "int4"])
        (self.home / "some model.gguf").write_text("")
        self.assertEqual(" ".join(self.complete("pome", "serve", "--model-path", "som")), "some model.gguf")

    def test_other_shells_get_scripts_and_unknown_ones_the_usage(self):
        fish = self.run_pome("completions", "fish").stdout
        self.assertIn("complete -c pome -n __fish_use_subcommand -a serve -d ", fish)
        self.assertRegex(fish, r"-l kv-cache-dtype .* -x -a '[^']*int8[^']*'")
        self.assertIn("bashcompinit", self.run_pome("completions", "zsh").stdout)
        result = self.run_pome("completions", "csh")
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertTrue(result.stderr.startswith("usage: pome completions bash|zsh|fish"))


class FlagTest(program.ProgramTest):
    def config(self, *words: str, **env: str) -> dict[str, dict]:
        result = self.run_pome("show-config", "--json", *words, **env)
        self.assertEqual(result.returncode, 0, result.stderr)
        return {row["name"]: row for row in json.loads(result.stdout)["flags"]}

    def refused(self, *words: str, **env: str) -> str:
        result = self.run_pome("show-config", *words, **env)
        self.assertEqual(result.returncode, 2, result.stdout)
        self.assertEqual(len(result.stderr.strip().splitlines()), 1)
        return result.stderr

    def test_defaults_are_those_of_sglang_where_they_make_sense(self):
        config = self.config()
        self.assertEqual(config["--host"]["value"], "127.0.0.1")
        self.assertEqual(config["--port"]["value"], "30000")
        self.assertEqual(config["--watchdog-timeout"]["value"], "300")
        self.assertEqual(config["--schedule-policy"]["value"], "fcfs")
        self.assertEqual(config["--sampling-defaults"]["value"], "model")

    def test_the_command_line_wins_over_the_file_over_the_variable_over_the_default(self):
        file = self.home / "config.yaml"
        file.write_text("port: 2\nhost: 0.0.0.0\nstrict-model-name: true\nmax_running_requests: 3\n")
        env = {"POME_PORT": "1", "POME_CLIENT_TIMEOUT": "9"}
        self.assertEqual(self.config(**env)["--port"], {"name": "--port", "value": "1", "origin": "POME_PORT"})
        config = self.config("--config", str(file), **env)
        self.assertEqual((config["--port"]["value"], config["--port"]["origin"]), ("2", str(file)))
        self.assertEqual(config["--strict-model-name"]["value"], "true")
        self.assertEqual(config["--max-running-requests"]["value"], "3")
        self.assertEqual(config["--client-timeout"]["origin"], "POME_CLIENT_TIMEOUT")
        config = self.config("--config", str(file), "--port", "3", **env)
        self.assertEqual((config["--port"]["value"], config["--port"]["origin"]), ("3", "command line"))
        self.assertEqual(self.config(POME_CONFIG=str(file))["--port"]["value"], "2")

    def test_the_last_of_a_flag_given_twice_wins(self):
        self.assertEqual(self.config("--port", "1", "--port=2")["--port"]["value"], "2")

    def test_keys_are_not_shown(self):
        self.assertEqual(self.config("--api-key", "secret")["--api-key"]["value"], "(set)")

    def test_wrong_values_name_the_flag_its_origin_and_what_is_expected(self):
        self.assertIn("--port (command line): expected a whole number, got 'x'", self.refused("--port", "x"))
        self.assertIn("from 0 to 65535", self.refused("--port", "65536"))
        self.assertEqual(self.config("--port", "65535")["--port"]["value"], "65535")
        self.assertIn("POME_PORT", self.refused(POME_PORT="-1"))
        self.assertIn("0.01 to 1", self.refused("--mem-fraction-static", "1.01"))
        self.assertIn("steps always have a bound", self.refused("--chunked-prefill-size", "-1"))
        self.assertEqual(self.config("--chunked-prefill-size", "1")["--chunked-prefill-size"]["value"], "1")
        self.assertIn("one of", self.refused("--log-level", "loud"))
        self.assertIn("8GiB", self.refused("--max-memory", "much"))

    def test_an_unknown_flag_names_its_neighbour(self):
        self.assertIn("did you mean --model-path?", self.refused("--model-pth", "x"))
        file = self.home / "config.yaml"
        file.write_text("prot: 1\n")
        self.assertIn("did you mean --port?", self.refused("--config", str(file)))

    def test_a_configuration_file_that_is_none_is_refused(self):
        file = self.home / "config.yaml"
        for text in ("- a\n- b\n", "port: [1\n", "port: {a: 1}\n"):
            file.write_text(text)
            self.assertIn(str(file), self.refused("--config", str(file)))
        self.assertIn("cannot read", self.refused("--config", str(self.home / "absent.yaml")))

    def test_flags_of_other_hardware_cost_one_warning_line_each(self):
        process, _ = self.serve("--trust-remote-code", "--disable-cuda-graph", "--attention-backend", "triton",
                                "--cuda-graph-bs", "1", "2", "4", "--tp-size", "1", "--dp", "1")
        self.end(process)
        warnings = [line for line in process.stderr.read().splitlines() if "has no effect" in line]
        self.assertEqual(len(warnings), 4, warnings)

    def test_every_flag_of_sglang_stands_in_the_table(self):
        page = self.run_pome("--help-markdown").stdout
        lines = (pathlib.Path(__file__).parent / "sglang_flags.txt").read_text().splitlines()
        flags = [line for line in lines if line.startswith("--")]
        self.assertGreater(len(flags), 500)
        self.assertEqual([flag for flag in flags if f"`{flag}`" not in page], [])

    def test_flags_that_change_what_is_served_are_refused_with_the_alternative(self):
        self.assertIn("start one server a machine", self.refused("--tp-size", "2"))
        self.assertIn("(1 is accepted)", self.refused("--tensor-parallel-size=2"))
        self.assertIn("merge the adapter", self.refused("--lora-paths", "a=b"))
        self.assertIn("already quantized", self.refused("--quantization", "fp8"))
        self.assertIn("is not supported", self.refused(POME_SPECULATIVE_ALGORITHM="EAGLE"))


class CheckEnvTest(program.ProgramTest):
    def test_it_names_the_machine_and_what_is_missing(self):
        result = self.run_pome("check-env", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        facts = json.loads(result.stdout)
        self.assertGreater(facts["memory_bytes"], 1 << 28)
        self.assertGreaterEqual(facts["cpu_cores"], 1)
        self.assertGreater(facts["disk_free_bytes"], 0)
        self.assertTrue(facts["system"])
        self.assertTrue(any("pome pull" in line for line in facts["missing"]))
        text = self.run_pome("check-env").stdout
        for label in ("system", "memory", "back end", "disk free", "missing"):
            self.assertIn(label, text)


if __name__ == "__main__":
    program.main()
