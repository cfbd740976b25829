"""The outcome tables and the pools of models that the benchmarks of the gate and of the learners share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from sage.evidence.table_rewards import table_rewards
from sage.outcomes.importers import Pack, import_table, pivot, read_pack
from sage.outcomes.table import OutcomeTable

FILES = {
    "llmrouter": "llmrouter_dcrouter.parquet",
    "routellm": "routellm_mmlu_gsm8k_mtbench.parquet",
    "livecodebench": "livecodebench_4roles.parquet",
    "swebench": "swebench_verified_minisweagent.parquet",
}
MORE_FILES = {"routerarena": "routerarena_sub10.parquet", "llmdrift": "llmdrift_2023.parquet"}  # that have no importer
SMALLEST_POOL, LARGEST_POOL = 2, 8


def load_pool(kind: str, folder: Path, *, everyone: bool = False) -> OutcomeTable:
    """The better half of the models by mean reward (2 to 8), or all, among those that ran on every task; best first."""
    table = open_table(kind, folder)
    table = table.select(table.role == "coder") if kind == "livecodebench" else table
    table = table.with_models(tuple(np.array(table.models)[table.ran.all(axis=0)].tolist()))
    if np.isnan(table.cost_usd).any():  # known for all, or left out for all
        table = replace(table, cost_usd=np.full_like(table.cost_usd, np.nan), cost_kind="none")
    mean = table_rewards(table).mean(axis=0)
    size = len(table.models) if everyone else min(LARGEST_POOL, max(SMALLEST_POOL, len(table.models) // 2))
    return table.with_models(tuple(table.models[k] for k in np.argsort(-mean, kind="stable")[:size]))


def open_table(kind: str, folder: Path) -> OutcomeTable:
    if kind in FILES:
        return import_table(kind, folder / FILES[kind])
    path, pack = folder / MORE_FILES[kind], Pack("Apache-2.0", kind, ("category", "cost_usd"), "measured")
    columns = read_pack(path, kind, pack)
    return pivot(columns, path, name=kind, data_source="real", provenance=kind, cost_kind=pack.cost_kind)
