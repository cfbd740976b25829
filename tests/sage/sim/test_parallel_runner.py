"""The runner: what is finished stays finished, sandboxes that fail are no result, and cheating solves nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sage.cli import main
from sage.cli.sim_task_commands import ProgressLines
from sage.grading.task import Task
from sage.sandbox import Backend, Command, Files, Limits, Result, SandboxError
from sage.sandbox.image import Image
from sage.sim import parallel_runner
from sage.sim.line_file import LineFile, LineFileError, held
from sage.sim.parallel_runner import ParallelRun
from sage.sim.policies import PolicyError, RepairAttempt, Solver, named, noop, oracle
from sage.sim.run_report import report_lines, report_of
from sage.sim.tasks.rebuilding import RebuildError
from tests.sage.sandbox.backends import opened
from tests.sage.sandbox.test_backends import command_line, until
from tests.sage.sim.environment.small_task import TASK
from tests.sage.sim.run_small_tasks import install, rows_of, small_task

ROOT = Path(__file__).parents[3]
SETTINGS = {"policy": "oracle", "models": {"ability": (1.0, 2.0)}}
SLEEP_S = str(61 + os.getpid() / 1e8)  # by which the command is found among all processes


@pytest.fixture(scope="module")
def zygote(image: Image) -> Iterator[Backend]:
    yield from opened("zygote", image)


def run_of(folder: Path, backend: Backend, solve: Solver, count: int = 1, **changes: object) -> ParallelRun:
    values = {
        "rows": rows_of(count),
        "materialise": small_task,
        "solve": solve,
        "backends": [backend],
        "out": LineFile(folder / "out.jsonl", SETTINGS),
        "deadline_s": 60.0,
    }
    return ParallelRun(**{**values, **changes})


def only_line(folder: Path, backend: Backend, solve: Solver) -> dict:
    run = run_of(folder, backend, solve)
    run.run()
    (line,) = run.out.lines
    return line


class Failing:
    """A backend whose first runs fail, by an error or by a broken answer."""

    name = "failing"

    def __init__(self, backend: Backend, failures: list[str]) -> None:
        self.backend, self.failures = backend, failures

    def run(self, files: Files, command: Command, limits: Limits) -> Result:
        if self.failures:
            if self.failures.pop() == "error":
                raise SandboxError("no daemon")
            return Result(code=None, ended_by="broken", err=b"no answer")
        return self.backend.run(files, command, limits)

    def interrupt(self) -> None: ...

    def close(self) -> None: ...


def test_the_oracle_solves_and_nothing_does_not(zygote: Backend, tmp_path: Path) -> None:
    solved = only_line(tmp_path / "a", zygote, oracle)
    assert (solved["solved"], solved["passes_visible"], solved["reason"], solved["split"]) == (True, True, "", "train")
    nothing = only_line(tmp_path / "b", zygote, noop)
    assert (nothing["solved"], nothing["passes_visible"], nothing["reason"]) == (False, False, "tests")


def test_edited_tests_are_seen_by_the_policy_and_not_by_the_grade(zygote: Backend, tmp_path: Path) -> None:
    tests = "\n".join(f"def {name.split('::')[1]}(): pass" for name in TASK.visible).encode()
    hack = only_line(tmp_path, zygote, lambda _, task: RepairAttempt(files={**task.files, "test_calc.py": tests}))
    assert (hack["solved"], hack["passes_visible"], hack["reason"]) == (False, True, "tests")
    report = report_of([hack], {})
    assert (report["pass_visible"], report["pass_visible_and_solved"]) == (1, 0)


def test_files_that_no_sandbox_takes_are_the_policys_failure(zygote: Backend, tmp_path: Path) -> None:
    line = only_line(tmp_path, zygote, lambda _, task: RepairAttempt(files={**task.files, "calc.py": bytes(2**28)}))
    assert (line["solved"], line["reason"], line["retries"]) == (False, "files", 0)


def test_failures_of_sandboxes_are_tried_again(
    zygote: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel_runner, "PAUSE_S", 0.0)
    line = only_line(tmp_path, Failing(zygote, ["error", "broken"]), oracle)
    assert (line["solved"], line["retries"]) == (True, 2)


def test_a_task_whose_sandbox_fails_again_and_again_stays_open(
    zygote: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel_runner, "PAUSE_S", 0.0)
    first = run_of(tmp_path, Failing(zygote, ["error"] * 3), oracle, count=2)
    first.run()
    assert first.left_open == {"small-0": "no daemon"}
    assert [line["id"] for line in first.out.lines] == ["small-1"]
    again = run_of(tmp_path, zygote, oracle, count=2)
    again.run()
    assert {line["id"] for line in again.out.lines} == {"small-0", "small-1"}
    with pytest.raises(SandboxError, match=r"5 tasks in a row failed .no daemon.*start the same command again"):
        run_of(tmp_path / "other", Failing(zygote, ["error"] * 99), oracle, count=9).run()


def test_a_task_ends_at_its_deadline(zygote: Backend, tmp_path: Path) -> None:
    def slow(backend: Backend, task: Task) -> RepairAttempt:
        backend.run({}, Command(argv=("sleep", "60")), Limits(wall_s=90.0))
        return oracle(backend, task)

    run = run_of(tmp_path, zygote, slow, deadline_s=0.2)
    run.run()
    (line,) = run.out.lines
    assert (line["solved"], line["reason"], line["runs"], line["retries"]) == (False, "deadline", 1, 0)
    assert report_of([line], {})["unsolved_by_reason"] == {"deadline": 1}


def test_an_error_of_the_policy_ends_the_run(zygote: Backend, tmp_path: Path) -> None:
    def wrong(backend: Backend, task: Task) -> RepairAttempt:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_of(tmp_path, zygote, wrong, count=2).run()
    assert LineFile(tmp_path / "out.jsonl", SETTINGS).lines == []


def test_what_cannot_be_run_is_skipped_with_a_reason(zygote: Backend, tmp_path: Path) -> None:
    def materialise(row: dict) -> Task:
        if row["id"] == "small-0":
            raise RebuildError("no_source", "it is not here")
        return replace(small_task(row), visible={"elsewhere.py::test": 1})

    run = run_of(tmp_path, zygote, oracle, count=2, materialise=materialise)
    run.run()
    report = report_of(run.out.lines, {})
    assert (report["tasks"], report["skipped"]) == (0, {"no_source": 1, "no_visible_tests": 1})
    assert next(report_lines(report)) == "solved 0 of 0 tasks"


def test_an_episode_is_graded_as_the_environment_says(zygote: Backend, tmp_path: Path) -> None:
    line = only_line(tmp_path, zygote, named("ochiai", 0).solve)
    assert line["solved"] == line["solved_in_environment"]
    assert line["actions"][:2] == ["localise", "inspect 0"]
    assert line["cost"] > 0


def test_the_report_counts_what_lines_say() -> None:
    common = {"level": 1, "family": "f", "runs": 2, "sandbox_cpu_s": 0.5, "wall_s": 1.0, "retries": 0}
    by_trial = {"solved": True, "reason": "", "passes_visible": True, "solved_in_environment": True, "cost": 2.0}
    fooled = {**by_trial, "solved": False, "reason": "tests", "cost": 4.0}  # and the environment did not know
    lines = [
        {"id": "a", "split": "train", **common, **by_trial, "actions": ["localise", "submit"]},
        {"id": "b", "split": "val", **common, **by_trial, "actions": ["escalate"], "retries": 1},
        {"id": "c", "split": "val", **common, **fooled, "actions": ["ask small short", "run", "submit"]},
        {"id": "d", "split": "val", **common, "solved": False, "reason": "deadline"},
        {"id": "e", "skipped": "no_source"},
    ]
    assert report_of(lines, {"f": "no daemon"}) == {
        "tasks": 4,
        "solved": 2,
        "solved_with_models": 1,
        "by_split": {"train": {"solved": 1, "tasks": 1}, "val": {"solved": 1, "tasks": 3}},
        "by_level": {"1": {"solved": 2, "tasks": 4}},
        "by_family": {"f": {"solved": 2, "tasks": 4}},
        "unsolved_by_reason": {"tests": 1, "deadline": 1},
        "pass_visible": 3,
        "pass_visible_and_solved": 2,
        "environment_differs": 1,
        "cost_mean": 2.667,
        "cost_per_solved": 4.0,
        "steps_mean": 2.0,
        "sandbox_runs": 8,
        "sandbox_cpu_s": 2.0,
        "task_wall_s_mean": 1.0,
        "retries": 1,
        "skipped": {"no_source": 1},
        "left_open": {"no daemon": 1},
    }
    said = list(report_lines(report_of(lines, {"f": "no daemon"})))
    assert said[0] == "solved 2 of 4 tasks (50.0%), 1 of them with simulated models"
    assert said[-1] == "1 episodes were graded otherwise than the environment said"


def started(path: Path) -> subprocess.Popen[str]:
    """A run in a process of its own that has finished two tasks, and whose third sleeps in a sandbox."""
    words = [sys.executable, "-m", "tests.sage.sim.run_small_tasks", SLEEP_S, path]
    owner = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    until(lambda: sleeping() == 1 or owner.poll() is not None)
    assert owner.poll() is None, owner.communicate()
    return owner


def sleeping() -> int:
    wanted = f"sleep\0{SLEEP_S}\0".encode()
    return sum(command_line(path) == wanted for path in Path("/proc").glob("[0-9]*/cmdline"))


def ids_in(content: bytes) -> list[str | None]:
    return [json.loads(line).get("id") for line in content.splitlines()]


def test_an_interrupted_and_then_killed_run_goes_on_and_leaves_no_sandbox(
    zygote: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out.jsonl"
    owner = started(path)
    with pytest.raises(LineFileError, match="is being written by another run"), held(path):
        pass
    owner.send_signal(signal.SIGINT)
    _, said = owner.communicate()
    assert (owner.returncode, sleeping()) == (130, 0)
    assert f"2 of 4 tasks are in {path}: start the same command again" in said
    first = path.read_bytes()
    assert ids_in(first) == [None, "small-0", "small-1"]

    owner = started(path)
    owner.kill()
    owner.communicate()
    until(lambda: sleeping() == 0)
    assert path.read_bytes() == first
    path.write_bytes(first + b'{"id": "small-2", "solv')

    install(monkeypatch.setattr, oracle)
    words = ["sim", "run", "--workers", "1", "--out", str(path)]
    assert main(words) == 0
    assert path.read_bytes().startswith(first)
    assert ids_in(path.read_bytes()) == [None, "small-0", "small-1", "small-2", "small-3"]
    shown = capsys.readouterr()
    assert "solved 4 of 4 tasks (100.0%)" in shown.out
    lines = [line.rpartition(", ")[0] or line for line in shown.err.splitlines()]
    assert lines[:2] == ["run: starting sandboxes", "run: 2 of 4, 2 solved"]
    assert lines[-1] == "run: 4 of 4, 4 solved"
    assert main([*words, "--policy", "noop"]) == 2
    assert "other settings (policy: 'oracle' there, 'noop' now)" in capsys.readouterr().err


def test_progress_without_a_terminal_is_a_line_every_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    lines = ProgressLines("run", clock=lambda: now)
    for seconds, done in ((0, 0), (1, 1), (9, 2), (10, 3), (19, 4), (25, 5), (26, 1_000), (27, 1_000)):
        now = float(seconds)
        lines.show(done, 1_000, "0 solved" if done else "")
    assert capsys.readouterr().err.splitlines() == [
        "run: 0 of 1,000, 0 s",
        "run: 3 of 1,000, 0 solved, 10 s",
        "run: 5 of 1,000, 0 solved, 25 s",
        "run: 1,000 of 1,000, 0 solved, 26 s",
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--split nowhere", "--split nowhere: the tasks are of train"),
        ("--limit 0", "--limit 0 must be at least 1"),
        ("--deadline 0", "--deadline-s 0.0 must be more than 0 seconds"),
        ("--workers 0", "--workers 0 must be at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str, sentence: str
) -> None:
    install(monkeypatch.setattr, oracle)
    assert main(["sim", "run", *words.split(), "--out", str(tmp_path / "out.jsonl")]) == 2
    assert sentence in capsys.readouterr().err


def test_a_policy_that_is_not_there_is_refused() -> None:
    with pytest.raises(
        PolicyError, match="policy='oracel' is not known: use oracle, noop, random, ochiai, command:PROGRAM"
    ):
        named("oracel", 0)


@pytest.mark.parametrize("content", ["not a file of ours", "not a file of ours\n", "[1]\n"])
def test_another_file_is_not_touched(tmp_path: Path, content: str) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text(content)
    with pytest.raises(LineFileError, match="choose another --out"):
        LineFile(path, SETTINGS)
    assert path.read_text() == content
    path.write_text(json.dumps(SETTINGS)[:5])  # killed while it wrote the first line
    LineFile(path, SETTINGS).add({"id": "a"})
    assert ids_in(path.read_bytes()) == [None, "a"]
