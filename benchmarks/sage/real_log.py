"""A real log: tasks of `short_tasks` go through `sage serve` to three local models, and their verifiers report what came back.

.venv/bin/python benchmarks/sage/real_log.py --decisions 3000     # about 90 minutes of one core; resumes where it was

Nothing is drawn from the recorded matrix: every decision is made by the router of the proxy, logged with its probabilities, and
answered by a model that runs now. Every pass asks all tasks in another random order. Prices are the processor seconds per token that
the matrix took (least squares, R2 above .99), at its USD_PER_CPU_S. `real_log_verdict.py` learns from the log and judges.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from local_matrix import MODELS, SEED, post, repaired_rows, request_of
from short_tasks.checking import verdict
from short_tasks.generate import PYTHON, generate
from short_tasks.task import ShortTask

from sage.files import write_text

FOLDER = Path("build") / "real_log"
STATIC = "qwen2.5-coder-0.5b"
EXPLORATION = 0.6
PRICES = {  # USD per million tokens in and out
    "smollm2-135m": (0.055, 0.135),
    "qwen2.5-coder-0.5b": (0.125, 0.37),
    "qwen2.5-coder-1.5b": (0.27, 0.58),
}
TABLE = """\
models:
{models}
roles:
  default: {{primary: {static}, fallback: qwen2.5-coder-1.5b}}
exploration: {exploration}
"""
MODEL = """\
  {name}:
    input_usd_per_mtok: {price_in}
    output_usd_per_mtok: {price_out}
    upstream: {{local: {name}, dialects: [chat, responses, messages]}}
"""
SCORE = {"passed": 1.0, "failed": 0.0}


def role_of(task: ShortTask) -> str:
    return "coder" if task.category == PYTHON else "planner"


def models_yaml() -> str:
    models = "".join(MODEL.format(name=name, price_in=PRICES[name][0], price_out=PRICES[name][1]) for name in MODELS)
    return TABLE.format(models=models, static=STATIC, exploration=EXPLORATION)


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """`sage serve` in a process of its own, on any port; its URL."""
    command = [sys.executable, "-m", "sage", "serve", "--port", "0"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            if "http://" not in said:
                raise SystemExit(f"sage serve did not start: {said}")
            yield next(word for word in said.split() if word.startswith("http://"))
        finally:
            process.terminate()


def order_of(decisions: int) -> Iterator[ShortTask]:
    """All tasks in a random order, again and again."""
    tasks = generate(SEED)
    for number in range(decisions):
        if number % len(tasks) == 0:
            Random(f"{SEED}/pass {number // len(tasks)}").shuffle(tasks)
        yield tasks[number % len(tasks)]


def serve_one(url: str, number: int, task: ShortTask) -> dict:
    """One decision with its answer, which the task's verifier judges; the verdict is reported to the proxy."""
    headers = {"x-sage-task-id": task.id, "x-sage-category": task.category, "x-sage-role": role_of(task)}
    answer, given = post(f"{url}/v1/chat/completions", {"model": "sage"} | request_of(task), headers)
    found = verdict(task, answer["choices"][0]["message"]["content"])
    decision = given["x-sage-decision-id"]
    if found.verdict in SCORE:
        post(f"{url}/v1/outcomes", {"decision_id": decision, "quality": SCORE[found.verdict], "source": "verifier"})
    return {
        "number": number,
        "task": task.id,
        "decision": decision,
        "model": given["x-sage-model"],
        "verdict": found.verdict,
    }


def run(options: argparse.Namespace) -> None:
    options.folder.mkdir(parents=True, exist_ok=True)
    progress = options.folder / "progress.jsonl"
    done = len(repaired_rows(progress))
    if not (options.folder / "models.yaml").exists():
        write_text(options.folder / "models.yaml", models_yaml())
    began = time.monotonic()
    with serving(options.folder) as url:
        for number, task in enumerate(order_of(options.decisions)):
            if number < done:
                continue
            row = serve_one(url, number, task)
            with progress.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(row)}\n")
            if (number + 1) % 10 == 0:
                sys.stderr.write(f"\r{number + 1} of {options.decisions} decisions, {time.monotonic() - began:.0f} s ")
                sys.stderr.flush()
    sys.stderr.write("\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decisions", type=int, default=3_000)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server ends, too
    run(parser.parse_args())


if __name__ == "__main__":
    main()
