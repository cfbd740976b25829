"""The backend `pettingzoo`: parallel environments of PettingZoo, by module or from a function that returns one."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rl_training.core import TeamSpec
from rl_training.core.entry_points import import_named
from rl_training.envs.backends import Abilities, register_backend
from rl_training.envs.episode_log import EpisodeLog
from rl_training.envs.factory import EnvFactory, call_factory
from rl_training.envs.joint_env import JointEnv, flat_actions
from rl_training.envs.local import LocalEnv
from rl_training.envs.make import EnvConfig, find_factory, refusals_as_sentences
from rl_training.envs.teams import return_name
from rl_training.envs.vector import EnvStep

PREFIX = "pettingzoo:"
PARTS = ("possible_agents", "observation_space", "action_space", "reset", "step")  # of a parallel environment


class TeamLocalEnv(LocalEnv):
    """A batch of PettingZoo's parallel environments, stepped in turn in this process."""

    spec: TeamSpec  # pyrefly: ignore (narrower than the base, and never reassigned)

    def __init__(
        self,
        builders: list[Callable[[int], EpisodeLog]],
        *,
        timeout_s: float | None = None,
        start: int = 0,
        total: int | None = None,
    ) -> None:
        super().__init__(builders, timeout_s=timeout_s, start=start, total=total)
        self.spec = self.envs[0].unwrapped.team  # pyrefly: ignore (a JointEnv's)

    def ask_columns(self, keys: tuple[str, ...]) -> None:
        agents = () if self.spec.reward == "shared" else self.spec.agents
        super().ask_columns((*keys, *(return_name(agent) for agent in agents)))  # the return of each is always told

    def step(self, action: dict[str, Tensor]) -> EnvStep:  # pyrefly: ignore[bad-override]  (a team's)
        step, names = super().step(flat_actions(action)), [column.name for column in self.spec.columns]
        return step._replace(values={name: torch.from_numpy(np.stack([i[name] for i in self.infos])) for name in names})


def module_of(env_id: str) -> str:
    """Returns the module that an id such as 'pettingzoo:mpe2.simple_spread_v3' imports."""
    return env_id.removeprefix(PREFIX).partition(":")[0]


def find_maker(config: EnvConfig) -> Callable[..., Any]:
    """Returns the function that makes one parallel environment; raises a ValueError if `config.id` names none."""
    if not config.id.startswith(PREFIX):
        factory = find_factory(config.id)
        if factory is None:
            raise ValueError(
                f"env.id={config.id!r} names no function that makes an environment: use '{PREFIX}package.module'"
            )
        return factory
    module, _, name = config.id.removeprefix(PREFIX).partition(":")
    if not module:
        raise ValueError(f"env.id={config.id!r} names no module: write '{PREFIX}package.module'")
    try:
        found = import_named(module)
    except ImportError as error:
        raise ValueError(
            f"env.id={config.id!r}: {module!r} cannot be imported ({error}): pip install 'rl-training[pettingzoo]' or the package "
            f"that provides it, or start in the folder of {module.partition('.')[0]}.py (now {os.getcwd()})"
        ) from error
    maker = getattr(found, name or "parallel_env", None)
    if maker is None:
        turns = " (it has `env`, in which agents take turns, and only parallel environments are supported)"
        raise ValueError(
            f"env.id={config.id!r}: {module} has no {name or 'parallel_env'!r}{turns if hasattr(found, 'env') else ''}: name "
            f"a function that returns a parallel environment, '{PREFIX}{module}:function'"
        )
    return maker


def build_team(config: EnvConfig, make: EnvFactory, index: int) -> EpisodeLog:
    """Builds environment number `index`; raises a ValueError if it is no parallel environment."""
    with refusals_as_sentences(config):
        env: Any = call_factory(make, config.kwargs, index, config.id)
        if hasattr(env, "agent_iter"):
            raise ValueError(
                f"env.id={config.id!r} returned {type(env).__name__}, an AEC environment, in which agents take turns: only "
                "parallel environments are supported, use its parallel_env, or pettingzoo.utils.aec_to_parallel where that fits"
            )
        lacking = next((name for name in PARTS if not hasattr(env, name)), None)
        if lacking is not None:
            raise ValueError(
                f"env.id={config.id!r} returned {type(env).__name__}, which has no {lacking!r}: return a PettingZoo parallel "
                "environment"
            )
        return EpisodeLog(JointEnv(env, config.agents, config.max_episode_steps), index)


def make_part(config: EnvConfig, factory: EnvFactory | None, rows: range, total: int) -> TeamLocalEnv:
    """Builds the environments with the numbers `rows`, of a run that has `total`, in this process."""
    builders = [partial(build_team, config, factory or find_maker(config))] * len(rows)
    env = TeamLocalEnv(builders, timeout_s=config.timeout_s, start=rows.start, total=total)
    env.ask_columns(config.info_keys)
    return env


def make_pettingzoo(config: EnvConfig, num_envs: int, *, device: torch.device | str, start: int) -> TeamLocalEnv:
    """Builds `num_envs` parallel environments in this process, of which the first is number `start` of the run."""
    return make_part(config, None, range(start, start + num_envs), start + num_envs)


def describe_pettingzoo(config: EnvConfig) -> dict[str, object]:
    found: dict[str, object] = {"team_reward": config.agents.reward}
    return found if config.max_episode_steps is None else found | {"max_steps": config.max_episode_steps}


register_backend(
    "pettingzoo",
    make_pettingzoo,
    owns=(PREFIX,),
    protocol=describe_pettingzoo,
    module_of=module_of,
    make_part=make_part,
    can=Abilities(
        samplers=True,
        saves_state=True,
        time_limit=True,
        renders=True,
        several_agents=True,
        group_agents=True,
    ),
)
