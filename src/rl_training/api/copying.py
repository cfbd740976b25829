"""Copies of an agent in memory: its own state tree, as `save` and `load` would bring it back, without a file."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, NoReturn, Self, cast

from rl_training.experience import RowLog
from rl_training.experiment import Checkpoint
from rl_training.experiment.build import build_algorithm
from rl_training.experiment.state_copy import copy_state

if TYPE_CHECKING:
    from rl_training.api.agent import Agent


class Copyable:
    """What `copy.copy` and `copy.deepcopy` of an agent give: an equal one that shares nothing that changes.

    The copy goes on as the agent would, bit for bit, as far as its environments can be restored. It opens environments
    of its own when it needs them, reads the same dataset, and has no run directory: two runs cannot write to one.
    """

    def __copy__(self) -> Self:
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        agent = cast("Agent", self)
        other = cast("Agent", object.__new__(type(self)))
        memo[id(self)] = other
        other.config, other.spec, other.dataset = agent.config, agent.spec, agent.dataset
        other.env, other.trainer, other.run_dir, other.resumed = None, None, None, False
        other.algorithm = build_algorithm(agent.config, agent.spec)
        other.algorithm.load_state_dict(copy_state(dict(agent.algorithm.state_dict())))
        other.algorithm.to(agent.algorithm.policy.device)
        other.restored = copy_progress(agent)
        for name, value in vars(agent).items():
            if name not in vars(other):
                setattr(other, name, copy.deepcopy(value, memo))
        return cast("Self", other)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled: write it with agent.save(path) and read it with "
            "rl_training.load(path); within one process, copy.deepcopy(agent) copies it"
        )


def copy_progress(agent: Agent) -> Checkpoint | None:
    """Everything a checkpoint would hold, in memory of its own; None of an agent that has not begun."""
    if agent.trainer is None and agent.restored is None:
        return None
    snapshot = agent.snapshot()
    copied = Checkpoint(snapshot.config, snapshot.spec, copy_state(snapshot.state), snapshot.timesteps)
    rows = snapshot.state["experience"].get("rows")
    if agent.trainer is not None and isinstance(rows, RowLog):
        rows.forget_unsaved()  # the replay holds them; its log would hold them a second time
    return copied
