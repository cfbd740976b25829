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
    """A Ray actor that passes evaluations from runs to the study, and the study's answers back.

    A run calls `ask` and waits; the study calls `question`, and then `answer`. Neither of them is an actor, so they
    cannot call each other.
    """

    def __init__(self) -> None:
        self.questions: asyncio.Queue[tuple[int, int, float]] = asyncio.Queue()
        self.answers: dict[int, asyncio.Queue[str | None]] = {}
        self.closed = False

    async def ask(self, trial: int, step: int, mean: float) -> str | None:
        """Passes an evaluation of a run on to the study and waits for its answer: None, or the reason to stop.

        After `dismiss`, returns the reason to pause at once.
        """
        if self.closed:
            return PAUSE
        self.answers[trial] = asyncio.Queue()
        await self.questions.put((trial, step, mean))
        return await self.answers[trial].get()

    async def question(self) -> tuple[int, int, float]:
        """Waits for the next evaluation that a run passes on; returns its trial number, step and mean return."""
        return await self.questions.get()

    async def answer(self, trial: int, reason: str | None) -> None:
        await self.answers[trial].put(reason)

    async def dismiss(self) -> None:
        """Answers all runs that wait, and those that ask later, that they are to pause."""
        self.closed = True
        for waiting in self.answers.values():
            await waiting.put(PAUSE)


def task_body(job: Job, desk: ray.actor.ActorHandle) -> Ended:
    """Trains the run of a job in a Ray task and returns how it ended.

    After every evaluation it asks the study, through the actor `desk`, if it is to go on.
    """
    import ray

    return run_job(job, lambda step, mean: ray.get(desk.ask.remote(job.trial, step, mean)))  # pyrefly: ignore


class RayTasks:
    """An engine that executes each training run as a Ray task with one CPU, on a running cluster or a new local one."""

    def __init__(self, jobs: int) -> None:
        ray = self.ray = connect(jobs, id(self))
        self.desk = ray.remote(Desk).options(num_cpus=0, max_concurrency=MAX_WAITING).remote()
        self.task = ray.remote(task_body).options(num_cpus=1, max_retries=0)
        self.question = self.desk.question.remote()
        self.tasks: dict[ray.ObjectRef, Job] = {}

    def start(self, job: Job) -> None:
        self.tasks[self.task.remote(job, self.desk)] = job

    def next_event(self) -> Evaluated | Ended:
        """Waits for the next evaluation or end of any run, and returns it; evaluations go first.

        A task that was lost has ended with status failed.
        """
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
        """Pauses all runs, with checkpoints, and waits for their tasks, but no longer than `PATIENCE_S` seconds.

        Then disconnects from Ray, and shuts down a cluster that was started for the study.
        """
        tasks = list(self.tasks)
        self.ray.get(self.desk.dismiss.remote())
        for task in tasks:
            self.ray.cancel(task, force=False, recursive=False)  # else a run that asks sees its question fail
        if tasks:
            self.ray.wait(tasks, num_returns=len(tasks), timeout=PATIENCE_S)
        self.ray.kill(self.desk)
        disconnect(self.ray, id(self))
