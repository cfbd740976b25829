"""Runs of a study as tasks of a Ray cluster: the one that RAY_ADDRESS names, or a local one. All see the study's folder."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rl_training.distributed.ray_engine import connect, disconnect
from rl_training.tuning.job import PAUSE, Ended, Evaluated, Job, run_job

if TYPE_CHECKING:
    import ray

MAX_WAITING = 1_000  # runs that ask at the same time
PATIENCE_S = 120.0  # for runs to be paused with a checkpoint


class Desk:
    """An actor at which runs ask and are answered: neither a task nor the study can be called by the other."""

    def __init__(self) -> None:
        self.questions: asyncio.Queue[tuple[int, int, float]] = asyncio.Queue()
        self.answers: dict[int, asyncio.Queue[str | None]] = {}
        self.closed = False

    async def ask(self, trial: int, step: int, mean: float) -> str | None:
        """Hands in an evaluation, for a run, and waits for the study's answer."""
        if self.closed:
            return PAUSE
        self.answers[trial] = asyncio.Queue()
        await self.questions.put((trial, step, mean))
        return await self.answers[trial].get()

    async def question(self) -> tuple[int, int, float]:
        """Waits, for the study, for the next evaluation of a run, and returns it."""
        return await self.questions.get()

    async def answer(self, trial: int, reason: str | None) -> None:
        await self.answers[trial].put(reason)

    async def dismiss(self) -> None:
        """Answers all waiting runs, and those that ask later, that they are to pause."""
        self.closed = True
        for waiting in self.answers.values():
            await waiting.put(PAUSE)


def task_body(job: Job, desk: ray.actor.ActorHandle) -> Ended:
    """Executes a job in a Ray task."""
    import ray

    return run_job(job, lambda step, mean: ray.get(desk.ask.remote(job.trial, step, mean)))  # pyrefly: ignore


class RayTasks:
    """One task for each job."""

    def __init__(self, jobs: int) -> None:
        ray = self.ray = connect(jobs, id(self))
        self.desk = ray.remote(Desk).options(num_cpus=0, max_concurrency=MAX_WAITING).remote()
        self.task = ray.remote(task_body).options(num_cpus=1, max_retries=0)
        self.question = self.desk.question.remote()
        self.tasks: dict[ray.ObjectRef, Job] = {}

    def start(self, job: Job) -> None:
        self.tasks[self.task.remote(job, self.desk)] = job

    def next_event(self) -> Evaluated | Ended:
        """Waits for the next event; evaluations go first, because a run that asks has not ended."""
        ready, _ = self.ray.wait([self.question, *self.tasks], num_returns=1)
        if ready[0] == self.question:
            event = Evaluated(*self.ray.get(self.question))
            self.question = self.desk.question.remote()
            return event
        job = self.tasks.pop(ready[0])
        try:
            return self.ray.get(ready[0])
        except self.ray.exceptions.RayError as error:
            return Ended(job.trial, "failed", " ".join(str(error).splitlines()[-1:]))

    def answer(self, trial: int, reason: str | None) -> None:
        self.desk.answer.remote(trial, reason)

    def close(self) -> None:
        """Interrupts the tasks, as Ctrl-C would: runs in them are paused with a checkpoint."""
        tasks = list(self.tasks)
        self.ray.get(self.desk.dismiss.remote())
        for task in tasks:
            self.ray.cancel(task, force=False, recursive=False)  # else a run that asks sees its question fail
        if tasks:
            self.ray.wait(tasks, num_returns=len(tasks), timeout=PATIENCE_S)
        self.ray.kill(self.desk)
        disconnect(self.ray, id(self))
