"""What `learn` trains with: environments, data and a trainer, opened and built when they are first needed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rl_training.api.data_source import open_data
from rl_training.api.env_source import open_env, settle_promise
from rl_training.api.going_on import keep_reward_scale
from rl_training.envs import VectorEnv
from rl_training.experiment.build import build_trainer, choose_mode, plan_again, resolve
from rl_training.experiment.checkpoint import damage_named
from rl_training.runtime import Trainer
from rl_training.runtime.surroundings import plain_torch

if TYPE_CHECKING:
    from rl_training.api.agent import Agent


@plain_torch()
def prepare(agent: Agent) -> Trainer:
    """The agent's trainer with the budget of now; what was left to the machine is fixed in the config, once."""
    if agent.trainer is None:
        agent.config = resolve(agent.config, agent.algorithm)
        agent.dataset = agent.dataset or open_data(agent.config, trust=agent.trust)
        agent.trainer, agent.state = begin(agent, training_env(agent)), {}  # what was loaded need not stay in memory
    else:
        plan_again(agent.trainer, agent.config, training_env(agent))
    choose_mode(agent.trainer, agent.config)
    return agent.trainer


def begin(agent: Agent, env: VectorEnv | None) -> Trainer:
    """A trainer at the step where the agent stands."""
    trainer = build_trainer(agent.config, agent.algorithm, env, agent.dataset)
    if not agent.progress.timesteps:
        keep_reward_scale(trainer, agent.state)
        return trainer
    with damage_named(agent.trust.source):
        trainer.load_state_dict(agent.full_state())
    if env is not None and env.state_kind == "boundary":
        print("note: this environment's state cannot be saved; new episodes were started", file=sys.stderr)
    return trainer


def training_env(agent: Agent) -> VectorEnv | None:
    """The environments to collect from, opened if need be; None in a run that takes no steps."""
    config = agent.config
    if not config.training.total_timesteps:
        return None
    agent.env = agent.env or open_env(config.env, agent.trust, device=config.training.device)
    resumed = agent.trainer is None and agent.progress.timesteps > 0
    settle_promise(agent.env, config.env, agent.trust, say=not resumed)
    return agent.env
