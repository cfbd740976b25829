"""The protocol of a score: what it depends on besides the policy, and how the protocols of two scores differ."""

from __future__ import annotations

from collections.abc import Mapping

from rl_training.config.run_config import flatten
from rl_training.config.sections import EvaluationConfig
from rl_training.envs import EnvConfig

Protocol = dict[str, object]  # plain data
OF_ENV = "env."


def describe_protocol(
    settings: EvaluationConfig, env: EnvConfig | None, *, num_episodes: int, deterministic: bool
) -> Protocol:
    """Returns the protocol of an evaluation: its episodes, how actions are chosen, the limit, and that of `env`.

    For an environment that was passed as an object, `env` is None: it has no settings that could be compared.
    """
    return {
        "episodes": num_episodes,
        "deterministic": deterministic,
        "epsilon": settings.epsilon,
        "max_steps": settings.max_steps,
        "env": {} if env is None else env.protocol,
    }


def unlike(ours: Mapping[str, object], other: Mapping[str, object]) -> list[str]:
    """Returns a text such as "env.sticky 0.25 and 0.0" for each difference between the protocols of two scores.

    A setting of the environment that only one of them has counts as a difference. Another one does not, because scores
    of other libraries and of earlier versions say nothing of the evaluation.
    """
    first, second = flatten(dict(ours)), flatten(dict(other))
    found = []
    for key in sorted(first.keys() | second.keys()):
        known = key in first and key in second
        if (known or key.startswith(OF_ENV)) and first.get(key) != second.get(key):
            found.append(f"{key} {said(first, key)} and {said(second, key)}")
    return found


def said(protocol: Mapping[str, object], key: str) -> object:
    return protocol.get(key, "unknown")
