"""Minari's local folders: metadata.json, and one group (HDF5) or folder (Arrow, Parquet) per episode.

Observations have one row more than the episode has steps. Written is the HDF5 kind; `infos` holds what Minari has no
column for. Read without the minari package.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rl_training.core import Dict, Space, Spec
from rl_training.data.columns import Arrays, DatasetError, Flat, leaves, map_arrays
from rl_training.data.episodes import find_episodes
from rl_training.data.formats.foreign import library, reading
from rl_training.data.formats.hdf5_file import new_hdf5
from rl_training.data.formats.minari_spaces import space_from_minari, space_to_minari
from rl_training.data.formats.parquet import to_array
from rl_training.data.metadata import Metadata, Provenance, Table
from rl_training.data.reference_scores import ReferenceScore

if TYPE_CHECKING:
    import h5py
    import pyarrow as pa

FLAGS = {"reward": "rewards", "terminated": "terminations", "truncated": "truncations"}
MAIN_FILE = "main_data.hdf5"
KEPT = ("log_prob", "extras")  # columns that are written into `infos`
LAYOUT = "0.5.0"  # the version of Minari whose layout is written


def read(path: Path) -> Table:
    folder = path / "data" if (path / "data").is_dir() else path
    record = read_record(folder)
    spec = read_spec(record)
    episodes = list(READERS[data_format(record)](folder, spec, record["total_episodes"]))
    if not episodes:
        raise DatasetError("total_episodes is 0: the dataset has no episodes to learn from")
    check_alike(episodes)
    columns = {name: np.concatenate([episode[name] for episode in episodes]) for name in episodes[0]}
    return Table(columns, describe(path, record, spec))


def check_alike(episodes: list[Flat]) -> None:
    first = {name: column.shape[1:] for name, column in episodes[0].items()}
    for number, episode in enumerate(episodes):
        shapes = {name: column.shape[1:] for name, column in episode.items()}
        odd = next((name for name in first | shapes if first.get(name) != shapes.get(name)), None)
        if odd is not None:
            raise DatasetError(
                f"{odd} of episode {number} is not like that of episode 0: give all the same columns and shapes"
            )


def read_record(folder: Path) -> dict:
    file = folder / "metadata.json"
    if not file.exists():
        raise DatasetError(
            "metadata.json is missing: this is no Minari dataset; name the folder that holds it, or copy it again"
        )
    with reading("metadata.json"):
        record = json.loads(file.read_bytes())
    if not isinstance(record, dict) or not isinstance(record.get("total_episodes"), int):
        raise DatasetError("metadata.json has no total_episodes: it is not Minari's; copy the dataset again")
    return record


def data_format(record: dict) -> str:
    name = record.get("data_format", "hdf5")
    if name not in READERS:
        raise DatasetError(f"data_format is {name!r}: {', '.join(READERS)} can be read; write it anew with one of them")
    return name


def read_spec(record: dict) -> Spec | None:
    """Returns the spaces in Minari's metadata.

    Returns None if they are absent, because no environment is built to find them.
    """
    if "observation_space" not in record or "action_space" not in record:
        return None
    with reading("metadata.json"):
        return Spec(read_space(record["observation_space"]), read_space(record["action_space"]))


def read_space(record: str | dict) -> Space:
    return space_from_minari(json.loads(record) if isinstance(record, str) else record)


def describe(path: Path, record: dict, spec: Spec | None) -> Metadata:
    if "rl_training" in record:
        ours = Metadata.from_json(record["rl_training"])
        grown = record.get("total_steps") != ours.rows  # Minari's own tools have added episodes
        return replace(ours, rows=None, sha256=None) if grown else ours
    with reading("metadata.json"):
        env = json.loads(record["env_spec"]) if isinstance(record.get("env_spec"), str) else {}
    scores = [score for side in ("min", "max") if (score := record.get(f"ref_{side}_score")) is not None]
    provenance = Provenance(
        source=record.get("dataset_id") or path.name,
        env_id=env.get("id"),
        method=record.get("algorithm_name"),
        versions={"minari": record["minari_version"]} if "minari_version" in record else {},
    )
    return Metadata(spec, provenance, ReferenceScore(*scores, source="Minari") if len(scores) == 2 else None)


def read_hdf5(folder: Path, spec: Spec | None, num: int) -> Iterator[Flat]:
    h5py = library("h5py")
    file_path = folder / MAIN_FILE
    if not file_path.exists():
        raise DatasetError(f"{MAIN_FILE} is missing: copy the dataset again")
    with reading(MAIN_FILE), h5py.File(file_path, "r") as file:
        for number in range(num):
            if f"episode_{number}" not in file:
                raise DatasetError(f"episode_{number} is missing in {MAIN_FILE}: the file was cut; copy it again")
            yield read_group(file[f"episode_{number}"], number)


def read_group(group: h5py.Group, number: int) -> Flat:
    absent = next((n for n in ("observations", "actions", *FLAGS.values()) if n not in group), None)
    if absent is not None:
        raise DatasetError(f"{absent} is missing in episode {number}: write the dataset again with Minari")
    infos = group["infos"] if "infos" in group and hasattr(group["infos"], "keys") else {}
    kept = {name: np.asarray(infos[name][()]) for name in flat_names(infos) if name.partition("/")[0] in KEPT}
    flags = {ours: np.asarray(group[theirs][()]) for ours, theirs in FLAGS.items()}
    return assemble(number, read_tree(group["observations"]), read_tree(group["actions"]), flags | kept)


def read_tree(item: h5py.Group | h5py.Dataset) -> Arrays:
    if hasattr(item, "keys"):
        return {key: np.asarray(item[key][()]) for key in item}
    return np.asarray(item[()])


def flat_names(infos: h5py.Group | dict) -> list[str]:
    names = list(infos)
    return [n for n in names if n != "extras"] + ([f"extras/{n}" for n in infos["extras"]] if "extras" in names else [])


def assemble(number: int, observed: Arrays, action: Arrays, others: Flat) -> Flat:
    """Returns the columns of episode `number` by names such as `obs`, `obs/position` and `reward`.

    `observed` has one row more than the others: raises a DatasetError if the numbers of rows do not fit. An episode
    that stops without a flag is marked as truncated.
    """
    steps = len(others["reward"])
    rows = {"observations": len(next(iter(leaves("", observed).values()))) - 1}
    rows |= {name: len(column) for name, column in (leaves("actions", action) | others).items()}
    wrong = next((name for name, length in rows.items() if length != steps), None)
    if wrong is not None or isinstance(action, dict) or steps == 0:
        raise DatasetError(
            f"episode {number} has {steps} rewards, and {wrong or 'actions'} do not fit: it needs one action, reward and flag "
            "per step and one observation more"
        )
    truncated = others["truncated"].astype(bool)
    truncated[-1] |= not others["terminated"][-1]
    return (
        leaves("obs", map_arrays(lambda column: column[:-1], observed))
        | leaves("last_obs", map_arrays(lambda column: column[-1:], observed))
        | {"action": action}
        | others
        | {"truncated": truncated}
    )


def read_arrow(folder: Path, spec: Spec | None, num: int) -> Iterator[Flat]:
    """Yields the columns of each episode, with one row per step, from its folder of Arrow or Parquet files.

    The files' last row becomes `last_obs`. Raises a DatasetError if a file or column is missing, or `spec` is None.
    """
    if spec is None:
        raise DatasetError("observation_space is missing in metadata.json: write the dataset again with Minari 0.5")
    for number in range(num):
        files = sorted(file for file in (folder / str(number)).glob("*") if file.suffix in (".arrow", ".parquet"))
        if not files:
            raise DatasetError(f"episode {number} has no file in {folder.name}/{number}: copy the dataset again")
        table = library("pyarrow").concat_tables([open_table(file) for file in files])
        absent = next((n for n in ("observations", "actions", *FLAGS.values()) if n not in table.column_names), None)
        if absent is not None or not table.num_rows:
            raise DatasetError(
                f"{absent or 'reward'} is missing in episode {number}: write the dataset again with Minari"
            )
        steps = table.slice(0, table.num_rows - 1)
        flags = {ours: join_numbers(theirs, steps.column(theirs).chunks) for ours, theirs in FLAGS.items()}
        action = shaped(join_numbers("actions", steps.column("actions").chunks), spec.action)
        yield assemble(number, arrow_tree(table.column("observations").chunks, spec), action, flags)


def arrow_tree(parts: list[pa.Array], spec: Spec) -> Arrays:
    if not isinstance(spec.obs, Dict):
        return shaped(join_numbers("observations", parts), spec.obs)
    return {
        key: shaped(join_numbers(f"observations/{key}", [part.field(key) for part in parts]), space)
        for key, space in spec.obs.spaces.items()
    }


def join_numbers(name: str, parts: list[pa.Array]) -> np.ndarray:
    return np.concatenate([to_array(name, part) for part in parts]) if parts else np.empty(0)


def shaped(column: np.ndarray, space: object) -> np.ndarray:
    shape = getattr(space, "shape", None)
    return column if shape is None or column.ndim == 1 else column.reshape(len(column), *shape)


def open_table(path: Path) -> pa.Table:
    arrow = library("pyarrow")
    try:
        if path.suffix == ".parquet":
            return library("pyarrow.parquet").ParquetFile(path).read()
        with library("pyarrow.ipc").open_file(path) as reader:
            return reader.read_all()
    except (arrow.ArrowException, OSError) as error:
        raise DatasetError(
            f"{path.parent.name}/{path.name} cannot be read ({error}): copy the dataset again"
        ) from error


READERS: dict[str, Callable[[Path, Spec | None, int], Iterator[Flat]]] = {
    "hdf5": read_hdf5,
    "arrow": read_arrow,
    "parquet": read_arrow,
}


def write(path: Path, table: Table) -> None:
    columns, metadata = table.columns, table.metadata
    episodes = find_episodes(columns["terminated"], columns["truncated"])
    assert metadata.spec is not None
    (path / "data").mkdir(parents=True)
    with new_hdf5(path / "data" / MAIN_FILE, track_order=True) as file:
        for number, (start, stop) in enumerate(zip(*episodes, strict=True)):
            group = file.create_group(f"episode_{number}")
            group.attrs.update({"id": number, "total_steps": int(stop - start)})
            write_group(group, columns, slice(start, stop), number)
    record = {
        "dataset_id": path.name,
        "total_episodes": len(episodes.stop),
        "total_steps": len(columns["reward"]),
        "data_format": "hdf5",
        "observation_space": json.dumps(space_to_minari(metadata.spec.obs)),
        "action_space": json.dumps(space_to_minari(metadata.spec.action)),
        "minari_version": LAYOUT,
        "rl_training": metadata.to_json(),
    }
    if metadata.reference is not None:
        record |= {"ref_min_score": metadata.reference.minimum, "ref_max_score": metadata.reference.maximum}
    (path / "data" / "metadata.json").write_text(json.dumps(record), encoding="utf-8")


def write_group(group: h5py.Group, columns: Flat, rows: slice, number: int) -> None:
    for name, column in columns.items():
        head, slash, tail = name.partition("/")
        if head == "obs":
            last = columns[f"last_obs{slash}{tail}"][number : number + 1]
            group.create_dataset(f"observations{slash}{tail}", data=np.concatenate([column[rows], last]))
        elif head in KEPT:
            group.create_dataset(f"infos/{name}", data=column[rows])
        elif head != "last_obs":
            group.create_dataset(FLAGS.get(head, "actions"), data=column[rows])
