"""Sends short tasks through `sage serve` and reports what their verifiers say: `python demo_traffic.py URL NUMBER`.

The tasks are in benchmarks/sage, which must be in PYTHONPATH.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from collections import Counter
from random import Random

from short_tasks.checking import verdict
from short_tasks.generate import generate

CATEGORIES = ("sentiment", "comparison", "date")  # whose answers are short


def post(url: str, body: dict, headers: dict[str, str] | None = None) -> tuple[dict, dict[str, str]]:
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"content-type": "application/json", **(headers or {})}
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response), dict(response.headers)


def main() -> None:
    url, number = sys.argv[1], int(sys.argv[2])
    tasks = [task for task in generate(0) if task.category in CATEGORIES]
    Random(0).shuffle(tasks)
    right: Counter[str] = Counter()
    for task in tasks[:number]:
        asked = {
            "model": "sage",
            "max_tokens": 16,
            "temperature": 0,
            "messages": [{"role": "user", "content": task.prompt}],
        }
        headers = {"x-sage-task-id": task.id, "x-sage-category": task.category}
        answer, given = post(f"{url}/v1/chat/completions", asked, headers)
        text = answer["choices"][0]["message"]["content"]
        found = verdict(task, text).verdict
        decision, model = given["x-sage-decision-id"], given["x-sage-model"]
        post(f"{url}/v1/outcomes", {"decision_id": decision, "quality": float(found == "passed"), "source": "verifier"})
        right[f"{model} {found}"] += 1
        if sum(right.values()) <= 5:
            print(f"decision {decision} {model} {task.category}: {text[:60]!r} {found}")
    print(", ".join(f"{name}: {count}" for name, count in sorted(right.items())))


if __name__ == "__main__":
    main()
