"""Teams: an algorithm that holds one algorithm for every group of agents, and gives each its rows.

The loop, the executors and checkpoints know one algorithm. Joint samples have a row for every environment; here they
become rows for every agent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Generic, Self, TypeVar

from torch import Tensor, nn

from rl_training.core import Algorithm, AlgorithmConfig, BatchT, Metrics, Pass, Spec, Step, Tree, Weighted
from rl_training.core.teams import ALIVE, TeamSpec, joint
from rl_training.models.team_policy import AgentView, TeamPolicy

ConfigT = TypeVar("ConfigT", bound=AlgorithmConfig)


class TeamAlgorithm(Algorithm[ConfigT, BatchT], Generic[ConfigT, BatchT]):
    """Base of algorithms for several agents: one algorithm per group, which all agents of the group share."""

    teams: ClassVar[bool] = True
    needs_state: ClassVar[bool] = False  # True: its critics see the environment's global state
    why_not_shared = "its agents learn in one process"
    spec: TeamSpec  # pyrefly: ignore (narrower than the base, and never reassigned)

    def __init__(self, config: ConfigT, spec: Spec, *, agent_id: bool = True) -> None:
        assert isinstance(spec, TeamSpec)
        super().__init__(config, spec)
        check_state(type(self).__name__.removesuffix("Algorithm"), spec, needed=self.needs_state)
        views = {
            group.name: AgentView(spec, group, agent_id=agent_id, state=self.needs_state) for group in spec.members
        }
        self.members = nn.ModuleDict({name: self.build_member(view) for name, view in views.items()})
        seen = spec.seen_by("policy")
        assert isinstance(seen, TeamSpec)
        policies = {name: member.policy for name, member in self.groups()}
        self.policy = TeamPolicy(seen, views, policies)
        self.share_flags()

    def build_member(self, view: AgentView) -> Algorithm:
        """Returns the algorithm of a group of agents, for rows with the spaces `view.spec`."""
        raise NotImplementedError

    def groups(self) -> list[tuple[str, Algorithm]]:
        return list(self.members.items())  # pyrefly: ignore (algorithms)

    @property
    def first(self) -> Algorithm:
        """Returns the algorithm of the first group; what does not depend on spaces is the same in all of them."""
        return self.groups()[0][1]

    def view(self, name: str) -> AgentView:
        return self.policy.views[name]  # pyrefly: ignore (a TeamPolicy's)

    def share_flags(self) -> None:
        """Makes `stop` and `failed` of every member the team's own: one group's stop is everybody's."""
        for _, member in self.groups():
            for name in ("stop", "failed"):
                member.register_buffer(name, getattr(self, name), persistent=False)

    def _apply(self, fn: Callable, recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        self.share_flags()
        return self

    def for_members(self) -> None:
        """Hands the ranks and the kind of execution on, which the runtime sets on the whole algorithm."""
        for _, member in self.groups():
            member.ranks, member.fixed_shapes = self.ranks, self.fixed_shapes

    def passes(self) -> tuple[Pass, ...]:
        return self.first.passes()

    def named(self, name: str, metrics: Metrics) -> Metrics:
        """Returns the metrics of a group, under its name if there are several groups."""
        return metrics if len(self.members) == 1 else {f"{name}/{key}": value for key, value in metrics.items()}

    def update_members(self, batches: Mapping[str, Weighted]) -> dict[str, Step]:
        """Lets every group's algorithm learn from its batch; returns the results by group."""
        self.for_members()
        return {name: member.update(batches[name]) for name, member in self.groups()}

    @property
    def observes(self) -> bool:
        return any(member.observes for _, member in self.groups())

    def observe(self, obs: Tree, valid: Tensor) -> None:
        self.for_members()
        for name, member in self.groups():
            member.observe(*living_rows(self.view(name), joint(obs), valid))


def living_rows(view: AgentView, obs: dict[str, Tensor], valid: Tensor) -> tuple[Tree, Tensor]:
    """Returns joint observations as rows of a group's agents, and a mask of those that are alive and `valid`.

    `valid` is a mask of the environments' rows, with as many dimensions as `obs` has before the agents.
    """
    lead = valid.ndim
    seen = view.shared(valid, lead)
    if ALIVE in obs:
        seen = seen & view.own(obs[ALIVE], lead).bool()
    return view(obs, lead), seen


def check_state(name: str, spec: TeamSpec, *, needed: bool) -> None:
    """Raises a ValueError if a method, `name`, needs a global state and the environment has none."""
    if needed and "state" not in getattr(spec.obs, "spaces", {}):
        raise ValueError(
            f"{name} needs a global state, and this environment gives none: use IPPO, VDN or IndependentQ, or let the "
            "environment give a `state`"
        )
