"""`sage log import` and `sage log info`: outcome tables, which say what every model did on every task."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from sage.outcomes.importers import KINDS, import_table
from sage.outcomes.table import OutcomeTable


def add_import(imports: argparse.ArgumentParser) -> None:
    imports.add_argument("kind", choices=KINDS, help="of the file")
    imports.add_argument(
        "file", type=Path, help="csv: task_id, model, score[, category, cost_usd, latency_s, prompt, role]"
    )
    imports.add_argument("--out", type=Path, help="default: datasets/KIND.parquet")
    imports.add_argument("--synthetic", action="store_true", help="the outcomes are made up, not measured")
    imports.set_defaults(func=import_file)


def add_info(info: argparse.ArgumentParser) -> None:
    info.add_argument("table", type=Path, help="made by `sage log import`")
    info.add_argument("--json", action="store_true", help="one JSON object")
    info.set_defaults(func=show_info)


def import_file(arguments: argparse.Namespace) -> int:
    table = import_table(arguments.kind, arguments.file, synthetic=arguments.synthetic)
    path = arguments.out or Path("datasets") / f"{arguments.kind}.parquet"
    table.save(path)
    print(
        f"{path}: {len(table)} tasks x {len(table.models)} models, {table.data_source}, licence {table.licence or 'not known'}"
    )
    return 0


def show_info(arguments: argparse.Namespace) -> int:
    table = OutcomeTable.open(arguments.table)
    categories, counts = np.unique(table.category, return_counts=True)
    values = table.description() | {
        "tasks": len(table),
        "sha256": table.sha256,
        "share_run": float(table.ran.mean()),
        "roles": sorted(set(table.role.tolist())),
        "categories": dict(zip(categories.tolist(), counts.tolist(), strict=True)),
        "models": {
            model: model_summary(table.score[:, k], table.cost_usd[:, k]) for k, model in enumerate(table.models)
        },
    }
    if arguments.json:
        print(json.dumps(values))
        return 0
    for name, value in values.items():
        if name == "models":
            for model, summary in value.items():
                print(f"  {model}: " + ", ".join(f"{k} {v:.4g}" for k, v in summary.items() if v is not None))
        elif name == "categories":
            print(f"categories: {len(value)}")
        else:
            print(f"{name}: {', '.join(value) if isinstance(value, list) else value}")
    return 0


def model_summary(score: np.ndarray, cost: np.ndarray) -> dict[str, float | None]:
    return {
        "tasks": float((~np.isnan(score)).sum()),
        "mean_score": None if np.isnan(score).all() else float(np.nanmean(score)),
        "mean_cost_usd": None if np.isnan(cost).all() else float(np.nanmean(cost)),
    }
