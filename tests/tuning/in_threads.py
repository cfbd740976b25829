"""An engine without processes: runs are threads of the test, so that nothing has to be imported again."""

from __future__ import annotations

import queue
import threading

from rl_training.tuning.job import Ended, Evaluated, Job, run_job


class InThreads:
    """Executes one job at a time; after `patience` events it is as if somebody had pressed Ctrl-C."""

    def __init__(self, patience: int | None = None) -> None:
        self.patience = patience
        self.events: queue.SimpleQueue[Evaluated | Ended] = queue.SimpleQueue()
        self.answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.thread: threading.Thread | None = None
        self.started: list[Job] = []

    def start(self, job: Job) -> None:
        self.started.append(job)
        self.thread = threading.Thread(target=lambda: self.events.put(run_job(job, lambda *at: self.ask(job, *at))))
        self.thread.start()

    def ask(self, job: Job, step: int, mean: float) -> str | None:
        self.events.put(Evaluated(job.trial, step, mean))
        return self.answers.get()

    def next_event(self) -> Evaluated | Ended:
        if self.patience is not None:
            self.patience -= 1
            if self.patience < 0:
                raise KeyboardInterrupt
        return self.events.get()

    def answer(self, trial: int, reason: str | None) -> None:
        self.answers.put(reason)

    def close(self) -> None:
        self.answers.put("SIGTERM")
        if self.thread is not None:
            self.thread.join()
