"""The run that `learn` trains: its budget, environments, data, trainer and directory."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rl_training.api.build import build_trainer, choose_mode, note_idle_phases, plan_again, resolve
from rl_training.api.data_source import open_data
from rl_training.api.env_source import open_training_env, verify_resumability
from rl_training.config import ConfigError, RunConfig
from rl_training.config.parsing import parse_steps
from rl_training.config.run_config import can_be_built
from rl_training.core.pictures import picture_keys
from rl_training.envs import VectorEnv
from rl_training.experiment import RunDirectory
from rl_training.experiment.checkpoint import damage_named, read_manifest
from rl_training.experiment.run import Run
from rl_training.experiment.run_callbacks import Evaluation
from rl_training.runtime import EvalResult, Progress, Streams, Trainer
from rl_training.runtime.kept_memory import keep_freed_memory
from rl_training.runtime.torch_context import plain_torch

if TYPE_CHECKING:
    from rl_training.api.agent import Agent


log = logging.getLogger(__name__)


@plain_torch()
def build_run(agent: Agent, config: RunConfig | None = None, *, alone: bool = True) -> Run:
    """Returns the run that trains an agent by `config` (None: its own), and opens its run directory if it has one.

    Sets `agent.config`. The first call fixes device and threads, opens data and environments, and builds the trainer;
    later ones give the trainer a new budget. A run that does not train `alone` leaves the choice of compiled code to
    the stack that it is a member of.
    """
    config = config or agent.config
    agent.config = config if agent.trainer else resolve(config, agent.algorithm, agent.ranks)
    if agent.trainer is None:
        agent.trainer, agent.state = first_trainer(agent), {}  # what was loaded need not stay in memory
    else:
        plan_again(agent.trainer, agent.config, training_envs(agent))
    if alone:
        choose_mode(agent.trainer, agent.config)
    if agent.config.training.device == "cpu" and picture_keys(agent.spec.obs):
        keep_freed_memory()
    agent.ranks.exchange([])  # all have read what they go on from before the first writes to it
    return Run(
        config=agent.config,
        trainer=agent.trainer,
        evaluation=evaluation_callback(agent, agent.trainer),
        directory=open_directory(agent, agent.run_dir) if agent.run_dir and not agent.ranks.rank else None,
        recorded=agent.run_dir is not None,
        snapshot=agent.snapshot,
        origins=agent.origins,
        resume=agent.trainer.collector.state_kind if agent.trainer.collector else "exact",
        alone=alone,
    )


def first_trainer(agent: Agent) -> Trainer:
    """Builds an agent's trainer, after opening its data and environments, and loads the agent's state into it.

    Raises CheckpointError if the state is damaged.
    """
    note_idle_phases(agent.config, agent.progress.env_steps)
    agent.dataset = agent.dataset or open_data(agent.config, trust=agent.trust)
    trainer = build_trainer(agent.config, agent.algorithm, training_envs(agent), agent.dataset, agent.ranks)
    if not agent.progress.timesteps:
        keep_reward_scale(trainer, agent.state)
        return trainer
    with damage_named(agent.trust.source):
        trainer.load_state_dict(agent.full_state())
    if trainer.collector is not None and trainer.collector.state_kind == "boundary":
        log.warning("this environment's state cannot be saved; new episodes were started")
    return trainer


def keep_reward_scale(trainer: Trainer, state: dict) -> None:
    """Copies the statistics of rewards in an agent's state tree, if it has any, to a trainer of a new run."""
    rewards, scaling = state["experience"].get("reward_scaling"), getattr(trainer.experience, "reward_scaling", None)
    if rewards and scaling is not None:
        scaling.set_moments(rewards["moments"])


def training_envs(agent: Agent) -> dict[str, VectorEnv]:
    """Returns the environments to collect from, and opens those that are not open yet; {} for a run without env steps.

    The keys are `PhaseConfig.env_key`: "" for section env, others for phases that change it.
    """
    config = agent.config
    if not config.training.total_timesteps:
        return {}
    resumed = agent.trainer is None and agent.progress.timesteps > 0
    for env_key, settings in config.envs_by_key.items():
        if env_key not in agent.envs:
            number = next((i for i, phase in enumerate(config.phases) if phase.env_key == env_key), None)
            section = f"phases[{number}].env" if env_key else "env"
            env = open_training_env(config, settings, agent.trust, agent.ranks, section)
            check_same_spec(env, agent, f"{section}.id={settings.id!r}")
            agent.envs[env_key] = env
        if agent.trainer is None or env_key not in agent.trainer.plan.collectors:  # it is not collected from yet
            verify_resumability(agent.envs[env_key], settings, agent.trust, say=not resumed)
    return {env_key: agent.envs[env_key] for env_key in config.envs_by_key}


