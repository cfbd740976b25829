"""Outcomes that are drawn from known curves, as if somebody had recorded them."""

from __future__ import annotations

import numpy as np

from sage.outcomes.table import OutcomeTable

MODELS = ("tiny", "mid", "dear", "best", "waste")
ABILITY = np.array([-1.0, 0.0, 0.8, 1.5, -0.5])
SLOPE = np.array([0.8, 1.5, 2.0, 1.2, 1.0])
USD = np.array([0.01, 0.05, 0.2, 0.9, 0.5])  # of a success; a failure costs twice as much


def drawn_outcomes(num_tasks: int, generator: np.random.Generator) -> np.ndarray:
    """Whether each model solves each task."""
    difficulty = generator.standard_normal((num_tasks, 1))
    return generator.random((num_tasks, len(MODELS))) < 1 / (1 + np.exp(-SLOPE * (ABILITY - difficulty)))


def drawn_table(num_tasks: int = 400, *, seed: int = 0) -> OutcomeTable:
    generator = np.random.default_rng(seed)
    solved = drawn_outcomes(num_tasks, generator)
    cost = USD * np.where(solved, 1.0, 2.0) * np.exp(0.3 * generator.standard_normal(solved.shape))
    return OutcomeTable(
        name="drawn",
        models=MODELS,
        task_id=np.array([f"t{i}" for i in range(num_tasks)]),
        category=np.array([f"c{i % 5}" for i in range(num_tasks)]),
        role=np.full(num_tasks, "coder"),
        score=solved.astype(float),
        cost_usd=cost,
        latency_s=np.full(solved.shape, np.nan),
        data_source="synthetic",
        licence="CC0",
        provenance="drawn for a test",
    )
