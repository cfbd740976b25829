import copy
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from rl_training.core import (
    Algorithm,
    AlgorithmConfig,
    Discrete,
    Pass,
    Spec,
    Step,
    Transition,
    Tree,
    tree_leaves,
    tree_map,
)
from rl_training.core.types import Metrics
from rl_training.experience import RewardScaling, Rollout
from tests.rollouts import random_steps


class Prepared(NamedTuple):
    obs: Tree
    reward: Tensor
    log_prob: Tensor
    weight: Tensor


class Recorder(Algorithm[AlgorithmConfig, Prepared]):
    """Prepares by returning the steps as they are, and remembers what it observed."""

    def __init__(self, *passes: Pass, observes: bool = True) -> None:
        super().__init__(AlgorithmConfig(), Spec(Discrete(2), Discrete(2)))
        self.my_passes, self.keeps_statistics = passes or (Pass(1, None),), observes
        self.observed: list[tuple[Tree, Tensor]] = []

    def prepare(self, rollout: Transition) -> tuple[Prepared, Metrics]:
        prepared = Prepared(rollout.obs, rollout.reward, rollout.log_prob, rollout.valid.float())
        return prepared, {"rows": torch.tensor(1.0)}

    def passes(self) -> tuple[Pass, ...]:
        return self.my_passes

    def update(self, batch: Prepared) -> Step:
        return Step({})

    @property
    def observes(self) -> bool:
        return self.keeps_statistics

    def observe(self, obs: Tree, valid: Tensor) -> None:
        self.observed.append((obs, valid))


def part(steps: Transition, start: int, end: int) -> Transition:
    return tree_map(lambda x: x[start:end], steps)


def epochs(rollout: Rollout, algorithm: Algorithm) -> list[list[Tensor]]:
    return [list(epoch) for a_pass in algorithm.passes() for epoch in rollout.draws(a_pass)]


def test_counts_the_steps_it_still_wants() -> None:
    rollout, steps = Rollout(10, seed=0), random_steps(10, 2)
    wanted = [rollout.wanted_steps]
    for start, end in ((0, 3), (3, 4), (4, 10)):
        rollout.add(part(steps, start, end))
        wanted.append(rollout.wanted_steps)
    assert wanted == [10, 7, 6, 0]


