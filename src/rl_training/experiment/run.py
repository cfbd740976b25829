"""A run: the files, callbacks and signals around training."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass

from rl_training.config.run_config import RunConfig
from rl_training.experiment.checkpoint import Checkpoint
from rl_training.experiment.curve import draw_curve
from rl_training.experiment.lineage import note_extension, note_origins, planned
from rl_training.experiment.result import TrainResult, failure, summarise
from rl_training.experiment.run_callbacks import Evaluation, build_callbacks
from rl_training.experiment.run_directory import RunDirectory
from rl_training.runtime import Callback, Trainer


@dataclass(frozen=True, kw_only=True)
class Run:
    """One call of `learn`; with a directory, everything is recorded there."""

    config: RunConfig
    trainer: Trainer
    evaluation: Evaluation | None  # None: nothing is evaluated
    directory: RunDirectory | None
    recorded: bool  # here or, if the directory is None, by another rank
    snapshot: Callable[[], Checkpoint]
    origins: list[dict]  # checkpoints whose weights it began with
    resume: str  # what a resumed run can promise

    def train(self, stop_at: int, callbacks: list[Callback], *, shown: bool) -> TrainResult:
        """Trains until the run's clock shows `stop_at`; with a directory, writes the result and the curve there."""
        with self.directory.locked() if self.directory else nullcontext():
            self.begin_files()
            since, result = (self.trainer.progress.timesteps, self.trainer.progress.wall_time), None
            try:
                reason = self.trainer.run(stop_at, build_callbacks(self, callbacks, stop_at if shown else None))
                result = summarise(self, reason, since)
            finally:
                self.end_files(result)
        return result

    def begin_files(self) -> None:
        """Prepares a run directory for training from the trainer's step: records, config, and logs cut to that step."""
        if (directory := self.directory) is None:
            return
        now, path = self.trainer.progress.timesteps, directory.path
        note_origins(path, self.origins)
        note_extension(path, now, planned(directory.config(), path).training, self.config.training)
        directory.trim_logs(now, redo_evaluation=now >= self.trainer.plan.horizon)
        directory.write_config(self.config)
        if self.origins and not directory.steps():  # weights from elsewhere: a resumed run must find them
            directory.save_step(self.snapshot(), self.config.checkpoint.keep)

    def end_files(self, result: TrainResult | None) -> None:
        """Writes the result and the learning curve; without a result, the exception that ended the run."""
        if self.directory is None:
            return
        self.directory.write_result(asdict(result) if result else failure(self))
        if result:
            title = f"{self.config.name} on {self.config.env.id}, seed {self.config.training.seed}"
            draw_curve(self.directory.path, title)
