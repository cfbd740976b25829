"""Files that cannot be used: each is refused with a sentence that names the file, the field and the fix."""

from __future__ import annotations

import json
import random
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rl_training.data import Dataset, DatasetError, lint
from tests import needs
from tests.data.making import count_up, make
from tests.data.test_formats import d4rl_file

h5py = needs.import_package("h5py")
pa = needs.import_package("pyarrow")
pq = needs.import_package("pyarrow.parquet")

PLAIN = {
    "obs": np.zeros((3, 2), np.float32),
    "action": np.array([0, 1, 0]),
    "reward": np.ones(3, np.float32),
    "terminated": np.array([False, False, True]),
    "truncated": np.zeros(3, bool),
}


def without(*names: str) -> dict[str, np.ndarray]:
    return {name: column for name, column in PLAIN.items() if name not in names}


def npz(**arrays: np.ndarray) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        np.savez(folder / "a.npz", **arrays)
        return folder / "a.npz"

    return write


def cut(suffix: str, share: float = 0.5) -> Callable[[Path], Path]:
    """A good file of which the end is missing."""

    def write(folder: Path) -> Path:
        path = folder / f"a{suffix}"
        make("dict", "discrete", lengths=(40, 60), terminated=(True, False)).save(path)
        path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
        return path

    return write


def text(name: str, content: str | bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def lines(*steps: object) -> Callable[[Path], Path]:
    return text("a.jsonl", "".join(json.dumps(step) + "\n" for step in steps))


def parquet(**columns: object) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        pq.write_table(pa.table(columns), folder / "a.parquet")
        return folder / "a.parquet"

    return write


def hdf5(leave_out: str = "", **changes: np.ndarray) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = d4rl_file(folder / "a.hdf5", **changes)
        if leave_out:
            with h5py.File(path, "a") as file:
                del file[leave_out]
        return path

    return write


def damaged(name: str, damage: Callable[[Path], object]) -> Callable[[Path], Path]:
    """A good dataset to which something was done."""

    def write(folder: Path) -> Path:
        make("dict", "discrete").save(folder / name)
        damage(folder / name)
        return folder / name

    return write


def edit_json(**changes: object) -> Callable[[Path], object]:
    def edit(path: Path) -> None:
        file = path / "metadata.json" if (path / "metadata.json").exists() else path / "data" / "metadata.json"
        record = json.loads(file.read_text()) | changes
        file.write_text(json.dumps({key: value for key, value in record.items() if value is not None}))

    return edit


def edit_hdf5(path: Path, name: str, value: np.ndarray | None) -> None:
    with h5py.File(path / "data" / "main_data.hdf5", "a") as file:
        del file[name]
        if value is not None:
            file[name] = value


def repack(path: Path) -> None:
    """Changes a number inside of a good archive."""
    with np.load(path) as archive:
        columns = dict(archive)
    columns["reward"][0] += 1
    np.savez(path, **columns)


def shorten(path: Path, num: int = 3) -> None:
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-num]))


STEP = {"obs": [0.0], "action": 0, "reward": 1.0, "terminated": False, "truncated": False}
LISTS = {
    "obs": [[0.0], [1.0]],
    "action": [0, 1],
    "reward": [1.0, 1.0],
    "terminated": [False, True],
    "truncated": [False] * 2,
}

