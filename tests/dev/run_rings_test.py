"""How ./dev test counts: reports, crashes, skips with reasons, rings that ran nothing."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

RUNNER = pathlib.Path(__file__).parents[2] / "tools/dev/run_rings.py"
REPORT = """<testsuites><testsuite name="A">{cases}</testsuite></testsuites>"""
PASS = '<testcase classname="A" name="good" status="run"/>'
FAIL = '<testcase classname="A" name="bad" status="run"><failure message="1 is not 2"/></testcase>'
SKIP = '<testcase classname="A" name="later" status="run"><skipped message="a.cpp:3&#10;no weights"/></testcase>'


def run(ring: str, *programs: tuple[str, str]) -> tuple[int, list[str]]:
    """Exit code and lines of the runner over made-up test programs (name, shell script); $1 is the report's path."""
    with tempfile.TemporaryDirectory() as folder:
        lines = []
        for name, script in programs:
            path = pathlib.Path(folder) / f"{name}.sh"
            path.write_text(f"report=${{1#--gtest_output=xml:}}\n{script}\n")
            report = f"{folder}/reports/{name}.xml"
            lines.append(f'add_test({name} "sh" "{path}" "--gtest_output=xml:{report}")\n'
                         f"set_tests_properties({name} PROPERTIES LABELS unit SKIP_RETURN_CODE 77)\n")
        (pathlib.Path(folder) / "CTestTestfile.cmake").write_text("".join(lines))
        done = subprocess.run([sys.executable, RUNNER, "--build", folder, ring], capture_output=True, text=True,
                              check=False)
        return done.returncode, done.stdout.splitlines()


def write(*cases: str) -> str:
    return "cat > $report <<'XML'\n" + REPORT.format(cases="".join(cases)) + "\nXML"


class RunRingsTest(unittest.TestCase):
    def test_the_last_line_counts_what_the_reports_say(self):
        code, lines = run("unit", ("a", write(PASS, SKIP)), ("b", write(PASS)))
        self.assertEqual((code, lines[-1]), (0, "2 passed, 0 failed, 1 skipped"), lines)

    def test_a_skip_is_shown_with_its_reason(self):
        _, lines = run("unit", ("a", write(PASS, SKIP)))
        self.assertTrue(any(line.split(None, 1) == ["1", "no weights"] for line in lines), lines)

    def test_a_failure_is_named_and_fails_the_run(self):
        code, lines = run("unit", ("a", write(PASS, FAIL) + "\nexit 1"))
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"), lines)
        self.assertIn("FAILED [unit] A.bad", lines)

    def test_a_crash_counts_as_a_failure_with_or_without_a_report(self):
        self.assertEqual(run("unit", ("a", "kill -SEGV $$"))[1][-1], "0 passed, 1 failed, 0 skipped")
        self.assertEqual(run("unit", ("a", write(PASS) + "\nkill -SEGV $$"))[1][-1], "1 passed, 1 failed, 0 skipped")

    def test_a_program_without_a_report_is_one_test(self):
        self.assertEqual(run("unit", ("a", "true"))[1][-1], "1 passed, 0 failed, 0 skipped")
        self.assertEqual(run("unit", ("a", "echo why; exit 3"))[1][-1], "0 passed, 1 failed, 0 skipped")

    def test_a_program_may_skip_itself_and_its_last_words_are_the_reason(self):
        code, lines = run("unit", ("a", "echo no network; exit 77"), ("b", write(PASS)))
        self.assertEqual((code, lines[-1]), (0, "1 passed, 0 failed, 1 skipped"), lines)
        self.assertTrue(any(line.split(None, 1) == ["1", "no network"] for line in lines), lines)

    def test_a_program_that_was_not_built_is_a_failure(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "CTestTestfile.cmake").write_text(
                'add_test(gone "/nowhere/gone")\nset_tests_properties(gone PROPERTIES LABELS unit)\n')
            done = subprocess.run([sys.executable, RUNNER, "--build", folder, "unit"], capture_output=True, text=True,
                                  check=False)
        self.assertEqual(done.stdout.splitlines()[-1], "0 passed, 1 failed, 0 skipped")

    def test_a_ring_that_ran_nothing_is_a_failure(self):
        code, lines = run("kernel", ("a", write(PASS)))
        self.assertEqual((code, lines[-1]), (1, "0 passed, 1 failed, 0 skipped"), lines)
        code, lines = run("unit", ("a", write(SKIP)))
        self.assertEqual((code, lines[-1]), (1, "0 passed, 1 failed, 1 skipped"), lines)


if __name__ == "__main__":
    unittest.main()
