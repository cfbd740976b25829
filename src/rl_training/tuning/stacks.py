"""Runs of a study as stacks: those that share their structure train as one program, in a thread of this process."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from functools import partial

from rl_training.api import Agent
from rl_training.api.stacked import Stacked, structure_of, why_not_stacked
from rl_training.config import ConfigError, RunConfig
from rl_training.runtime import Callback, NonFiniteError
from rl_training.tuning.job import PAUSE, AskAfterEvaluations, Ended, Evaluated, Job, open_run, run_job


class Stacks:
    """An engine that trains the jobs that wait as stacks, one after the other; jobs that come later wait for their end."""

    def __init__(self) -> None:
        self.events: queue.SimpleQueue[Evaluated | Ended] = queue.SimpleQueue()
        self.answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()  # one run at a time asks
        self.waiting: list[Job] = []
        self.busy: set[int] = set()
        self.agents: list[Agent] = []  # of the stack that trains
        self.thread: threading.Thread | None = None
        self.closing = False

    def start(self, job: Job) -> None:
        self.waiting.append(job)

    def next_event(self) -> Evaluated | Ended:
        """Waits for the next evaluation or end of any run, and returns it; first trains what waits, if nothing does."""
        if not self.busy:
            jobs, self.waiting = self.waiting, []
            self.busy = {job.trial for job in jobs}
            self.thread = threading.Thread(target=self.execute, args=(jobs,))
            self.thread.start()
        event = self.events.get()
        if isinstance(event, Ended):
            self.busy.remove(event.trial)
        return event

    def answer(self, trial: int, reason: str | None) -> None:
        self.answers.put(reason)

    def execute(self, jobs: Sequence[Job]) -> None:
        groups: dict[str, list[tuple[Job, Agent]]] = {}
        for job in jobs:
            try:
                agent = open_run(job)
            except ValueError as error:
                self.events.put(Ended(job.trial, "failed", str(error)))
            else:
                groups.setdefault(f"{structure_of(agent)} to {job.stop_at}", []).append((job, agent))
        for group in groups.values():
            for event in self.execute_group(*zip(*group, strict=True)):
                self.events.put(event)

    def execute_group(self, jobs: Sequence[Job], agents: Sequence[Agent]) -> list[Ended]:
        """Trains jobs with the same structure together, or a single one as always, and returns how each ended."""
        if len(jobs) == 1:
            agents[0].close()
            return [run_job(jobs[0], partial(self.ask, jobs[0].trial))]
        self.agents = list(agents)
        try:
            stack = Stacked(agents)
            try:
                asking: list[list[Callback]] = [[AskAfterEvaluations(partial(self.ask, job.trial))] for job in jobs]
                results = stack.learn_each(stop_at=jobs[0].stop_at, callbacks=asking)
            finally:
                stack.close()
        except ValueError as error:
            return [Ended(job.trial, "failed", str(error)) for job in jobs]
        finally:
            self.agents = []
        return [
            Ended(job.trial, "diverged", str(result))
            if isinstance(result, NonFiniteError)
            else Ended(job.trial, result.status, result.reason)
            for job, result in zip(jobs, results, strict=True)
        ]

    def ask(self, trial: int, step: int, mean: float) -> str | None:
        if self.closing:
            return PAUSE
        self.events.put(Evaluated(trial, step, mean))
        return self.answers.get()

    def close(self) -> None:
        """Pauses the runs of the stack that trains, with checkpoints, and waits for them."""
        self.closing = True
        for agent in self.agents:
            if agent.trainer is not None:
                agent.trainer.request_stop(PAUSE)
        self.answers.put(PAUSE)
        if self.thread is not None:
            self.thread.join()


def check_can_be_stacked(config: dict, jobs: int) -> None:
    """Raises ConfigError if the runs of a study cannot train as stacks of `jobs` members."""
    if jobs < 2:
        raise ConfigError(f"--stacked trains --jobs trials as one program, and --jobs is {jobs}: give e.g. --jobs 8")
    agent = Agent(RunConfig.from_mapping(config))
    try:
        reason = why_not_stacked(agent)
    finally:
        agent.close()
    if reason is not None:
        raise ConfigError(f"--stacked: {reason}")
