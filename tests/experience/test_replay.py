"""Replay: what is drawn are true steps with true successors, n-step sums equal the sums over recorded episodes."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from rl_training.core import Box, Discrete, Pass, Spec, StepBatch, Transition, tree_map
from rl_training.experience import Replay
from rl_training.experiment.checkpoint import difference
from tests.replays import build_replay

GAMMA = 0.9
SPEC = Spec(Box((1,), (-math.inf,), (math.inf,)), Discrete(5))
ALPHA, EPS = 0.6, 1e-6


def make_replay(num_envs: int = 3, capacity: int = 60, *, spec: Spec = SPEC, **settings) -> Replay:
    settings = {"learning_starts": 1, "train_freq": num_envs, "gamma": GAMMA, "seed": 0} | settings
    return build_replay(spec, num_envs, buffer_size=capacity, **settings)


def tagged_steps(
    num_steps: int,
    num_envs: int = 3,
    *,
    seed: int = 0,
    terminated: float = 0.08,
    truncated: float | list[float] = 0.08,
    invalid: float = 0.0,
) -> Transition:
    """Steps from number to number: obs = t, next = t + 1, and an episode starts 10 numbers further on.

    Every number occurs once. With `invalid`, an episode may be followed by a row that only resets.
    """
    rng = random.Random(seed)
    rates = truncated if isinstance(truncated, list) else [truncated] * num_envs
    rows: dict[str, list] = {name: [] for name in ("obs", "next", "terminated", "truncated", "valid")}
    now, ended = [100_000.0 * env for env in range(num_envs)], [False] * num_envs
    for _ in range(num_steps):
        row = []
        for env in range(num_envs):
            if ended[env] and rng.random() < invalid:
                step = (now[env] - 10, now[env], False, False, False)
            else:
                done, cut = rng.random() < terminated, rng.random() < rates[env]
                step = (now[env], now[env] + 1, done, cut, True)
                now[env] += 11 if done or cut else 1
            ended[env] = step[2] or step[3]
            row.append(step)
        for column, values in zip(rows.values(), zip(*row, strict=True), strict=True):
            column.append(values)
    obs, following = torch.tensor(rows["obs"]), torch.tensor(rows["next"])
    gen = torch.Generator().manual_seed(seed)
    return Transition(
        obs=obs.unsqueeze(-1),
        action=obs.long() % 5,
        log_prob=torch.zeros_like(obs),
        reward=torch.randn(obs.shape, generator=gen),
        next_obs=following.unsqueeze(-1),
        terminated=torch.tensor(rows["terminated"]),
        truncated=torch.tensor(rows["truncated"]),
        valid=torch.tensor(rows["valid"]),
        columns={},
    )


def part(steps: Transition, start: int, end: int) -> Transition:
    return tree_map(lambda x: x[start:end], steps)


def in_pieces(num: int, *, seed: int = 0, longest: int = 12) -> list[tuple[int, int]]:
    rng, ends = random.Random(seed), [0]
    while ends[-1] < num:
        ends.append(min(num, ends[-1] + rng.randint(1, longest)))
    return list(pairwise(ends))


def draw(replay: Replay, num: int) -> StepBatch:
    drawn = next(next(replay.draws(Pass(1, num))))
    storage, _ = replay.prepare(None)  # pyrefly: ignore
    return replay.gather(storage, drawn)


def give_back(replay: Replay, batch: StepBatch, td_error: Tensor) -> None:
    replay.feedback(replay.prepare(None)[0], batch, {"priority": td_error})  # pyrefly: ignore


def learned(replay: Replay, num: int = 3000) -> dict[float, tuple[float, float, float, int]]:
    """Reward, discount, successor and action of all rows that count, by tag; enough draws to meet all of them."""
    batch = draw(replay, num)
    counts = batch.weight > 0
    assert set(batch.weight.tolist()) <= {0.0, 1.0}
    if replay.settings.prioritized:
        assert counts.all()  # others are not drawn at all
    following = torch.where(batch.discount > 0, batch.next_obs[:, 0], -1.0)  # of a terminal step it is not kept
    columns = (batch.obs[:, 0], batch.reward, batch.discount, following, batch.action)
    result: dict[float, tuple] = {}
    for tag, *values in zip(*(column[counts].tolist() for column in columns), strict=True):
        assert result.setdefault(tag, tuple(values)) == tuple(values)
    return result


def brute_force(steps: Transition, n: int, gamma: float = GAMMA) -> dict[float, tuple[float, float, float, int]]:
    """The same from the recorded episodes, step by step."""
    num_steps, num_envs = steps.reward.shape
    result = {}
    for env in range(num_envs):
        for t in range(num_steps):
            ret, k = 0.0, 0
            while True:
                now = t + k
                ret += gamma**k * steps.reward[now, env].item()
                k += 1
                ended = bool(steps.terminated[now, env] or steps.truncated[now, env])
                if ended or k == n or now + 1 == num_steps:
                    break
            if steps.valid[t, env]:
                discount = 0.0 if steps.terminated[now, env] else gamma**k
                following = steps.next_obs[now, env].item() if discount else -1.0
                result[steps.obs[t, env].item()] = (ret, discount, following, int(steps.action[t, env]))
    return result


def kept_tags(steps: Transition, slots: int) -> set[float]:
    """The newest rows; the last observation of a truncated episode takes a slot too."""
    tags = set()
    for env in range(steps.reward.shape[1]):
        used = 0
        for t in reversed(range(len(steps.reward))):
            used += 1 + int(steps.truncated[t, env] and not steps.terminated[t, env])
            if used <= slots and steps.valid[t, env]:
                tags.add(steps.obs[t, env].item())
    return tags


def assert_true_steps(replay: Replay, steps: Transition, n: int) -> None:
    expected, found = brute_force(steps, n), learned(replay)
    for tag, values in found.items():
        assert values[:2] == pytest.approx(expected[tag][:2], abs=1e-5), tag
        assert values[2:] == expected[tag][2:], tag
        assert values[1] == 0 or 1 <= values[2] - tag <= n  # never into another episode: it starts 10 further on
    missing = kept_tags(steps, replay.reach) - found.keys()
    assert not missing
    if not replay.settings.prioritized:
        assert found.keys() == kept_tags(steps, replay.reach)
    else:  # a row that waits to be overwritten may still be drawn while it is whole
        assert found.keys() <= kept_tags(steps, replay.reach + 1)


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("n", [1, 3, 5])
@pytest.mark.parametrize(("num_envs", "capacity"), [(1, 24), (3, 50)])
def test_n_step_equals_brute_force_through_wrap_around(num_envs, capacity, n, prioritized) -> None:
    num_steps = int(2.5 * capacity / num_envs)
    steps = tagged_steps(num_steps, num_envs, seed=n, invalid=0.5)
    replay = make_replay(num_envs, capacity, n_steps=n, prioritized=prioritized)
    for start, end in in_pieces(num_steps, seed=n):
        replay.add(part(steps, start, end))
        assert_true_steps(replay, part(steps, 0, end), n)
    assert steps.terminated.any()
    assert (steps.truncated & ~steps.terminated).any()
    assert replay.columns.written.min() > 2 * replay.reach


@pytest.mark.parametrize("prioritized", [False, True])
def test_known_n_step_returns(prioritized) -> None:
    steps = tagged_steps(6, 1, terminated=0.0, truncated=0.0)
    steps.reward[:, 0] = torch.tensor([1.0, 2.0, 3.0, 1.0, 2.0, 3.0])
    steps.terminated[4] = True
    replay = make_replay(1, 10, n_steps=3, prioritized=prioritized)
    replay.add(steps)
    rows = learned(replay)
    target = {tag: reward + discount * 10 for tag, (reward, discount, _, _) in rows.items()}
    assert target[0.0] == pytest.approx(12.52)
    assert rows[3.0][1] == 0.0
    assert target[3.0] == pytest.approx(2.8)  # done after two: nothing of what follows, no bootstrap


def test_truncation_bootstraps_from_the_true_last_observation() -> None:
    steps = tagged_steps(6, 1, terminated=0.0, truncated=0.0)
    steps.reward[:] = 1.0
    steps.truncated[3] = True
    steps.obs[4:] += 500.0  # another episode
    steps.next_obs[4:] += 500.0
    replay = make_replay(1, 10, n_steps=3)
    replay.add(steps)
    rows = {tag: values[:3] for tag, values in learned(replay).items()}
    assert rows[3.0] == pytest.approx((1.0, 0.9, 4.0))
    assert rows[2.0] == pytest.approx((1.9, 0.81, 4.0))
    assert rows[505.0] == pytest.approx((1.0, 0.9, 506.0))  # the newest step: what follows it is there already
    assert sorted(rows) == [0.0, 1.0, 2.0, 3.0, 504.0, 505.0]


def test_terminated_and_truncated_at_once_is_terminated() -> None:
    steps = tagged_steps(3, 1, terminated=0.0, truncated=0.0)
    steps.terminated[1], steps.truncated[1] = True, True
    replay = make_replay(1, 10)
    replay.add(steps)
    assert learned(replay)[1.0][1] == 0.0
    assert replay.columns.written.tolist() == [3]


@pytest.mark.parametrize("num_steps", [15, 100])  # before and after the ring is full
def test_uniform_draws_are_uniform_though_columns_differ(num_steps) -> None:
    steps = tagged_steps(num_steps, terminated=0.0, truncated=[0.0, 0.1, 0.5])
    replay = make_replay()
    replay.add(steps)
    batch = draw(replay, 100_000)
    tags, counts = batch.obs[batch.weight > 0].unique(return_counts=True)
    assert set(tags.tolist()) == kept_tags(steps, replay.reach)
    assert chi_square(counts, torch.full((len(counts),), 1 / len(counts))) < limit(len(counts))


def chi_square(counts: Tensor, probability: Tensor) -> float:
    expected = counts.sum() * probability
    return ((counts - expected).square() / expected).sum().item()


def limit(num: int) -> float:
    return num - 1 + 5 * math.sqrt(2 * (num - 1))  # five standard deviations


def test_draws_follow_the_seed_alone() -> None:
    tags = []
    for seed, global_seed in ((1, 0), (1, 9), (2, 0)):
        torch.manual_seed(global_seed)
        replay = make_replay(seed=seed)
        replay.add(tagged_steps(30))
        before = torch.get_rng_state()
        tags.append(draw(replay, 50).obs.flatten().tolist())
        assert torch.equal(torch.get_rng_state(), before)
    assert tags[0] == tags[1] != tags[2]


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("num_steps", [20, 100])  # 100: longer than the whole buffer
@pytest.mark.parametrize("num_envs", [1, 3])  # single steps of one environment are written by code of their own
def test_chunks_make_no_difference(num_envs, num_steps, prioritized) -> None:
    steps = tagged_steps(num_steps, num_envs, seed=4, invalid=0.3)
    states = []
    for pieces in ([(0, num_steps)], [(t, t + 1) for t in range(num_steps)], in_pieces(num_steps)):
        replay = make_replay(num_envs, capacity=30, prioritized=prioritized, n_steps=3)
        for start, end in pieces:
            replay.add(part(steps, start, end))
        assert_true_steps(replay, steps, 3)
        states.append(replay.state_dict())
    assert difference(states[0], states[1]) is None
    assert difference(states[0], states[2]) is None


def test_chunks_make_no_difference_to_the_last_bit_of_a_priority() -> None:
    """A pause between two updates cuts a chunk; a power of one number must be rounded as that of many."""
    steps = tagged_steps(4, 1, seed=4)
    for highest in (1.0, 3.3, 3.6, 4.5):  # powers that round in two ways, where numpy uses AVX-512 for arrays
        states = []
        for pieces in ([(0, 4)], [(0, 1), (1, 4)], [(t, t + 1) for t in range(4)]):
            replay = make_replay(1, capacity=30, prioritized=True)
            replay.columns.highest.fill_(highest)
            for start, end in pieces:
                replay.add(part(steps, start, end))
            states.append(replay.state_dict())
        assert [difference(states[0], state) for state in states] == [None] * 3


@pytest.mark.parametrize("prioritized", [False, True])
def test_a_cut_is_a_truncation(prioritized) -> None:
    """Ends open episodes at their last step; an episode that has terminated there stays as it is."""
    steps = tagged_steps(60, seed=2)
    steps.terminated[29] = torch.tensor([True, False, False])
    steps.truncated[29] = False
    further = part(steps, 30, 60)
    further.obs.add_(5_000.0)  # other episodes
    further.next_obs.add_(5_000.0)
    replay, other = (make_replay(capacity=40, n_steps=3, prioritized=prioritized) for _ in range(2))
    replay.add(part(steps, 0, 30))
    replay.cut()
    replay.add(further)
    steps.truncated[29] = ~steps.terminated[29]
    other.add(steps)
    for one in (replay, other):
        assert_true_steps(one, steps, 3)
    assert difference(replay.state_dict(), other.state_dict()) is None


@pytest.mark.parametrize("cuts", [1, 2])
@pytest.mark.parametrize("prioritized", [False, True])
def test_a_cut_after_a_truncation_or_a_cut_changes_nothing(prioritized, cuts) -> None:
    steps = tagged_steps(60, 1, seed=2, terminated=0.0, truncated=0.0)
    steps.truncated[29] = cuts == 1  # with two cuts the first one ends the episode
    steps.obs[30:] += 5_000.0
    steps.next_obs[30:] += 5_000.0
    replay = make_replay(1, 20, prioritized=prioritized)
    replay.add(part(steps, 0, 30))
    for _ in range(cuts):
        replay.cut()
    steps.truncated[29] = True
    assert_true_steps(replay, part(steps, 0, 30), 1)
    replay.add(part(steps, 30, 35))
    assert_true_steps(replay, part(steps, 0, 35), 1)


@pytest.mark.parametrize(
    ("num_envs", "learning_starts", "train_freq", "wanted"),
    [
        (1, 10, 1, [10, 1, 1]),
        (1, 0, 4, [4, 4, 4]),
        (1, 10, 4, [12, 4, 4]),  # counted from the start of the run: after 12, 16, 20
        (4, 100, 4, [25, 1, 1]),
        (4, 100, 8, [26, 2, 2]),
        (2, 7, 6, [6, 3, 3]),
    ],
)
def test_wanted_steps(num_envs, learning_starts, train_freq, wanted) -> None:
    replay = make_replay(num_envs, 400, learning_starts=learning_starts, train_freq=train_freq)
    algorithm = type("Still", (), {"observes": False})
    for number in wanted:
        assert replay.warming_up == (replay.added < learning_starts)
        for left in range(number, 0, -1):  # one by one, as intervals may cut it
            assert replay.wanted_steps == left
            replay.add(tagged_steps(1, num_envs))
        assert replay.wanted_steps == 0
        replay.settle(algorithm)
        replay.count_learned(())
    assert not replay.warming_up


def test_priorities_end_to_end() -> None:
    """Feedback decides what is drawn; new rows come in with the highest priority so far."""
    steps = tagged_steps(40, 2, seed=1)
    replay = make_replay(2, 40, prioritized=True, per_alpha=ALPHA, per_eps=EPS)
    replay.add(part(steps, 0, 20))

    def td_error(batch: StepBatch) -> Tensor:
        return 1 + batch.obs[:, 0] % 7

    batch = draw(replay, 2000)
    tags = batch.obs[:, 0].unique()
    torch.testing.assert_close(batch.columns["probability"], torch.full((2000,), 1 / len(tags), dtype=torch.float64))
    give_back(replay, batch, td_error(batch))
    batch = draw(replay, 30_000)
    priority = (td_error(batch).double() + EPS) ** ALPHA
    drawn_tags, first, counts = unique(batch.obs[:, 0])
    assert torch.equal(drawn_tags, tags)
    probability = priority[first] / priority[first].sum()
    torch.testing.assert_close(batch.columns["probability"][first], probability)
    assert chi_square(counts, probability) < limit(len(tags))
    replay.add(part(steps, 20, 25))
    batch = draw(replay, 5000)
    new = torch.isin(batch.obs[:, 0], steps.obs[20:25].flatten())
    highest = (7 + EPS) ** ALPHA
    share = batch.columns["probability"] / batch.columns["probability"][new].max()
    torch.testing.assert_close(share[new], torch.ones(int(new.sum()), dtype=torch.float64))
    torch.testing.assert_close(share[~new], (td_error(batch).double() + EPS)[~new] ** ALPHA / highest)


def test_priorities_need_a_method_that_says_what_surprised() -> None:
    replay = make_replay(prioritized=True)
    replay.add(tagged_steps(20))
    with pytest.raises(ValueError, match="prioritized=true needs an algorithm that says how surprising"):
        replay.feedback(replay.columns, draw(replay, 4), {})


def unique(values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sorted values, where each occurs, and how often."""
    found, inverse, counts = values.unique(return_inverse=True, return_counts=True)
    return found, torch.zeros_like(counts).scatter_(0, inverse, torch.arange(len(values))), counts
