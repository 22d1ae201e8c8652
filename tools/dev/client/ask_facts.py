"""Asks a server questions whose answers any chat model knows. usage: ask_facts.py PORT; exit code 1 below 3 of 4."""
import http.client
import json
import sys
import time

FACTS = (("What is the capital of France? Answer with the name only.", "paris"),
         ("Which planet do humans live on? Answer with one word.", "earth"),
         ("What colour is the sky on a clear day? Answer with one word.", "blue"),
         ("What language is spoken in Spain? Answer with one word.", "spanish"))


def ask(port: int, question: str) -> dict:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    body = {"model": "any", "temperature": 0, "max_tokens": 64, "messages": [{"role": "user", "content": question}]}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    reply = json.loads(connection.getresponse().read())
    if "choices" not in reply:
        sys.exit(f"the server answered {reply}")
    return reply


def main() -> int:
    known = 0
    for question, answer in FACTS:
        started = time.monotonic()
        reply = ask(int(sys.argv[1]), question)
        seconds = time.monotonic() - started
        text = reply["choices"][0]["message"]["content"]
        right = answer in text.lower()
        known += right
        tokens = reply["usage"]["completion_tokens"]
        print(f"    {'right' if right else 'WRONG'}  {question} -> {text.strip()[:60]!r}  "
              f"({tokens} tokens in {seconds:.2f} s)")
    print(f"    {known} of {len(FACTS)}")
    return 0 if known >= 3 else 1


if __name__ == "__main__":
    sys.exit(main())