def test_rows_are_time_major_and_chunks_make_no_difference() -> None:
    steps, algorithm = random_steps(6, 3), Recorder()
    whole, pieces = Rollout(6, seed=0), Rollout(6, seed=0)
    whole.add(steps)
    for start, end in ((0, 1), (1, 5), (5, 6)):
        pieces.add(part(steps, start, end))
    storage, metrics = whole.prepare(algorithm)
    for row in range(18):
        assert torch.equal(storage.obs[row], steps.obs[row // 3, row % 3])
        assert storage.reward[row] == steps.reward[row // 3, row % 3]
    assert metrics["rows"].item() == 1
    again, _ = pieces.prepare(algorithm)
    assert torch.equal(again.obs, storage.obs)
    assert torch.equal(again.log_prob, storage.log_prob)


def test_observations_may_be_trees() -> None:
    steps = random_steps(4, 2)
    tree = {"x": steps.obs, "action_mask": torch.ones(4, 2, 3)}
    rollout = Rollout(4, seed=0)
    rollout.add(part(steps._replace(obs=tree, next_obs=tree), 0, 2))
    rollout.add(part(steps._replace(obs=tree, next_obs=tree), 2, 4))
    storage, _ = rollout.prepare(Recorder())
    assert torch.equal(storage.obs["x"], steps.obs.flatten(0, 1))
    assert storage.obs["action_mask"].shape == (8, 3)


@pytest.mark.parametrize(("batch_size", "sizes"), [(4, [4, 4, 4, 4, 4]), (8, [8, 8, 4]), (None, [20]), (64, [20])])
def test_every_row_comes_once_per_epoch(batch_size: int | None, sizes: list[int]) -> None:
    rollout, algorithm = Rollout(10, seed=0), Recorder(Pass(3, batch_size))
    rollout.add(random_steps(10, 2))
    rollout.prepare(algorithm)
    visited = epochs(rollout, algorithm)
    assert len(visited) == 3
    for epoch in visited:
        assert [len(rows) for rows in epoch] == sizes
        assert sorted(torch.cat(epoch).tolist()) == list(range(20))
    orders = [torch.cat(epoch).tolist() for epoch in visited]
    assert orders[0] != orders[1] != orders[2] != orders[0]


def test_passes_follow_each_other() -> None:
    rollout, algorithm = Rollout(5, seed=0), Recorder(Pass(1, None), Pass(2, 5))
    rollout.add(random_steps(5, 2))
    rollout.prepare(algorithm)
    assert [[len(rows) for rows in epoch] for epoch in epochs(rollout, algorithm)] == [[10], [5, 5], [5, 5]]


def test_order_depends_on_the_seed_and_on_nothing_else() -> None:
    algorithm, orders = Recorder(Pass(2, 4)), []
    for seed, global_seed in ((1, 0), (1, 9), (2, 0)):
        torch.manual_seed(global_seed)
        rollout = Rollout(10, seed=seed)
        rollout.add(random_steps(10, 2))
        rollout.prepare(algorithm)
        orders.append([rows.tolist() for epoch in epochs(rollout, algorithm) for rows in epoch])
    assert orders[0] == orders[1] != orders[2]


def test_shuffling_leaves_the_global_random_numbers_alone() -> None:
    rollout, algorithm = Rollout(5, seed=0), Recorder(Pass(3, 4))
    rollout.add(random_steps(5, 2))
    rollout.prepare(algorithm)
    before = torch.get_rng_state()
    epochs(rollout, algorithm)
    assert torch.equal(torch.get_rng_state(), before)


def test_finish_hands_over_the_observations_and_drops_the_steps() -> None:
    algorithm, steps = Recorder(), random_steps(6, 2)
    steps.valid[1, 0] = False
    rollout = Rollout(6, seed=0, reward_scaling=RewardScaling(0.9, clip=10.0))
    rollout.add(part(steps, 0, 2))
    rollout.add(part(steps, 2, 6))
    storage, _ = rollout.prepare(algorithm)
    assert not torch.equal(storage.reward, steps.reward.flatten())
    rollout.settle(algorithm)
    assert rollout.wanted_steps == 6
    ((obs, valid),) = algorithm.observed
    assert torch.equal(obs, steps.obs)
    assert torch.equal(valid, steps.valid)


def test_an_algorithm_without_statistics_is_not_asked_to_observe() -> None:
    rollout, algorithm = Rollout(6, seed=0), Recorder(observes=False)
    rollout.add(random_steps(6, 2))
    rollout.prepare(algorithm)
    rollout.settle(algorithm)
    assert algorithm.observed == []
    assert rollout.wanted_steps == 6


def test_chunks_scale_as_one_rollout() -> None:
    steps, algorithm, scaled = random_steps(12, 3), Recorder(), []
    for ends in ((12,), (1, 5, 12)):
        rollout, start = Rollout(12, seed=0, reward_scaling=RewardScaling(0.9, clip=10.0)), 0
        for end in ends:
            rollout.add(part(steps, start, end))
            start = end
        scaled.append(rollout.prepare(algorithm)[0].reward)
    assert torch.equal(scaled[0], scaled[1])


def test_a_cut_rollout_continues_from_its_state() -> None:
    """Learns once, is saved in the middle of the second rollout, and must go on exactly as if it had not been."""
    algorithm = Recorder(Pass(2, 5))

    def fresh() -> Rollout:
        return Rollout(10, seed=4, reward_scaling=RewardScaling(0.9, clip=10.0))

    original = fresh()
    original.add(random_steps(10, 2, seed=1))
    original.prepare(algorithm)
    epochs(original, algorithm)
    original.settle(algorithm)
    second = random_steps(10, 2, seed=2)
    original.add(part(second, 0, 4))
    state = copy.deepcopy(original.state_dict())
    restored = fresh()
    restored.load_state_dict(state)
    results = []
    for rollout in (original, restored):
        assert rollout.wanted_steps == 6
        rollout.add(part(second, 4, 10))
        storage, _ = rollout.prepare(algorithm)
        results.append((storage.reward, torch.stack([r for e in epochs(rollout, algorithm) for r in e])))
    assert all(map(torch.equal, *results))
    assert torch.equal(original.steps().action, second.action)


def test_an_empty_rollout_has_a_state_too() -> None:
    rollout, other = Rollout(3, seed=0), Rollout(3, seed=7)
    other.add(random_steps(2, 2))
    other.load_state_dict(rollout.state_dict())
    assert other.wanted_steps == 3
    assert torch.equal(other.order.get_state(), rollout.order.get_state())


def test_a_rollout_of_an_older_checkpoint_loads() -> None:
    """Its columns were called `extras`."""
    rollout, steps = Rollout(3, seed=0), random_steps(2, 2)._replace(columns={"first": torch.ones(2, 2)})
    rollout.add(steps)
    state = rollout.state_dict()
    state["steps"]["extras"] = state["steps"].pop("columns")
    other = Rollout(3, seed=7)
    other.load_state_dict(state)
    assert all(map(torch.equal, tree_leaves(other.steps()), tree_leaves(steps)))


def test_a_cut_rollout_bootstraps_where_it_was_cut() -> None:
    rollout, steps = Rollout(5, seed=0), random_steps(3, 2, done_rate=0.0)
    rollout.add(steps)
    rollout.cut()
    assert rollout.steps().truncated.tolist() == [[False, False], [False, False], [True, True]]
    assert not rollout.steps().terminated.any()
    Rollout(5, seed=0).cut()  # nothing collected yet: nothing to end


def test_a_cut_between_rollouts_ends_the_return_that_rewards_are_scaled_by() -> None:
    rollout = Rollout(6, seed=0, reward_scaling=RewardScaling(0.9, 10.0))
    rollout.add(random_steps(6, 3, done_rate=0.0))
    rollout.prepare(Recorder())  # pyrefly: ignore
    rollout.settle(Recorder())  # pyrefly: ignore
    assert not rollout.reward_scaling.first.any()
    rollout.cut()
    assert rollout.reward_scaling.first.all()


def test_a_rollout_goes_on_where_steps_tell_of_lost_lives() -> None:
    """A checkpoint has only the columns that the algorithm needs."""
    steps, algorithm = random_steps(6, 2), Recorder()
    steps = steps._replace(columns={"life_lost": steps.terminated})
    rollout, resumed = Rollout(6, seed=0), Rollout(6, seed=0)
    rollout.add(part(steps, 0, 4))
    resumed.load_state_dict(copy.deepcopy(rollout.state_dict()))
    for store in (rollout, resumed):
        store.add(part(steps, 4, 6))
    assert torch.equal(resumed.prepare(algorithm)[0].obs, rollout.prepare(algorithm)[0].obs)
