"""The thread and the bounded queue between a run and a tracker, so that the tracker can neither slow nor stop the run."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping

from rl_training.experiment.loggers import evaluation_metrics
from rl_training.experiment.run_directory import write_atomically
from rl_training.experiment.trackers.tracker import Record, Status, TrackedRun, Tracker
from rl_training.runtime import Callback, EvalResult, Trainer

log = logging.getLogger(__name__)
FOLDER = "trackers"  # in a run directory, with a file for each tracker's description of the run
MOST_WAITING = 10_000  # records


class InBackground(Callback):
    """A callback that hands the metrics of a run to a tracker in a thread.

    The run never waits for the tracker, except up to `start_s` seconds before the first step and `end_s` at the end. An
    error of the tracker is one logged warning. While `MOST_WAITING` records wait, further ones are dropped.
    """

    def __init__(self, tracker: Tracker, run: TrackedRun, *, start_s: float = 30.0, end_s: float = 60.0) -> None:
        self.tracker, self.run, self.start_s, self.end_s = tracker, run, start_s, end_s
        self.changed = threading.Condition()  # guards the next four
        self.waiting: list[Record] = []
        self.status: Status | None = None  # None until the run ends
        self.missing = 0  # records that were dropped, or that the tracker failed to write
        self.warned = False
        self.started, self.ended = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.work, name=f"tracker-{tracker.name}", daemon=True)
        self.thread.start()

    def wait_for_start(self) -> None:
        """Waits until the tracker has started or failed, at most `start_s` seconds; training would slow it down."""
        if not self.started.wait(self.start_s):
            log.warning(
                f"{self.tracker.name} has not started within {self.start_s:g} s: training begins, and the metrics wait for "
                "it; check its server and the network"
            )

    def on_log(self, trainer: Trainer, metrics: dict[str, float]) -> None:
        self.put(trainer.logged_at, metrics)

    def on_evaluation(self, trainer: Trainer, result: EvalResult) -> None:
        self.put(trainer.progress.timesteps, evaluation_metrics(result, trainer.progress))

    def on_end(self, trainer: Trainer) -> None:
        ended = trainer.progress.timesteps >= trainer.plan.horizon
        stopped = trainer.stop_reason is not None and not trainer.stop_reason.startswith("SIG")
        self.end("finished" if ended or stopped else "paused")

    def close(self) -> None:
        self.end("failed")  # unless `on_end` was called
        self.thread.join(self.end_s)
        if self.thread.is_alive():
            self.warn(f"has not written everything within {self.end_s:g} s and is left behind")
        elif self.missing and self.started.is_set():
            log.warning(f"{self.tracker.name} lacks {self.missing:,} records of this run; {self.everything()}")

    def put(self, timesteps: int, metrics: Mapping[str, float]) -> None:
        record = Record(timesteps, time.time(), dict(metrics))
        with self.changed:
            if not self.thread.is_alive():
                return
            full = len(self.waiting) >= MOST_WAITING
            if full:
                self.missing += 1
            else:
                self.waiting.append(record)
                self.changed.notify()
        if full:
            self.warn(f"is too slow for this run: {MOST_WAITING:,} records wait for it, and further ones are dropped")

    def end(self, status: Status) -> None:
        with self.changed:
            self.status = self.status or status
            self.changed.notify()
        self.ended.set()

    def take(self) -> list[Record]:
        """Waits for records and returns those that have arrived; an empty list once the run has ended and all are taken."""
        with self.changed:
            self.changed.wait_for(lambda: self.waiting or self.status)
        self.ended.wait(self.tracker.seconds_between_batches)
        with self.changed:
            taken, self.waiting = self.waiting, []
        return taken

    def work(self) -> None:
        """Starts the tracker, gives it records until the run has ended, and finishes it; runs in the thread."""
        try:
            self.keep(self.tracker.start(self.run, self.kept()))
            self.started.set()
            for records in iter(self.take, []):
                self.give(records)
            assert self.status is not None
            self.tracker.finish(self.status)
        except BaseException as error:  # of code that is not ours, and in no case a reason to stop training
            self.warn(f"records nothing more of this run, after {described(error)}")
        finally:
            self.started.set()

    def give(self, records: list[Record]) -> None:
        try:
            self.tracker.log(records)
        except Exception as error:
            with self.changed:
                self.missing += len(records)
            self.warn(f"failed to record metrics, and will be given the next ones, after {described(error)}")

    def warn(self, what: str) -> None:
        """Logs a warning about the tracker; only the first."""
        with self.changed:
            warned, self.warned = self.warned, True
        if not warned:
            log.warning(f"{self.tracker.name} {what}: {self.tracker.advice}; training goes on, {self.everything()}")

    def everything(self) -> str:
        return f"and {self.run.folder / 'metrics.jsonl'} has all metrics"

    def kept(self) -> dict[str, str]:
        """Returns the tracker's description of this run from an earlier call of `learn`, or {}."""
        file = self.run.folder / FOLDER / f"{self.tracker.name}.json"
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}

    def keep(self, description: dict[str, str]) -> None:
        folder = self.run.folder / FOLDER
        if description:
            folder.mkdir(exist_ok=True)
            write_atomically(folder / f"{self.tracker.name}.json", json.dumps(description, indent=2))


def described(error: BaseException) -> str:
    """Returns class and text of an error, in one line that is not too long."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__