BROKEN: dict[str, tuple[Callable[[Path], Path], str]] = {
    "no file": (lambda folder: folder / "a.npz", "there is no such file: check the path"),
    "unknown suffix": (text("a.csv", "1,2"), "the suffix '.csv' is not known: use .npz"),
    "empty file": (text("a.parquet", ""), "the file is empty: get it again"),
    "npz: cut": (cut(".npz"), "the archive cannot be read .*get it again"),
    "npz: noise": (text("a.npz", b"\x00\x01noise" * 50), "the file is damaged or no archive of numpy's"),
    "npz: a pickle": (
        text("a.npz", b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00]\x94."),
        "the file is damaged or no archive of numpy's .nothing is unpickled here.: get it again, or write it with numpy.savez",
    ),
    "npz: one array": (
        lambda folder: save_npy(folder),
        "the file holds one array and no archive: write it with numpy.savez",
    ),
    "npz: no rewards": (npz(**without("reward")), "reward is missing: add one number per step"),
    "npz: no truncated": (
        npz(**without("truncated")),
        "truncated is missing: say .* time limit; all false if none was",
    ),
    "npz: dones": (
        npz(**without("terminated", "truncated"), dones=np.zeros(3)),
        "dones does not say .*store terminated and truncated apart",
    ),
    "npz: pickled column": (
        npz(**without("obs"), obs=np.array([None, {}, 1], object)),
        "obs is pickled, and nothing is unpickled here: save plain arrays",
    ),
    "npz: strings": (
        npz(**without("reward"), reward=np.array(["1", "2", "3"])),
        "reward holds <U1, not numbers of one kind: convert",
    ),
    "npz: complex": (npz(**without("obs"), obs=np.zeros((3, 2), complex)), "obs holds complex128, not numbers"),
    "npz: no rows": (npz(**{name: column[:0] for name, column in PLAIN.items()}), "reward has no rows"),
    "npz: lengths differ": (npz(**without("action"), action=np.zeros(2, int)), "action has 2 rows and reward 3"),
    "npz: NaN": (
        npz(**without("obs"), obs=np.full((3, 2), np.nan)),
        r"obs is not finite in row 0 \(3 such rows\): repair",
    ),
    "npz: infinite": (npz(**without("reward"), reward=np.array([1, np.inf, 2])), "reward is not finite in row 1"),
    "npz: too large": (npz(**without("reward"), reward=np.array([1, 1e300, 2])), "reward is not finite in row 1"),
    "npz: flags": (
        npz(**without("terminated"), terminated=np.array([0, 0.5, 1])),
        "terminated is float64 with 0.5 in row 1",
    ),
    "npz: reward shape": (npz(**without("reward"), reward=np.ones((3, 1))), r"reward has rows of shape \(1,\)"),
    "npz: twice": (npz(**PLAIN, rewards=np.ones(3)), "rewards and reward both mean reward: keep one"),
    "npz: two kinds of obs": (
        npz(**PLAIN, **{"obs/x": np.ones((3, 1))}),
        "obs is there both as one array and as obs/x",
    ),
    "npz: cut without successor": (
        npz(**without("truncated", "terminated"), truncated=PLAIN["terminated"], terminated=PLAIN["truncated"]),
        "next_obs is missing, and the episode that was cut at row 2",
    ),
    "npz: changed": (damaged("a.npz", repack), "the columns do not match their sha256"),
    "npz: other metadata": (npz(**PLAIN, metadata=np.array("{}")), "metadata were not written by rl_training"),
    "npz: no JSON": (npz(**PLAIN, metadata=np.array("{")), "metadata is no JSON"),
    "hdf5: cut": (cut(".hdf5"), "the HDF5 file cannot be read .*get it again"),
    "hdf5: noise": (text("a.hdf5", "noise" * 99), "the HDF5 file cannot be read"),
    "hdf5: no timeouts": (hdf5("timeouts"), "timeouts is missing, so that cut episodes cannot be told"),
    "hdf5: no terminals": (hdf5("terminals"), "terminated is missing: say for every step"),
    "hdf5: no actions": (hdf5("actions"), "action is missing: add one row per step"),
    "hdf5: lengths differ": (hdf5(actions=np.zeros((7, 2), np.float32)), "action has 7 rows and terminals 8"),
    "parquet: cut": (cut(".parquet"), "the Parquet file cannot be read .*get it again"),
    "parquet: noise": (text("a.parquet", "noise" * 99), "the Parquet file cannot be read"),
    "parquet: ragged": (parquet(**LISTS | {"obs": [[0.0], [1.0, 2.0]]}), "obs has 2 numbers in row 1 and 1 in row 0"),
    "parquet: null": (parquet(**LISTS | {"reward": [1.0, None]}), "reward is null in row 1: fill it in"),
    "parquet: strings": (parquet(**LISTS | {"action": ["left", "right"]}), "action holds object"),
    "parquet: some successors": (
        parquet(**LISTS, next_obs=[[1.0], None]),
        "next_obs is given in row 0: give it in every row",
    ),
    "parquet: no columns": (parquet(x=[1, 2]), "obs is missing: add one row per step"),
    "jsonl: cut": (cut(".jsonl"), r"line \d+ is no JSON .*the file is cut"),
    "jsonl: lines missing": (damaged("a.jsonl", shorten), "reward has 20 rows instead of 23: the file was cut"),
    "jsonl: no object": (lines([1, 2]), "line 1 is no JSON object"),
    "jsonl: field missing": (lines(STEP, {"obs": [0.0]}), r"\w+ is missing in line 2: give every step the same fields"),
    "jsonl: ragged": (lines(STEP, STEP | {"obs": [0.0, 1.0]}), "obs has rows of different shapes"),
    "jsonl: null": (lines(STEP | {"reward": None}), "reward holds object"),
    "jsonl: no steps": (text("a.jsonl", '{"metadata": {}}'), "metadata were not written by rl_training"),
    "jsonl: no text": (text("a.jsonl", b"\xff\xfe\x00"), "the file is no text"),
    "minari: no metadata": (
        damaged("a.minari", lambda path: (path / "data" / "metadata.json").unlink()),
        "metadata.json is missing",
    ),
    "minari: empty folder": (
        damaged("a.minari", lambda path: shutil.rmtree(path / "data")),
        "metadata.json is missing",
    ),
    "minari: bad metadata": (
        damaged("a.minari", edit_json(total_episodes="many")),
        "metadata.json has no total_episodes",
    ),
    "minari: no episodes": (damaged("a.minari", edit_json(total_episodes=0)), "total_episodes is 0"),
    "minari: other format": (
        damaged("a.minari", edit_json(data_format="zarr")),
        "data_format is 'zarr': hdf5, arrow, parquet can",
    ),
    "minari: no data": (
        damaged("a.minari", lambda path: (path / "data" / "main_data.hdf5").unlink()),
        "main_data.hdf5 is missing",
    ),
    "minari: episode missing": (damaged("a.minari", edit_json(total_episodes=9)), "episode_4 is missing"),
    "minari: rewards missing": (
        damaged("a.minari", lambda path: edit_hdf5(path, "episode_1/rewards", None)),
        "rewards is missing in episode 1",
    ),
    "minari: one action too many": (
        damaged("a.minari", lambda path: edit_hdf5(path, "episode_2/actions", np.zeros(14, int))),
        "episode 2 has 13 rewards, and actions do not fit",
    ),
    "minari: other shape": (
        damaged("a.minari", lambda path: edit_hdf5(path, "episode_2/observations/position", np.zeros((14, 3)))),
        "obs/position of episode 2 is not like that of episode 0",
    ),
    "minari: changed": (
        damaged("a.minari", lambda path: edit_hdf5(path, "episode_2/rewards", np.zeros(13))),
        "the columns do not match their sha256",
    ),
    "folder: no metadata": (damaged("a", lambda path: (path / "metadata.json").unlink()), "metadata.json is missing"),
    "folder: other version": (
        damaged("a", edit_json(format_version=99)),
        "metadata have format version 99, this version reads 1",
    ),
    "folder: metadata cut": (
        damaged("a", lambda path: (path / "metadata.json").write_text("{")),
        "metadata is no JSON",
    ),
    "folder: no spec": (damaged("a", edit_json(spec=None)), "metadata cannot be understood"),
    "folder: rows missing": (damaged("a", edit_json(rows=24)), "reward has 23 rows instead of 24: the file was cut"),
    "folder: column missing": (
        damaged("a", lambda path: (path / "reward.npy").unlink()),
        "reward.npy is missing: copy the folder",
    ),
    "folder: column cut": (
        damaged("a", lambda path: truncate(path / "obs.position.npy")),
        "obs.position.npy cannot be read",
    ),
    "folder: other type": (
        damaged("a", lambda path: np.save(path / "reward.npy", np.zeros(23, np.float64))),
        "reward.npy holds float64 instead of float32",
    ),
    "folder: other length": (
        damaged("a", lambda path: np.save(path / "reward.npy", np.zeros(22, np.float32))),
        "obs/position has 23 rows and reward 22",
    ),
    "folder: pickle": (
        damaged("a", lambda path: np.save(path / "reward.npy", np.array([None] * 23))),
        "reward.npy cannot be read",
    ),
    "choice that does not exist": (lambda folder: beyond_the_choices(folder), "action is 9 in row 1, which Discrete"),
}


