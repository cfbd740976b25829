"""The stored runs: one JSON per cell and seed, written by `learning.py` and by the peers."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path

Record = dict  # of one run


def seed_file(folder: Path, cell: str, seed: int) -> Path:
    return folder / cell / f"seed{seed}.json"


def read_json(path: Path) -> dict:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}): delete it, or choose another folder") from error


def read_cell(folder: Path, cell: str) -> list[Record]:
    """Returns the stored runs of a cell, in the order of their files' names; raises ValueError if one is damaged."""
    return [read_json(path) for path in sorted((folder / cell).glob("seed*.json"))]


def stored_cells(folder: Path) -> list[str]:
    return sorted({path.parent.name for path in folder.glob("*/seed*.json")}) if folder.is_dir() else []


def scores_of(records: list[Record]) -> list[float]:
    return [record["score"] for record in records]


def mean_training_return(records: list[Record]) -> float:
    """Returns the mean return of each run's last 100 training episodes; NaN if all learned from data alone."""
    found = [r["training_return_last_100"] for r in records if r["training_return_last_100"] is not None]
    return statistics.fmean(found) if found else math.nan


def environment_of(record: Record) -> str:
    return record["config"]["env"]["id"] if "config" in record else record["settings"]["env"]
