"""Functions behind the command line's `data` commands."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from rl_training.core.arguments import checked_path
from rl_training.data.columns import flatten
from rl_training.data.dataset import Dataset
from rl_training.data.files import format_of


def info(path: str | Path) -> dict:
    """Returns a description of the dataset at `path`: sizes, format, columns, checksum, reference and `statistics`.

    All values are plain data; the spaces are under the key `spec`, the origin under `provenance`.
    """
    dataset = Dataset.open(path, check=False)
    return {
        "path": str(path),
        "format": format_of(checked_path(path, "path")),
        "rows": len(dataset),
        "episodes": len(dataset.returns),
        "successors": "stored" if dataset.next_obs is not None else "following row",
        "columns": {name: [c.dtype.name, *c.shape] for name, c in flatten(dataset.columns).items()},
        "bytes": sum(column.nbytes for column in flatten(dataset.columns).values()),
        "sha256": dataset.sha256,
        "spec": dataset.spec.to_json(),
        "provenance": asdict(dataset.provenance),
        "reference": None if dataset.reference is None else asdict(dataset.reference),
        "normalized_score": None if dataset.reference is None else dataset.normalized_score(),
        "statistics": asdict(dataset.statistics()),
    }


def convert(source: str | Path, target: str | Path) -> Dataset:
    """Reads the dataset at `source`, writes it to `target` in the format of that suffix, and returns it.

    A dataset at `target` is replaced. Raises a DatasetError if `source` cannot be read or `target` cannot be written.
    """
    target = checked_path(target, "target")
    dataset = Dataset.open(source)
    dataset.save(target)
    return dataset
