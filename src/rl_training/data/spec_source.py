"""Spaces that users describe: as a `Spec`, an agent, an environment, a function that builds one, or a pair of spaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rl_training.core import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Spec
from rl_training.core.arguments import shown
from rl_training.data.columns import DatasetError

SpecSource = object  # everything that `spec_from` understands; gymnasium is not imported to name it
SIDES = {"obs": ("obs", "observation", "observation_space"), "action": ("action", "action_space")}
OWN = (Box, Dict, Discrete, MultiBinary, MultiDiscrete)
ADVICE = "give spec=(env.observation_space, env.action_space), an environment, a function that builds one, or an agent"


def spec_from(given: object) -> Spec | None:
    """Returns the spec described by a `Spec`, agent, environment, its id, a function that builds one, or two spaces.

    The two are (observation, action), or a dict such as {"obs": ..., "action": ...}. Returns None for None. Raises a
    DatasetError for anything else.
    """
    if given is None or isinstance(given, Spec):
        return given
    if isinstance(own := getattr(given, "spec", None), Spec):  # an agent, or a vector environment of ours
        return own
    if isinstance(given, Mapping):
        given = [next((given[name] for name in names if name in given), None) for names in SIDES.values()]
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return spec_of_pair(list(given))
    from rl_training.envs.check import spec_of  # imports gymnasium, which plain files do not need

    try:
        return spec_of(given)  # pyrefly: ignore  (refuses what it does not take)
    except ValueError as error:
        raise DatasetError(f"spec={shown(given)} does not describe spaces ({error}): {ADVICE}") from error


def spec_of_pair(pair: list) -> Spec:
    """Returns the spec of a list [observation space, action space] of gymnasium's or our spaces.

    Raises a DatasetError for anything else.
    """
    import gymnasium as gym

    from rl_training.envs.spaces import convert_space

    if len(pair) != len(SIDES) or not all(isinstance(space, (gym.Space, *OWN)) for space in pair):
        raise DatasetError(f"spec={shown(tuple(pair))} is not a pair of spaces: {ADVICE}")
    roles = ("observation", "action")
    try:
        obs, action = (
            convert_space(space, role=role) if isinstance(space, gym.Space) else space
            for space, role in zip(pair, roles, strict=True)
        )
    except ValueError as error:
        raise DatasetError(f"spec: {error}") from error
    return Spec(obs, action)