def save_npy(folder: Path) -> Path:
    with (folder / "a.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    return folder / "a.npz"


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:150])


def beyond_the_choices(folder: Path) -> Path:
    dataset = count_up()
    dataset.action[1] = 9
    dataset.save(folder / "a.jsonl")
    return folder / "a.jsonl"


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_with_file_field_and_fix(name: str, tmp_path: Path) -> None:
    make_file, message = BROKEN[name]
    path = make_file(tmp_path)
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: {message}") as caught:
        Dataset.open(path)
    assert isinstance(caught.value, DatasetError)


@pytest.mark.parametrize("name", ["a.npz", "a.hdf5", "a.parquet", "a.jsonl", "a.minari", "a"])
def test_damage_anywhere_is_refused_or_harmless(name: str, tmp_path: Path) -> None:
    """Bytes are changed, cut off or left out at random: nothing but a `DatasetError` may come of it."""
    rng, path, dataset = random.Random(1), tmp_path / name, make("dict", "discrete", log_prob=True, extras=True)
    dataset.save(path)
    files = [file for file in (path, *sorted(path.rglob("*"))) if file.is_file()]
    for _ in range(60):
        file = rng.choice(files)
        good = file.read_bytes()
        at = rng.randrange(1, len(good))
        noise = bytes(rng.randrange(256) for _ in range(rng.choice([1, 4])))
        file.write_bytes(
            rng.choice([good[:at], good[: at - 1] + good[at + 40 :], good[:at] + noise + good[at + len(noise) :]])
        )
        try:
            opened = Dataset.open(path)
        except DatasetError:
            pass
        else:
            assert name == "a" or opened.sha256 == dataset.sha256
        file.write_bytes(good)


