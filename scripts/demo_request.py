"""Sends one request through `sage serve`, and says who answered and why: `python -m demo_request URL TEXT`."""

from __future__ import annotations

import json
import sys
import urllib.request


def main() -> None:
    url, text = sys.argv[1:]
    asked = {"model": "sage", "messages": [{"role": "user", "content": text}], "max_tokens": 24, "temperature": 0}
    request = urllib.request.Request(
        f"{url}/v1/chat/completions", json.dumps(asked).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        answer = json.load(response)["choices"][0]["message"]["content"]
        model, decision = response.headers["x-sage-model"], response.headers["x-sage-decision-id"]
    print(f"{model} answers: {' '.join(answer.split())}\n  decision {decision}")


if __name__ == "__main__":
    main()
