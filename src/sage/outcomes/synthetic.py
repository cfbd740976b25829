"""Synthetic outcomes, for demonstrations and tests: always labelled as such.

Success follows a two-parameter item response model: tasks are hard or easy for all models at once, so that failures
come together as they do in real logs. With independent coins, routing would look too good.
"""

from __future__ import annotations

import numpy as np

from sage.log.records import ROLES
from sage.outcomes.table import OutcomeTable

MODELS = ("small", "medium", "large")
PRICE_OF_SUCCESS_USD = (0.004, 0.03, 0.25)
SECONDS_OF_SUCCESS = (6.0, 12.0, 25.0)
FAILURE_FACTOR = 1.9  # what a failed attempt costs, in successes: measured on repository tasks
CATEGORIES = ("algorithms", "configuration", "database", "documentation", "frontend", "tests")
WORDS = ("fix", "the", "parser", "when", "input", "is", "empty", "and", "add", "a", "regression", "test", "for", "it")


def synthetic_table(
    num_tasks: int, *, models: tuple[str, ...] = MODELS, roles: tuple[str, ...] = ROLES, seed: int = 0
) -> OutcomeTable:
    """Returns made-up outcomes of tasks with a difficulty, and of models with a strength overall and in each category.

    `models` are in order from cheap to dear, and every row gets one of `roles`; the same seed gives the same table.
    """
    if num_tasks < 1:
        raise ValueError(f"num_tasks={num_tasks} must be 1 or more")
    generator = np.random.default_rng(seed)
    num_models, num_categories = len(models), len(CATEGORIES)
    rank = np.linspace(0.0, 1.0, num_models) if num_models > 1 else np.ones(1)
    strength = 1.5 * rank - 0.3 + 1.2 * generator.standard_normal((num_categories, num_models))
    category = generator.integers(0, num_categories, num_tasks)
    difficulty = 1.5 * generator.standard_normal(num_tasks)
    discrimination = np.exp(0.3 * generator.standard_normal(num_tasks))
    chance = 1 / (1 + np.exp(-discrimination[:, None] * (strength[category] - difficulty[:, None])))
    solved = generator.random((num_tasks, num_models)) < chance
    effort = np.where(solved, 1.0, FAILURE_FACTOR) * np.exp(0.3 * generator.standard_normal((num_tasks, num_models)))
    place = rank * (len(MODELS) - 1)
    price = np.exp(np.interp(place, np.arange(len(MODELS)), np.log(PRICE_OF_SUCCESS_USD)))
    seconds = np.interp(place, np.arange(len(MODELS)), SECONDS_OF_SUCCESS)
    return OutcomeTable(
        name="synthetic",
        models=models,
        task_id=np.array([f"synthetic-{seed}-{i:05d}" for i in range(num_tasks)]),
        category=np.array(CATEGORIES)[category],
        role=np.array(roles)[generator.integers(0, len(roles), num_tasks)],
        prompt=np.array([describe(d, generator) for d in difficulty], dtype=object),
        score=solved.astype(float),
        cost_usd=np.round(price * effort, 6),
        latency_s=np.round(seconds * effort, 3),
        data_source="synthetic",
        licence="CC0",
        provenance=f"made by sage.outcomes.synthetic with seed {seed}: nobody ran these models",
    )


def describe(difficulty: float, generator: np.random.Generator) -> str:
    """Returns a task's text, whose length says a little about its difficulty, as with real issues."""
    num_words = int(np.clip(30 + 8 * difficulty + 15 * generator.standard_normal(), 4, 120))
    return " ".join(WORDS[i] for i in generator.integers(0, len(WORDS), num_words))
