"""The stored runs: one JSON per cell and seed, written by `learning.py` and by the peers."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path

from rl_training.config.score_protocol import unlike

Record = dict  # of one run


def seed_file(folder: Path, cell: str, seed: int) -> Path:
    return folder / cell / f"seed{seed}.json"


def read_json(path: Path) -> dict:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}): delete it, or choose another folder") from error


def read_cell(folder: Path, cell: str) -> list[Record]:
    """Returns the stored runs of a benchmark cell, one dict each, sorted by file; raises ValueError if one is damaged.

    Without runs, the list is empty.
    """
    return [read_json(path) for path in sorted((folder / cell).glob("seed*.json"))]


def stored_cells(folder: Path) -> list[str]:
    return sorted({path.parent.name for path in folder.glob("*/seed*.json")}) if folder.is_dir() else []


def check_one_protocol(cell: str, records: list[Record]) -> None:
    """Raises ValueError if the stored runs of a benchmark cell were scored by unlike protocols."""
    for record in records[1:]:
        differences = unlike(records[0].get("protocol", {}), record.get("protocol", {}))
        if differences:
            raise ValueError(
                f"the runs of {cell} have unlike protocols and no common mean: {'; '.join(differences)} (seeds "
                f"{records[0].get('seed')} and {record.get('seed')}): run one of them again, or move it to another folder"
            )


def scores_of(records: list[Record]) -> list[float]:
    return [record["score"] for record in records]


def mean_training_return(records: list[Record]) -> float:
    """Returns the mean of the runs' mean returns in their last 100 training episodes.

    Runs that learned from data alone have none; the result is NaN if all did.
    """
    found = [r["training_return_last_100"] for r in records if r["training_return_last_100"] is not None]
    return statistics.fmean(found) if found else math.nan


def environment_of(record: Record) -> str:
    return record["config"]["env"]["id"] if "config" in record else record["settings"]["env"]
