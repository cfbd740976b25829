"""Copies of an agent in memory, equal to those that `save` and `load` would give."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, NoReturn, Self, cast

from rl_training.api.build import build_algorithm
from rl_training.api.parts import AgentParts
from rl_training.experience import RowLog
from rl_training.experiment.checkpoint import copy_state

if TYPE_CHECKING:
    from rl_training.api.agent import Agent


class Copyable:
    """A mixin for `copy.copy` and `copy.deepcopy` of an agent; both return a copy that shares nothing that changes.

    The copy goes on as the agent would, bit for bit, as far as its environments can be restored. It opens environments
    of its own when it needs them, reads the same dataset, and has no run directory: two runs cannot write to one.
    Pickling raises TypeError.
    """

    def __copy__(self) -> Self:
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        agent = cast("Agent", self)
        algorithm = build_algorithm(agent.config, agent.spec)
        algorithm.load_state_dict(copy_state(dict(agent.algorithm.state_dict())))
        other = object.__new__(type(agent)).assemble(
            AgentParts(
                config=agent.config,
                spec=agent.spec,
                algorithm=algorithm.to(agent.algorithm.policy.device),
                trust=agent.trust,
                dataset=agent.dataset,
                state=copied_state(agent),
                origins=tuple(agent.origins),
            )
        )
        memo[id(self)] = other
        for name in vars(agent).keys() - vars(other).keys() | {"health", "draws"}:
            setattr(other, name, copy.deepcopy(getattr(agent, name), memo))
        return cast("Self", other)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled: write it with agent.save(path) and read it with "
            "rl_training.load(path); within one process, copy.deepcopy(agent) copies it"
        )


def copied_state(agent: Agent) -> dict:
    """Returns a deep copy of an agent's state tree (replay, progress and so on) without the algorithm's weights."""
    state = agent.full_state()
    copied = copy_state({name: part for name, part in state.items() if name != "algorithm"})
    rows = state["experience"].get("rows")
    if agent.trainer is not None and isinstance(rows, RowLog):
        rows.forget_unsaved()  # the replay holds them; its log would hold them a second time
    return copied