def test_there_are_enough_of_them() -> None:
    assert len(BROKEN) >= 20


def test_a_file_that_cannot_be_read_is_one_finding(tmp_path: Path) -> None:
    (found,) = lint(BROKEN["npz: reward shape"][0](tmp_path))
    assert (found.fault, found.severity) == ("unreadable", "error")
    assert "reward has rows of shape (1,)" in str(found)


def test_nothing_in_a_file_is_ever_executed(tmp_path: Path) -> None:
    """A pickle that would leave a trace if it were loaded, under every name that is read by NumPy."""
    trace = tmp_path / "trace"
    payload = b"cbuiltins\nopen\n(S'" + str(trace).encode() + b"'\nS'w'\ntR."
    (tmp_path / "a.npz").write_bytes(payload)
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as archive:
        for name in PLAIN:
            archive.writestr(f"{name}.npy", payload)
    make().save(tmp_path / "folder")
    (tmp_path / "folder" / "reward.npy").write_bytes(payload)
    for name in ("a.npz", "b.npz", "folder"):
        with pytest.raises(DatasetError):
            Dataset.open(tmp_path / name)
    assert not trace.exists()


def test_unchecked_opening_leaves_the_numbers_to_the_linter(tmp_path: Path) -> None:
    path = BROKEN["npz: NaN"][0](tmp_path)
    assert np.isnan(Dataset.open(path, check=False).obs).all()
    assert "not-finite" in [found.fault for found in lint(path)]
