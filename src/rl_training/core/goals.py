"""Tasks with goals: the keys of their observations, and the rewards of steps for goals other than their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from rl_training.core.spaces import Dict, Discrete, Groups, Spec

OBSERVATION, ACHIEVED, DESIRED = "observation", "achieved_goal", "desired_goal"

# From what steps achieved and what was desired, row by row: their rewards, and whether they terminate their episodes.
Judge = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class GoalRewards(NamedTuple):
    """A function that computes steps' rewards for other goals; `tensor_code`: it may be compiled, for any device."""

    judge: Judge
    tensor_code: bool  # it may run on any device and be compiled; else it takes tensors on the CPU


def differing_rewards(given: Tensor, judged: Tensor) -> Tensor:
    """Returns a bool mask of the rows whose rewards `given` and `judged` differ by more than rounding."""
    return (given - judged).abs() > 1e-4 * (1 + judged.abs())


def check_goals(spec: Spec) -> None:
    """Raises a ValueError unless observations are a Dict with an achieved and a desired goal of the same space."""
    spaces = spec.obs.spaces if isinstance(spec.obs, Dict) else {}
    missing = next((key for key in (ACHIEVED, DESIRED) if key not in spaces), None)
    if missing is not None:
        seen = f"the keys {', '.join(spaces)}" if spaces else f"a {type(spec.obs).__name__} without keys"
        raise ValueError(
            f"experience.hindsight needs a Dict observation with {ACHIEVED!r} and {DESIRED!r}, and this environment observes "
            f"{seen}: use a task with goals, such as FetchReach-v4 or BitFlip-v0, or drop hindsight"
        )
    achieved, desired = spaces[ACHIEVED], spaces[DESIRED]
    same = type(achieved) is type(desired) and achieved.shape == desired.shape and achieved.dtype == desired.dtype
    if not same:
        raise ValueError(
            f"experience.hindsight puts achieved goals in the place of desired ones, and {ACHIEVED!r} is {achieved} while "
            f"{DESIRED!r} is {desired}: give both the same space"
        )
    if isinstance(achieved, Discrete) and achieved.start:
        raise ValueError(
            f"experience.hindsight: the goals {achieved} do not count from 0: shift them in a wrapper, or use a Box"
        )


def unseen_goals(spec: Spec) -> Spec:
    """Returns a spec in which policy and critic do not see the achieved goal; raises a ValueError if they name it."""
    assert isinstance(spec.obs, Dict)
    for name, keys in (("policy", spec.groups.policy), ("critic", spec.groups.critic)):
        if ACHIEVED in keys:
            raise ValueError(
                f"env.obs_groups.{name} names {ACHIEVED!r}, which no network sees with experience.hindsight: leave it out"
            )
    others = tuple(key for key in spec.obs.spaces if key != ACHIEVED)
    return Spec(spec.obs, spec.action, Groups(spec.groups.policy or others, spec.groups.critic or others))
