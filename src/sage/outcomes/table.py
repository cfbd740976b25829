"""The outcome table, with every model's result on every task: routing is replayed, learned and judged on it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sage.log.records import ROLES, Request
from sage.outcomes.files import read_columns, write_columns
from sage.policies.features import contexts_of
from sage.policies.policy import Contexts
from sage.splitting import in_first_part

COST_KINDS = ("measured", "estimate", "none")
AMOUNTS = ("score", "cost_usd", "latency_s")
TEXTS = ("task_id", "category", "role")
DESCRIPTION = ("name", "models", "data_source", "licence", "provenance", "cost_kind")


class OutcomeTableError(ValueError):
    """Error about a table that cannot be true or cannot be read; the message names the place and the fix."""


@dataclass(frozen=True, kw_only=True)
class OutcomeTable:
    """Results with one row per task and role, and one column per model; NaN where nothing was measured."""

    name: str
    models: tuple[str, ...]
    task_id: np.ndarray  # text [n]
    category: np.ndarray  # text [n]
    role: np.ndarray  # text [n]
    score: np.ndarray  # float64 [n, models], 0 to 1
    cost_usd: np.ndarray  # float64 [n, models]
    latency_s: np.ndarray  # float64 [n, models]
    data_source: str  # 'real' or 'synthetic'
    prompt: np.ndarray | None = None  # text objects [n]
    licence: str = ""
    provenance: str = ""
    cost_kind: str = "measured"  # one of COST_KINDS

    def __post_init__(self) -> None:
        check_description(self)
        check_values(self)

    def __len__(self) -> int:
        return len(self.task_id)

    @property
    def ran(self) -> np.ndarray:
        """Returns bool [n, models]: True where there is a score."""
        return ~np.isnan(self.score)

    @property
    def sha256(self) -> str:
        """Returns a hash of everything in the table, which does not depend on the file that it came from."""
        digest = hashlib.sha256(json.dumps(self.description()).encode())
        for name in (*TEXTS, "prompt"):
            values = getattr(self, name)
            digest.update(b"\1" if values is None else "\0".join(map(str, values)).encode())
        for name in AMOUNTS:
            digest.update(np.ascontiguousarray(getattr(self, name)).tobytes())
        return digest.hexdigest()

    def description(self) -> dict:
        return {name: getattr(self, name) for name in DESCRIPTION} | {"models": list(self.models)}

    def select(self, rows: np.ndarray) -> OutcomeTable:
        """Returns a table of the given rows (indices or a mask), in that order."""
        columns = {name: getattr(self, name)[rows] for name in (*TEXTS, *AMOUNTS)}
        return replace(self, **columns, prompt=None if self.prompt is None else self.prompt[rows])

    def with_models(self, models: tuple[str, ...]) -> OutcomeTable:
        """Returns a table of the given models only, in that order; raises OutcomeTableError for an unknown model."""
        unknown = [model for model in models if model not in self.models]
        if unknown:
            raise OutcomeTableError(f"{self.name} has no model {unknown[0]!r}: it has {', '.join(self.models)}")
        columns = [self.models.index(model) for model in models]
        return replace(self, models=models, **{name: getattr(self, name)[:, columns] for name in AMOUNTS})

    def split(self, *, by: str = "task", fraction: float = 0.6, seed: int = 0) -> tuple[OutcomeTable, OutcomeTable]:
        """Returns two tables without a task (or a category) in common; the first has about `fraction` of them.

        Raises ValueError if one of them would be empty.
        """
        if by not in ("task", "category"):
            raise OutcomeTableError(f"by={by!r} must be 'task' or 'category'")
        keys, of = (self.task_id, "tasks") if by == "task" else (self.category, "categories")
        first = in_first_part(keys, fraction, seed, of=of)
        return self.select(first), self.select(~first)

    def requests(self) -> list[Request]:
        prompts = [""] * len(self) if self.prompt is None else self.prompt
        rows = zip(self.role, prompts, self.task_id, self.category, strict=True)
        return [Request(role=str(r), task=str(p), task_id=str(t), category=str(c)) for r, p, t, c in rows]

    def contexts(self) -> Contexts:
        return contexts_of(self.requests())

    def save(self, path: str | Path) -> None:
        """Writes the table to one .parquet or .npz file, which is complete or not there."""
        metadata = self.description() | {"sha256": self.sha256}
        columns = {name: getattr(self, name) for name in (*TEXTS, *AMOUNTS)}
        write_columns(Path(path), columns | ({} if self.prompt is None else {"prompt": self.prompt}), metadata)

    @classmethod
    def open(cls, path: str | Path) -> OutcomeTable:
        """Reads a table that `save` wrote; raises OutcomeTableError if its content has another hash."""
        columns, metadata = read_columns(Path(path))
        expected = metadata.pop("sha256", None)
        missing = [name for name in (*DESCRIPTION, *TEXTS, *AMOUNTS) if name not in {**columns, **metadata}]
        if missing:
            raise OutcomeTableError(
                f"{path}: not an outcome table ({missing[0]} is missing): see `sage log import --help`"
            )
        values: dict = {name: metadata[name] for name in DESCRIPTION} | columns
        table = cls(**values | {"models": tuple(metadata["models"])})
        if table.sha256 != expected:
            raise OutcomeTableError(f"{path}: the content does not match its sha256: import or copy the file again")
        return table


def check_description(table: OutcomeTable) -> None:
    if table.data_source not in ("real", "synthetic"):
        raise OutcomeTableError(f"data_source={table.data_source!r} must be 'real' or 'synthetic'")
    if table.cost_kind not in COST_KINDS:
        raise OutcomeTableError(f"cost_kind={table.cost_kind!r} must be one of {', '.join(COST_KINDS)}")
    if not table.models or len(set(table.models)) != len(table.models):
        raise OutcomeTableError(f"models={list(table.models)!r} must be one or more different names")
    if not len(table):
        raise OutcomeTableError(f"{table.name} has no task")


def check_values(table: OutcomeTable) -> None:
    for name in (*TEXTS, "prompt"):
        values = getattr(table, name)
        if values is not None and values.shape != (len(table),):
            raise OutcomeTableError(f"{name} has shape {values.shape} for {len(table)} rows")
    for name in AMOUNTS:
        values = getattr(table, name)
        if values.shape != (len(table), len(table.models)):
            raise OutcomeTableError(
                f"{name} has shape {values.shape} for {len(table)} rows x {len(table.models)} models"
            )
        bad = np.argwhere((values < 0) | np.isinf(values) | ((values > 1) if name == "score" else False))
        if len(bad):
            row, column = bad[0]
            rule = "between 0 and 1" if name == "score" else "finite and not negative"
            raise OutcomeTableError(
                f"{name} of task {str(table.task_id[row])!r} by {table.models[column]!r} is {values[row, column]}: it must be {rule}"
            )
    unknown = set(table.role.tolist()) - set(ROLES)
    if unknown:
        raise OutcomeTableError(f"role {sorted(unknown)[0]!r} is not one of {', '.join(ROLES)}")
    keys, counts = np.unique(np.stack([table.task_id, table.role]), axis=1, return_counts=True)
    if counts.max() > 1:
        task, role = keys[:, counts.argmax()]
        raise OutcomeTableError(
            f"task {str(task)!r} is there {counts.max()} times for the role {role}: rows must be different"
        )
