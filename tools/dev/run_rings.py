"""Runs rings of tests by their ctest label and counts what happened.

usage: run_rings.py [--prepared SECONDS] [--build FOLDER] RING…

Counts come from each program's own report (GoogleTest XML, pytest junit), so that a skip has its reason; a program
that leaves no report counts as one test. A ring is stopped when its time budget is used up, and one that ran nothing
is a failure. The last line is `N passed, N failed, N skipped`.
"""
import argparse
import collections
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import xml.etree.ElementTree

# Seconds on two cores. With 1,020 s for setup and build they make the 40 minutes of `./dev test`.
BUDGET_S = {"unit": 90, "kernel": 80, "parity": 100, "invariance": 220, "simulation": 60, "scenario": 200,
            "clients": 240, "playground": 180, "fuzz": 150, "tidy": 60}
PREPARE_BUDGET_S = 1020
# Rings whose programs use one thread each and may run side by side.
PARALLEL = {"unit", "simulation", "tidy"}


@dataclasses.dataclass
class Outcome:
    passed: int = 0
    failed: list = dataclasses.field(default_factory=list)   # (name, message)
    skipped: list = dataclasses.field(default_factory=list)  # (name, reason)
    seconds: float = 0.0


def programs_of(ring: str, folder: pathlib.Path) -> list[dict]:
    text = subprocess.run(["ctest", "--test-dir", folder, "-L", f"^{ring}$", "--show-only=json-v1"],
                          capture_output=True, text=True, check=True).stdout
    return json.loads(text[text.index("{"):])["tests"]


def report_path(program: dict) -> pathlib.Path | None:
    for argument in program.get("command", []):
        if match := re.match(r"--(?:gtest_output=xml:|junitxml=|junit-xml=)(.+)", argument):
            return pathlib.Path(match[1])
    return None


def read_report(path: pathlib.Path, outcome: Outcome) -> None:
    root = xml.etree.ElementTree.parse(path).getroot()
    for case in root.iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        bad = [child for child in case if child.tag in ("failure", "error")]
        skip = case.find("skipped")
        if bad:
            outcome.failed.append((name, bad[0].get("message") or bad[0].text or ""))
        elif skip is not None:
            reason = (skip.get("message") or "").strip().split("\n")[-1]
            outcome.skipped.append((name, reason or "no reason given"))
        elif case.get("status") == "notrun":
            outcome.skipped.append((name, "disabled"))
        else:
            outcome.passed += 1


def run_ring(ring: str, folder: pathlib.Path) -> Outcome:
    outcome = Outcome()
    started = time.monotonic()
    programs = programs_of(ring, folder)
    for program in programs:
        if path := report_path(program):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
    verdicts = run_ctest(ring, folder)
    for program in programs:
        collect(program, verdicts.get(program["name"], ("", "the ring's time was up")), outcome)
    if outcome.passed + len(outcome.failed) == 0:
        outcome.failed.append((f"ring {ring}", "ran nothing: no test program has this label, or all were skipped"))
    outcome.seconds = time.monotonic() - started
    return outcome


def run_ctest(ring: str, folder: pathlib.Path) -> dict[str, tuple[str, str]]:
    """Test program -> (ctest's status, output)."""
    junit = folder.resolve() / "reports" / f"ring-{ring}.xml"
    junit.parent.mkdir(parents=True, exist_ok=True)
    junit.unlink(missing_ok=True)
    jobs = str(os.cpu_count() if ring in PARALLEL else 1)
    command = ["ctest", "--test-dir", folder, "-L", f"^{ring}$", "-j", jobs, "--output-junit", junit,
               "--stop-time", time.strftime("%H:%M:%S", time.localtime(time.time() + BUDGET_S[ring]))]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    if not junit.exists():
        return {}
    root = xml.etree.ElementTree.parse(junit).getroot()
    return {case.get("name"): ("skipped" if skipped_itself(case) else case.get("status", ""),
                               case.findtext("system-out") or "") for case in root.iter("testcase")}


def skipped_itself(case: xml.etree.ElementTree.Element) -> bool:
    """Whether the program ended with its SKIP_RETURN_CODE; ctest marks a missing program as skipped too."""
    skip = case.find("skipped")
    return skip is not None and "SKIP_RETURN_CODE" in skip.get("message", "")


def collect(program: dict, verdict: tuple[str, str], outcome: Outcome) -> None:
    status, output = verdict
    path = report_path(program)
    failed_before = len(outcome.failed)
    reported = path is not None and path.exists()
    if reported:
        read_report(path, outcome)
    if status == "skipped":
        outcome.skipped.append((program["name"], (output.strip().splitlines() or ["no reason given"])[-1]))
    elif status == "run" and not reported:
        outcome.passed += 1
    elif status in ("disabled", "notrun") and not reported:
        outcome.failed.append((program["name"], "was not built"))
    elif status != "run" and len(outcome.failed) == failed_before:
        tail = "\n".join(output.strip().splitlines()[-40:])
        outcome.failed.append((program["name"], tail or "crashed or ran out of time"))


def print_summary(outcomes: dict[str, Outcome], prepared_s: float) -> None:
    for ring, outcome in outcomes.items():
        for name, message in outcome.failed:
            print(f"\nFAILED [{ring}] {name}\n" + "\n".join("    " + line for line in message.splitlines()[:40]))
    reasons = collections.Counter(reason for o in outcomes.values() for _, reason in o.skipped)
    if reasons:
        print("\nskipped:")
        for reason, count in reasons.most_common():
            print(f"  {count:4d}  {reason}")
    print(f"\n{'ring':<12}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}{'budget':>8}")
    rows = [("(prepare)", "", "", "", prepared_s, PREPARE_BUDGET_S)]
    rows += [(ring, o.passed, len(o.failed), len(o.skipped), o.seconds, BUDGET_S[ring])
             for ring, o in outcomes.items()]
    for ring, passed, failed, skipped, seconds, budget in rows:
        over = "  over budget" if seconds > budget else ""
        print(f"{ring:<12}{passed:>8}{failed:>8}{skipped:>9}{seconds:>9.0f}{budget:>8}{over}")
    total_s = sum(row[4] for row in rows)
    print(f"{'all':<12}{'':>8}{'':>8}{'':>9}{total_s:>9.0f}{PREPARE_BUDGET_S + sum(BUDGET_S.values()):>8}")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--prepared", type=float, default=0.0)
    parser.add_argument("--build", default="build/dev")
    parser.add_argument("rings", nargs="+", choices=list(BUDGET_S))
    arguments = parser.parse_args()
    outcomes = {}
    for ring in arguments.rings:
        # Fuzz targets need the sanitizers, which have a build of their own.
        folder = "build/fuzz" if ring == "fuzz" else arguments.build
        print(f"    {ring}: ", end="", flush=True)
        outcomes[ring] = outcome = run_ring(ring, pathlib.Path(folder))
        print(f"{outcome.passed} passed, {len(outcome.failed)} failed, {len(outcome.skipped)} skipped "
              f"in {outcome.seconds:.0f} s", flush=True)
    print_summary(outcomes, arguments.prepared)
    failed = sum(len(o.failed) for o in outcomes.values())
    print(f"{sum(o.passed for o in outcomes.values())} passed, {failed} failed, "
          f"{sum(len(o.skipped) for o in outcomes.values())} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
