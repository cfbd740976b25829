"""The parts of an agent, for a new one as for one that is loaded or copied."""

from __future__ import annotations

import logging
from dataclasses import Field, asdict, dataclass, field, fields
from typing import TYPE_CHECKING

from rl_training.api.build import build_algorithm, load_weights
from rl_training.api.data_source import (
    Source,
    check_fit,
    check_has_data,
    find_spec,
    open_data,
    with_data,
    with_dataset,
    with_identity,
)
from rl_training.api.env_source import WHY_GIVEN, env_from, open_training_env, with_goals
from rl_training.api.evaluation_source import check_evaluation_env, plain_evaluation
from rl_training.config import ConfigError, RunConfig, config_from_keywords
from rl_training.config.code_objects import note_what_stays_here
from rl_training.config.parsing import shortened
from rl_training.config.sections import NO_ENV
from rl_training.config.trust import OWN, Trust, remember
from rl_training.core import Algorithm, AlgorithmConfig, Spec
from rl_training.core.ranks import ranks_of_this_process
from rl_training.core.registry import ALGORITHMS
from rl_training.data import Dataset
from rl_training.envs import VectorEnv
from rl_training.experiment import Checkpoint
from rl_training.experiment.checkpoint import damage_named
from rl_training.runtime import Progress

if TYPE_CHECKING:
    from rl_training.api.agent import Agent

log = logging.getLogger(__name__)


def untrained() -> dict:
    """Returns the state tree of a new agent without weights: empty "experience", and "progress" with all counts 0."""
    return {"experience": {}, "progress": asdict(Progress()) | {"recent": []}}


@dataclass(kw_only=True)
class AgentParts:
    """The parts that an agent is assembled from: config, spaces, algorithm, environment, dataset and state.

    Without an environment or dataset, `learn` opens those of the config when it needs them.
    """

    config: RunConfig
    spec: Spec
    algorithm: Algorithm
    trust: Trust = OWN
    env: VectorEnv | None = None
    dataset: Dataset | None = None
    state: dict = field(default_factory=untrained)
    origins: tuple[dict, ...] = ()  # checkpoints whose weights it took


def parts_asked_for(
    kind: type[Agent], env: object, given: tuple[object, ...], dataset: Source | None, settings: dict[str, object]
) -> AgentParts:
    """Returns the parts of a new agent of class `kind` from its constructor's arguments.

    `given` are the positional arguments after the environment, `settings` the keywords. Opens environments and data.
    Raises ConfigError if arguments do not fit together or a setting is invalid.
    """
    if isinstance(env, RunConfig):
        if settings or given != (None,):
            more = ", ".join(settings) or shortened(given[0])
            raise ConfigError(f"{more} is given beside a RunConfig, which is the whole run: change that instead")
        config, made = env if dataset is None else with_data(env, dataset), None
    elif not kind.name:
        raise ConfigError("Agent is no algorithm: use PPO, DQN, SAC or another class, or hand over a RunConfig")
    else:
        check_order(kind, env, given)
        settings = with_config(kind, given, settings)
        if env is None and dataset is None and "data" not in settings:
            raise ConfigError(
                f"{kind.__name__}() has no environment: begin with one, {kind.__name__}('CartPole-v1'); methods that "
                "learn from data take dataset= too, or instead"
            )
        env_id, made = (NO_ENV, None) if env is None and dataset is not None else env_from(env, settings)
        config = config_from_keywords(kind.name, env_id, plain_evaluation(with_dataset(settings, dataset)))
    if kind.name and config.name != kind.name:
        owner = kind.class_for(config.name).__name__
        raise ConfigError(f"the config is for {config.name!r}, not {kind.name!r}: use {owner}")
    return new_parts(config, made, dataset, OWN)


def check_order(kind: type[Agent], env: object, given: tuple[object, ...]) -> None:
    """Raises ConfigError if `env` is no environment: a policy's name, which other libraries take first, or a config.

    `given` are the positional arguments after it.
    """
    name = kind.__name__
    if isinstance(env, str) and env.endswith("Policy") and given != (None,):
        first = repr(given[0]) if isinstance(given[0], str) else "env"
        raise ConfigError(
            f"{name}({env!r}, ...) names a policy first: begin with the environment, {name}({first}); the "
            "network follows from the spaces"
        )
    if isinstance(env, AlgorithmConfig) or (isinstance(env, type) and issubclass(env, AlgorithmConfig)):
        own = (env if isinstance(env, type) else type(env)).__name__
        raise ConfigError(
            f"{name}({own}...) lacks its environment, which comes first: {name}('CartPole-v1', {own}(...))"
        )


