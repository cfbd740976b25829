"""Recorded answers of real models keep their recorded verdicts: a verifier that changes makes the recorded table untrue."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from short_tasks.checking import verdict
from short_tasks.generate import PYTHON, generate

ANSWERS = Path(__file__).parents[4] / "benchmarks" / "sage" / "results" / "local_matrix" / "answers.jsonl.gz"


def test_answers_that_need_no_sandbox_are_judged_as_they_were() -> None:
    tasks = {task.id: task for task in generate(0) if task.category != PYTHON}
    rows = [json.loads(line) for line in gzip.decompress(ANSWERS.read_bytes()).splitlines()]
    compared = [row for row in rows if row["task"] in tasks]
    assert len(compared) > 500
    assert [row for row in compared if verdict(tasks[row["task"]], row["answer"]).verdict != row["verdict"]] == []
