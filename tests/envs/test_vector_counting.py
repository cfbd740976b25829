"""The contract, with known answers: the counting environment through every backend, mode and chunk size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
import torch

from rl_training.core import Transition, tree_leaves, tree_map
from rl_training.envs import GymnasiumEnv, NativeEnv, VectorEnv
from rl_training.runtime import make_collector
from rl_training.runtime.collector import Episode
from tests.envs.counting import CountingDynamics, CountingEnv
from tests.envs.fakes import BACKENDS, BACKENDS_IN_PROCESS, FixedPolicy, NextStepOnly, build

NUM_STEPS = 50
TERMINATE_AFTER, TRUNCATE_AFTER = 3, 5
CHUNKS = (1, 3, 7, 50)


class Row(NamedTuple):
    """What one environment must give in one step."""

    obs: tuple[float, float]
    reward: float
    next_obs: tuple[float, float]
    terminated: bool
    truncated: bool
    valid: bool


def known_rows(*, reset_rows: bool) -> Iterator[Row]:
    """The counting environment's answers; with `reset_rows`, each end is followed by a row that only resets."""
    episode = 0
    while True:
        even = episode % 2 == 0
        length = TERMINATE_AFTER if even else TRUNCATE_AFTER
        for count in range(length):
            last = count == length - 1
            yield Row((episode, count), count + 1, (episode, count + 1), last and even, last and not even, True)
        if reset_rows:
            yield Row((episode, length), 0, (episode + 1, 0), False, False, False)
        episode += 1


def collect(env: VectorEnv, chunk: int, num_steps: int = NUM_STEPS) -> tuple[Transition, list[Episode], FixedPolicy]:
    policy = FixedPolicy()
    collector = make_collector(env, policy, seed=7)
    sizes = [chunk] * (num_steps // chunk) + ([num_steps % chunk] if num_steps % chunk else [])
    parts, episodes = [], []
    for size in sizes:
        parts.append(collector.collect(policy, size))
        episodes += collector.pop_episodes()
    env.close()
    return tree_map(lambda *columns: torch.cat(columns), *parts), episodes, policy


def check_rows(steps: Transition, env: int, rows: list[Row]) -> None:
    assert isinstance(steps.obs, torch.Tensor)
    assert isinstance(steps.next_obs, torch.Tensor)
    assert steps.obs[:, env].tolist() == [list(row.obs) for row in rows]
    assert steps.reward[:, env].tolist() == [row.reward for row in rows]
    assert steps.next_obs[:, env].tolist() == [list(row.next_obs) for row in rows]
    assert steps.terminated[:, env].tolist() == [row.terminated for row in rows]
    assert steps.truncated[:, env].tolist() == [row.truncated for row in rows]
    assert steps.valid[:, env].tolist() == [row.valid for row in rows]


def known_episodes(rows: list[Row], num_envs: int) -> list[Episode]:
    ends = [index for index, row in enumerate(rows) if row.terminated or row.truncated]
    lengths = [TERMINATE_AFTER if k % 2 == 0 else TRUNCATE_AFTER for k in range(len(ends))]
    return [
        Episode((end + 1) * num_envs, env, length * (length + 1) / 2, length)
        for end, length in zip(ends, lengths, strict=True)
        for env in range(num_envs)
    ]


def check_counting(backend: str, num_envs: int, chunk: int) -> None:
    env = build(CountingEnv, backend, num_envs)
    steps, episodes, policy = collect(env, chunk)
    source = known_rows(reset_rows=backend == "strict")
    rows = [next(source) for _ in range(NUM_STEPS)]
    for index in range(num_envs):
        check_rows(steps, index, rows)
    assert episodes == known_episodes(rows, num_envs)
    starts = [row.obs[1] == 0 or not row.valid for row in rows]  # where a recurrent policy must forget
    assert torch.stack(policy.firsts)[:, 0].tolist() == starts


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("num_envs", [1, 2, 3])
@pytest.mark.parametrize("backend", [*BACKENDS_IN_PROCESS, "manual"])
def test_every_number_is_known_in_process(backend: str, num_envs: int, chunk: int) -> None:
    check_counting(backend, num_envs, chunk)


@pytest.mark.parametrize(("num_envs", "chunk"), [(1, 3), (2, 7)])
@pytest.mark.parametrize("backend", [name for name in BACKENDS if name.startswith("async")])
def test_every_number_is_known_across_processes(backend: str, num_envs: int, chunk: int) -> None:
    check_counting(backend, num_envs, chunk)


def native(num_envs: int) -> NativeEnv:
    return NativeEnv(CountingDynamics(TERMINATE_AFTER, TRUNCATE_AFTER), num_envs)


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("num_envs", [1, 2, 3])
def test_native_counts(num_envs: int, chunk: int) -> None:
    steps, episodes, _ = collect(native(num_envs), chunk)
    assert isinstance(steps.obs, torch.Tensor)
    expected = []
    for env in range(num_envs):
        rows: list[Row] = []
        while len(rows) < NUM_STEPS:  # which kind of episode starts is drawn; the rest follows from it
            kind = float(steps.obs[len(rows), env, 0])
            length = TERMINATE_AFTER if kind == 0 else TRUNCATE_AFTER
            ends = [(count == length - 1 and kind == 0, count == length - 1 and kind == 1) for count in range(length)]
            rows += [Row((kind, k), k + 1, (kind, k + 1), *end, True) for k, end in enumerate(ends)]
            if len(rows) <= NUM_STEPS:
                expected.append(Episode(len(rows) * num_envs, env, length * (length + 1) / 2, length))
        check_rows(steps, env, rows[:NUM_STEPS])
    assert episodes == sorted(expected)
    assert set(steps.obs[..., 0].flatten().tolist()) == {0.0, 1.0}


def test_native_data_do_not_depend_on_the_chunk_size() -> None:
    first, *others = (collect(native(3), chunk)[0] for chunk in CHUNKS)
    for other in others:
        assert all(torch.equal(a, b) for a, b in zip(tree_leaves(first), tree_leaves(other), strict=True))


def test_native_environment_ends_both_ways_at_once() -> None:
    env = NativeEnv(CountingDynamics(terminate_after=3, max_episode_steps=3), 8)
    steps, _, _ = collect(env, 3, num_steps=3)
    assert steps.truncated[2].all()
    assert 0 < int(steps.terminated[2].sum()) < 8


class Undeclared(NextStepOnly):
    metadata = {}


def test_a_vector_environment_without_metadata_restarts_on_its_next_step() -> None:
    steps, _, _ = collect(GymnasiumEnv(Undeclared(CountingEnv, 2)), 7)
    source = known_rows(reset_rows=True)
    check_rows(steps, 1, [next(source) for _ in range(NUM_STEPS)])
