"""The environments that a run may be given, their goals, and the observation keys that policy and critic see."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial

import gymnasium as gym
import torch

from rl_training.config import ConfigError, RunConfig
from rl_training.config.parallelism import resolve_device
from rl_training.config.parsing import nearest, shortened, to_plain
from rl_training.config.run_config import can_be_built, in_section
from rl_training.config.sections import GIVEN, NO_ENV
from rl_training.config.trust import Trust
from rl_training.core import Dict, Groups, Ranks, Space, Spec
from rl_training.core.entry_points import register
from rl_training.core.goals import check_goals, unseen_goals
from rl_training.distributed import SampledEnv
from rl_training.distributed.engine import SamplerLostError
from rl_training.distributed.probe_process import probe_apart
from rl_training.envs import EnvConfig, GymnasiumEnv, LocalEnv, VectorEnv, make_env
from rl_training.envs.env_objects import check_recorded, settings_from_spec
from rl_training.envs.factory import refuse_several_agents
from rl_training.envs.failure import EnvFailedError
from rl_training.envs.make import FACTORIES
from rl_training.envs.probe import needs_probe, probe

WHY_GIVEN: dict[str, str] = {}  # by the id of an object: why no copies of it can be made
SAID: set[str] = set()  # environments of which it was said that no copy of them can go on
log = logging.getLogger(__name__)


def open_env(
    config: EnvConfig,
    trust: Trust,
    *,
    num_envs: int | None = None,
    device: torch.device | str = "cpu",
    section: str = "env",
    start: int = 0,
) -> VectorEnv:
    """Builds the environments that a config describes, or only `num_envs` of them beginning with number `start`.

    Raises ConfigError, which names a setting of `section`, if the config's code is not trusted or gymnasium cannot
    build them, or if only a vector environment object was given.
    """
    if config.id.startswith(GIVEN):
        reason = WHY_GIVEN.get(config.id, "it has no spec that gymnasium could rebuild")
        raise ConfigError(
            f"the vector environment was handed over as an object ({config.id}), and no copies of it can be made, because "
            f"{reason}: for evaluation name one with evaluation={{'env': ...}}; to train after loading or copying, pass an id "
            "or a function that returns one environment"
        )
    if config.id == NO_ENV:
        raise ConfigError(
            "this agent has no environment to step: name one when it is built, loaded (load(path, env=...)) or imported"
        )
    trust.check_env(config, f"{section}.id")
    try:
        return make_env(config, num_envs=num_envs, device=device, start=start)
    except gym.error.Error as error:
        where = f"{section}.id={config.id!r} with vectorization={config.vectorization!r}"
        raise ConfigError(f"{where}: {error}") from error
    except ValueError as error:
        if section == "env" or not str(error).startswith("env."):
            raise
        raise ConfigError(in_section(str(error), section)) from error


def verify_resumability(env: VectorEnv, config: EnvConfig, trust: Trust, *, say: bool) -> None:
    """Tests if a copy of the environment can continue from a saved state; if not, sets `env.state_kind` to "boundary".

    Then a resumed run starts new episodes; `say` logs a warning about it. Environments that samplers step are tried in
    another process, because one that aborts would end this one. Raises EnvFailedError if that process is lost and
    `sampling.restarts` is 0.
    """
    if not needs_probe(env) or not can_be_built(config):
        return
    try:
        different = (probe_apart if isinstance(env, SampledEnv) else probe)(config, partial(open_env, trust=trust))
    except SamplerLostError as lost:
        assert isinstance(env, SampledEnv)
        what = f"env.id={config.id!r} was tried out in a process of its own, which {lost}"
        if not env.sampling.restarts:
            raise EnvFailedError(
                f"{what}, and sampling.restarts=0: look for what ends or stops it, such as a crash of a simulator or too little "
                "memory; sampling.workers=1 shows it in this process"
            ) from None
        env.state_kind = "boundary"
        log.warning(f"{what}; samplers are replaced where that happens, and a resumed run starts new episodes")
        return
    if different is None:
        return
    env.state_kind = "boundary"
    if say and config.id not in SAID:
        SAID.add(config.id)
        log.warning(
            f"a copy of {config.id} that went on from a saved state gave another {different}: it keeps something from "
            "episode to episode, or draws random numbers that its seed does not reach; a resumed run starts new episodes "
            "(resume: boundary)"
        )


def env_from(source: object, settings: dict[str, object]) -> tuple[str, VectorEnv | None]:
    """Returns the id that a config gets for a user's environment, and the environment itself if it is a vector one.

    The second is None for an id, a function (which is registered) and a single environment. Adds settings that rebuild
    an object to `settings`. Raises ConfigError if `source` cannot be used.
    """
    if isinstance(source, str):
        if source.endswith("Policy"):
            raise ConfigError(
                f"env={source!r} names a policy: give the environment first, e.g. PPO('CartPole-v1'); the network follows "
                "from the spaces"
            )
        return source, None
    if isinstance(source, gym.vector.VectorEnv):
        source = GymnasiumEnv(source)
    if isinstance(source, VectorEnv):
        settings.setdefault("n_envs", source.num_envs)
        if settings["n_envs"] != source.num_envs:
            raise ConfigError(f"n_envs={settings['n_envs']}, but the vector environment has {source.num_envs}")
        return adopt_vector_env(source, settings), source
    if isinstance(source, gym.Env):
        if source.spec is None:
            raise ConfigError(
                f"{type(source).__name__} was handed over as an object without a spec, so no copies of it can be made for "
                f"evaluation: pass a function, e.g. lambda: {type(source).__name__}(...)"
            )
        try:
            settings.update(settings_from_spec(source, source.spec) | settings)
            return source.spec.id, None
        except ValueError as error:
            raise ConfigError(
                f"{source.spec.id} was handed over as an object, and no copies of it can be made, because {error}: pass its id, "
                "or a function that builds it"
            ) from error
    refuse_several_agents(source)
    if callable(source):
        return register(source, FACTORIES), None
    raise ConfigError(
        f"env={shortened(source)} is not an environment: pass an id, a function that returns one, or a RunConfig"
    )


def adopt_vector_env(source: VectorEnv, settings: dict[str, object]) -> str:
    """Returns the id for the config of a vector environment, and adds the settings that rebuild it to `settings`.

    If no copies can be made, the id begins with "object:" and `settings` stay. Otherwise changes the `state_kind`
    "exact" of `source` to "boundary", because a rebuilt one has another form of state.
    """
    inner = getattr(source, "env", None)
    if not isinstance(inner, gym.vector.VectorEnv) or inner.spec is None:
        return f"{GIVEN}{type(source).__name__}"
    try:
        check_recorded(inner)
        found = settings_from_spec(inner, inner.spec)
    except ValueError as error:
        env_id = f"{GIVEN}{type(inner).__name__}({inner.spec.id})"
        WHY_GIVEN[env_id] = str(error)
        return env_id
    if source.state_kind == "exact":  # what a resumed run builds has a state of another form
        source.state_kind = "boundary"
    settings.update(found | settings)
    return inner.spec.id


def open_training_env(
    config: RunConfig, settings: EnvConfig, trust: Trust, ranks: Ranks, section: str = "env"
) -> VectorEnv:
    """Opens the environments that `settings` describe for training; this process's share in a distributed run.

    If sampler processes step them, returns a `SampledEnv`, a handle to those. Raises ConfigError, which names a setting
    of `section`, if they cannot be built.
    """
    if config.sampling.uses_samplers:
        here = open_env(settings, trust, num_envs=1, section=section)
        assert isinstance(here, LocalEnv)
        fragment = config.experience.supply(settings.n_envs).num_steps // settings.n_envs
        return SampledEnv(settings, config.sampling, here, fragment)
    device = resolve_device(config.training.device) if settings.can.on_device else "cpu"
    rows = ranks.rows(settings.n_envs) or range(1)  # where there are too few for all, `learn` refuses it
    return open_env(settings, trust, num_envs=len(rows), device=device, section=section, start=rows.start)


def with_goals(spec: Spec, config: RunConfig, env: VectorEnv | None) -> Spec:
    """Returns a `Spec` without the achieved goal, which networks do not see in a run with hindsight.

    Returns `spec` unchanged for other runs. Raises ConfigError if there is no environment, or it has no goals or cannot
    compute the reward for another goal.
    """
    if not config.experience.has_goals:
        return spec
    if env is None:
        raise ConfigError(
            "experience.hindsight gives other goals to steps that the agent takes, and this run has no environment to take any "
            "in: name one, or drop hindsight"
        )
    try:
        check_goals(spec)
        hidden = unseen_goals(spec)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if env.why_no_judge is not None:
        raise ConfigError(f"experience.hindsight: {env.why_no_judge}, or drop hindsight")
    return hidden


def with_groups(spec: Spec, groups: Groups) -> Spec:
    """Returns the spec with `groups`: the observation keys that the policy sees, and the critic.

    Raises ConfigError if they name keys that the observations lack.
    """
    if groups == Groups():
        return spec
    if not isinstance(spec.obs, Dict):
        raise ConfigError(
            f"env.obs_groups={to_plain(groups)} names keys of Dict observations, and this environment observes a "
            f"{type(spec.obs).__name__}: drop it, or let the environment observe a Dict"
        )
    for name, keys in (("policy", groups.policy), ("critic", groups.critic)):
        for key in keys:
            if key not in spec.obs.spaces:
                raise ConfigError(
                    f"env.obs_groups.{name} names {key!r}, which this environment does not observe: "
                    f"{nearest(key, list(spec.obs.spaces))}"
                )
        if keys and set(keys) <= {"action_mask"}:
            raise ConfigError(
                f"env.obs_groups.{name}={list(keys)} leaves nothing to see: name another key beside the mask"
            )
    return replace(spec, groups=groups)


def needed_of(given: Space, spec: Spec) -> Space:
    """Returns the observation space `given` without the keys that only the critic of an agent for `spec` sees."""
    seen = spec.seen_by("policy").obs
    if spec.groups == Groups() or not isinstance(given, Dict) or not isinstance(seen, Dict):
        return given
    return Dict({key: leaf for key, leaf in given.spaces.items() if key in seen.spaces})
