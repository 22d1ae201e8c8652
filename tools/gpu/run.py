"""Runs on a machine with an NVIDIA GPU what only such a machine can show, and writes one JSON file.

usage: run.py [--pack FOLDER [--nvidia FOLDER] | --build build/cuda] --out bench/results/gpu-DATE-COMMIT.json
              [--logs FOLDER] [--jobs N] [--only tests,serve,bench] [--tests NAME[=FILTER],…] [--model GGUF]

FOLDER is an unpacked pack of tools/gpu/pack.py. --nvidia is the folder site-packages/nvidia of a Python that has
NVIDIA's libraries (PyTorch brings them); without it they are looked for beside the pack's mlx/. --model also serves and
times real weights. Exit code 0 only when no test failed and every request was answered.
"""
import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

import programs
import serve_load

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM_TIMEOUT_S = 420
FIRST = "gpu_twins_test"
# Longest first, so that they do not come last alone.
LONG = ["invariance_engine_test", "engine_test", "parity_llm_test"]
# Prompt, decode and batch of one_batch.
BENCHES = [(512, 64, 1), (512, 64, 16), (512, 64, 64)]
BENCH_RUNS = 3


class Runner:
    def __init__(self, arguments: argparse.Namespace, logs: pathlib.Path) -> None:
        self.arguments, self.logs = arguments, logs
        self.environment = dict(os.environ) | programs.ENVIRONMENT
        self.filters = dict(item.partition("=")[::2] for item in arguments.tests.split(",") if item)
        if arguments.pack:
            pack = arguments.pack.resolve()
            self.about = json.loads((pack / "pack.json").read_text())
            self.programs = {path.name: path for path in (pack / "bin").iterdir()}
            self.source, self.shapes = pack / "source", pack / "gpu/make_shape.py"
            self.place_libraries(pack)
            self.place_source()
        else:
            commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"], capture_output=True,
                                    text=True, check=True).stdout.strip()
            self.about = {"commit": commit}
            self.programs = programs.in_build(arguments.build.resolve())
            self.source, self.shapes = ROOT, ROOT / "tools/bench/make_shape.py"

    def place_libraries(self, pack: pathlib.Path) -> None:
        """MLX's library finds NVIDIA's at ../../nvidia, as in the folder of a Python that has both."""
        if self.arguments.nvidia and not (pack / "nvidia").exists():
            for part in filter(pathlib.Path.is_dir, self.arguments.nvidia.resolve().iterdir()):
                (pack / "nvidia" / part.name).mkdir(parents=True)
                for inner in part.iterdir():
                    (pack / "nvidia" / part.name / inner.name).symlink_to(inner)
            # Kernels that MLX compiles at run time want the compiler's headers, which PyTorch does not bring.
            headers, toolkit = pack / "nvidia/cu13/include", pathlib.Path("/usr/local/cuda/include")
            if not (headers / "crt/mma.h").exists() and (toolkit / "crt/mma.h").exists():
                headers.parent.mkdir(parents=True, exist_ok=True)
                headers.unlink(missing_ok=True)
                headers.symlink_to(toolkit)
        folders = [pack / "mlx/lib", pack / "lib"]
        if before := os.environ.get("LD_LIBRARY_PATH"):
            folders.append(before)
        self.environment["LD_LIBRARY_PATH"] = ":".join(map(str, folders))

    def place_source(self) -> None:
        """The tests know the checkout that they were built from by its path."""
        there = pathlib.Path(self.about["source"])
        if not there.exists():
            there.parent.mkdir(parents=True, exist_ok=True)
            there.symlink_to(self.source)

    def run(self, *command: str | pathlib.Path, timeout: float, log: str, **more: str) -> int:
        with (self.logs / f"{log}.log").open("w") as out:
            try:
                return subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, timeout=timeout, check=False,
                                      env=self.environment | more).returncode
            except subprocess.TimeoutExpired:
                out.write(f"\nstopped after {timeout} s\n")
                return 124

    def test(self, name: str) -> dict:
        report = self.logs / f"{name}.xml"
        report.unlink(missing_ok=True)  # an earlier run's
        started = time.monotonic()
        code = self.run(self.programs[name], f"--gtest_output=xml:{report}", "--gtest_brief=1",
                        f"--gtest_filter={self.filters.get(name) or '*'}", timeout=self.arguments.timeout, log=name)
        result = {"exit_code": code, "seconds": round(time.monotonic() - started, 1), "passed": 0, "failed": [],
                  "skipped": {}}
        if not report.exists():
            result["failed"].append("the program ended without a report")
            return result
        for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
            skip = case.find("skipped")
            if case.find("failure") is not None:
                result["failed"].append(f"{case.get('classname')}.{case.get('name')}")
            elif skip is not None:
                reason = skip.get("message", "").strip().split("\n")[-1].replace(str(pathlib.Path.home()), "~")
                result["skipped"][reason] = result["skipped"].get(reason, 0) + 1
            elif case.get("status") == "run":
                result["passed"] += 1
        if code != 0 and not result["failed"]:
            result["failed"].append(f"the program ended with {code}")
        return result

    def tests(self) -> dict:
        names = [name for name in LONG + sorted(programs.TESTS.keys() - set(LONG)) if name in self.programs]
        if self.filters:
            names = [name for name in names if name in self.filters]
        # Alone and first: MLX compiles kernels when they are first used, and the others find them in its folder.
        first = {name: self.test(name) for name in names if name == FIRST}
        names = [name for name in names if name != FIRST]
        with concurrent.futures.ThreadPoolExecutor(self.arguments.jobs) as pool:
            return first | dict(zip(names, pool.map(self.test, names)))

    def served(self) -> dict:
        results = {}
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            tiny = serve_load.with_tokenizer(self.source / "tests/golden/llm/qwen3", folder / "tiny")
            subprocess.run([sys.executable, self.shapes, "qwen3-0.6b", folder / "shape"], check=True)
            shape = serve_load.with_tokenizer(folder / "shape", folder / "large")
            loads = [("tiny qwen3", tiny, 16, (1, 300), ""), ("tiny qwen3, many lengths", tiny, 300, (1, 1500), ""),
                     ("qwen3-0.6b, random weights", shape, 64, (16, 512), "")]
            if self.arguments.model:
                loads.append((self.arguments.model.name, self.arguments.model, 64, (16, 512),
                              "What is the capital of France?"))
            for model, path, requests, lengths, question in loads:
                try:
                    results[model] = serve_load.serve_load(
                        self.programs["pome"], path, self.environment,
                        self.logs / f"serve-{path.name}-{requests}.log", requests, lengths, question=question)
                except Exception as error:  # noqa: BLE001  (a report, not a crash)
                    results[model] = {"ok": False, "error": str(error)}
        return results

    def benches(self) -> list[dict]:
        models = [("--shape", "qwen3-0.6b")]
        if self.arguments.model:
            models.append(("--model", self.arguments.model.resolve()))
        return [self.bench(flag, model, *sizes) for flag, model in models for sizes in BENCHES]

    def bench(self, flag: str, model: str | pathlib.Path, prompt: int, decode: int, batch: int) -> dict:
        """The median of several runs, by decode; the first, which compiles kernels, does not count."""
        runs = []
        for number in range(1 + BENCH_RUNS):
            log = f"one_batch-{flag[2:]}-{batch}-{number}"
            code = self.run(self.programs["one_batch"], flag, model, "--prompt", str(prompt), "--decode", str(decode),
                            "--batch", str(batch), "--json", timeout=240, log=log)
            text = (self.logs / f"{log}.log").read_text()
            if code != 0:
                return {"model": pathlib.Path(model).name, "batch": batch, "error": text[-500:]}
            runs.append(json.loads(text[text.index("{"):]))
        about = {"model": pathlib.Path(model).name, "prompt": prompt, "decode": decode, "batch": batch}
        timed = {name: [round(run[name], 3) for run in runs[1:]]
                 for name in ("prefill_tokens_per_s", "decode_tokens_per_s", "decode_step_ms")}
        medians = {name: statistics.median(values) for name, values in timed.items()}
        return about | medians | {"decode_nodes": runs[0]["decode_nodes"], "runs": timed}

    def machine(self) -> dict:
        smi = "none"
        if shutil.which("nvidia-smi"):
            smi = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total",
                                  "--format=csv,noheader"], capture_output=True, text=True, check=False).stdout.strip()
        done = subprocess.run([self.programs["pome"], "check-env", "--json"], env=self.environment,
                              capture_output=True, text=True, check=False)
        facts = json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr[-500:]}
        kept = ("pome_version", "mlx_version", "backend", "gpu", "gpu_family", "cpu_cores", "chip", "error")
        return {"nvidia_smi": smi, "system": platform.platform()} | {key: facts[key] for key in kept if key in facts}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pack", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/cuda")
    parser.add_argument("--nvidia", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--logs", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--timeout", type=float, default=PROGRAM_TIMEOUT_S)
    parser.add_argument("--only", default="tests,serve,bench")
    parser.add_argument("--tests", default="")
    parser.add_argument("--model", type=pathlib.Path)
    arguments = parser.parse_args()
    logs = arguments.logs or pathlib.Path(tempfile.mkdtemp(prefix="pome-gpu-"))
    logs.mkdir(parents=True, exist_ok=True)
    runner, parts = Runner(arguments, logs.resolve()), arguments.only.split(",")
    result = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")}
    result |= {"commit": runner.about["commit"], "machine": runner.machine(), "environment": programs.ENVIRONMENT}

    def write() -> None:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    for part, work in [("tests", runner.tests), ("serve", runner.served), ("bench", runner.benches)]:
        if part in parts:
            result[part] = work()
            write()  # each part, so that a run that is cut short leaves what it had
    failed = [f"{name}: {label}" for name, test in result.get("tests", {}).items() for label in test["failed"]]
    if "tests" in parts and not result["tests"]:
        failed.append("tests: no program of theirs was built")
    failed += [f"serve: {name}" for name, served in result.get("serve", {}).items() if not served["ok"]]
    failed += [f"bench: {bench['model']}, batch {bench['batch']}" for bench in result.get("bench", []) if "error" in bench]
    result["passed"] = sum(test["passed"] for test in result.get("tests", {}).values())
    result["failed"] = failed
    result["skipped"] = sum(sum(test["skipped"].values()) for test in result.get("tests", {}).values())
    write()
    print(f"{result['passed']} passed, {len(failed)} failed, {result['skipped']} skipped; logs in {logs}")
    print("\n".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
