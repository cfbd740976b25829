"""What `learn` trains with: environments, data and a trainer, opened and built when they are first needed."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from rl_training.api.build import build_trainer, choose_mode, note_idle_phases, plan_again, resolve
from rl_training.api.data_source import open_data
from rl_training.api.env_source import open_training_env, settle_promise
from rl_training.api.transfer_weights import keep_reward_scale
from rl_training.config import ConfigError
from rl_training.config.parallelism import check_shares
from rl_training.distributed import collector_of
from rl_training.envs import VectorEnv
from rl_training.experiment.checkpoint import damage_named
from rl_training.runtime import Trainer
from rl_training.runtime.surroundings import plain_torch

if TYPE_CHECKING:
    from rl_training.api.agent import Agent

log = logging.getLogger(__name__)


@plain_torch()
def prepare(agent: Agent) -> Trainer:
    """The agent's trainer with the budget of now; what was left to the machine is fixed in the config, once."""
    if agent.trainer is None:
        check_shares(agent.config, agent.algorithm, agent.workers.number)
        agent.config = resolve(agent.config, agent.algorithm, agent.workers)
        note_idle_phases(agent.config, agent.progress.env_steps)
        agent.dataset = agent.dataset or open_data(agent.config, trust=agent.trust)
        agent.trainer, agent.state = begin(agent, training_envs(agent)), {}  # what was loaded need not stay in memory
    else:
        plan_again(agent.trainer, agent.config, training_envs(agent), collector_of)
    choose_mode(agent.trainer, agent.config)
    agent.workers.exchange([])  # all have read what they go on from before the first writes to it
    return agent.trainer


def begin(agent: Agent, envs: dict[str, VectorEnv]) -> Trainer:
    """A trainer at the step where the agent stands."""
    trainer = build_trainer(agent.config, agent.algorithm, envs, agent.dataset, collector_of, agent.workers)
    if not agent.progress.timesteps:
        keep_reward_scale(trainer, agent.state)
        return trainer
    with damage_named(agent.trust.source):
        trainer.load_state_dict(agent.full_state())
    if trainer.collector is not None and trainer.collector.state_kind == "boundary":
        log.warning("this environment's state cannot be saved; new episodes were started")
    return trainer


def training_envs(agent: Agent) -> dict[str, VectorEnv]:
    """The environments to collect from, by place, opened if need be; none in a run that takes no steps."""
    config = agent.config
    if not config.training.total_timesteps:
        return {}
    resumed = agent.trainer is None and agent.progress.timesteps > 0
    for place, settings in config.places.items():
        if place not in agent.envs:
            number = next((i for i, phase in enumerate(config.phases) if phase.place == place), None)
            section = f"phases[{number}].env" if place else "env"
            env = open_training_env(config, settings, agent.trust, agent.workers, section)
            check_same_spec(env, agent, f"{section}.id={settings.id!r}")
            agent.envs[place] = env
        if agent.trainer is None or place not in agent.trainer.plan.collectors:  # it is not collected from yet
            settle_promise(agent.envs[place], settings, agent.trust, say=not resumed)
    return {place: agent.envs[place] for place in config.places}


def check_same_spec(env: VectorEnv, agent: Agent, source: str) -> None:
    """Refuses environments of a phase that the agent's networks do not fit."""
    theirs, ours = replace(env.spec, groups=agent.spec.groups), agent.spec
    if theirs != ours:
        env.close()
        raise ConfigError(
            f"{source} has observations {theirs.obs} and actions {theirs.action}, and the agent was built for "
            f"{ours.obs} and {ours.action}: use environments with the same spaces"
        )