def check_same_spec(env: VectorEnv, agent: Agent, source: str) -> None:
    """Raises ConfigError, which names `source`, if environments do not have the agent's spaces; closes them first."""
    theirs, ours = replace(env.spec, groups=agent.spec.groups), agent.spec
    if theirs != ours:
        env.close()
        raise ConfigError(
            f"{source} has observations {theirs.obs} and actions {theirs.action}, and the agent was built for "
            f"{ours.obs} and {ours.action}: use environments with the same spaces"
        )


def open_directory(agent: Agent, path: Path) -> RunDirectory:
    """Opens the directory of a run that this agent resumed or began, else creates one at `path`.

    Raises ConfigError if the path is occupied by something else, or its run has gone on further than this agent.
    """
    now, known = agent.progress.timesteps, agent.directory
    if not (known or now) or not (path / "config.yaml").exists():
        return RunDirectory.create(path, agent.config)
    directory = known if known and known.path == path else RunDirectory.open(path)
    newest = max((read_manifest(step)["timesteps"] for step in directory.steps()), default=0)
    if newest > now:
        raise ConfigError(
            f"{path} has a checkpoint at {newest} steps and this agent stands at {now}: the run was continued elsewhere; go on "
            f"from there with {type(agent).__name__}.resume({str(path)!r})"
        )
    return directory


def evaluation_callback(agent: Agent, trainer: Trainer) -> Evaluation | None:
    """Returns the callback that evaluates as the config says; None if it has no environment or nothing asks for it."""
    config = agent.config
    if not can_be_built(config.evaluated_env) or not (agent.run_dir or config.evaluation.interval):
        return None
    settings, streams = config.evaluation, Streams.from_seed(config.training.seed)

    def run_evaluation(timesteps: int) -> EvalResult:
        seed, watch = streams.evaluation_at(timesteps), partial(agent.health.watch, agent.algorithm)
        result = agent.evaluate(settings.episodes, deterministic=settings.deterministic, seed=seed, watch=watch)
        return replace(result, health=agent.health.measure(trainer, config.algorithm.gamma, seed))

    return Evaluation(settings.interval, run_evaluation)


def check_idle(trainer: Trainer | None, call: str) -> None:
    """Raises ConfigError, which names the method `call`, if the agent is learning just now.

    `trainer` is the agent's, None before the first `learn`.
    """
    if trainer is not None and trainer.running:
        raise ConfigError(
            f"{call}() was called while this agent learns, from a callback or another thread: wait until `learn` has "
            "returned, or use another agent"
        )


def with_budget(
    config: RunConfig, progress: Progress, total_timesteps: int | None, total_updates: int | None
) -> RunConfig:
    """Returns the config with so many env steps, and updates from data alone, beyond those that `progress` counts.

    Returns it unchanged if both are None. Raises ConfigError if the config has no budget either.
    """
    if total_timesteps is None and total_updates is None:
        if not config.training.horizon:
            raise ConfigError(
                "how long? learn(total_updates=...) learns from the dataset alone, learn(total_timesteps=...) steps the "
                "environment"
            )
        if progress.timesteps >= config.training.horizon:
            log.warning(f"this run is done ({progress.text}), so learn() takes no step: learn(N) takes N further ones")
        return config
    changes = {"total_timesteps": progress.env_steps}
    if total_timesteps is not None:
        changes["total_timesteps"] += parse_steps(total_timesteps, "total_timesteps")
    if total_updates is not None:
        changes["total_updates"] = progress.offline_updates + parse_steps(total_updates, "total_updates")
    return config.changed("training", **changes)


def extended(config: RunConfig, progress: Progress, totals: Mapping[str, int | None]) -> RunConfig:
    """Returns the config with the totals of the whole run in `totals`, "total_timesteps" or "total_updates" to number.

    None keeps the old one. Raises ConfigError if a total is below what is done.
    """
    done = {"total_timesteps": progress.env_steps, "total_updates": progress.offline_updates}
    changes = {name: parse_steps(total, name) for name, total in totals.items() if total is not None}
    for name, total in changes.items():
        if total < done[name]:
            raise ConfigError(
                f"{name}={total} is below what is done, {done[name]}: give the new total of the whole run"
            )
    return config.changed("training", **changes)


def pause_at(stop_at: int | None, config: RunConfig, progress: Progress) -> int:
    """Returns the clock (updates from data plus env steps) at which `learn` ends: `stop_at`, or the end of the run.

    Raises ConfigError if the run is past `stop_at` already.
    """
    horizon = config.training.horizon
    stop = horizon if stop_at is None else min(parse_steps(stop_at, "stop_at"), horizon)
    if stop < min(progress.timesteps, horizon):
        together = f", {progress.timesteps:,} together" if progress.offline_updates and progress.env_steps else ""
        raise ConfigError(f"stop_at={stop} lies behind this run, which has {progress.text}{together}: raise it")
    return stop
