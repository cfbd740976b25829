"""A run: one call of `learn` with its files and callbacks, and its result."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import nullcontext
from dataclasses import asdict, dataclass

from rl_training.config.run_config import RunConfig
from rl_training.envs.episode_columns import SUCCESS
from rl_training.experiment.checkpoint import Checkpoint
from rl_training.experiment.curve import draw_curve
from rl_training.experiment.lineage import note_extension, note_origins, planned
from rl_training.experiment.run_callbacks import Evaluation, build_callbacks
from rl_training.experiment.run_directory import RunDirectory
from rl_training.runtime import Callback, Trainer
from rl_training.runtime.progress import UNITS
from rl_training.runtime.taking_turns import take_all_turns
from rl_training.runtime.torch_context import plain_torch


@dataclass(frozen=True)
class TrainResult:
    """The result of a call to `learn`; `result.json` has the same fields."""

    status: str  # finished, paused, stopped (see reason)
    reason: str
    algorithm: str
    env_id: str
    seed: int
    total_timesteps: int  # env steps so far
    offline_updates: int  # updates from data alone so far
    gradient_steps: int
    episodes: int
    wall_time_s: float
    steps_per_second: float  # env steps, and updates without any
    eval_mean_return: float | None
    eval_std_return: float | None
    eval_episodes: int
    eval_success_rate: float | None  # where the environment gives is_success
    protocol: dict[str, object]  # of that evaluation: what its returns depend on besides the policy
    eval_info: dict[str, float]  # means of env.info_keys over the episodes of the last evaluation
    switch_return: float | None  # the last evaluation before the first env step, where data came first
    switch_dip: float | None  # by how much the lowest evaluation since fell below it
    switch_regret: float | None  # by how much the evaluations since were, on average, below the best of the run
    online_return: float | None  # the mean of the evaluations since
    checkpoint: str | None  # the last one, if a run directory was given
    best_checkpoint: str | None
    resume: str  # what a resumed run can promise: exact, replayed or boundary


@dataclass(frozen=True, kw_only=True)
class Run:
    """A call of `learn` that is ready to train: its config, trainer, evaluation, and run directory, if it has one."""

    config: RunConfig
    trainer: Trainer
    evaluation: Evaluation | None  # None: nothing is evaluated
    directory: RunDirectory | None
    recorded: bool  # here or, if the directory is None, by another rank
    snapshot: Callable[[], Checkpoint]
    origins: list[dict]  # checkpoints whose weights it began with
    resume: str  # what a resumed run can promise
    alone: bool = True  # False: others in this process train with it, and signals are for all of them

    def train(self, stop_at: int, callbacks: list[Callback], *, shown: bool) -> TrainResult:
        """Trains until updates from data alone and env steps together are `stop_at`, and returns the result.

        With a directory, locks it and writes logs, checkpoints, result and curve there; `shown` adds a progress bar.
        """
        with plain_torch(), self.trainer.settings():
            return take_all_turns(self.turns(stop_at, callbacks, shown=shown))

    def turns(self, stop_at: int, callbacks: list[Callback], *, shown: bool) -> Generator[None, None, TrainResult]:
        """Trains as `train` does, within the trainer's settings, and yields before every turn of the loop."""
        with self.directory.locked() if self.directory else nullcontext():
            self.begin_files()
            since, result = (self.trainer.progress.timesteps, self.trainer.progress.wall_time), None
            try:
                called = build_callbacks(self, callbacks, stop_at if shown else None)
                reason = yield from self.trainer.turns(stop_at, called)
                result = self.summary(reason, since)
            finally:
                self.end_files(result)
        return result

    def begin_files(self) -> None:
        """Writes config and origins to the run directory, records a changed budget, and cuts logs at the current step.

        Does nothing without a directory. A new run that begins with the weights of another checkpoint saves one at
        once.
        """
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
        """Writes `result.json` and the learning curve.

        If `result` is None, the exception being handled has ended the run: then writes only `result.json`, which says
        so. Does nothing without a directory.
        """
        if self.directory is None:
            return
        self.directory.write_result(asdict(result) if result else self.failure())
        if result:
            title = f"{self.config.name} on {self.config.env.id}, seed {self.config.training.seed}"
            draw_curve(self.directory.path, title)

    def summary(self, reason: str, since: tuple[int, float]) -> TrainResult:
        """Returns the result of this call of `learn`, which ended for `reason` (text, such as "budget" or "SIGINT").

        `since` has the clock and the wall time in seconds at which the call began.
        """
        directory, progress = self.directory, self.trainer.progress
        last = self.evaluation.last[1] if self.evaluation and self.evaluation.last else None
        finished = progress.timesteps >= self.trainer.plan.horizon
        status = "finished" if finished else "paused" if reason == "budget" or reason.startswith("SIG") else "stopped"
        paused = status == "paused" and reason == "budget"
        return TrainResult(
            status=status,
            reason=paused_text(self.trainer) if paused else reason,
            **self.work_done(),
            episodes=progress.episodes,
            steps_per_second=round((progress.timesteps - since[0]) / max(progress.wall_time - since[1], 1e-9), 1),
            eval_mean_return=last.mean if last else None,
            eval_std_return=last.std if last else None,
            eval_episodes=len(last.returns) if last else 0,
            eval_success_rate=last.success_rate if last else None,
            protocol=last.protocol if last else {},
            eval_info={name: mean for name, mean in last.column_means.items() if name != SUCCESS} if last else {},
            switch_return=progress.switch_return,
            switch_dip=progress.switch_dip,
            switch_regret=progress.switch_regret,
            online_return=progress.online_return,
            checkpoint=str(directory.steps()[-1]) if directory and directory.steps() else None,
            best_checkpoint=str(directory.best()) if directory and directory.best() else None,
            resume=self.resume,
        )

    def failure(self) -> dict:
        """Returns the content of `result.json` for a run that the exception being handled has ended.

        It has status "failed", the error's text as the reason, and the counts so far.
        """
        error = sys.exc_info()[1]
        return {"status": "failed", "reason": f"{type(error).__name__}: {error}", **self.work_done()}

    def work_done(self) -> dict:
        """Returns the fields of a result that are known even after an error: algorithm, environment, seed, counts."""
        progress = self.trainer.progress
        return {
            "algorithm": self.config.name,
            "env_id": self.config.env.id,
            "seed": self.config.training.seed,
            "total_timesteps": progress.env_steps,
            "offline_updates": progress.offline_updates,
            "gradient_steps": progress.gradient_steps,
            "wall_time_s": round(progress.wall_time, 3),
        }


def paused_text(trainer: Trainer) -> str:
    """Returns a text such as "paused at 5,000 of 10,000 ...", with the env steps and updates done and their totals."""
    phases, progress = trainer.plan.phases, trainer.progress
    totals = {unit: sum(phase.budget for phase in phases if phase.unit == unit) for unit in UNITS}
    shown = [f"{progress.shown(unit):,} of {totals[unit]:,} {name}" for unit, name in UNITS.items() if totals[unit]]
    return f"paused at {' and '.join(shown)}"
