"""Prints a streamed chat answer as it arrives, then the prompt and decode speed.

usage: print_stream.py URL JSON_BODY      asks with curl where there is one, else with Python's own client
Exit code 1 when no text came or the server reported an error.
"""
import http.client
import json
import shutil
import subprocess
import sys
import time
import urllib.parse


def request_lines(url: str, body: str):
    if shutil.which("curl"):
        # A proxy of the environment cannot reach this machine's own loopback.
        command = ["curl", "-sS", "-N", "--noproxy", "*", "--max-time", "120", "-H", "Content-Type: application/json",
                   "-d", body, url]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as curl:
            yield from curl.stdout
        return
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=120)
    connection.request("POST", parts.path, body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    while line := response.readline():
        yield line


def show(lines) -> int:
    started = time.monotonic()
    first = last = None
    usage = None
    refused = []
    for raw in lines:
        line = raw.decode("utf-8").strip()
        if not line.startswith("data: "):
            refused.append(line)  # an error reply is plain JSON
            continue
        if line == "data: [DONE]":
            break
        event = json.loads(line[len("data: "):])
        if "error" in event:
            print(f"\nthe server reported an error: {json.dumps(event['error'])}", file=sys.stderr)
            return 1
        usage = event.get("usage") or usage
        for choice in event.get("choices", []):
            text = choice.get("delta", {}).get("content") or ""
            if text:
                last = time.monotonic()
                first = first or last
                print(text, end="", flush=True)
    if first is None:
        print("no text came: " + " ".join(refused), file=sys.stderr)
        return 1
    print()
    if usage:
        report(usage, first - started, last - first)
    return 0


def report(usage: dict, wait_s: float, decode_s: float) -> None:
    prompt, output = usage["prompt_tokens"], usage["completion_tokens"]
    decode = f", decode {(output - 1) / decode_s:.1f} tok/s" if output > 1 and decode_s > 0 else ""
    print(f"    [{prompt} prompt tokens, {output} in the answer: first text after {wait_s * 1000:.0f} ms, "
          f"prompt {prompt / wait_s:.1f} tok/s{decode}]")


if __name__ == "__main__":
    sys.exit(show(request_lines(*sys.argv[1:3])))
