"""One call of `learn`: the trainer with its callbacks, and what is written of it where there is a run directory."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rl_training.api.going_on import planned
from rl_training.api.result import TrainResult, failure, summarise
from rl_training.api.stages import in_order, recorders
from rl_training.experiment import ConfigError, RunDirectory
from rl_training.experiment.checkpoint import read_manifest
from rl_training.experiment.curve import draw_curve
from rl_training.experiment.env_settings import can_be_built
from rl_training.experiment.keeping import Evaluation
from rl_training.experiment.lineage import note_extension, note_origins
from rl_training.runtime import Callback, EvalResult, Streams, Trainer

if TYPE_CHECKING:
    from rl_training.api.agent import Agent


def run(agent: Agent, trainer: Trainer, stop_at: int, given: list[Callback], shown: int | None) -> TrainResult:
    """Trains up to a step; with a run directory, everything is recorded there."""
    config, evaluation = agent.config, evaluation_callback(agent, trainer)
    if agent.run_dir is None:
        evaluation = evaluation if config.evaluation.interval else None
        return train(agent, trainer, stop_at, evaluation, in_order(config, given, [], evaluation, shown))
    directory = open_directory(agent, agent.run_dir)
    with directory.locked():
        note_origins(directory.path, agent.origins)
        note_extension(
            directory.path,
            trainer.progress.timesteps,
            planned(directory.config(), directory.path).training,
            config.training,
        )
        finished = trainer.progress.timesteps >= trainer.horizon
        directory.trim_logs(trainer.progress.timesteps, redo_evaluation=finished)
        directory.write_config(config)
        if agent.origins and not directory.steps():  # weights from elsewhere: a resumed run must find them
            directory.save_step(agent.snapshot(), config.checkpoint.keep)
        stages = in_order(config, given, recorders(config, directory, agent.snapshot), evaluation, shown)
        result = None
        try:
            result = train(agent, trainer, stop_at, evaluation, stages)
        finally:
            directory.write_result(asdict(result) if result else failure(config, trainer))
        draw_curve(directory.path, f"{config.name} on {config.env.id}, seed {config.training.seed}")
    return result


def open_directory(agent: Agent, path: Path) -> RunDirectory:
    """A directory that this agent resumes or has already begun; else a new one, never somebody else's run."""
    begun = agent.trainer is not None and agent.trainer.progress.timesteps > 0
    if (agent.resumed or begun) and (path / "config.yaml").exists():
        directory, now = RunDirectory.open(path), agent.progress.timesteps
        newest = max((read_manifest(step)["timesteps"] for step in directory.steps()), default=0)
        if newest > now:
            raise ConfigError(
                f"{path} has a checkpoint at {newest} steps and this agent stands at {now}: the run was continued elsewhere; go "
                f"on from there with {type(agent).__name__}.resume({str(path)!r})"
            )
        return directory
    return RunDirectory.create(path, agent.config)


def train(
    agent: Agent, trainer: Trainer, stop_at: int, evaluation: Evaluation | None, callbacks: list[Callback]
) -> TrainResult:
    since = (trainer.progress.timesteps, trainer.progress.wall_time)
    reason = trainer.run(stop_at, callbacks)
    return summarise(
        agent.config,
        trainer,
        reason=reason,
        stop_at=stop_at,
        since=since,
        last=evaluation.last[1] if evaluation and evaluation.last else None,
        run=RunDirectory(agent.run_dir) if agent.run_dir else None,
        resume=agent.env.state_kind if trainer.collector and agent.env else "exact",
    )


def evaluation_callback(agent: Agent, trainer: Trainer) -> Evaluation | None:
    """Evaluates an agent as its config says; None where there is nothing to evaluate in."""
    config = agent.config
    if not can_be_built(config.evaluated_env):
        return None
    settings, streams = config.evaluation, Streams.from_seed(config.training.seed)

    def run_evaluation(timesteps: int) -> EvalResult:
        seed, watch = streams.evaluation_at(timesteps), partial(agent.health.watch, agent.algorithm)
        result = agent.evaluate(settings.episodes, deterministic=settings.deterministic, seed=seed, watch=watch)
        return replace(result, health=agent.health.measure(trainer, config.algorithm.gamma, seed))

    return Evaluation(settings.interval, run_evaluation)
