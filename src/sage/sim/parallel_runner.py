"""Runs of a policy on many tasks, in several sandboxes at a time. Finished tasks are in a file, with which a killed run
goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Event, Lock

from sage.grading.grading import grade, limits_of, missing
from sage.grading.task import Task
from sage.grading.test_reports import run_tests
from sage.sandbox import Backend, Files, SandboxError
from sage.sim.line_file import LineFile
from sage.sim.policies import SkippedError, Solver
from sage.sim.tasks.rebuilding import RebuildError
from sage.sim.watched import DeadlineError, InfrastructureError, Watched

RETRIES = 2  # of a task whose sandbox failed
PAUSE_S = 1.0  # before a retry
MOST_IN_A_ROW = 5  # tasks whose sandboxes failed, then the run ends


@dataclass
class ParallelRun:
    """A run with one thread for each sandbox, which takes the next task when it is free.

    Every finished task is a line of `out`. A task whose sandbox fails again and again stays open, and the next start
    tries it again; a policy's failure is a result and is never tried again.
    """

    rows: Sequence[Mapping]
    materialise: Callable[[Mapping], Task]
    solve: Solver
    backends: Sequence[Backend]
    out: LineFile
    deadline_s: float
    progress: Callable[[int, int, int], None] = lambda *_: None  # finished, all, solved
    left_open: dict[str, str] = field(default_factory=dict)  # the reason by task
    in_a_row: int = 0

    def __post_init__(self) -> None:
        self.stop, self.guard = Event(), Lock()
        done = {line["id"] for line in self.out.lines}
        self.ahead = iter([row for row in self.rows if row["id"] not in done])

    def run(self) -> None:
        """Runs all open tasks; an exception ends the open sandboxes and is raised. Raises SandboxError if the sandboxes
        of MOST_IN_A_ROW tasks in a row failed."""
        self.show()
        with ThreadPoolExecutor(len(self.backends)) as pool:
            slots = [pool.submit(self.work, backend) for backend in self.backends]
            try:
                wait(slots, return_when=FIRST_EXCEPTION)
            finally:
                self.end(slots)
        for slot in slots:
            slot.result()

    def end(self, slots: Sequence[Future]) -> None:
        self.stop.set()
        while not all(slot.done() for slot in slots):
            for backend in self.backends:
                backend.interrupt()
            wait(slots, timeout=0.1)

    def work(self, backend: Backend) -> None:
        for task in self.tasks():
            line = self.line_of(backend, task)
            if line is not None:
                self.finish({**facts_of(task), **line})

    def tasks(self) -> Iterator[Task]:
        """Yields tasks that no thread has taken, each made when it is asked for; writes a line for a row that cannot be
        run."""
        while not self.stop.is_set():
            with self.guard:
                row = next(self.ahead, None)
                if row is None:
                    return
                task = self.task_or_reason(row)
            if isinstance(task, Task):
                yield task
            else:
                self.finish({"id": row["id"], "skipped": task})

    def task_or_reason(self, row: Mapping) -> Task | str:
        """Returns the task of a row, or the code of the reason why it cannot be run."""
        try:
            task = self.materialise(row)
        except RebuildError as error:
            return error.reason
        return task if can_be_seen(task) else "no_visible_tests"

    def line_of(self, backend: Backend, task: Task) -> dict | None:
        """Returns the result of a task, as a line for `out`; None if its sandboxes failed, or the run was stopped."""
        reason = ""
        for retries in range(RETRIES + 1):
            watched = Watched(backend, self.deadline_s, self.stop)
            try:
                return {**outcome_of(watched, task, self.solve), **watched.facts(), "retries": retries}
            except DeadlineError:
                return {"solved": False, "reason": "deadline", **watched.facts(), "retries": retries}
            except SkippedError as error:
                return {"skipped": str(error)}
            except InfrastructureError as error:
                reason = str(error)
            if self.stop.wait(PAUSE_S if retries < RETRIES else 0):
                return None
        self.leave_open(task, reason)
        return None

    def leave_open(self, task: Task, reason: str) -> None:
        with self.guard:
            self.left_open[task.id] = reason
            self.in_a_row += 1
            if self.in_a_row >= MOST_IN_A_ROW:
                raise SandboxError(
                    f"the sandboxes of {self.in_a_row} tasks in a row failed ({reason}): look with `sage doctor --sandboxes`, and "
                    "start the same command again to go on"
                )

    def finish(self, line: dict) -> None:
        self.out.add(line)
        self.in_a_row = 0
        self.show()

    def show(self) -> None:
        lines = list(self.out.lines)
        self.progress(len(lines), len(self.rows), sum(line.get("solved", False) for line in lines))


def can_be_seen(task: Task) -> bool:
    """Returns whether the task's files have all tests that are called visible; rows of older manifests may name
    others."""
    return all(test.split("::")[0] in task.files for test in task.visible)


def facts_of(task: Task) -> dict:
    return {"id": task.id, "split": task.split, "level": task.level, "family": task.family}


def outcome_of(backend: Backend, task: Task, solve: Solver) -> dict:
    """Returns the actions and cost of a policy on a task, and the grade of the files that it handed in.

    `passes_visible` says whether its own files pass the visible tests, which the policy could see; `solved` is the
    grade by all tests.
    """
    attempt = solve(backend, task)
    solved, passes_visible, reason = False, False, attempt.ended
    if attempt.files is not None:
        try:
            found = grade(backend, task, attempt.files)
            solved, reason = found.solved, found.reason
            passes_visible = sees_no_failure(backend, task, attempt.files)
        except SandboxError:
            reason = "files"  # that no sandbox takes
    return {
        "solved": solved,
        "reason": reason,
        "passes_visible": passes_visible,
        "solved_in_environment": attempt.solved_in_environment,
        "cost": attempt.cost,
        "actions": list(attempt.actions),
    }


def sees_no_failure(backend: Backend, task: Task, files: Files) -> bool:
    report = run_tests(backend, files, task.visible_tests, limits_of(task), only=tuple(task.visible))
    return not report.problem and not missing(report, task.visible)
