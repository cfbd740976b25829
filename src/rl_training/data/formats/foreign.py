"""Functions that readers share: optional libraries, damaged files, and conventions of other writers."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np

from rl_training.data.columns import REQUIRED, DatasetError, Flat, leaves, map_arrays, tree_at
from rl_training.data.episodes import find_episodes
from rl_training.data.metadata import Metadata, Provenance

DAMAGE = (  # what libraries raise when bytes of a file are missing or wrong: found by changing them at random
    ValueError,
    OSError,
    EOFError,
    KeyError,
    TypeError,
    RuntimeError,
    SyntaxError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


@contextmanager
def reading(what: str, *more: type[Exception]) -> Iterator[None]:
    """Turns a library's errors inside the block into a DatasetError which says that `what` cannot be read.

    `more` are further types of errors to turn.
    """
    try:
        yield
    except DatasetError:
        raise
    except (*DAMAGE, *more) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise DatasetError(f"{what} cannot be read ({reason}): it is cut or damaged; get it again") from error


def library(module: str) -> ModuleType:
    """Imports and returns a module; raises a DatasetError with the install command if its package is missing."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise DatasetError(
            f"this format needs {package}, which is not installed: pip install 'rl-training[data]'"
        ) from error


def foreign_metadata(path: Path, ignored: tuple[str, ...]) -> Metadata:
    return Metadata(provenance=Provenance(source=path.name, ignored=ignored))


def ends_of(columns: Flat) -> np.ndarray:
    """Returns a mask [rows] of the last row of every episode, from the columns `terminated` and `truncated`.

    Raises a DatasetError if they are missing, differ in length or do not hold numbers.
    """
    for name in ("terminated", "truncated"):
        if name not in columns:
            raise DatasetError(f"{name} is missing: {REQUIRED[name]}")
        if columns[name].dtype.kind not in "biuf" or columns[name].ndim != 1 or not len(columns[name]):
            raise DatasetError(f"{name} is no column of true and false: store one per step")
    if len(columns["terminated"]) != len(columns["truncated"]):
        raise DatasetError("terminated and truncated differ in length: every column needs one row per step")
    ended = np.zeros(len(columns["terminated"]), bool)
    ended[find_episodes(columns["terminated"], columns["truncated"]).stop - 1] = True
    return ended


def without_unknown_successors(columns: Flat) -> Flat:
    """Returns columns without the last step of every cut episode, whose next observation is not in the file.

    D4RL's own reader does the same. The step's observation becomes the episode's `last_obs`, and the episode is now cut
    one step earlier; one of a single step is left out.
    """
    obs, ended = tree_at(columns, "obs"), ends_of(columns)
    assert obs is not None
    lengths = {name: len(column) for name, column in columns.items() if column.ndim and len(column) != len(ended)}
    if lengths:
        name, length = next(iter(lengths.items()))
        raise DatasetError(f"{name} has {length} rows and terminals {len(ended)}: every column needs one row per step")
    cut = ended & ~columns["terminated"].astype(bool)
    episodes = find_episodes(columns["terminated"], columns["truncated"])
    last = episodes.stop - 1
    remaining = last[~cut[last] | (episodes.length > 1)]
    truncated = columns["truncated"].astype(bool)
    truncated[last[cut[last] & (episodes.length > 1)] - 1] = True
    kept = {name: column[~cut] for name, column in (columns | {"truncated": truncated}).items()}
    return kept | leaves("last_obs", map_arrays(lambda column: column[remaining], obs))


def spread_last(columns: Flat) -> tuple[Flat, np.ndarray | None]:
    """Returns columns with `next_obs` in place of `last_obs`, and a mask of the rows (ends of episodes) that have it.

    Its other rows are 0. Returns the columns unchanged, and None, if there is no `last_obs`.
    """
    last = tree_at(columns, "last_obs")
    if last is None:
        return columns, None
    ended = ends_of(columns)

    def spread(column: np.ndarray) -> np.ndarray:
        spread = np.zeros((len(ended), *column.shape[1:]), column.dtype)
        spread[ended] = column
        return spread

    kept = {name: column for name, column in columns.items() if name.partition("/")[0] != "last_obs"}
    return kept | leaves("next_obs", map_arrays(spread, last)), ended


def gather_last(columns: Flat, present: np.ndarray, metadata: Metadata) -> Flat:
    """Returns columns with `next_obs`, of which the file has only the last row of each episode, named `last_obs`.

    `present` [rows] says in which rows it is. Returns the columns unchanged if these are all rows; if all episodes have
    one step, the metadata decide. Raises a DatasetError for any other rows.
    """
    stored = present.all() and not any(name.startswith("last_obs") for name in metadata.dtypes)
    if stored or not any(map(is_successor, columns)):
        return columns
    ended = ends_of(columns)
    if len(ended) != len(present) or (ended != present).any():
        wrong = np.flatnonzero(ended != present)[0] if len(ended) == len(present) else 0
        raise DatasetError(
            f"next_obs is {'missing' if ended[wrong] else 'given'} in row {wrong}: "
            "give it in every row, or in exactly the last row of every episode"
        )
    return {f"last_obs{n.removeprefix('next_obs')}" if is_successor(n) else n: c for n, c in columns.items()}


def is_successor(name: str) -> bool:
    return name.partition("/")[0] == "next_obs"
