"""pome and llama.cpp side by side: the same file, the same shapes, in turns.

usage: peers.py --model FILE --pome FOLDER --peer FOLDER [--shape NAME …] [--pairs 5] [--threads N] [--out FOLDER]

Each pair runs both programs back to back, in alternating order, so that a slow minute of the machine hits both; the
first pair is a warm-up and does not count. Medians and ratios are of the pairs. The folders hold pome's one_batch and
serving/serving, and the peer's llama-bench and llama-batched-bench. One sequence runs without the engine, several run
through it. Instruction counts are added where the kernel lets perf read them.
"""
import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile


@dataclasses.dataclass(frozen=True)
class Shape:
    name: str
    prompt: int
    decode: int
    sequences: int = 1


SHAPES = (Shape("prefill 128", 128, 0), Shape("prefill 512", 512, 0), Shape("decode 64", 0, 64),
          Shape("decode 32 at depth 4000", 4000, 32), Shape("16 streams", 128, 128, 16),
          Shape("32 streams", 128, 128, 32))


def counted(command: list[str]) -> tuple[str, int | None]:
    """Standard output, and user-space instructions where perf can count them."""
    with tempfile.NamedTemporaryFile("r") as counts:
        prefix = ["perf", "stat", "-x,", "-e", "instructions:u", "-o", counts.name] if perf_works() else []
        done = subprocess.run(prefix + command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
        match = re.search(r"^(\d+),", counts.read(), re.M)
    return done.stdout, int(match[1]) if match else None


def perf_works(known: list[bool] = []) -> bool:  # noqa: B006  (one answer for the process)
    if not known:
        done = subprocess.run(["perf", "stat", "-x,", "-e", "instructions:u", "true"], capture_output=True, text=True,
                              check=False) if shutil.which("perf") else None
        known.append(bool(done and re.search(r"^\d+,", done.stderr, re.M)))
    return known[0]


def run_peer(arguments: argparse.Namespace, shape: Shape) -> dict:
    same = ["-m", arguments.model, "-t", str(arguments.threads)]
    if shape.sequences > 1:
        context = shape.sequences * (shape.prompt + shape.decode)
        text, instructions = counted([f"{arguments.peer}/llama-batched-bench", *same, "-c", str(context), "-npp",
                                      str(shape.prompt), "-ntg", str(shape.decode), "-npl", str(shape.sequences),
                                      "--output-format", "jsonl"])
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        return {"tokens_per_s": lines[-1]["speed_tg"], "instructions": instructions}
    depth = shape.prompt if shape.decode else 0
    text, instructions = counted([f"{arguments.peer}/llama-bench", *same, "-p", str(shape.prompt - depth), "-n",
                                  str(shape.decode), "-d", str(depth), "-r", "1", "-o", "json"])
    return {"tokens_per_s": json.loads(text)[0]["avg_ts"], "instructions": instructions}


def run_pome(arguments: argparse.Namespace, shape: Shape) -> dict:
    same = ["--model", arguments.model, "--threads", str(arguments.threads), "--json"]
    if shape.sequences > 1:
        text, instructions = counted([f"{arguments.pome}/serving/serving", "decode", *same, "--sequences",
                                      str(shape.sequences), "--repetitions", "1"])
        return {"tokens_per_s": json.loads(text)["decode"][0]["median"], "instructions": instructions}
    # Decoding needs a prompt of at least one token; only the decoded ones are timed.
    text, instructions = counted([f"{arguments.pome}/one_batch", *same, "--prompt", str(max(shape.prompt, 1)),
                                  "--decode", str(shape.decode)])
    said = json.loads(text[text.index("{"):])
    key = "decode_tokens_per_s" if shape.decode else "prefill_tokens_per_s"
    return {"tokens_per_s": said[key], "instructions": instructions}


def measure(arguments: argparse.Namespace, shape: Shape) -> dict:
    pairs = []
    for index in range(arguments.pairs + 1):
        order = [("peer", run_peer), ("pome", run_pome)]
        if index % 2:
            order.reverse()
        pair = {name: run(arguments, shape) for name, run in order}
        if index:
            pairs.append(pair)
            print(f"    {shape.name}, pair {index} of {arguments.pairs}: peer {pair['peer']['tokens_per_s']:.1f}, "
                  f"pome {pair['pome']['tokens_per_s']:.1f} tok/s", flush=True)
    result = {"shape": dataclasses.asdict(shape), "pairs": pairs}
    for name in ("peer", "pome"):
        result[name] = statistics.median(pair[name]["tokens_per_s"] for pair in pairs)
    result["ratio"] = statistics.median(p["pome"]["tokens_per_s"] / p["peer"]["tokens_per_s"] for p in pairs)
    return result


def accuracy(program: str, model: str) -> dict | None:
    """Mean KL of the measured path against a float32 run, as one_batch reports it."""
    done = subprocess.run([f"{program}/one_batch", "--model", model, "--kl", "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"    no KL: {done.stderr.strip()[-300:]}")
        return None
    return json.loads(done.stdout[done.stdout.index("{"):])


def processor() -> str:
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    if cpuinfo.exists() and (match := re.search(r"model name\s*: (.+)", cpuinfo.read_text())):
        return match[1]
    if sys.platform == "darwin":
        return subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True,
                              check=True).stdout.strip()
    return platform.processor()


def commit() -> str:
    done = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12"], capture_output=True, text=True,
                          check=False)
    return done.stdout.strip() or "unknown"


def print_table(results: list[dict], kl: dict | None) -> None:
    print(f"\n{'shape':<26}{'llama.cpp tok/s':>18}{'pome tok/s':>14}{'ratio':>8}")
    for result in results:
        print(f"{result['shape']['name']:<26}{result['peer']:>18.1f}{result['pome']:>14.1f}{result['ratio']:>8.2f}")
    if kl:
        print(f"pome's answers on this path: mean KL {kl['mean_kl']:.2e} against float32, "
              f"same first choice {100 * kl['top1_agreement']:.1f} %")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--pome", required=True)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--peer-version", default="")
    parser.add_argument("--shape", action="append", choices=[shape.name for shape in SHAPES])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("bench/results"))
    arguments = parser.parse_args()
    if arguments.pairs < 1:
        parser.error("--pairs is at least 1")
    results = [measure(arguments, shape) for shape in SHAPES if not arguments.shape or shape.name in arguments.shape]
    kl = accuracy(arguments.pome, arguments.model)
    print_table(results, kl)
    model = pathlib.Path(arguments.model)
    record = {"commit": commit(), "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
              "processor": processor(), "cores": os.cpu_count(), "system": platform.platform(),
              "command": "./dev bench-peers", "threads": arguments.threads,
              "peer": f"llama.cpp of llama-cpp-python {arguments.peer_version}", "model": model.name,
              "model_bytes": model.stat().st_size, "results": results, "accuracy": kl}
    file = arguments.out / f"peers-{datetime.date.today()}-{record['commit']}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(record, indent=1) + "\n")
    print(f"    written to {file}")


if __name__ == "__main__":
    main()
