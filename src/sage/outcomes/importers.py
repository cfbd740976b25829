"""Import of published outcome packs and of plain CSV files as outcome tables."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sage.files import read_text
from sage.log.records import ROLES
from sage.outcomes.files import open_parquet
from sage.outcomes.table import OutcomeTable, OutcomeTableError

DEFAULT_ROLE = "coder"
CHARACTERS_PER_TOKEN = 4
ANSWER_TOKENS = 256  # a guess, the same for every model: only ratios of such costs mean anything
LONGEST_TEXT = 1 << 30  # characters
CSV_COLUMNS = ("task_id", "model", "score", "category", "cost_usd", "latency_s", "prompt", "role")


@dataclass(frozen=True)
class Pack:
    """A published file as it is known beforehand: licence, origin, columns and kind of costs."""

    licence: str
    provenance: str
    columns: tuple[str, ...]  # that it must have
    cost_kind: str


PACKS = {
    "swebench": Pack(
        "CC BY-NC 4.0", "SWE-bench Verified, mini-SWE-agent", ("category", "cost_usd", "prompt", "scaffold"), "measured"
    ),
    "routellm": Pack(
        "Apache-2.0", "RouteLLM: MMLU, GSM8K, MT-Bench", ("category", "cost_usd", "prompt", "cost_kind"), "estimate"
    ),
    "llmrouter": Pack(
        "MIT",
        "LLMRouter, 14 task types",
        ("category", "prompt", "price_in_per_mtok", "price_out_per_mtok"),
        "estimate",
    ),
    "livecodebench": Pack("CC BY-SA 4.0", "LiveCodeBench, four roles", ("category", "role", "contest_date"), "none"),
}
KINDS = (*PACKS, "csv")


def import_table(kind: str, path: str | Path, *, synthetic: bool = False) -> OutcomeTable:
    """Reads a file with one row per task, model and run as an outcome table; several runs are averaged.

    `kind` is one of KINDS; `synthetic` labels the outcomes as made up. Raises OutcomeTableError if the file is not of
    that kind, or a value in it cannot be true.
    """
    path = Path(path)
    if kind not in KINDS:
        raise OutcomeTableError(f"kind={kind!r} is not known: use one of {', '.join(KINDS)}")
    data_source = "synthetic" if synthetic else "real"
    if kind == "csv":
        columns = read_csv(path)
        cost_kind = "none" if np.isnan(columns["cost_usd"]).all() else "measured"
        return pivot(columns, path, name=path.stem, data_source=data_source, provenance=path.name, cost_kind=cost_kind)
    pack = PACKS[kind]
    columns = read_pack(path, kind, pack)
    return pivot(
        columns,
        path,
        name=kind,
        data_source=data_source,
        licence=pack.licence,
        provenance=pack.provenance,
        cost_kind=pack.cost_kind,
    )


def read_pack(path: Path, kind: str, pack: Pack) -> dict[str, np.ndarray]:
    table = open_parquet(path)
    missing = [name for name in ("task_id", "model", "score", *pack.columns) if name not in table.column_names]
    if missing:
        raise OutcomeTableError(f"{path}: not the {kind} file, as the column {missing[0]!r} is missing: check the kind")
    columns = {name: table[name].to_pylist() for name in CSV_COLUMNS if name in table.column_names}
    if kind == "llmrouter":
        lengths = [len(text) for text in columns["prompt"] if text]
        usual = float(np.median(lengths)) if lengths else 0.0  # some prompts were not published
        question = np.array([len(text or "") or usual for text in columns["prompt"]]) / CHARACTERS_PER_TOKEN
        price_in, price_out = (np.array(table[f"price_{way}_per_mtok"].to_pylist(), float) for way in ("in", "out"))
        columns["cost_usd"] = ((question * price_in + ANSWER_TOKENS * price_out) / 1e6).tolist()
    return checked_columns(columns, lambda row: f"{path}, row {row + 1}")


def read_csv(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise OutcomeTableError(f"{path}: there is no such file: check the path")
    header, rows = csv_rows(path)
    unknown = [name for name in header if name not in CSV_COLUMNS]
    missing = [name for name in ("task_id", "model", "score") if name not in header]
    twice = [name for name in header if header.count(name) > 1]
    if unknown or missing or twice:
        problem = (
            f"{missing[0]!r} is missing"
            if missing
            else f"{unknown[0]!r} is not known"
            if unknown
            else f"{twice[0]!r} is there twice"
        )
        raise OutcomeTableError(
            f"{path}: the column {problem}: columns are {', '.join(CSV_COLUMNS)}, the first three needed"
        )
    for number, row in enumerate(rows, start=2):
        if len(row) > len(header) or None in row.values():
            raise OutcomeTableError(f"{path}, line {number}: not {len(header)} values: quote texts that hold a comma")
    columns = {name: [row[name] if row[name] != "" else None for row in rows] for name in header}
    return checked_columns(columns, lambda row: f"{path}, line {row + 2}")


def csv_rows(path: Path) -> tuple[list[str], list[dict]]:
    """Returns the header of a CSV file, and its rows as mappings; texts may be of any length."""
    limit = csv.field_size_limit(LONGEST_TEXT)
    try:
        lines = csv.DictReader(io.StringIO(read_text(path), newline=""), restkey="(more values than columns)")
        return list(lines.fieldnames or ()), list(lines)
    except csv.Error as error:
        raise OutcomeTableError(f"{path}: not CSV ({error}): write the file again") from error
    finally:
        csv.field_size_limit(limit)


def checked_columns(columns: dict[str, list], where: Callable[[int], str]) -> dict[str, np.ndarray]:
    """Returns all of CSV_COLUMNS as arrays: numbers as float64 with NaN for missing ones, other values as text.

    Missing texts become '', a missing role DEFAULT_ROLE. `where` names a row in errors. Raises OutcomeTableError for a
    missing task or model, a bad number or an unknown role.
    """
    num_rows = len(columns["task_id"])
    checked: dict[str, np.ndarray] = {}
    for name in CSV_COLUMNS:
        values = columns.get(name, [None] * num_rows)
        if name in ("score", "cost_usd", "latency_s"):
            checked[name] = np.array([to_number(name, v, where, row) for row, v in enumerate(values)], np.float64)
        else:
            checked[name] = np.array(["" if value is None else value for value in values], dtype=object)
    for name in ("task_id", "model"):
        empty = np.flatnonzero(checked[name] == "")
        if len(empty):
            raise OutcomeTableError(f"{where(empty[0])}: {name} is empty")
    checked["role"][checked["role"] == ""] = DEFAULT_ROLE
    unknown = [row for row, role in enumerate(checked["role"]) if role not in ROLES]
    if unknown:
        role = checked["role"][unknown[0]]
        raise OutcomeTableError(f"{where(unknown[0])}: role {role!r} is not one of {', '.join(ROLES)}")
    return checked


def to_number(name: str, value: object, where: Callable[[int], str], row: int) -> float:
    if value is None:
        return np.nan
    try:
        number = float(value)  # pyrefly: ignore[bad-argument-type]
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise OutcomeTableError(f"{where(row)}: {name}={value!r} is not a number: leave it empty where it is not known")
    return number


def pivot(columns: dict[str, np.ndarray], path: Path, **description: str) -> OutcomeTable:
    """Returns a table with one row per (task, role) and one column per model; several runs become their mean.

    Raises OutcomeTableError if there is no score, or if a task has two categories.
    """
    if np.isnan(columns["score"]).all():
        raise OutcomeTableError(
            f"{path}: there is no {'score' if len(columns['score']) else 'row'}: nothing to learn from"
        )
    keys: dict[tuple[str, str], int] = {}
    row = np.array([keys.setdefault(key, len(keys)) for key in zip(columns["task_id"], columns["role"], strict=True)])
    models = tuple(sorted(set(columns["model"].tolist())))
    place = {model: k for k, model in enumerate(models)}
    column = np.array([place[model] for model in columns["model"]])
    first_row = np.full(len(keys), -1)
    first_row[row[::-1]] = np.arange(len(row))[::-1]
    differs = np.flatnonzero(columns["category"] != columns["category"][first_row[row]])
    if len(differs):
        task = columns["task_id"][differs[0]]
        raise OutcomeTableError(f"{path}: task {task!r} has two categories: a task belongs to one")
    prompt = columns["prompt"][first_row]
    return OutcomeTable(
        models=models,
        task_id=np.array([task for task, _ in keys]),
        role=np.array([role for _, role in keys]),
        category=columns["category"][first_row].astype(str),
        prompt=prompt if (prompt != "").any() else None,
        score=mean_in_cells(columns["score"], row, column, (len(keys), len(models))),
        cost_usd=mean_in_cells(columns["cost_usd"], row, column, (len(keys), len(models))),
        latency_s=mean_in_cells(columns["latency_s"], row, column, (len(keys), len(models))),
        **description,
    )


def mean_in_cells(values: np.ndarray, row: np.ndarray, column: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    known = ~np.isnan(values)
    total, count = np.zeros(shape), np.zeros(shape)
    np.add.at(total, (row[known], column[known]), values[known])
    np.add.at(count, (row[known], column[known]), 1)
    return np.divide(total, count, out=np.full(shape, np.nan), where=count > 0)
