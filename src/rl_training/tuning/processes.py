"""Runs of a study as processes of this machine."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from rl_training.tuning.job import Ended, Evaluated, Job

PATIENCE_S = 120.0  # for runs to be paused with a checkpoint
EVENTS = {kind.__name__: kind for kind in (Evaluated, Ended)}
ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Worker:
    """A process of this machine that executes training runs of a study one after the other, and the one it has now."""

    def __init__(self, log: Path, events: queue.SimpleQueue[tuple[Worker, Evaluated | Ended | None]]) -> None:
        self.log, self.job = log, Job(-1, "", {})
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rl_training.tuning.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                encoding="utf-8",
                env=environment(os.environ),
                start_new_session=True,  # Ctrl-C is for the study, which tells its workers
            )
        self.reader = threading.Thread(target=self.read, args=(events,), daemon=True)
        self.reader.start()

    def read(self, events: queue.SimpleQueue[tuple[Worker, Evaluated | Ended | None]]) -> None:
        """Puts each event of the process into the queue, with this worker, and None when the process has ended."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            events.put((self, EVENTS[event.pop("kind")](**event)))
        events.put((self, None))

    def say(self, message: object) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it is dead, which its reader says
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()

    def last_words(self) -> str:
        """Waits for the process to end; returns a sentence with its exit code and the last line of its log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
        return f"its process ended with code {self.process.wait()}: {''.join(lines) or 'no message'} (see {self.log})"


class Processes:
    """An engine that executes training runs in processes of this machine; idle processes are used again."""

    def __init__(self, logs: Path) -> None:
        self.logs, self.count = logs, 0
        self.events: queue.SimpleQueue[tuple[Worker, Evaluated | Ended | None]] = queue.SimpleQueue()
        self.idle: list[Worker] = []
        self.busy: dict[int, Worker] = {}

    def start(self, job: Job) -> None:
        """Starts a job, without waiting, in an idle process or, if there is none, in a new one."""
        worker = self.idle.pop() if self.idle else self.new_worker()
        worker.job = job
        self.busy[job.trial] = worker
        worker.say(asdict(job))

    def new_worker(self) -> Worker:
        self.count += 1
        return Worker(self.logs / f"worker-{os.getpid()}-{self.count}.log", self.events)

    def next_event(self) -> Evaluated | Ended:
        """Waits for the next evaluation or end of any run, and returns it.

        If a process dies while it executes a job, that job has ended with status failed.
        """
        for worker, event in iter(self.events.get, None):
            trial = worker.job.trial
            if isinstance(event, Ended):
                self.idle.append(self.busy.pop(trial))
            elif event is None and self.busy.get(trial) is worker:
                del self.busy[trial]
                return Ended(trial, "failed", worker.last_words())
            elif event is None and worker in self.idle:
                self.idle.remove(worker)
            if event is not None:
                return event
        raise AssertionError("the queue has no end")

    def answer(self, trial: int, reason: str | None) -> None:
        """Lets the run of a trial that waits after an evaluation go on (reason None), or stops it for a reason."""
        self.busy[trial].say(reason)

    def close(self) -> None:
        """Pauses all runs, with checkpoints, and ends the processes.

        Kills those that take longer than `PATIENCE_S` seconds; a second Ctrl-C kills all at once.
        """
        workers = [*self.idle, *self.busy.values()]
        try:
            for worker in workers:
                assert worker.process.stdin is not None
                with suppress(BrokenPipeError):
                    worker.process.stdin.close()
            for worker in workers:
                with suppress(subprocess.TimeoutExpired):
                    worker.process.wait(PATIENCE_S)
        finally:
            for worker in workers:
                worker.process.kill()
                worker.process.wait()
                worker.reader.join()


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """Returns a copy of the environment variables `own`, with one thread for torch where they set no other number."""
    return dict.fromkeys(ONE_THREAD, "1") | dict(own)
