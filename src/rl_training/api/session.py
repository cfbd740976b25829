"""One call of `learn`: what an agent brings to a run."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rl_training.config import ConfigError
from rl_training.config.run_config import can_be_built
from rl_training.experiment import RunDirectory
from rl_training.experiment.checkpoint import read_manifest
from rl_training.experiment.run import Run
from rl_training.experiment.run_callbacks import Evaluation
from rl_training.runtime import EvalResult, Streams, Trainer

if TYPE_CHECKING:
    from rl_training.api.agent import Agent


def run_of(agent: Agent, trainer: Trainer) -> Run:
    """The run that an agent begins, or goes on with, in its directory if it has one."""
    return Run(
        config=agent.config,
        trainer=trainer,
        evaluation=evaluation_callback(agent, trainer),
        directory=open_directory(agent, agent.run_dir) if agent.run_dir and not agent.workers.rank else None,
        recorded=agent.run_dir is not None,
        snapshot=agent.snapshot,
        origins=agent.origins,
        resume=trainer.collector.state_kind if trainer.collector else "exact",
    )


def open_directory(agent: Agent, path: Path) -> RunDirectory:
    """A directory that this agent resumes or has already begun; else a new one, never somebody else's run."""
    now = agent.progress.timesteps
    if not (agent.resumed or now) or not (path / "config.yaml").exists():
        return RunDirectory.create(path, agent.config)
    directory = RunDirectory.open(path)
    newest = max((read_manifest(step)["timesteps"] for step in directory.steps()), default=0)
    if newest > now:
        raise ConfigError(
            f"{path} has a checkpoint at {newest} steps and this agent stands at {now}: the run was continued elsewhere; go on "
            f"from there with {type(agent).__name__}.resume({str(path)!r})"
        )
    return directory


def evaluation_callback(agent: Agent, trainer: Trainer) -> Evaluation | None:
    """Evaluates an agent as its config says; None where there is nothing to evaluate in, or nobody to tell."""
    config = agent.config
    if not can_be_built(config.evaluated_env) or not (agent.run_dir or config.evaluation.interval):
        return None
    settings, streams = config.evaluation, Streams.from_seed(config.training.seed)

    def run_evaluation(timesteps: int) -> EvalResult:
        seed, watch = streams.evaluation_at(timesteps), partial(agent.health.watch, agent.algorithm)
        result = agent.evaluate(settings.episodes, deterministic=settings.deterministic, seed=seed, watch=watch)
        return replace(result, health=agent.health.measure(trainer, config.algorithm.gamma, seed))

    return Evaluation(settings.interval, run_evaluation)
