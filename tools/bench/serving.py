"""pome's engine under the loads that people wait for, and a model without the engine: each figure beside its bar.

usage: serving.py --model FILE --programs FOLDER [--repetitions 5] [--threads N] [--scenario NAME]… [--out FOLDER]

FOLDER holds one_batch and serving/serving as they were built. The result is one JSON file in --out, with the commit, the
processor and how busy the machine was: compare only what was measured on a machine that did nothing else."""
import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys

from peers import commit, processor

SCENARIOS = ("decode", "prefix", "mixed", "scheduler", "memory")
SHAPES = ((128, 64), (512, 64))  # prompt and decoded tokens of one sequence
QUIET_LOAD = 0.5


def run(command: list[str]) -> dict:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}")
    return json.loads(done.stdout[done.stdout.index("{"):])


def one_batch(arguments: argparse.Namespace, prompt: int, decode: int) -> list[dict]:
    said = run([f"{arguments.programs}/one_batch", "--model", arguments.model, "--prompt", str(prompt), "--decode",
                str(decode), "--threads", str(arguments.threads), "--json"])
    return [{"name": f"{what} without the engine, {prompt} + {decode} tokens", "unit": unit, "median": said[key],
             "values": [said[key]]}
            for what, key, unit in (("prefill", "prefill_tokens_per_s", "tokens/s"),
                                    ("decode", "decode_tokens_per_s", "tokens/s"))]


def serving(arguments: argparse.Namespace, scenario: str) -> list[dict]:
    return run([f"{arguments.programs}/serving/serving", scenario, "--model", arguments.model, "--repetitions",
                str(arguments.repetitions), "--threads", str(arguments.threads), "--verbose", "--json"])[scenario]


def print_figures(title: str, figures: list[dict]) -> None:
    print(f"\n{title}")
    for figure in figures:
        bar = f"bar: {figure['bar']}, {'met' if figure['met'] else 'MISSED'}" if "bar" in figure else ""
        print(f"  {figure['name']:<72}{figure['median']:>10.4g} {figure['unit']:<14}{bar}".rstrip(), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--programs", required=True)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--scenario", action="append", choices=SCENARIOS, help="default: all, and one_batch")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("bench/results"))
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    if load > QUIET_LOAD * (os.cpu_count() or 1):
        print(f"    the machine is busy (load {load:.1f}): the times will say little")
    results = {}
    if not arguments.scenario:
        results["one_batch"] = [figure for shape in SHAPES for figure in one_batch(arguments, *shape)]
        print_figures("one_batch", results["one_batch"])
    for scenario in arguments.scenario or SCENARIOS:
        results[scenario] = serving(arguments, scenario)
        print_figures(scenario, results[scenario])
    model = pathlib.Path(arguments.model)
    record = {"commit": commit(), "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
              "processor": processor(), "cores": os.cpu_count(), "system": platform.platform(),
              "load_before": round(load, 2), "command": " ".join(["./dev bench", *sys.argv[5:]]),
              "threads": arguments.threads, "model": model.name, "model_bytes": model.stat().st_size,
              "results": results}
    file = arguments.out / f"serving-{datetime.date.today()}-{record['commit']}.json"
    file.write_text(json.dumps(record, indent=1) + "\n")
    missed = [figure["name"] for figures in results.values() for figure in figures if not figure.get("met", True)]
    print(f"\n    {len(missed)} bars missed; written to {file}")


if __name__ == "__main__":
    main()
