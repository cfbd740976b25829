"""Replays as a run would build them, from what a test says."""

from __future__ import annotations

from collections.abc import Sequence

from rl_training.core import Column, Pass, Spec
from rl_training.core.goals import GoalRewards
from rl_training.experience import Replay, ReplaySettings, StoreContext
from rl_training.experience.sequences import Sequences


def build_replay(
    spec: Spec,
    num_envs: int,
    *,
    gamma: float,
    seed: int = 0,
    frame_stack: int = 1,
    columns: Sequence[Column] = (),
    sequences: Sequences | None = None,
    device: str = "cpu",
    goals: GoalRewards | None = None,
    **settings,
) -> Replay:
    passes = [Pass(1, s.length, sequences=True, length=s.length, burn_in=s.burn_in) for s in (sequences,) if s]
    run = StoreContext(spec, num_envs, gamma, seed, device, frame_stack, None, columns, passes, goals)
    return Replay(ReplaySettings(**settings), run)
