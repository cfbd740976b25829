"""The result of a call to `learn`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rl_training.envs.episode_columns import SUCCESS
from rl_training.runtime import Trainer
from rl_training.runtime.progress import UNITS

if TYPE_CHECKING:
    from rl_training.experiment.run import Run


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
    eval_info: dict[str, float]  # means of env.info_keys over the episodes of the last evaluation
    switch_return: float | None  # the last evaluation before the first env step, where data came first
    switch_dip: float | None  # by how much the lowest evaluation since fell below it
    switch_regret: float | None  # by how much the evaluations since were, on average, below the best of the run
    online_return: float | None  # the mean of the evaluations since
    checkpoint: str | None  # the last one, if a run directory was given
    best_checkpoint: str | None
    resume: str  # what a resumed run can promise: exact, replayed or boundary


def summarise(run: Run, reason: str, since: tuple[int, float]) -> TrainResult:
    """Returns the result of a run; `since` holds the clock and the seconds at which this call started."""
    trainer, directory, progress = run.trainer, run.directory, run.trainer.progress
    last = run.evaluation.last[1] if run.evaluation and run.evaluation.last else None
    finished = progress.timesteps >= trainer.plan.horizon
    status = "finished" if finished else "paused" if reason == "budget" or reason.startswith("SIG") else "stopped"
    paused = status == "paused" and reason == "budget"
    return TrainResult(
        status=status,
        reason=paused_text(trainer) if paused else reason,
        **what_was_done(run),
        episodes=progress.episodes,
        steps_per_second=round((progress.timesteps - since[0]) / max(progress.wall_time - since[1], 1e-9), 1),
        eval_mean_return=last.mean if last else None,
        eval_std_return=last.std if last else None,
        eval_episodes=len(last.returns) if last else 0,
        eval_success_rate=last.success_rate if last else None,
        eval_info={name: mean for name, mean in last.column_means.items() if name != SUCCESS} if last else {},
        switch_return=progress.switch_return,
        switch_dip=progress.switch_dip,
        switch_regret=progress.switch_regret,
        online_return=progress.online_return,
        checkpoint=str(directory.steps()[-1]) if directory and directory.steps() else None,
        best_checkpoint=str(directory.best()) if directory and directory.best() else None,
        resume=run.resume,
    )


def paused_text(trainer: Trainer) -> str:
    """Returns a sentence with the env steps and updates at which a run paused, and their totals."""
    phases, progress = trainer.plan.phases, trainer.progress
    totals = {unit: sum(phase.budget for phase in phases if phase.unit == unit) for unit in UNITS}
    shown = [f"{progress.shown(unit):,} of {totals[unit]:,} {name}" for unit, name in UNITS.items() if totals[unit]]
    return f"paused at {' and '.join(shown)}"


def failure(run: Run) -> dict:
    """Returns the content of `result.json` for a run that the current exception ended."""
    error = sys.exc_info()[1]
    return {"status": "failed", "reason": f"{type(error).__name__}: {error}", **what_was_done(run)}


def what_was_done(run: Run) -> dict:
    """Returns the part of a result that is known however the run ended."""
    config, progress = run.config, run.trainer.progress
    return {
        "algorithm": config.name,
        "env_id": config.env.id,
        "seed": config.training.seed,
        "total_timesteps": progress.env_steps,
        "offline_updates": progress.offline_updates,
        "gradient_steps": progress.gradient_steps,
        "wall_time_s": round(progress.wall_time, 3),
    }
