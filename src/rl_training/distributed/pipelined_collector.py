"""A collector whose samplers run ahead of the learner, with a policy that is older by a fixed lag."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rl_training.core import Column, Policy, Transition, UniformPolicy, tree_map
from rl_training.core.tree import saved_tensors
from rl_training.distributed.messages import Request, weights_of
from rl_training.distributed.sampled_collector import SampledCollector, no_values
from rl_training.distributed.sampled_env import SampledEnv
from rl_training.envs.episode_columns import EpisodeColumns, columns_by_time
from rl_training.runtime.seeding import derived


class FragmentOrder(NamedTuple):
    """An order to the samplers for the steps of one iteration (a fragment) that the learner has not used yet.

    It holds a copy of the weights to act with. `key` is None until the samplers are asked.
    """

    version: int  # of the policy that acts in it
    weights: tuple[Tensor, ...]  # a copy: the policy has learned since
    key: Any = None  # under which samplers were asked for it; None: not yet, as after a pause


class PipelinedCollector(SampledCollector):
    """A collector whose samplers work ahead of the learner, with a policy that is older by a fixed lag.

    A fragment is the steps of one iteration. When the learner first needs fragment k, the current policy is sent for
    fragment k + lag, so samplers always have work, and no more than `lag` fragments wait. The lag does not depend on
    timing, and random numbers follow from the seed and the number of the fragment: the run is the same for any number
    of samplers, and after a pause. Random steps that fill a replay are taken in step with the learner.
    """

    def __init__(self, env: SampledEnv, policy: Policy, *, seed: int, columns: Sequence[Column] = ()) -> None:
        self.seed, self.lag = seed, env.sampling.lag
        self.begun = 0  # fragments that were used, at least in part
        self.orders: list[FragmentOrder] = []  # oldest first; number `begun` is the first
        self.left: Transition | None = None  # of the fragment in use, what was not handed out yet
        self.left_columns: EpisodeColumns = {}  # [time, env], of the same steps
        self.lags: Counter[int] = Counter()  # steps by how much older their policy was
        super().__init__(env, policy, seed=seed, columns=columns)

    def take(self, policy: Policy, num_steps: int) -> Iterator[Transition]:
        if isinstance(policy, UniformPolicy):
            assert not self.orders, "random steps come before those of the policy"
            yield from super().take(policy, num_steps)
            return
        left = self.left or self.next_fragment(policy)
        size, fragment = min(num_steps, len(left.reward)), (left, self.left_columns)
        steps, said = tree_map(lambda x: x[:size], fragment)
        rest, self.left_columns = tree_map(lambda x: x[size:], fragment)
        self.left = rest if len(rest.reward) else None
        self.columns = columns_by_time(said)
        self.track_episodes(steps)
        yield steps
        if num_steps > size:
            yield from self.take(policy, num_steps - size)

    def next_fragment(self, policy: Policy) -> Transition:
        """Waits for the steps of the next iteration (a fragment) and returns them, [time, env].

        Stores the values that ended episodes gave. Before it waits, it sends the policy's weights to the samplers for a
        later fragment, unless that has its order already.
        """
        missing = self.lag + 1 - len(self.orders)
        newest = tuple(x.detach().cpu().clone() for x in weights_of(policy)) if missing else ()
        due = [*self.orders, *[FragmentOrder(self.begun, newest)] * missing]
        self.orders = [self.ask(number, one) if one.key is None else one for number, one in enumerate(due, self.begun)]
        blocks = self.env.pool.finish_all("collect", [order.key for order in self.orders])
        steps, columns = self.join(blocks)
        for block in blocks:
            lag = self.begun - block.version
            assert 0 <= lag <= self.lag
            self.lags[lag] += block.steps.reward.numel()
        self.orders.pop(0)
        self.begun += 1
        self.left_columns = by_name(columns, len(steps.reward), self.num_envs)
        return steps

    def ask(self, number: int, order: FragmentOrder) -> FragmentOrder:
        random = torch.Generator().manual_seed(derived(self.seed, number)).get_state()
        sampling = self.sampling_mode(self.env.fragment, uniform=False)._replace(version=order.version)
        key = self.env.pool.engine.publish(Request(sampling, order.weights, random))
        self.env.pool.post_all("collect", key)
        return order._replace(key=key)

    def pop_metrics(self) -> dict[str, float]:
        lags, self.lags = self.lags, Counter()
        if not lags:
            return {}
        share = {f"sampling/lag_{lag}_share": num / lags.total() for lag, num in sorted(lags.items())}
        return {"sampling/lag_max": float(max(lags))} | share

    def state_dict(self) -> dict:
        """Returns the collector's state, without waiting for the steps that samplers are taking.

        Has instead the versions and weights of the policies that take these, so that a resumed run collects them again.
        """
        return super().state_dict() | {
            "begun": self.begun,
            "left": None if self.left is None else dict(self.left._asdict()),
            "left_columns": self.left_columns,
            "versions": [order.version for order in self.orders],
            "weights": [list(order.weights) for order in self.orders],
        }

    def load_state_dict(self, state: dict) -> bool:
        assert not self.orders, "a collector goes on from a saved state before it collects"
        went_on = super().load_state_dict(state)
        self.begun, self.left_columns = operator.index(state["begun"]), state["left_columns"]
        self.left = None if state["left"] is None else read_steps(state["left"])
        if not went_on and self.left is not None:  # what is left of the fragment leads to episodes that are lost
            self.left.truncated[-1] = True
        due = zip(state["versions"], state["weights"], strict=True)
        self.orders = [FragmentOrder(version, tuple(weights)) for version, weights in due]
        return went_on


def by_name(columns: dict[int, EpisodeColumns], num_steps: int, num_envs: int) -> EpisodeColumns:
    """Turns values of ended episodes, {step: {name: [env]}}, into tensors [time, env] by name; NaN where none ended."""
    names = dict.fromkeys(name for said in columns.values() for name in said)
    nothing = no_values(num_envs)
    rows = {name: [columns.get(time, {}).get(name, nothing) for time in range(num_steps)] for name in names}
    return {name: torch.stack(values) for name, values in rows.items()}


def read_steps(state: dict) -> Transition:
    """Returns the steps in `state["left"]` of a saved collector, given as `state`, as a `Transition`.

    Raises TypeError if one of its values is no tensor.
    """
    for name, value in state.items():
        if name != "columns":
            saved_tensors(value, f"collector.left.{name}")
    named: dict[str, Any] = {"columns": {}} | state  # a file holds no empty mappings
    return Transition(**named)
