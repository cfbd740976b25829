"""Stacked frames are stored once and rebuilt exactly as gymnasium stacked them."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor

from rl_training.core import Box, Dict, Discrete, Spec, Transition, Tree, tree_map
from rl_training.experience import Replay
from rl_training.experiment.checkpoint import difference
from tests.experience.test_replay import draw, in_pieces, part
from tests.replays import build_replay

GAMMA = 0.9
SHAPE = (2, 4)


class Frames(gym.Env):
    """Every frame is different: a number in base 256, counted on over episodes, which end at random."""

    observation_space = gym.spaces.Dict(
        {"image": gym.spaces.Box(0, 255, SHAPE, np.uint8), "action_mask": gym.spaces.Box(0, 1, (5,), np.uint8)}
    )
    action_space = gym.spaces.Discrete(5)

    def __init__(self, env: int, end_rate: float = 0.15) -> None:
        self.number, self.rng, self.end_rate = 10_000 * env, np.random.default_rng(env), end_rate

    def frame(self) -> dict[str, np.ndarray]:
        self.number += 1
        image = np.zeros(SHAPE, np.uint8)
        image[0, :2] = divmod(self.number, 256)
        image[1] = self.rng.integers(0, 256, 4)
        return {"image": image, "action_mask": self.rng.integers(0, 2, 5, dtype=np.uint8)}

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        return self.frame(), {}

    def step(self, action: int) -> tuple[dict, float, bool, bool, dict]:
        terminated, truncated = self.rng.random(2) < self.end_rate / 2
        return self.frame(), float(self.rng.normal()), bool(terminated), bool(truncated), {}


def record(num_steps: int, num_envs: int, k: int, end_rate: float = 0.15) -> Transition:
    """[time, env] steps with the stacks that gymnasium made."""
    columns = []
    for number in range(num_envs):
        env = gym.wrappers.FrameStackObservation(Frames(number, end_rate), k)
        rows, obs = [], env.reset()[0]
        for t in range(num_steps):
            following, reward, terminated, truncated, _ = env.step(0)
            ends = [torch.tensor(x) for x in (terminated, truncated, True)]
            stacks = [{key: torch.tensor(np.array(x)) for key, x in o.items()} for o in (obs, following)]
            reward = torch.tensor(reward, dtype=torch.float32)
            rows.append(Transition(stacks[0], torch.tensor(t % 5), reward, reward, stacks[1], *ends, {}))
            obs = env.reset()[0] if terminated or truncated else following
        columns.append(tree_map(lambda *x: torch.stack(x), *rows))
    return tree_map(lambda *x: torch.stack(x, 1), *columns)


def only_images(steps: Transition) -> Transition:
    return steps._replace(obs=steps.obs["image"], next_obs=steps.next_obs["image"])


def spec(k: int, *, images: bool) -> Spec:
    image = Box((k, *SHAPE), (0.0,) * (k * 8), (255.0,) * (k * 8), "uint8")
    mask = Box((k, 5), (0.0,) * (k * 5), (1.0,) * (k * 5), "uint8")
    return Spec(image if images else Dict({"image": image, "action_mask": mask}), Discrete(5))


def make(num_envs: int, k: int, *, images: bool = True, capacity: int = 60, **settings) -> Replay:
    fixed = {"learning_starts": 1, "train_freq": num_envs, "gamma": GAMMA, "seed": 0}
    return build_replay(spec(k, images=images), num_envs, buffer_size=capacity, frame_stack=k, **fixed, **settings)


def images_of(obs: Tree) -> Tensor:
    return obs["image"] if isinstance(obs, dict) else obs


def numbers(obs: Tree) -> Tensor:
    """The number of the newest frame."""
    image = images_of(obs)[..., -1, 0, :2].long()
    return image[..., 0] * 256 + image[..., 1]


def assert_true_stacks(replay: Replay, steps: Transition, n: int = 1) -> set[int]:
    """Every drawn row has the recorded stacks, its own and the one it bootstraps from; returns what was drawn."""
    found = numbers(steps.obs).flatten()
    place = {number: divmod(i, steps.reward.shape[1]) for i, number in enumerate(found.tolist())}
    batch = draw(replay, 1500)
    counts = batch.weight > 0
    if replay.settings.prioritized:
        assert counts.all()
    tags = numbers(batch.obs)
    for i in {tag: i for i, tag in enumerate(tags.tolist()) if counts[i]}.values():
        t, env = place[tags[i].item()]
        ret, last = steps.reward[t, env].item(), t
        for k in range(1, n):
            if steps.terminated[last, env] or steps.truncated[last, env] or last + 1 == len(steps.reward):
                break
            last += 1
            ret += GAMMA**k * steps.reward[last, env].item()
        assert_equal(steps.obs, batch.obs, (t, env), i)
        assert batch.reward[i].item() == pytest.approx(ret, abs=1e-5)
        discount = 0.0 if steps.terminated[last, env] else GAMMA ** (last - t + 1)
        assert batch.discount[i].item() == pytest.approx(discount)
        if discount:
            assert_equal(steps.next_obs, batch.next_obs, (last, env), i)
    return set(tags[counts].tolist())


def assert_equal(recorded: Tree, rebuilt: Tree, place: tuple[int, int], row: int) -> None:
    assert type(recorded) is type(rebuilt)
    assert not isinstance(recorded, dict) or recorded.keys() == rebuilt.keys()
    pairs = [(x, rebuilt[key]) for key, x in recorded.items()] if isinstance(recorded, dict) else [(recorded, rebuilt)]
    for a, b in pairs:
        assert a.dtype == b.dtype == torch.uint8
        assert torch.equal(a[place], b[row])


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("num_envs", [1, 3])
def test_stacks_are_those_of_gymnasium_through_wrap_around(num_envs: int, k: int) -> None:
    capacity = 20 * num_envs
    steps = only_images(record(50, num_envs, k))
    replay = make(num_envs, k, capacity=capacity)
    for start, end in in_pieces(50, longest=9):
        replay.add(part(steps, start, end))
        assert_true_stacks(replay, part(steps, 0, end))
    assert replay.columns.written.min() > 2 * replay.reach
    drawn = assert_true_stacks(replay, steps)
    assert numbers(steps.obs)[-10:].flatten().unique().tolist() == sorted(
        drawn & set(numbers(steps.obs)[-10:].flatten().tolist())
    )  # the newest are all there


@pytest.mark.parametrize("n", [1, 3])
def test_dict_observations_with_masks_n_step_and_priorities(n: int) -> None:
    steps = record(60, 2, 3)
    steps.truncated[-1] = False
    # Ends of chunks that are truncations have a test of their own.
    ends = [t for t in range(1, 61) if not steps.truncated[t - 1].any()]
    replay = make(2, 3, images=False, capacity=40, prioritized=True, n_steps=n)
    start = 0
    for end in ends[::3] + ends[-1:]:
        replay.add(part(steps, start, end))
        assert_true_stacks(replay, part(steps, 0, end), n)
        start = end
    assert replay.columns.written.min() > 2 * replay.reach


def test_priorities_when_a_chunk_ends_with_a_truncation() -> None:
    steps = only_images(record(60, 1, 4, end_rate=0.0))
    steps.truncated[49] = True
    replay = make(1, 4, capacity=20, prioritized=True)
    replay.add(part(steps, 0, 50))
    assert_true_stacks(replay, part(steps, 0, 50))


@pytest.mark.parametrize("prioritized", [False, True])
def test_chunks_make_no_difference(prioritized: bool) -> None:
    steps = only_images(record(70, 2, 4))
    steps.truncated[-1] = False
    states = []
    for pieces in ([(0, 70)], [(t, t + 1) for t in range(70)], in_pieces(70)):
        replay = make(2, 4, capacity=40, prioritized=prioritized)
        for start, end in pieces:
            replay.add(part(steps, start, end))
        states.append(replay.state_dict())
    assert difference(states[0], states[1]) is None
    assert difference(states[0], states[2]) is None


def test_a_stack_does_not_reach_behind_a_cut() -> None:
    first, second = only_images(record(15, 1, 4, end_rate=0.0)), only_images(record(40, 1, 4))
    second = second._replace(obs=second.obs.clone(), next_obs=second.next_obs.clone())
    for stack in (second.obs, second.next_obs):
        stack[..., 0, 0] += 100  # other numbers than those of the first
    replay = make(1, 4, capacity=30)
    replay.add(first)
    replay.cut()
    first.truncated[-1] = True
    steps = tree_map(lambda a, b: torch.cat([a, b]), first, second)
    for start, end in ((0, 1), (1, 3), (3, 40)):
        replay.add(part(second, start, end))
        assert_true_stacks(replay, part(steps, 0, 15 + end))


@pytest.mark.parametrize("piece", [1, 7])
def test_a_stack_does_not_reach_behind_a_row_that_only_reset(piece: int) -> None:
    """Some backends spend a step on resetting: from the last observation to the first of the next episode."""
    steps, rows = only_images(record(40, 1, 4)), []
    for t in range(40):
        rows.append(part(steps, t, t + 1))
        if (steps.terminated | steps.truncated)[t] and t < 39:
            no = torch.zeros_like(rows[-1].valid)
            between = {"obs": rows[-1].next_obs, "next_obs": steps.obs[t + 1 : t + 2]}
            rows.append(rows[-1]._replace(**between, terminated=no, truncated=no, valid=no))
    steps = tree_map(lambda *x: torch.cat(x), *rows)
    replay = make(1, 4, capacity=60)
    for start in range(0, len(rows), piece):
        replay.add(part(steps, start, start + piece))
    assert not steps.valid.all()
    assert_true_stacks(replay, steps)


def test_every_frame_is_stored_once() -> None:
    k, num_envs, capacity = 4, 2, 1000
    replay = make(num_envs, k, capacity=capacity)
    obs = replay.columns.obs
    assert obs.dtype == torch.uint8
    frame = SHAPE[0] * SHAPE[1]
    assert capacity * frame <= obs.untyped_storage().nbytes() <= (capacity + (k + 1) * num_envs) * frame
