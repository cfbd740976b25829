"""Room for a buffer: measured first, refused with the numbers, and nothing left behind."""

from __future__ import annotations

import os
import re
from collections import namedtuple
from pathlib import Path

import pytest
import torch

import rl_training
from rl_training.api.training import build_run
from rl_training.core import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Spec, free_memory, tree_leaves
from rl_training.core.free_memory import line_value, memory_free
from rl_training.experience import Replay, allocation, ring
from rl_training.experience.allocation import Allocator, row_bytes
from rl_training.experiment.checkpoint import difference
from tests.experience.test_replay import draw, give_back, make_replay, part, tagged_steps
from tests.replays import build_replay

CPU = torch.device("cpu")


def refusal(**settings: object) -> str:
    agent = rl_training.DQN("CartPole-v1", **settings)
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is looked at by the callers
        agent.learn(100, progress=False)
    agent.close()
    return str(caught.value)


@pytest.mark.parametrize("where", ["memory", "folder"])
def test_a_buffer_that_does_not_fit_is_refused_with_the_numbers(where, tmp_path, monkeypatch) -> None:
    def fail(*arguments: object, **keywords: object) -> None:
        raise AssertionError("allocated before it was refused")

    monkeypatch.setattr(allocation.Allocator, "zeros", fail)
    folder = {"buffer_folder": str(tmp_path)} if where == "folder" else {}
    message = refusal(buffer_size=10**13, **folder)
    numbers = re.search(r"needs ([\d.]+) GB .*only ([\d.]+) GB are free (on cpu|in \S+):", message)
    assert message.startswith("experience.buffer_size=10000000000000 needs ")
    assert float(numbers[1]) == pytest.approx(10**13 * (16 + 8 + 4 + 1) / 1e9, rel=1e-3)  # obs, action, reward, flags
    assert 0 < float(numbers[2]) < 1e6
    assert numbers[3] == ("on cpu" if where == "memory" else f"in {tmp_path}")
    assert "buffer_folder" in message
    assert list(tmp_path.iterdir()) == []


def test_the_limit_is_what_is_free(monkeypatch) -> None:
    monkeypatch.setattr(allocation, "memory_free", lambda device: 1000)
    Allocator(CPU, None).check(1000, "name", "detail")
    with pytest.raises(ValueError, match=r"^name needs 0\.00 GB \(detail\)"):
        Allocator(CPU, None).check(1001, "name", "detail")


def test_a_folder_that_is_not_there(tmp_path) -> None:
    missing = tmp_path / "missing"
    message = refusal(buffer_size=100, buffer_folder=str(missing))
    assert message == f"experience.buffer_folder={str(missing)!r} is not a folder: make it, or name another"


def test_a_folder_is_for_the_cpu() -> None:
    with pytest.raises(ValueError, match=r"experience\.buffer_folder='x' maps files .* buffer_device='cpu': drop one"):
        Allocator(torch.device("cuda"), "x")


@pytest.mark.parametrize(
    ("space", "num_bytes"),
    [
        (Box((3, 2), (0.0,) * 6, (1.0,) * 6), 24),
        (Box((4, 2, 2), (0.0,) * 16, (255.0,) * 16, "uint8"), 16),
        (Discrete(3), 8),
        (MultiDiscrete((2, 3)), 16),
        (MultiBinary(3), 24),
        (Dict({"x": Discrete(2), "y": Box((1,), (0.0,), (1.0,))}), 12),
    ],
)
def test_the_estimate_is_what_is_allocated(space, num_bytes) -> None:
    rows = Allocator(CPU, None).zeros_for(space, 10)
    leaves = rows.values() if isinstance(rows, dict) else [rows]
    assert sum(leaf.untyped_storage().nbytes() for leaf in leaves) == 10 * num_bytes == 10 * row_bytes(space)


def test_a_mapped_buffer_is_the_same_and_leaves_nothing(tmp_path) -> None:
    steps = tagged_steps(80, seed=3)
    mapped, plain = (make_replay(prioritized=True, n_steps=3, buffer_folder=folder) for folder in (str(tmp_path), None))
    assert list(tmp_path.iterdir()) == []
    maps = Path("/proc/self/maps").read_text().splitlines()
    assert sum(str(tmp_path) in line for line in maps) >= 4  # obs, action, reward, flags
    batches = []
    for replay in (mapped, plain):
        for start in range(0, 80, 8):
            replay.add(part(steps, start, start + 8))
        batch = draw(replay, 64)
        give_back(replay, batch, batch.reward.abs())
        batches.append(batch)
    assert all(map(torch.equal, *map(tree_leaves, batches)))
    assert difference(mapped.state_dict(), plain.state_dict()) is None
    assert list(tmp_path.iterdir()) == []