def with_config(kind: type[Agent], given: tuple[object, ...], settings: dict[str, object]) -> dict[str, object]:
    """Returns keyword arguments in which "algorithm" has the fields of a config, `given[0]`, that are not the default.

    Returns `settings` unchanged if `given[0]` is None. Raises ConfigError if it is no config of this algorithm, more is
    given by position, or a setting is given twice.
    """
    entry = ALGORITHMS.find(kind.name)
    if entry is None:
        raise ConfigError(
            f"{kind.__name__}.name={kind.name!r} is not an algorithm: register it, or install its package"
        )
    config, own = given[0], entry.config
    if len(given) > 1:
        call = f"{kind.__name__}(env, {own.__name__}(...))"
        raise ConfigError(f"{call} takes nothing else by position, and {shortened(given[1])} is: give it by name")
    if config is None:
        return settings
    if type(config) is not own:
        raise ConfigError(f"{kind.__name__} takes a {own.__name__} after the environment, not {described(config, own)}")
    if "algorithm" in settings:
        raise ConfigError(f"algorithm= is given beside a {own.__name__}: give one of them")
    changed = {field.name: getattr(config, field.name) for field in fields(config) if differs(config, field)}
    for twice in changed.keys() & settings.keys():
        raise ConfigError(
            f"{twice} is given twice, {own.__name__}({twice}={shortened(changed[twice])}) and the keyword "
            f"{twice}={shortened(settings[twice])}: give it once"
        )
    return settings | {"algorithm": changed}


def described(given: object, own: type[AlgorithmConfig]) -> str:
    """Returns a phrase for an error message: what `given` is, in place of a config of class `own`, and the fix."""
    if isinstance(given, RunConfig):
        return "a RunConfig: that is a whole run, give it alone"
    if isinstance(given, AlgorithmConfig):
        return f"a {type(given).__name__}"
    if given is own:
        return f"its class: make an object of it, {own.__name__}(...)"
    if isinstance(given, dict):
        return f"a dict: use {own.__name__}(**settings), or settings as keywords"
    return f"{shortened(given)}: give other settings by name"


def differs(config: AlgorithmConfig, field: Field) -> bool:
    """Returns True if a field of the config differs from its default."""
    value = getattr(config, field.name)
    return type(value) is not type(field.default) or value != field.default


def new_parts(config: RunConfig, made: VectorEnv | None, dataset: Source | None, trust: Trust) -> AgentParts:
    """Opens the data and environments of a new run, builds its networks, and returns them and the rest of an agent.

    `made` is a vector environment that the user passed, which is used unless samplers step the run; else None. Raises
    ConfigError if they do not fit together; the environments are closed then.
    """
    check_has_data(config)
    data = open_data(config, dataset, trust)
    config, env = with_identity(config, data), None
    if config.env.id != NO_ENV:
        env = made
        if env is None or config.sampling.uses_samplers:  # samplers build their own from the spec of the object
            env = open_training_env(config, config.env, trust, ranks_of_this_process())
        elif config.env.id in WHY_GIVEN:
            log.warning(
                f"{config.env.id} is not evaluated in, because {WHY_GIVEN[config.env.id]}: pass an id or a function"
            )
        env.ask_columns(config.env.info_keys)
    try:
        spec = with_goals(find_spec(env, data, config.env), config, env)
        check_evaluation_env(config, spec)
        algorithm = build_algorithm(config, spec)
    except ValueError:
        if env is not None:
            env.close()
        raise
    remember(config)
    note_what_stays_here(config.algorithm)
    return AgentParts(config=config, spec=spec, algorithm=algorithm, trust=trust, env=env, dataset=data)


def saved_parts(
    config: RunConfig, checkpoint: Checkpoint, source: str, trust: Trust, dataset: Source | None
) -> AgentParts:
    """Returns the parts of a saved agent, with its weights loaded; opens no environment, and data only if given.

    Raises CheckpointError, which names `source`, if the checkpoint does not fit its own config, and ConfigError if
    `trust` does not cover its code or the dataset does not fit.
    """
    if dataset is not None and not config.data.given:
        config = with_data(config, dataset)
    trust.check_algorithm(config.algorithm)
    with damage_named(trust.source):
        spec, weights = Spec.from_json(checkpoint.spec), checkpoint.state["algorithm"]
        assert Progress.from_state(checkpoint.state["progress"])  # that it can be read
    algorithm = build_algorithm(config, spec)
    load_weights(algorithm, weights, source)
    data = open_data(config, dataset, trust) if dataset is not None else None  # else when `learn` wants it
    if data is not None:
        check_fit(data, spec, config.env.id)
    return AgentParts(
        config=config,
        spec=spec,
        algorithm=algorithm,
        trust=trust,
        dataset=data,
        state=checkpoint.state,
        origins=checkpoint.origins,
    )
