"""One run of a trial, wherever it is executed: an ordinary run that asks after every evaluation whether to go on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rl_base.file_lock import lock
from rl_training.api import Agent
from rl_training.config import RunConfig
from rl_training.config.trust import remember
from rl_training.runtime import Callback, EvalResult, NonFiniteError, Trainer

PAUSE = "SIGTERM"  # the reason by which a run is paused, not stopped


@dataclass(frozen=True)
class Job:
    """A training run of a trial to be executed: trial number, run directory, config data, and step to pause at."""

    trial: int
    folder: str  # its run directory; a run that stands there is resumed
    config: dict
    stop_at: int | None = None  # pause there


@dataclass(frozen=True)
class Evaluated:
    """The event that trial number `trial` was evaluated (`mean` return at `step`), and waits for an answer."""

    trial: int
    step: int
    mean: float


@dataclass(frozen=True)
class Ended:
    """The event that the run of trial number `trial` ended, with status and reason.

    The status is finished, stopped, paused, diverged (numbers were not finite) or failed (a ValueError).
    """

    trial: int
    status: str
    reason: str


Ask = Callable[[int, float], str | None]  # a step and a mean return: None, or the reason to stop


class AskAfterEvaluations(Callback):
    """A training callback that calls `ask` with the step and mean return of every evaluation.

    The run stops if `ask` returns a reason; None lets it go on.
    """

    def __init__(self, ask: Ask) -> None:
        self.ask = ask

    def on_evaluation(self, trainer: Trainer, result: EvalResult) -> None:
        reason = self.ask(trainer.progress.timesteps, result.mean)
        if reason is not None:
            trainer.request_stop(reason)


def run_job(job: Job, ask: Ask) -> Ended:
    """Trains the run of a job, from its last checkpoint if it has one, and returns how it ended.

    Calls `ask` with step and mean return of every evaluation; a reason that it returns stops the run. A NonFiniteError
    or ValueError is not raised: it becomes the status diverged or failed.
    """
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
    """Returns the agent of a job: of the run in its directory, to be resumed, or of a new run there.

    Waits while another process uses the directory; deletes one that holds no config, which a killed process left. The
    config counts as the user's own, so code that it names is trusted when this process loads it from a checkpoint.
    """
    folder, config = Path(job.folder), RunConfig.from_mapping(job.config)
    remember(config)
    wait_until_free(folder)
    if (folder / "config.yaml").exists():
        return Agent.resume(folder)
    shutil.rmtree(folder, ignore_errors=True)  # what a process left that was killed while it made the folder
    return Agent(config, run_dir=folder)


def wait_until_free(folder: Path) -> None:
    """Waits until no process has locked a run directory.

    A worker of a killed study has, until it has saved its run.
    """
    if (folder / ".lock").exists():
        with (folder / ".lock").open("a", encoding="utf-8") as file:
            lock(file.fileno(), wait=True)
