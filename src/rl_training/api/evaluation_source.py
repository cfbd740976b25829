"""The environments that evaluations may be given; they must have the spaces of the training environment."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from rl_training.api.env_source import env_from, needed_of, open_env
from rl_training.config import ConfigError, RunConfig
from rl_training.config.parsing import parse_flag, parse_seed, parse_steps
from rl_training.config.run_config import can_be_built, evaluation_env
from rl_training.config.score_protocol import describe_protocol
from rl_training.config.sections import NO_ENV
from rl_training.config.trust import OWN, Trust
from rl_training.core import Box, Discrete, Policy, Spec, Transition
from rl_training.core.outline import differing
from rl_training.envs import EnvConfig, VectorEnv
from rl_training.envs.filming import FilmedEnv, drawing_config
from rl_training.runtime import EvalResult, evaluate

if TYPE_CHECKING:
    from rl_training.api.agent import Agent

SECTION = "evaluation.env"


def plain_evaluation(settings: dict[str, object]) -> dict[str, object]:
    """Returns keyword arguments in which an environment under `evaluation={"env": ...}` is replaced by plain settings.

    Raises ConfigError if it is a vector environment, because no copies of that can be made.
    """
    evaluation = settings.get("evaluation")
    if not isinstance(evaluation, dict) or "env" not in evaluation:
        return settings
    changes, made = env_changes(evaluation["env"])
    if made is not None:
        raise ConfigError(
            "evaluation['env'] is a vector environment, of which no copies can be made: pass an id or a function that "
            "returns one environment, or hand it to agent.evaluate(env=...)"
        )
    return settings | {"evaluation": evaluation | {"env": changes}}


def env_changes(source: object) -> tuple[dict[str, object], VectorEnv | None]:
    """Returns the settings in which an environment for evaluation differs from the agent's, and a vector environment.

    `source` is an environment as for an agent, an `EnvConfig`, or a mapping of settings; None gives {}. The second part
    is None unless `source` is or holds a vector environment.
    """
    if isinstance(source, EnvConfig):
        return {f.name: getattr(source, f.name) for f in dataclasses.fields(source) if f.name != "n_envs"}, None
    changes: dict[str, object] = dict(source) if isinstance(source, dict) else {}
    if source is None or (isinstance(source, dict) and isinstance(changes.get("id", ""), str)):
        return changes, None
    found: dict[str, object] = {}
    changes["id"], made = env_from(changes["id"] if isinstance(source, dict) else source, found)
    found.pop("n_envs", None)
    return found | changes, made


def evaluate_agent(
    agent: Agent,
    num_episodes: object,
    deterministic: object,
    seed: object,
    env: object,
    watch: Callable[[Transition], None] | None,
) -> EvalResult:
    """Runs complete episodes in the environments that the config evaluates in, or in `env` unless it is None.

    `watch`, unless None, is called with the steps, shape [time, env]. Raises ConfigError if an argument is invalid,
    there is no environment, or its spaces differ from those of training.
    """
    num, seed = parse_steps(num_episodes, "num_episodes"), parse_seed(seed)
    chosen = parse_flag(deterministic, "deterministic")
    if watch is not None and not callable(watch):
        raise ConfigError(f"watch={watch!r} must be a function of the [time, env] steps")
    with evaluation_envs(agent.config, agent.spec, agent.trust, env, num, agent.algorithm.policy) as envs:
        return evaluate_in(envs, agent, env, num, deterministic=chosen, seed=seed, watch=watch)


def evaluate_in(
    envs: VectorEnv,
    agent: Agent,
    source: object,
    num: int,
    *,
    deterministic: bool,
    seed: int,
    watch: Callable[[Transition], None] | None = None,
) -> EvalResult:
    """Runs `num` complete episodes in `envs`, opened from `source`, by the config's section `evaluation`.

    The result says by which protocol.
    """
    settings = agent.config.evaluation
    check_epsilon(agent.config, agent.spec)
    result = evaluate(
        agent.algorithm.policy,
        envs,
        num,
        seed=seed,
        deterministic=deterministic,
        max_steps=settings.max_steps,
        epsilon=settings.epsilon,
        watch=watch,
    )
    changes, made = env_changes(source)
    env = None if made is not None else evaluation_env(agent.config.evaluated_env, changes)
    protocol = describe_protocol(settings, env, num_episodes=num, deterministic=deterministic)
    return dataclasses.replace(result, protocol=protocol)


@contextmanager
def evaluation_envs(
    config: RunConfig,
    spec: Spec,
    trust: Trust,
    source: object,
    num_episodes: int,
    policy: Policy,
    *,
    filmed: bool = False,
) -> Iterator[VectorEnv]:
    """Yields, for the `with` block, the environments to evaluate in; closes them afterwards if they were opened here.

    `source` is an environment or settings of one that replace the config's, or None. If `filmed`, yields a `FilmedEnv`
    instead, whose only environment is in this process. Raises ConfigError if there is none or its spaces are not `spec`.
    """
    changes, made = env_changes(source)
    if made is not None:
        check_spaces(made.spec, spec, str(changes["id"]))
        made.ask_columns(config.evaluated_env.info_keys)
        yield FilmedEnv(made, str(changes["id"]), num_episodes) if filmed else made
        return
    settings = evaluation_env(config.evaluated_env, changes)
    if settings.id == NO_ENV:
        raise ConfigError(
            "there is no environment to evaluate in: name one when the agent is built, with evaluation={'env': ...} or here "
            "with env=..., or use rl_training.evaluation.off_policy"
        )
    trust = OWN if "id" in changes else trust  # a name that was given here is the user's own
    num_envs = 1 if filmed else config.evaluation.num_envs(num_episodes, at_once=settings.can.on_device)
    section = SECTION if changes or config.evaluation.env else "env"
    device = "cpu" if filmed else policy.device
    if filmed:
        trust.check_env(settings, f"{section}.id")
        settings = drawing_config(settings)
    env = open_env(settings, trust, num_envs=num_envs, device=device, section=section)
    try:
        check_spaces(env.spec, spec, settings.id)
        yield FilmedEnv(env, f"env.id={settings.id!r}", num_episodes) if filmed else env
    finally:
        env.close()


def check_evaluation_env(config: RunConfig, spec: Spec) -> None:
    """Raises ConfigError if a run's separate evaluation environment does not have the spaces `spec`.

    Opens one environment to look at it, if the config has a section evaluation.env. Also raises ConfigError if
    evaluation.epsilon has no discrete actions to draw from.
    """
    check_epsilon(config, spec)
    settings = config.evaluated_env
    if not config.evaluation.env or not can_be_built(settings):
        return
    if settings.vectorization == "async":
        settings = dataclasses.replace(settings, vectorization="sync")
    env = open_env(settings, OWN, num_envs=1, section=SECTION)
    try:
        check_spaces(env.spec, spec, settings.id)
    finally:
        env.close()


def check_epsilon(config: RunConfig, spec: Spec) -> None:
    if config.evaluation.epsilon and not isinstance(spec.action, Discrete):
        raise ConfigError(
            f"evaluation.epsilon={config.evaluation.epsilon} draws from discrete actions, and the actions of this "
            f"environment are {type(spec.action).__name__}: leave it out"
        )


def check_spaces(given: Spec, ours: Spec, env_id: str) -> None:
    """Raises ConfigError if an environment for evaluation has other spaces (`given`) than training (`ours`).

    Bounds of observations may differ, those of actions may not.
    """
    for what, theirs, trained in differing(Spec(needed_of(given.obs, ours), given.action), ours.seen_by("policy")):
        raise ConfigError(
            f"{SECTION}: the {what} of {env_id!r} are {theirs}, those of training {trained}: evaluate in an environment with "
            "the same spaces"
        )
    theirs, trained = given.action, ours.action
    if isinstance(theirs, Box) and isinstance(trained, Box):
        for bound in ("low", "high"):
            if not np.allclose(getattr(theirs, bound), getattr(trained, bound)):
                raise ConfigError(
                    f"{SECTION}: the actions of {env_id!r} have other bounds ({bound} {getattr(theirs, bound)}) than those of "
                    f"training ({getattr(trained, bound)}): evaluate in an environment with the same spaces"
                )
