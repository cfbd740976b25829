"""One run of a trial, wherever it is executed: an ordinary run that asks after every evaluation whether to go on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rl_training.api import Agent
from rl_training.config import RunConfig
from rl_training.config.trust import remember
from rl_training.file_lock import lock
from rl_training.runtime import Callback, EvalResult, NonFiniteError, Trainer

PAUSE = "SIGTERM"  # the reason by which a run is paused, not stopped


@dataclass(frozen=True)
class Job:
    """A run of a trial, to be executed."""

    trial: int
    folder: str  # its run directory; a run that stands there is resumed
    config: dict
    stop_at: int | None = None  # pause there


@dataclass(frozen=True)
class Evaluated:
    """A run was evaluated and waits for an answer."""

    trial: int
    step: int
    mean: float


@dataclass(frozen=True)
class Ended:
    """A run ended: it finished, was stopped or paused, diverged (its numbers were not finite), or failed."""

    trial: int
    status: str
    reason: str


Ask = Callable[[int, float], str | None]  # a step and a mean return: None, or the reason to stop


class AskAfterEvaluations(Callback):
    """A callback that asks after every evaluation, and ends the run if the answer is a reason."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask

    def on_evaluation(self, trainer: Trainer, result: EvalResult) -> None:
        reason = self.ask(trainer.progress.timesteps, result.mean)
        if reason is not None:
            trainer.request_stop(reason)


def run_job(job: Job, ask: Ask) -> Ended:
    """Trains a new run, or what is left of one, and says how it ended."""
    try:
        agent = open_run(job)
        try:
            result = agent.learn(stop_at=job.stop_at, callbacks=[AskAfterEvaluations(ask)], progress=False)
        finally:
            agent.close()
    except NonFiniteError as error:
        return Ended(job.trial, "diverged", str(error))
    except ValueError as error:
        return Ended(job.trial, "failed", str(error))
    return Ended(job.trial, result.status, result.reason)


def open_run(job: Job) -> Agent:
    """Opens the agent of a job; its config is the user's own, so what it names may be used when it is opened again."""
    folder, config = Path(job.folder), RunConfig.from_mapping(job.config)
    remember(config)
    wait_until_free(folder)
    if (folder / "config.yaml").exists():
        return Agent.resume(folder)
    shutil.rmtree(folder, ignore_errors=True)  # what a process left that was killed while it made the folder
    return Agent(config, run_dir=folder)


def wait_until_free(folder: Path) -> None:
    """Waits for a worker whose study was killed: it holds its run until it has saved it."""
    if (folder / ".lock").exists():
        with (folder / ".lock").open("a", encoding="utf-8") as file:
            lock(file.fileno(), wait=True)
