"""A folder of columns is mapped: opening reads headers only, rows are read one by one."""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path

import numpy as np
import pytest

from rl_training.core import Box, Spec
from rl_training.data import Dataset, DatasetError, lint
from rl_training.data.metadata import Metadata
from tests.data.making import make

ROWS, WIDTH = 10_000_000, 1000


@pytest.fixture
def huge(tmp_path: Path) -> Path:
    """A dataset of 40 GB that takes no room on disk: its files have holes, which read as zeros."""
    columns = {
        "obs": ((ROWS, WIDTH), "float32"),
        "action": ((ROWS, 1), "float32"),
        "reward": ((ROWS,), "float32"),
        "terminated": ((ROWS,), "bool"),
        "truncated": ((ROWS,), "bool"),
        "last_obs": ((2, WIDTH), "float32"),
    }
    path = tmp_path / "huge"
    path.mkdir()
    for name, (shape, dtype) in columns.items():
        column = np.lib.format.open_memmap(path / f"{name}.npy", "w+", dtype, shape)
        if name == "obs":
            column[7] = 7.0
        if name == "last_obs":
            column[0] = 9.0
        if name == "terminated":
            column[7] = True
    spec = Spec(Box((WIDTH,), (-np.inf,) * WIDTH, (np.inf,) * WIDTH), Box((1,), (-1.0,), (1.0,)))
    metadata = Metadata(
        spec, rows=ROWS, sha256="of zeros", dtypes={name: dtype for name, (_, dtype) in columns.items()}
    )
    (path / "metadata.json").write_text(json.dumps(metadata.to_json()))
    return path


def test_opening_does_not_read_the_columns(huge: Path) -> None:
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    dataset = Dataset.open(huge)
    assert time.perf_counter() - start < 2.0
    assert len(dataset) == ROWS
    steps = dataset.take(np.array([7, 6, ROWS - 2]))
    assert [steps.obs[0, 0], steps.obs[1, 0], steps.next_obs[0, 0], steps.next_obs[1, 0]] == [7, 0, 9, 7]
    assert dataset.sample(np.random.default_rng(0), 64).obs.shape == (64, WIDTH)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 200_000  # kB: the flags of 10M rows, and the pages of the rows that were drawn


def test_damage_that_is_not_seen_when_opening_is_found_by_verify_and_lint(tmp_path: Path) -> None:
    make().save(tmp_path / "data")
    Dataset.open(tmp_path / "data").verify()
    column = np.lib.format.open_memmap(tmp_path / "data" / "reward.npy", "r+")
    column[3] += 1.0
    column.flush()
    dataset = Dataset.open(tmp_path / "data")
    with pytest.raises(DatasetError, match="the columns do not match their sha256"):
        dataset.verify()
    assert [found.fault for found in lint(dataset)] == ["changed-content"]


def test_flags_that_do_not_fit_the_last_observations_are_found(tmp_path: Path) -> None:
    make().save(tmp_path / "data")
    flags = np.lib.format.open_memmap(tmp_path / "data" / "terminated.npy", "r+")
    flags[1] = True
    flags.flush()
    (found,) = lint(tmp_path / "data")
    assert (found.fault, found.severity) == ("unreadable", "error")
    assert "last_obs has 4 rows for 5 episodes" in found.meaning


def test_columns_stay_on_disk(tmp_path: Path) -> None:
    make("dict", "discrete").save(tmp_path / "data")
    dataset = Dataset.open(tmp_path / "data")
    for column in (dataset.obs["position"], dataset.action, dataset.reward, dataset.terminated):
        assert isinstance(column.base, np.memmap)
        assert not column.flags.writeable
    assert dataset.top(0.5).action.flags.writeable
