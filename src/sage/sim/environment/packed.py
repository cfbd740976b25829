"""Compiled tasks as arrays, in one file: tables for the dynamics, and edits for a live environment."""

from __future__ import annotations

import hashlib
import json
import statistics
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from sage.files import FileReadError, replacing
from sage.sim.environment.rules import NUM_TASK_FEATURES
from sage.sim.environment.suspects import LOOKS, NUM_KINDS, NUM_SLOTS, NUM_VARIANTS, SYNTAX, Slot
from sage.sim.environment.tables import NUM_NODES, Node, Table
from sage.sim.tasks.mutations import Edit

FORMAT = 2
SHIPPED = Path(__file__).parents[1] / "assets" / "sim_tables.npz"  # of the manifest that comes with the package
MEAN_LEVEL = 1.6  # of the tasks that are shipped


@dataclass(frozen=True)
class Packed:
    """Compiled tasks as arrays with one row per task."""

    ids: tuple[str, ...]
    splits: tuple[str, ...]
    features: np.ndarray  # [tasks, features]
    looks: np.ndarray  # [tasks, slots, looks]
    syntax: np.ndarray  # [tasks, slots, syntax]
    gains: np.ndarray  # [tasks, slots, kinds, variants], how much more usual an edit makes the program
    result: np.ndarray  # [tasks, nodes, slots, kinds, variants], -1: nothing to try
    leads: np.ndarray  # the same, the node that a trial leads to
    failing: np.ndarray  # [tasks, nodes + 1], share of the tests that failed at first; the last is a correct patch
    passes: np.ndarray  # [tasks, nodes + 1]
    solves: np.ndarray  # [tasks, nodes + 1]
    kept: np.ndarray  # [tasks, nodes + 1, kinds], how many edits of each kind a node has
    plausible: np.ndarray  # [tasks], a node that passes but does not solve; 0: none
    difficulty: np.ndarray  # [tasks], for models

    def __len__(self) -> int:
        return len(self.ids)

    def of_split(self, *names: str) -> Packed:
        """Returns the tasks of the named splits; raises ValueError if there are none."""
        chosen = np.flatnonzero([split in names for split in self.splits])
        if not len(chosen):
            raise ValueError(
                f"no compiled task is of the split {' or '.join(names)}: there are {sorted(set(self.splits))}"
            )
        return self.chosen(chosen)

    def chosen(self, rows: Sequence[int] | np.ndarray) -> Packed:
        arrays = {name: value[rows] for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return Packed(ids=tuple(self.ids[i] for i in rows), splits=tuple(self.splits[i] for i in rows), **arrays)


def difficulty_of(table: Table) -> float:
    """Returns an invented difficulty for the simulated models: by the task's level, more if no trial repairs it, and a
    fixed draw by its name."""
    number = int.from_bytes(hashlib.sha256(table.id.encode()).digest()[:6], "big")
    drawn = statistics.NormalDist().inv_cdf((number + 0.5) / 2**48)
    solvable = any(node.solves for node in table.nodes)
    return 0.5 * (table.level - MEAN_LEVEL) + (0.0 if solvable else 0.5) + 0.8 * drawn


def packed(tables: Sequence[Table]) -> Packed:
    """Returns tables as arrays."""
    count = len(tables)
    shape = (count, NUM_NODES, NUM_SLOTS, NUM_KINDS, NUM_VARIANTS)
    found = Packed(
        ids=tuple(table.id for table in tables),
        splits=tuple(table.split for table in tables),
        features=np.zeros((count, NUM_TASK_FEATURES), np.float32),
        looks=np.zeros((count, NUM_SLOTS, len(LOOKS)), np.float32),
        syntax=np.zeros((count, NUM_SLOTS, len(SYNTAX)), np.float32),
        gains=np.zeros((count, NUM_SLOTS, NUM_KINDS, NUM_VARIANTS), np.float16),
        result=np.full(shape, -1, np.int8),
        leads=np.zeros(shape, np.int8),
        failing=np.ones((count, NUM_NODES + 1), np.float32),
        passes=np.zeros((count, NUM_NODES + 1), bool),
        solves=np.zeros((count, NUM_NODES + 1), bool),
        kept=np.zeros((count, NUM_NODES + 1, NUM_KINDS), np.float32),
        plausible=np.array([table.plausible for table in tables], np.int64),
        difficulty=np.array([difficulty_of(table) for table in tables], np.float32),
    )
    for i, table in enumerate(tables):
        found.features[i] = table.features
        for s, slot in enumerate(table.slots):
            found.looks[i, s], found.syntax[i, s] = slot.looks, slot.syntax
            for k, gains in enumerate(slot.gains):
                found.gains[i, s, k, : len(gains)] = gains
        for n, node in enumerate(table.nodes):
            found.result[i, n], found.leads[i, n] = node.result, node.leads
            found.failing[i, n] = node.failing / table.num_failing
            found.passes[i, n], found.solves[i, n] = node.passes, node.solves
            for _, kind, _ in node.places:
                found.kept[i, n, kind] += 1
        found.failing[i, -1], found.passes[i, -1], found.solves[i, -1] = 0.0, True, True
    return found


def save(path: Path, tables: Sequence[Table]) -> None:
    """Writes tables with their edits to one file, without pickles."""
    rows = [
        {
            "id": t.id,
            "split": t.split,
            "level": t.level,
            "num_failing": t.num_failing,
            "plausible": t.plausible,
            "slots": [asdict(slot) for slot in t.slots],
            "nodes": [(node.places, node.failing, node.passes, node.solves) for node in t.nodes],
        }
        for t in tables
    ]
    text = np.frombuffer(json.dumps({"format": FORMAT, "tables": rows}).encode(), np.uint8)
    arrays = packed(tables)
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, text=text, features=arrays.features, result=arrays.result, leads=arrays.leads)


