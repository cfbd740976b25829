"""Files of d3rlpy are told from D4RL's by their arrays, and give the transitions that d3rlpy would learn from.

The layout is what `ReplayBuffer.dump` of d3rlpy 2.8.1 writes (file version 2.1); files of its own writer were compared once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rl_training.core import Box, Dict, Discrete
from rl_training.data import Dataset, DatasetError, convert, info, lint
from tests import needs

h5py = needs.import_package("h5py")

LENGTHS, TERMINATED = (3, 4, 2, 1), (True, False, True, True)
Arrays = dict[str, np.ndarray]


def buffer(kind: str = "continuous") -> Arrays:
    """Episodes of 3, 4, 2 and 1 observations, of which the second was cut; row i of all observes i."""
    arrays = {"columns": np.array([b"observations", b"actions", b"rewards", b"terminated"])}
    arrays |= {"num_episodes": np.array(len(LENGTHS)), "version": np.array(b"2.1")}
    for number, (length, terminated) in enumerate(zip(LENGTHS, TERMINATED, strict=True)):
        rows = np.arange(length) + sum(LENGTHS[:number])
        obs = np.stack([rows, -rows], 1).astype(np.float32)
        arrays[f"observations_{number}"] = obs
        if kind == "tuple":
            del arrays[f"observations_{number}"]
            arrays |= {f"observations_{number}_0": obs, f"observations_{number}_1": obs[:, None, :1] + 100}
        discrete = kind == "discrete"
        arrays[f"actions_{number}"] = rows[:, None] % 4 if discrete else np.tile(rows[:, None] / 10, 3).astype("f4")
        arrays[f"rewards_{number}"] = rows[:, None].astype(np.float32) + 0.5
        arrays[f"terminated_{number}"] = np.array(terminated)
    return arrays


def written(path: Path, arrays: Arrays) -> Path:
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array)
    return path


def test_a_buffer_gives_the_transitions_of_d3rlpy(tmp_path: Path) -> None:
    data = Dataset.open(written(tmp_path / "a.h5", buffer()))
    kept = [0, 1, 2, 3, 4, 5, 7, 8, 9]  # a cut episode of 4 observations has 3 transitions
    assert data.obs[:, 0].tolist() == kept
    assert data.action[:, 2] == pytest.approx(np.array(kept) / 10)
    assert data.reward.tolist() == [row + 0.5 for row in kept]
    assert np.flatnonzero(data.terminated).tolist() == [2, 7, 8]
    assert np.flatnonzero(data.truncated).tolist() == [5]
    assert data.successors(np.array([0, 3, 4, 5, 6]))[:, 0].tolist() == [1, 4, 5, 6, 8]
    assert isinstance(data.spec.action, Box)
    assert data.provenance.ignored == ()
    assert [found.fault for found in lint(data)] == ["guessed-spaces"]


def test_discrete_actions_are_one_number(tmp_path: Path) -> None:
    data = Dataset.open(written(tmp_path / "a.h5", buffer("discrete")))
    assert data.spec.action == Discrete(4)
    assert data.action.tolist() == [0, 1, 2, 3, 0, 1, 3, 0, 1]


def test_tuples_of_observations_are_a_dictionary(tmp_path: Path) -> None:
    data = Dataset.open(written(tmp_path / "a.h5", buffer("tuple")))
    assert isinstance(data.spec.obs, Dict)
    assert isinstance(data.obs, dict)
    assert data.obs["1"][:, 0, 0].tolist() == [100, 101, 102, 103, 104, 105, 107, 108, 109]
    assert data.obs["0"].shape == (9, 2)


def test_files_of_d3rlpys_first_version(tmp_path: Path) -> None:
    rows = np.arange(6, dtype=np.float32)
    arrays = {"observations": np.stack([rows, -rows], 1), "actions": rows.astype(np.int32)[:, None] % 2}
    arrays |= {"rewards": rows[:, None], "terminals": np.array([0, 0, 1, 0, 0, 0.0])}
    arrays |= {"episode_terminals": np.array([0, 0, 1, 0, 0, 1.0]), "discrete_action": np.array(True)}
    path = written(tmp_path / "a.h5", arrays | {"version": np.array(b"1.0")})
    data = Dataset.open(path)
    assert (data.reward.tolist(), data.action.tolist()) == ([0, 1, 2, 3, 4], [0, 1, 0, 1, 0])
    assert np.flatnonzero(data.truncated).tolist() == [4]
    assert data.successors(np.array([4]))[:, 0].tolist() == [5]
    assert info(path)["format"] == "d3rlpy"


def test_it_converts_and_comes_back(tmp_path: Path) -> None:
    source = written(tmp_path / "a.h5", buffer("discrete"))
    assert info(source)["format"] == "d3rlpy"
    convert(source, tmp_path / "b.h5")  # in D4RL's layout
    convert(tmp_path / "b.h5", tmp_path / "c.npz")
    assert info(tmp_path / "b.h5")["format"] == "hdf5"
    assert Dataset.open(tmp_path / "c.npz").sha256 == Dataset.open(source).sha256


def dropped(name: str) -> Callable[[Arrays], None]:
    return lambda arrays: arrays.__delitem__(name)


def put(name: str, value: object) -> Callable[[Arrays], None]:
    return lambda arrays: arrays.__setitem__(name, np.array(value))


BROKEN: dict[str, tuple[Callable[[Arrays], None], str]] = {
    "an array is missing": (
        dropped("actions_2"),
        "actions_2 is missing, though num_episodes is 4: the file is cut; dump it again",
    ),
    "observations are missing": (dropped("observations_1"), "observations_1 is missing, though num_episodes is 4"),
    "no episodes": (put("num_episodes", 0), "num_episodes is 0: a buffer of d3rlpy needs a whole number, at least 1"),
    "fewer observations": (
        put("observations_1", np.zeros((3, 2))),
        "observations of episode 1 has 3 rows and rewards 4: every step needs one of each",
    ),
    "an episode of no steps": (put("rewards_3", np.zeros((0, 1))), "rewards_3 has no steps: leave episode 3 out"),
    "several rewards": (
        put("rewards_0", np.zeros((3, 2))),
        "rewards_0 has 2 numbers per step: one is learned from; dump the one that you mean",
    ),
    "flags of every step": (
        put("terminated_0", [False, False, True]),
        r"terminated_0 is \[False, False, True\]: it says of the whole episode whether it came to its own end",
    ),
    "two environments": (
        put("actions_1", np.zeros((4, 5))),
        r"action of episode 1 has rows of shape \(5,\), those of episode 0 \(3,\): keep episodes of one environment",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_buffer_is_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    change, sentence = BROKEN[name]
    arrays = buffer()
    change(arrays)
    with pytest.raises(DatasetError, match=sentence):
        Dataset.open(written(tmp_path / "a.h5", arrays))


def test_cut_episodes_of_one_observation_have_no_step(tmp_path: Path) -> None:
    arrays = buffer()
    arrays["terminated_3"] = np.array(False)
    assert len(Dataset.open(written(tmp_path / "a.h5", arrays))) == 8
    for number in range(4):
        arrays |= {f"observations_{number}": np.zeros((1, 2)), f"actions_{number}": np.zeros((1, 3))}
        arrays |= {f"rewards_{number}": np.zeros((1, 1)), f"terminated_{number}": np.array(False)}
    with pytest.raises(DatasetError, match="reward has no rows: a dataset needs at least one step"):
        Dataset.open(written(tmp_path / "b.h5", arrays))
