"""Every row of a ring gives the stacks that were acted on, bit for bit, whatever ends an episode and however steps come."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from rl_training.core import Box, Discrete, Spec, StepBatch, Transition, UniformPolicy, tree_map
from rl_training.envs import EnvStep, Lesson, VectorEnv
from rl_training.experience import Replay, replay_state, ring
from rl_training.experience.sequences import Sequences
from rl_training.experiment.checkpoint import copy_state, difference
from rl_training.runtime.collector import EnvCollector
from tests.replays import build_replay

STACK, GAMMA = 4, 0.5
SHAPE = (STACK, 2, 2)
SPEC = Spec(Box(SHAPE, (0.0,) * 16, (255.0,) * 16, "uint8"), Discrete(3))


class Film(VectorEnv):
    """Games whose frames tell the environment, the game and the frame's number; they end, and lose lives, at random.

    The first frame of a game is repeated. With `resets`, every other game begins with a step that only resets.
    """

    spec, state_kind, always_valid = SPEC, "boundary", False

    def __init__(self, num_envs: int, seed: int, *, lives: bool = True, resets: bool = True) -> None:
        self.num_envs, self.lives, self.resets = num_envs, lives, resets
        self.rng = np.random.default_rng(seed)
        self.frames = np.zeros(num_envs, np.int64)
        self.games = np.zeros(num_envs, np.int64)
        self.resetting = np.zeros(num_envs, bool)
        self.stacks = np.zeros((num_envs, *SHAPE), np.uint8)

    def film(self) -> np.ndarray:
        self.frames += 1
        pixels = [np.arange(self.num_envs), self.games % 256, *np.divmod(self.frames, 256)]
        return np.stack(pixels, 1).astype(np.uint8).reshape(-1, 2, 2)

    def begin(self, where: np.ndarray) -> Tensor:
        self.games += where
        self.stacks[where] = self.film()[where, None]
        return torch.from_numpy(self.stacks.copy())

    def reset(self, seed: int) -> Tensor:
        return self.begin(np.ones(self.num_envs, bool))

    def step(self, action: Tensor) -> EnvStep:
        reset = self.resetting
        self.stacks = np.where(
            reset[:, None, None, None], self.stacks, np.concatenate([self.stacks[:, 1:], self.film()[:, None]], 1)
        )
        self.begin(reset)
        following = torch.from_numpy(self.stacks.copy())
        terminated, truncated, lost = (self.rng.random((3, self.num_envs)) < [[0.07], [0.07], [0.15]]) & ~reset
        ended = terminated | truncated
        self.resetting = ended & (self.rng.random(self.num_envs) < 0.5) & self.resets
        obs = self.begin(ended & ~self.resetting)
        reward = torch.from_numpy(self.rng.integers(-8, 8, self.num_envs) * ~reset).float()
        ends = [torch.from_numpy(x) for x in (terminated, truncated)]
        lesson = Lesson(reward, torch.from_numpy(lost)) if self.lives else None
        return EnvStep(reward, *ends, following, obs, torch.from_numpy(~reset), lesson=lesson)

    def get_state(self) -> dict:
        return {}

    def set_state(self, state: dict) -> Tensor:
        return self.reset(0)


class Row(NamedTuple):
    """A step as it was taken; `joined` tells that the next one goes on with its game."""

    obs: Tensor
    action: int
    reward: float
    following: Tensor
    terminated: bool
    truncated: bool
    valid: bool
    life_lost: bool

    @property
    def ended(self) -> bool:
        return self.terminated or self.truncated


def rows_of(steps: Transition) -> list[list[Row]]:
    """The steps of every environment, one after another."""
    lost = steps.columns.get("life_lost", torch.zeros_like(steps.terminated))
    ends = (steps.terminated, steps.truncated, steps.valid, lost)
    return [
        [
            Row(
                steps.obs[time, env].clone(),
                int(steps.action[time, env]),
                float(steps.reward[time, env]),
                steps.next_obs[time, env].clone(),
                *(bool(end[time, env]) for end in ends),
            )
            for time in range(len(steps.reward))
        ]
        for env in range(steps.reward.shape[1])
    ]


def name_of(stack: Tensor) -> tuple[int, ...]:
    return tuple(stack[-1].flatten().tolist())  # of its newest frame, which occurs once


class Run:
    """A film, its collector, a replay of the steps, and a memory of all that was acted on."""

    def __init__(self, num_envs: int, seed: int, *, lives: bool = True, resets: bool = True, **settings) -> None:
        self.film = Film(num_envs, seed, lives=lives, resets=resets)
        self.policy = UniformPolicy(SPEC)
        self.collector = EnvCollector(self.film, self.policy, seed=seed)
        self.num_envs, self.settings, self.rng = num_envs, settings, np.random.default_rng(seed + 1000)
        self.replay = self.new_replay()
        self.history: list[list[Row]] = [[] for _ in range(num_envs)]
        self.slots: list[list[int | None]] = [[] for _ in range(num_envs)]  # numbers of steps; None: a last observation

    def new_replay(self) -> Replay:
        fixed = {"learning_starts": 1, "train_freq": self.num_envs, "gamma": GAMMA, "frame_stack": STACK}
        return build_replay(SPEC, self.num_envs, **fixed, **self.settings)

    def collect(self, num_steps: int) -> None:
        steps = self.collector.collect(self.policy, num_steps)
        self.replay.add(steps)
        for env, rows in enumerate(rows_of(steps)):
            for row in rows:
                number = len(self.history[env])
                self.history[env].append(row)
                self.slots[env] += [number, None] if row.truncated and not row.terminated else [number]

    def cut(self) -> None:
        """Some environments lose their games, and others begin."""
        where = self.rng.random(self.num_envs) < 0.6
        for env in np.flatnonzero(where):
            last = self.history[env][-1]
            if last.valid and not last.ended:
                self.history[env][-1] = last._replace(truncated=True)
                self.slots[env].append(None)
        self.replay.cut(torch.from_numpy(where))
        self.film.resetting &= ~where
        self.collector.obs = self.film.begin(where)
        self.collector.first |= torch.from_numpy(where)

    def resume(self) -> None:
        state, self.replay = copy_state(self.replay.state_dict()), self.new_replay()
        self.replay.load_state_dict(state)

    def drawable(self) -> dict[tuple[int, ...], tuple[int, int]]:
        """Environment and number of every step that is to be in the ring, by its newest frame."""
        newest = (
            (env, n) for env, slots in enumerate(self.slots) for n in slots[-self.replay.reach :] if n is not None
        )
        return {name_of(self.history[env][n].obs): (env, n) for env, n in newest if self.history[env][n].valid}

    def every_row(self) -> StepBatch:
        """What is learned from if each row that can be drawn is drawn once."""
        columns, replay = self.replay.columns, self.replay
        if replay.settings.prioritized:
            return replay.take(columns, columns.priority[0].flatten().nonzero().flatten())
        num = int(columns.written.clamp(max=replay.reach).sum())
        return replay.gather(columns, (torch.arange(num, dtype=torch.float64) + 0.5) / num)

    def check(self) -> None:
        expected, batch = self.drawable(), self.every_row()
        found = batch.weight > 0
        if self.replay.sequences is not None:
            self.check_pieces(batch, expected)
            batch = tree_map(lambda x: x.flatten(0, 1), batch)
            found = found.flatten()
        places = {index: name_of(batch.obs[index]) for index in found.nonzero().flatten().tolist()}
        assert {*places.values()} == expected.keys()
        for index, name in places.items():
            self.check_row(batch, index, *expected[name])

    def check_row(self, batch: StepBatch, index: int, env: int, number: int) -> None:
        steps, n = self.history[env], self.replay.settings.n_steps
        taken = [steps[number]]
        while len(taken) < n and not taken[-1].ended and number + len(taken) < len(steps):
            taken.append(steps[number + len(taken)])
        assert torch.equal(batch.obs[index], steps[number].obs)
        assert batch.obs.dtype == batch.next_obs.dtype == torch.uint8
        assert batch.action[index] == steps[number].action
        assert batch.reward[index] == sum(GAMMA**k * row.reward for k, row in enumerate(taken))
        last = taken[-1]
        assert batch.discount[index] == (0.0 if last.terminated else GAMMA ** len(taken))
        following = number + len(taken)
        goes_on = last.life_lost and (
            following == len(steps) or name_of(steps[following].obs) == name_of(last.following)
        )
        if not last.terminated or goes_on:
            assert torch.equal(batch.next_obs[index], last.following)

    def check_pieces(self, batch: StepBatch, expected: dict[tuple[int, ...], tuple[int, int]]) -> None:
        """Pieces are steps in a row of one episode, which a lost life ends; a memory begins anew after it."""
        for piece in range(batch.weight.shape[1]):
            times = batch.weight[:, piece].nonzero().flatten().tolist()
            places = [expected[name_of(batch.obs[time, piece])] for time in times]
            for time, (env, number) in zip(times, places, strict=True):
                assert number - time == places[0][1] - times[0]
                before = self.history[env][number - 1]
                begins = number == 0 or before.ended or not before.valid
                assert bool(batch.columns["first"][time, piece]) == begins
                assert time == times[0] or not before.ended


SETTINGS = {
    "one step": {},
    "n steps": {"n_steps": 3},
    "priorities": {"prioritized": True},
    "both": {"n_steps": 3, "prioritized": True},
    "sequences": {"sequences": Sequences(5, 2)},
}


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("seed", range(3))
def test_every_row_gives_the_stacks_that_were_acted_on(num_envs: int, settings: dict, seed: int) -> None:
    run = Run(num_envs, seed, buffer_size=24 * num_envs, resets=seed != 1, **settings)
    for _ in range(12):
        run.collect(int(run.rng.integers(1, 15)))
        run.check()
        if run.rng.random() < 0.3:
            run.resume()
            run.check()
        if run.rng.random() < 0.3:
            run.cut()
            run.collect(1)  # as in a run, where nothing is learned before
            run.check()
    assert run.replay.columns.written.min() > 2 * run.replay.ring.slots
    assert sum(row.life_lost for rows in run.history for row in rows) > 5


def test_a_mapped_ring_and_a_game_without_lives_give_the_same_stacks(tmp_path) -> None:
    for lives in (True, False):
        run = Run(2, 5, lives=lives, buffer_size=40, n_steps=2, buffer_folder=str(tmp_path))
        for size in (7, 1, 30, 12, 60):
            run.collect(size)
            run.check()
        run.resume()
        run.check()


def test_files_of_rows_have_a_limited_size(monkeypatch) -> None:
    monkeypatch.setattr(replay_state, "SEGMENT_BYTES", 200)
    run = Run(3, 4, buffer_size=60)
    run.collect(50)
    state, run.replay = run.replay.state_dict(), run.new_replay()
    sizes = [sum(column.nbytes for column in segment.rows.values()) for segment in state["rows"].segments]
    assert len(sizes) >= 3
    assert max(sizes) <= 200
    run.replay.load_state_dict(state)
    run.check()


def test_a_ring_of_version_0_2_which_saved_ages_is_read() -> None:
    run = Run(3, 3, lives=False, buffer_size=60)
    run.collect(50)
    while not run.replay.ring.first.any():
        run.collect(1)
    state = copy_state(run.replay.state_dict())
    (segment,) = state["rows"].segments
    for rows in (segment.rows, state["waiting"]):
        behind = rows.pop("behind").int()
        rows["age"] = torch.where(behind == STACK - 1, behind + 10, behind)
    state["waiting"]["age"][state["first"]] = 7  # a game that is over was counted on
    run.replay = run.new_replay()
    run.replay.load_state_dict(state)
    for size in (1, 9):
        run.collect(size)
        run.check()


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("num_envs", [1, 3])
def test_all_ways_to_write_give_the_same_ring(num_envs: int, prioritized: bool, monkeypatch) -> None:
    """Step by step, in blocks, and as tensors, as on a GPU."""
    settings = {"buffer_size": 20 * num_envs, "prioritized": prioritized}
    states = []
    for way, sizes in (("single", [1] * 60), ("few", [4] * 15), ("blocks", [10] * 6), ("tensors", [10] * 6)):
        if way == "tensors":
            monkeypatch.setattr(ring, "as_arrays", lambda tree: tree)
        torch.manual_seed(0)  # of the actions
        run = Run(num_envs, 8, **settings)
        for size in sizes:
            run.collect(size)
        run.check()
        states.append(run.replay.state_dict())
    assert all(difference(states[0], state) is None for state in states[1:])