@contextmanager
def opened(path: Path) -> Iterator[np.lib.npyio.NpzFile]:
    """Opens the arrays of a file; raises FileReadError if there is no file or it has no compiled tasks."""
    if not path.is_file():
        raise FileReadError(f"{path}: there is no such file: make it with `sage sim compile`")
    try:
        if not zipfile.is_zipfile(path):  # numpy would take it for a pickle
            raise ValueError("not a whole .npz file")
        with np.load(path, allow_pickle=False) as file:
            yield file
    except (KeyError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise FileReadError(f"{path} has no compiled tasks ({error}): make it with `sage sim compile`") from error


def load(path: Path) -> list[Table]:
    """Returns the compiled tables in a file, with their edits; raises FileReadError if the file has none."""
    with opened(path) as file:
        values = json.loads(file["text"].tobytes())
        if values["format"] != FORMAT:
            raise ValueError("another format")
        arrays = {name: file[name] for name in ("features", "result", "leads")}
        return [table_of(row, arrays, i) for i, row in enumerate(values["tables"])]


def save_packed(path: Path, tasks: Packed) -> None:
    """Writes the arrays alone, without the edits: enough to learn from, and nothing of anybody's program."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **{name: np.asarray(value) for name, value in vars(tasks).items()})  # pyrefly: ignore (no field is called so)


def load_packed(path: Path) -> Packed:
    """Returns the arrays of a file with or without edits; raises FileReadError if it has no compiled tasks."""
    with opened(path) as file:
        if "ids" in file.files:
            arrays = {name: file[name] for name in file.files}
            ids, splits = (tuple(arrays.pop(name).tolist()) for name in ("ids", "splits"))
            return Packed(ids=ids, splits=splits, **arrays)
    return packed(load(path))


def table_of(row: dict, arrays: dict[str, np.ndarray], i: int) -> Table:
    slots = [
        Slot(
            slot["path"],
            slot["line"],
            tuple(slot["looks"]),
            tuple(slot["syntax"]),
            tuple(tuple(Edit(**edit) for edit in edits) for edits in slot["repairs"]),
            tuple(map(tuple, slot["gains"])),
        )
        for slot in row["slots"]
    ]
    nodes = [
        Node(
            tuple((s, k, v) for s, k, v in places),
            failing,
            passes,
            solves,
            arrays["result"][i, n],
            arrays["leads"][i, n],
        )
        for n, (places, failing, passes, solves) in enumerate(row["nodes"])
    ]
    return Table(
        row["id"], row["split"], row["level"], arrays["features"][i], slots, nodes, row["num_failing"], row["plausible"]
    )
