"""What is written comes back bit by bit, in every format, and what others wrote is understood."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from rl_training.core import Box, Dict, Discrete, Spec
from rl_training.data import Dataset, DatasetError, convert, files, info
from rl_training.data.columns import flatten
from rl_training.data.formats.minari_spaces import space_from_minari, space_to_minari
from rl_training.data.values import content_hash
from tests import needs
from tests.data.making import ACTIONS, SPACES, count_up, make

h5py = needs.import_package("h5py")
pa = needs.import_package("pyarrow")
pq = needs.import_package("pyarrow.parquet")

NAMES = ("data.npz", "data.hdf5", "data.h5", "data.parquet", "data.jsonl", "data.minari", "data")
ROW_FORMATS = tuple(name for name in NAMES if name != "data.minari")
KINDS = {
    "box": make(),
    "dict": make("dict", "discrete", log_prob=True, extras=True),
    "image": make("image", "several"),
    "discrete": make("discrete", "bits", log_prob=True),
    "shifted": make("box", "shifted"),
    "one step": make(lengths=(1,), terminated=(False,)),
}


def assert_same(a: Dataset, b: Dataset) -> None:
    mine, other = flatten(a.columns), flatten(b.columns)
    assert mine.keys() == other.keys()
    for name, column in mine.items():
        assert column.dtype == other[name].dtype, name
        assert column.shape == other[name].shape, name
        assert column.tobytes() == np.ascontiguousarray(other[name]).tobytes(), name
    assert (a.spec, a.provenance, a.reference, a.sha256) == (b.spec, b.provenance, b.reference, b.sha256)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_a_round_trip_changes_no_bit(name: str, kind: str, tmp_path: Path) -> None:
    KINDS[kind].save(tmp_path / name)
    assert_same(KINDS[kind], Dataset.open(tmp_path / name))
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ROW_FORMATS)
def test_stored_successors_come_back(name: str, tmp_path: Path) -> None:
    dataset = make("dict", "discrete", stored=True)
    dataset.save(tmp_path / name)
    assert_same(dataset, Dataset.open(tmp_path / name))


def test_minari_stores_every_observation_once(tmp_path: Path) -> None:
    make("dict", "discrete", stored=True).save(tmp_path / "x.minari")
    assert_same(make("dict", "discrete"), Dataset.open(tmp_path / "x.minari"))


def test_minari_marks_an_open_end_and_may_grow(tmp_path: Path) -> None:
    dataset = make()
    dataset.truncated[-1] = False
    dataset.save(tmp_path / "x.minari")
    assert Dataset.open(tmp_path / "x.minari").truncated[-1]
    file, record = tmp_path / "x.minari" / "data", {}
    with h5py.File(file / "main_data.hdf5", "a") as data:  # as Minari's own tools add an episode
        data.copy("episode_0", "episode_4")
    record = json.loads((file / "metadata.json").read_text()) | {"total_episodes": 5, "total_steps": 27}
    (file / "metadata.json").write_text(json.dumps(record))
    assert len(Dataset.open(tmp_path / "x.minari")) == 27


def test_unusual_numbers_come_back(tmp_path: Path) -> None:
    dataset = make(log_prob=True)
    dataset.log_prob[:3] = np.nan
    dataset.reward[:4] = [-0.0, 1e-45, 3.4e38, np.float32(0.1)]
    for name in NAMES:
        dataset.save(tmp_path / name)
        assert_same(dataset, Dataset.open(tmp_path / name))


def test_convert_and_info_through_all_formats(tmp_path: Path) -> None:
    dataset = make("dict", "discrete", log_prob=True, extras=True)
    dataset.save(tmp_path / NAMES[-1])
    path = tmp_path / NAMES[-1]
    for name in NAMES[:-1]:
        convert(path, tmp_path / name)
        path = tmp_path / name
    assert_same(dataset, Dataset.open(path))
    report = json.loads(json.dumps(info(path)))
    assert (report["format"], report["rows"], report["episodes"]) == ("minari", 23, 4)
    assert report["sha256"] == dataset.sha256
    assert report["provenance"]["env_id"] == "Test-v0"
    assert report["normalized_score"] == pytest.approx(dataset.normalized_score())
    assert info(tmp_path / "data")["format"] == "folder"
    assert report["statistics"]["returns"]["mean"] == pytest.approx([dataset.returns.mean()])


def test_overwriting_is_complete_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = count_up()
    for name in ("data.npz", "data", "data.minari"):
        path = tmp_path / name
        old.save(path)
        count_up((4, 4)).save(path)
        assert len(Dataset.open(path)) == 8
        with monkeypatch.context() as broken:
            broken.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left on device")))
            with pytest.raises(DatasetError, match=r"could not be written \(No space left on device\): free space"):
                old.save(path)
        assert len(Dataset.open(path)) == 8
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "data.minari", "data.npz"]
    (tmp_path / "mine").mkdir()
    with pytest.raises(DatasetError, match="mine is a folder without a dataset"):
        old.save(tmp_path / "mine")
    with pytest.raises(DatasetError, match=r"the suffix '\.csv' is not known"):
        old.save(tmp_path / "a.csv")


def test_a_folder_comes_back_if_it_cannot_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count_up().save(tmp_path / "data")

    def fail(path: Path, target: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "replace", fail)
    monkeypatch.setattr(files, "swap", lambda a, b: False)
    with pytest.raises(DatasetError, match="could not be written"):
        count_up((4, 4)).save(tmp_path / "data")
    assert len(Dataset.open(tmp_path / "data")) == 5
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_the_sha256_is_of_names_types_and_shapes_too() -> None:
    zeros = np.zeros(4, np.float32)
    others = [
        {"a": zeros},
        {"b": zeros},
        {"a": zeros.reshape(2, 2)},
        {"a": zeros.view(np.int32)},
        {"a": zeros[:2], "b": zeros[2:]},
    ]
    assert len({content_hash(columns) for columns in others}) == len(others)


def test_a_mapped_dataset_can_be_saved_over_itself(tmp_path: Path) -> None:
    make().save(tmp_path / "data")
    dataset = Dataset.open(tmp_path / "data")
    dataset.save(tmp_path / "data")
    assert_same(make(), Dataset.open(tmp_path / "data"))


@pytest.mark.parametrize(("name", "package"), [("a.parquet", "pyarrow"), ("a.hdf5", "h5py"), ("a.minari", "h5py")])
def test_a_missing_library_is_named_with_its_extra(name, package, tmp_path, monkeypatch) -> None:
    make().save(tmp_path / name)
    monkeypatch.setitem(sys.modules, package, None)
    message = rf"needs {package}, which is not installed: pip install 'rl-training\[data\]'"
    with pytest.raises(DatasetError, match=message):
        Dataset.open(tmp_path / name)
    with pytest.raises(DatasetError, match=message):
        make().save(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def d4rl_file(path: Path, **changes: np.ndarray) -> Path:
    """Three episodes of D4RL: terminated after 3, cut after 3, and 2 steps that just stop."""
    arrays = {
        "observations": np.arange(8, dtype=np.float32)[:, None],
        "actions": np.linspace(-1, 1, 16, dtype=np.float32).reshape(8, 2),
        "rewards": np.arange(8, dtype=np.float32),
        "terminals": np.array([0, 0, 1, 0, 0, 0, 0, 0], bool),
        "timeouts": np.array([0, 0, 0, 0, 0, 1, 0, 0], bool),
        "infos/action_log_probs": -np.arange(8, dtype=np.float32),
        "infos/qpos": np.zeros((8, 3)),
        "metadata/policy/weight": np.zeros(3),
    }
    with h5py.File(path, "w") as file:
        for name, array in (arrays | changes).items():
            file.create_dataset(name, data=array)
    return path


def test_d4rl_without_successors_loses_the_last_step_of_cut_episodes(tmp_path: Path) -> None:
    dataset = Dataset.open(d4rl_file(tmp_path / "d4rl.hdf5"))
    assert dataset.obs[:, 0].tolist() == [0, 1, 2, 3, 4, 6]
    assert dataset.terminated.tolist() == [False, False, True, False, False, False]
    assert dataset.truncated.tolist() == [False, False, False, False, True, True]
    assert dataset.successors(np.arange(6))[:, 0].tolist() == [1, 2, 2, 4, 5, 7]  # after a terminal: never looked at
    assert dataset.log_prob.tolist() == [0, -1, -2, -3, -4, -6]
    assert dataset.provenance.ignored == ("infos/qpos", "metadata/policy/weight")
    assert dataset.provenance.spec_inferred
    assert dataset.spec.action == Box((2,), (-1.0, -1.0), (1.0, 1.0))


def test_d4rl_with_successors_keeps_every_step(tmp_path: Path) -> None:
    after = np.arange(1, 9, dtype=np.float32)[:, None]
    dataset = Dataset.open(d4rl_file(tmp_path / "d4rl.hdf5", next_observations=after))
    assert len(dataset) == 8
    assert dataset.successors(np.array([5]))[0, 0] == 6


def test_a_cut_episode_of_one_step_vanishes(tmp_path: Path) -> None:
    cuts = np.array([1, 0, 0, 0, 0, 1, 0, 0], bool)
    dataset = Dataset.open(d4rl_file(tmp_path / "d4rl.hdf5", timeouts=cuts))
    assert dataset.obs[:, 0].tolist() == [1, 2, 3, 4, 6]
    assert dataset.episodes().stop.tolist() == [2, 4, 5]


def test_a_spec_can_be_given(tmp_path: Path) -> None:
    spec = Spec(Box((1,), (-9.0,), (9.0,)), Box((2,), (-2.0, -2.0), (2.0, 2.0)))
    dataset = Dataset.open(d4rl_file(tmp_path / "d4rl.hdf5"), spec=spec)
    assert dataset.spec == spec
    assert not dataset.provenance.spec_inferred
    Dataset.open(tmp_path / "d4rl.hdf5").save(tmp_path / "guessed.npz")
    assert Dataset.open(tmp_path / "guessed.npz").provenance.spec_inferred
    again = Dataset.open(tmp_path / "guessed.npz", spec=spec)
    assert (again.spec, again.provenance.spec_inferred) == (spec, False)
    other = Spec(Box((1,), (-9.0,), (9.0,), "int64"), spec.action)  # converted after the sha256 was compared
    assert Dataset.open(tmp_path / "guessed.npz", spec=other).obs.dtype == np.int64


def test_foreign_parquet(tmp_path: Path) -> None:
    said = {"env_id": "Hopper-v5", "mujoco": "3.11.0", "note": "by hand", "action_units": "environment"}
    table = pa.table(
        {
            "obs": pa.array([[0.0, 1.0], [2.0, 3.0]]),
            "action": pa.array([[0.5], [-0.5]]),
            "reward": pa.array([1.0, 2.0]),
            "next_obs": pa.array([[2.0, 3.0], [9.0, 9.0]]),
            "terminated": pa.array([False, False]),
            "truncated": pa.array([False, True]),
            "episode": pa.array(["a", "a"]),
        }
    )
    pq.write_table(table.replace_schema_metadata({"dataset": json.dumps(said)}), tmp_path / "hopper.parquet")
    dataset = Dataset.open(tmp_path / "hopper.parquet")
    assert dataset.take(np.array([1])).next_obs.tolist() == [[9, 9]]
    provenance = dataset.provenance
    assert (provenance.env_id, provenance.method, provenance.source) == ("Hopper-v5", "by hand", "hopper.parquet")
    assert (provenance.versions, provenance.ignored) == ({"mujoco": "3.11.0"}, ("episode",))


def test_foreign_jsonl(tmp_path: Path) -> None:
    steps = [
        {"observations": [0.0], "actions": 1, "rewards": 1, "terminals": False, "timeouts": False},
        {
            "observations": [1.0],
            "actions": 0,
            "rewards": 1,
            "terminals": False,
            "timeouts": True,
            "next_observations": [5],
        },
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    dataset = Dataset.open(tmp_path / "a.jsonl")
    assert dataset.successors(np.arange(2)).tolist() == [[1], [5]]
    assert dataset.spec.action == Discrete(2)


def test_episodes_that_all_terminate_need_no_successors(tmp_path: Path) -> None:
    step = {"obs": [0.0], "action": 1, "reward": 1.0, "terminated": False, "truncated": False}
    steps = [step, step | {"terminated": True, "obs": [4.0]}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    pq.write_table(pa.Table.from_pylist(steps), tmp_path / "a.parquet")
    for name in ("a.jsonl", "a.parquet"):
        assert Dataset.open(tmp_path / name).successors(np.arange(2)).tolist() == [[4], [4]]


@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
def test_minari_folders_of_arrow_and_parquet(suffix: str, tmp_path: Path) -> None:
    """Written as Minari's Arrow storage does: a folder per episode, the last row padding but for its observation."""
    spec = Spec(SPACES["dict"], ACTIONS["discrete"])
    record = {
        "total_episodes": 2,
        "data_format": suffix,
        "observation_space": json.dumps(space_to_minari(spec.obs)),
        "action_space": json.dumps(space_to_minari(spec.action)),
        "env_spec": json.dumps({"id": "Maze-v0"}),
        "ref_min_score": 0.0,
        "ref_max_score": 2.0,
    }
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "metadata.json").write_text(json.dumps(record))
    for number, length in enumerate((3, 2)):
        folder = tmp_path / "data" / str(number)
        folder.mkdir()
        position = pa.array([[float(i), number] for i in range(length + 1)], pa.list_(pa.float32(), 2))
        grid, mask = pa.array(range(length + 1)), pa.array([[1, 0, 1, 1]] * (length + 1))
        table = pa.table(
            {
                "observations": pa.StructArray.from_arrays([position, grid, mask], ["position", "grid", "action_mask"]),
                "actions": pa.array([1] * length + [0], pa.int32()),
                "rewards": pa.array([1.0] * length + [0.0]),
                "terminations": pa.array([False] * (length - 1) + [number == 0, False]),
                "truncations": pa.array([False] * (length + 1)),
            }
        )
        if suffix == "parquet":
            pq.write_table(table, folder / "part-0.parquet")
        else:
            with pa.ipc.new_file(folder / "part-0.arrow", table.schema) as file:
                file.write_table(table)
    dataset = Dataset.open(tmp_path)
    assert dataset.spec == spec
    assert dataset.obs["grid"].tolist() == [0, 1, 2, 0, 1]
    assert dataset.successors(np.arange(5))["position"][:, 0].tolist() == [1, 2, 3, 1, 2]
    assert dataset.action.tolist() == [1] * 5
    assert (dataset.terminated.tolist(), dataset.truncated.tolist()) == (
        [False, False, True, False, False],
        [False] * 4 + [True],
    )
    assert (dataset.provenance.env_id, dataset.normalized_score()) == ("Maze-v0", 125.0)