def test_a_run_on_a_mapped_buffer_is_the_same_run(tmp_path) -> None:
    states = []
    for folder in (str(tmp_path), None):
        agent = rl_training.DQN("CartPole-v1", buffer_size=150, buffer_folder=folder, learning_starts=50, seed=1)
        agent.learn(200, progress=False)
        state = agent.snapshot().state
        states.append((state["experience"], dict(state["algorithm"])))
        assert list(tmp_path.iterdir()) == []
        agent.close()
    assert difference(list(states[0]), list(states[1])) is None


def test_a_container_limits_what_is_free(tmp_path, monkeypatch) -> None:
    """Beside 'MemAvailable' of the host there is the quota of the control group, of which files can be given back."""
    monkeypatch.setattr(free_memory, "CGROUP", tmp_path)
    unlimited = memory_free(CPU)
    assert 0 < unlimited < 2**60
    for name, text in (
        ("memory.max", "5000"),
        ("memory.current", "3000"),
        ("memory.stat", "anon 7\ninactive_file 500"),
    ):
        (tmp_path / name).write_text(text + "\n")
    assert memory_free(CPU) == 5000 - 3000 + 500
    (tmp_path / "memory.max").write_text("max\n")  # no quota
    assert memory_free(CPU) == pytest.approx(unlimited, rel=0.5)
    assert line_value(tmp_path / "nothing") is None


def test_the_free_room_of_a_disk(tmp_path, monkeypatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(allocation.shutil, "disk_usage", lambda folder: usage(10**12, 0, 7000))
    with pytest.raises(ValueError, match=r"only 0\.00 GB are free in .*another buffer_folder"):
        Allocator(CPU, str(tmp_path)).check(7001, "name", "detail")
    Allocator(CPU, str(tmp_path)).check(7000, "name", "detail")


def test_a_million_steps_of_halfcheetah_take_hardly_more_than_their_raw_bytes() -> None:
    agent = rl_training.SAC("HalfCheetah-v5", buffer_size=1_000_000, compile=False)
    columns = build_run(agent).trainer.experience.columns
    taken = sum(leaf.nbytes for leaf in tree_leaves(tuple(columns)))
    agent.close()
    raw = 4 * 17 + 4 * 6 + 4 + 1  # observation, action, reward, flags: successors are other rows' observations
    assert 1_000_000 * raw <= taken <= 1.1 * 1_000_000 * raw


def pixels(capacity: int, **settings) -> Replay:
    picture = Box((4, 84, 84), (0.0,) * 28_224, (255.0,) * 28_224, "uint8")
    spec = Spec(picture, Discrete(6))
    return build_replay(spec, 1, buffer_size=capacity, frame_stack=4, gamma=0.9, **settings)


@pytest.mark.parametrize("where", ["memory", "folder"])
def test_a_million_stacked_pictures_take_seven_gigabytes_and_none_before_they_are_written(where, tmp_path) -> None:
    before, num = resident(), 100_000
    replay = pixels(num, buffer_folder=str(tmp_path) if where == "folder" else None)
    assert resident() - before < 5e7
    taken = sum(leaf.nbytes for leaf in tree_leaves(tuple(replay.columns)))
    assert 7_056 * num < taken < 7_072 * num  # a frame, action, reward, flags and how far the stack reaches back


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_large_replay_says_its_size_before_the_run(monkeypatch, capsys) -> None:
    agent = rl_training.DQN("CartPole-v1", buffer_size=2_000, learning_starts=50)
    monkeypatch.setattr(ring, "LARGE", 50_000)
    agent.learn(60)
    said = capsys.readouterr().err
    assert said.count("the replay takes 0.00 GB in memory (2,001 rows of 29 bytes)\n") == 1
    assert pixels(2_000).notice == "the replay takes 0.01 GB in memory (2,004 rows of 7,071 bytes)"
    monkeypatch.setattr(ring, "LARGE", 10**9)
    assert pixels(2_000).notice is None
