"""What three small language models do on every task of `short_tasks`, each asked once, on this machine.

.venv/bin/sage models add NAME --file model.gguf --sha256 HEX                # the three of MODELS, once
.venv/bin/python benchmarks/sage/local_matrix.py run                        # about an hour of one core; resumes
.venv/bin/python benchmarks/sage/local_matrix.py store                      # results/local_matrix/

Answers are greedy. The cost of an answer is the processor time of the process that serves the model, prompt included: nothing is
taken from a prompt that was asked before. Tasks come in a random order, so that a part of a run is a sample of the whole.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from random import Random

import numpy as np
from short_tasks.checking import verdict
from short_tasks.generate import PYTHON, fingerprint, generate
from short_tasks.task import ShortTask

from sage.files import replacing, write_json
from sage.local_models.host import LocalServer, start
from sage.outcomes.table import OutcomeTable

MODELS = ("smollm2-135m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b")
USD_PER_CPU_S = 1e-5  # declared, not charged: about 0.036 USD for an hour of one core
RESULTS = Path(__file__).parent / "results" / "local_matrix"
RAW = Path("build") / "local_matrix"
SEED = 0
SYSTEM = "Be brief."  # instead of the longer text that the models' own templates would add
PROCESS_CLOCK = 2  # of the kernel's clocks of a process: the time that all its threads ran


def cpu_seconds(pid: int) -> float:
    """The processor time of a process, by the clock that Linux keeps for it."""
    return time.clock_gettime((~pid << 3) | PROCESS_CLOCK)


def request_of(task: ShortTask) -> dict:
    return {
        "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task.prompt}],
        "max_tokens": task.max_tokens,
        "temperature": 0,
        "seed": 0,
        "cache_prompt": False,
    }


def post(url: str, body: dict, headers: dict[str, str] | None = None) -> tuple[dict, dict[str, str]]:
    """A JSON answer and its headers, in lower case."""
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"content-type": "application/json", **(headers or {})}
    )
    with urllib.request.urlopen(request, timeout=600) as response:
        return json.load(response), {name.lower(): value for name, value in response.headers.items()}


def ask(server: LocalServer, task: ShortTask) -> dict:
    """One answer: what it says, whether it is right, and what it took."""
    before, began = cpu_seconds(server.pid), time.monotonic()
    answer, _ = post(f"{server.url}/chat/completions", request_of(task))
    took, cpu_s = time.monotonic() - began, cpu_seconds(server.pid) - before
    text = answer["choices"][0]["message"]["content"]
    found = verdict(task, text)
    if found.verdict == "unknown":  # the sandbox broke or waited for the processor: once more
        found = verdict(task, text)
    return {
        "task": task.id,
        "verdict": found.verdict,
        "tokens_in": answer["usage"]["prompt_tokens"],
        "tokens_out": answer["usage"]["completion_tokens"],
        "cpu_s": round(cpu_s, 4),
        "latency_s": round(took, 4),
        "ended": answer["choices"][0]["finish_reason"],
        "answer": text,
    }


def read_rows(path: Path) -> list[dict]:
    """Whole lines; a last one that was cut off is asked again."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def repaired_rows(path: Path) -> list[dict]:
    """The rows of a file to append to, without a last line that was cut off."""
    rows = read_rows(path)
    with replacing(path) as whole:
        whole.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return rows


def run(options: argparse.Namespace) -> None:
    tasks = generate(SEED)
    Random(SEED).shuffle(tasks)
    options.raw.mkdir(parents=True, exist_ok=True)
    paths = {model: options.raw / f"{model}.jsonl" for model in MODELS}
    done = {model: {row["task"] for row in repaired_rows(path)} for model, path in paths.items()}
    began = time.monotonic()
    with ExitStack() as stack:
        servers = {model: stack.enter_context(start(model)) for model in MODELS}
        for place, task in enumerate(tasks[: options.tasks], start=1):
            for model in MODELS:
                if task.id not in done[model]:
                    row = ask(servers[model], task)
                    with paths[model].open("a", encoding="utf-8") as file:
                        file.write(f"{json.dumps(row)}\n")
            if place % 10 == 0:
                sys.stderr.write(f"\r{place} of {len(tasks)} tasks, {time.monotonic() - began:.0f} s ")
                sys.stderr.flush()
    sys.stderr.write("\n")


def outcome_table(tasks: list[ShortTask], rows: dict[str, dict[str, dict]]) -> OutcomeTable:
    """What every model did on the tasks that all were asked; a verdict that nobody knows is NaN."""
    score = {"passed": 1.0, "failed": 0.0, "unknown": np.nan}

    def column(name: str) -> np.ndarray:
        return np.array([[rows[model][task.id][name] for model in MODELS] for task in tasks])

    return OutcomeTable(
        name="local models",
        models=MODELS,
        task_id=np.array([task.id for task in tasks]),
        category=np.array([task.category for task in tasks]),
        role=np.array(["coder" if task.category == PYTHON else "planner" for task in tasks]),
        score=np.vectorize(score.get)(column("verdict")).astype(float),
        cost_usd=column("cpu_s") * USD_PER_CPU_S,
        latency_s=column("latency_s"),
        data_source="real",
        licence="answers of SmolLM2 and Qwen2.5-Coder, both Apache-2.0; tasks as this repository",
        provenance=f"short_tasks seed {SEED}, sha256 {fingerprint(generate(SEED))}; {USD_PER_CPU_S:g} USD per processor second",
    )


def store(options: argparse.Namespace) -> None:
    """Writes the table without prompts, which the seed gives again, and the answers."""
    rows = {model: {row["task"]: row for row in read_rows(options.raw / f"{model}.jsonl")} for model in MODELS}
    tasks = [task for task in generate(SEED) if all(task.id in rows[model] for model in MODELS)]
    options.out.mkdir(parents=True, exist_ok=True)
    table = outcome_table(tasks, rows)
    table.save(options.out / "outcomes.npz")
    lines = [json.dumps({"model": model} | rows[model][task.id]) for model in MODELS for task in tasks]
    with replacing(options.out / "answers.jsonl.gz") as path, path.open("wb") as file:
        file.write(gzip.compress("\n".join(lines).encode(), mtime=0))
    write_json(
        options.out / "run.json",
        {
            "seed": SEED,
            "tasks": len(tasks),
            "of": len(generate(SEED)),
            "tasks_sha256": fingerprint(generate(SEED)),
            "table_sha256": table.sha256,
            "usd_per_cpu_s": USD_PER_CPU_S,
            "cpu_s": {model: round(sum(rows[model][task.id]["cpu_s"] for task in tasks), 1) for model in MODELS},
            "unknown": int(np.isnan(table.score).sum()),
        },
    )
    print(f"{options.out}: {len(tasks)} tasks x {len(MODELS)} models")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for action in (run, store):
        command = commands.add_parser(action.__name__)
        command.add_argument("--raw", type=Path, default=RAW)
        command.add_argument("--out", type=Path, default=RESULTS)
        command.add_argument("--tasks", type=int, help="only so many")
        command.set_defaults(func=action)
    options = parser.parse_args()
    options.func(options)


if __name__ == "__main__":
    main()