@pytest.mark.parametrize("space", [*SPACES.values(), *ACTIONS.values()], ids=str)
def test_minari_spaces(space) -> None:
    assert space_from_minari(json.loads(json.dumps(space_to_minari(space)))) == space


def test_minari_spaces_that_cannot_be_learned_from() -> None:
    with pytest.raises(DatasetError, match=r"the space 'Text' in metadata\.json is not supported"):
        space_from_minari({"type": "Dict", "subspaces": {"words": {"type": "Text"}}})
    assert isinstance(space_from_minari({"type": "Dict", "subspaces": {}}), Dict)


REAL = Path(__file__).parents[3] / "shared" / "data" / "offline"


@pytest.mark.skipif(not REAL.is_dir(), reason="needs real datasets: put them into ../shared/data/offline")
def test_real_data_made_without_this_package() -> None:
    dataset = Dataset.open(REAL / "hopper-v5-medium.parquet")
    assert (len(dataset), len(dataset.returns)) == (30_144, 122)
    assert (round(dataset.returns.mean()), dataset.provenance.env_id) == (801, "Hopper-v5")


def test_parquet_with_one_column_per_number(tmp_path) -> None:
    numbers = np.arange(24, dtype=np.float32).reshape(4, 6)
    columns = {f"obs_{number}": numbers[:, number] for number in reversed(range(3))}
    columns |= {f"next_observations_{number}": numbers[:, 3 + number] for number in range(3)}
    columns |= {"actions_0": np.array([0, 1, 1, 0]), "reward": np.ones(4), "truncated": np.zeros(4, bool)}
    columns |= {"terminated": np.arange(4) == 3, "step_7": np.zeros(4)}
    pq.write_table(pa.table(columns), tmp_path / "wide.parquet")
    data = Dataset.open(tmp_path / "wide.parquet")
    assert np.array_equal(data.obs, numbers[:, :3])
    assert np.array_equal(data.next_obs, numbers[:, 3:])
    assert data.spec.action == Discrete(2)
    assert data.provenance.ignored == ("step_7",)
    del columns["obs_1"]
    pq.write_table(pa.table(columns), tmp_path / "gap.parquet")
    with pytest.raises(DatasetError, match="obs_1 is missing, and obs_2 is there: number the columns from 0"):
        Dataset.open(tmp_path / "gap.parquet")
