"""How tools/gpu counts what ran on a GPU machine, and what a pack keeps of a library; no GPU is needed for either."""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools/gpu"))
import pack  # noqa: E402

CASES = {
    "good": '<testcase classname="A" name="good" status="run" result="completed"/>',
    "bad": '<testcase classname="A" name="bad" status="run"><failure message="1 is not 2"/></testcase>',
    "later": '<testcase classname="A" name="later" status="run"><skipped message="a.cpp:3&#10;no own kernels"/></testcase>',
}


def script(path: pathlib.Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def run(**programs: str) -> tuple[int, dict]:
    """Exit code and result of run.py over a pack of made-up test programs: cases that they report, or a shell line."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "bin").mkdir()
        script(folder / "bin/pome", "echo '{\"mlx_version\": \"1.2.3\"}'")
        for program, cases in programs.items():
            report = "".join(CASES[case] for case in cases.split() if case in CASES)
            line = cases if not report else ("for word in \"$@\"; do case $word in --gtest_output=xml:*) file=${word#*xml:};;"
                                             f" esac; done\ncat > $file <<'XML'\n<a><b>{report}</b></a>\nXML")
            script(folder / "bin" / program, line)
        (folder / "pack.json").write_text(json.dumps({"commit": "abc", "source": str(folder)}))
        done = subprocess.run([sys.executable, ROOT / "tools/gpu/run.py", "--pack", folder, "--only", "tests", "--out",
                               folder / "out.json", "--logs", folder / "logs"], capture_output=True, text=True,
                              check=False)
        return done.returncode, json.loads((folder / "out.json").read_text())


class GpuRunTest(unittest.TestCase):
    def test_passes_failures_and_skips_are_counted_with_their_reasons(self):
        code, result = run(engine_test="good good bad", pome_quant_test="good later later")
        self.assertEqual((code, result["passed"], result["skipped"]), (1, 3, 2))
        self.assertEqual(result["failed"], ["engine_test: A.bad"])
        self.assertEqual(result["tests"]["pome_quant_test"]["skipped"], {"no own kernels": 2})
        self.assertEqual((result["commit"], result["machine"]["mlx_version"]), ("abc", "1.2.3"))

    def test_all_passed_is_success(self):
        self.assertEqual(run(engine_test="good")[0], 0)

    def test_a_program_that_dies_without_a_report_is_a_failure(self):
        code, result = run(engine_test="kill -SEGV $$")
        self.assertEqual(code, 1)
        self.assertEqual(result["failed"], ["engine_test: the program ended without a report"])


class PackTest(unittest.TestCase):
    def test_other_architectures_lose_their_code_and_nothing_else_moves(self):
        entries = b""
        for kind, arch, fill in [(2, 80, b"a"), (2, 90, b"b"), (1, 120, b"c")]:
            head = struct.pack("<HHIQ", kind, 0, 64, 16).ljust(28, b"\0") + struct.pack("<I", arch)
            entries += head.ljust(64, b"\0") + fill * 16
        fat = struct.pack("<IHHQ", pack.FAT_MAGIC, 1, 16, len(entries)) + entries
        with tempfile.TemporaryDirectory() as name:
            library = pathlib.Path(name) / "lib.so"
            library.write_bytes(b"before" + fat + b"after")
            pack.keep_one_architecture(library, 90, section=(6, len(fat)))
            kept = library.read_bytes()
        self.assertEqual(kept, b"before" + fat.replace(b"a" * 16, bytes(16)).replace(b"c" * 16, bytes(16)) + b"after")


if __name__ == "__main__":
    unittest.main()
