"""Hindsight and its environment: refused where there are no goals, and what is achieved is hidden from all networks."""

from __future__ import annotations

from rl_training.config import ConfigError, RunConfig
from rl_training.core import Spec
from rl_training.core.goals import check_goals, unseen_goals
from rl_training.envs import VectorEnv


def with_goals(spec: Spec, config: RunConfig, env: VectorEnv | None) -> Spec:
    """The spec as networks see it in a run that learns from goals; of other runs, as it is."""
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
