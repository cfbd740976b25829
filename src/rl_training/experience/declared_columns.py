"""Columns that an algorithm declares: their values from a store, or an error if it has none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rl_training.core import Column, Spec
from rl_training.core.teams import TeamSpec
from rl_training.data import Dataset

NEXT_ACTION, RETURN_TO_GO, STEPS_LEFT = "next_action", "return_to_go", "steps_left"
FOLLOWING = (NEXT_ACTION, RETURN_TO_GO, STEPS_LEFT)  # from the steps of an episode that come later
UNKNOWN = "it is not one of " + ", ".join(FOLLOWING)
LOG_PROB, FIRST = "log_prob", "first"
LIFE_LOST = "life_lost"  # of steps that are learned from as terminations after which the game goes on


def refusal(column: Column, store: str, why: str) -> ValueError:
    return ValueError(f"the algorithm needs the column {column.name!r} of every step, which {store} cannot give: {why}")


def given_by(spec: Spec) -> tuple[str, ...]:
    """Returns the names of the columns that an environment with these spaces gives with every step."""
    return tuple(column.name for column in spec.columns) if isinstance(spec, TeamSpec) else ()


def check_collected(
    columns: Sequence[Column], store: str, *, able: Sequence[str] = (), given: Sequence[str] = ()
) -> None:
    """Raises a ValueError if collected steps cannot have one of the `columns` that an algorithm needs.

    Such are columns from later steps of the episode and extra columns of datasets. Names in `able` are allowed, because
    the store computes them, and in `given`, because the environment gives them with every step; `store` describes it in
    the message, e.g. "a replay".
    """
    for column in columns:
        if column.source == "episode" and column.name not in able:
            later = "it follows from steps that are not taken yet; learn from a dataset"
            raise refusal(column, store, later if column.name in FOLLOWING else UNKNOWN)
        if column.source == "env" and column.name not in given:
            raise refusal(column, store, "environments give it with no step; learn from a dataset that has it")


def columns_of(dataset: Dataset, columns: Sequence[Column], gamma: float) -> dict[str, np.ndarray]:
    """Returns the values of `columns`, which an algorithm needs, from a dataset: arrays [rows, ...] by name.

    `gamma` discounts the return to go. Raises a ValueError if the dataset lacks a column. The next action is left out:
    it is read when rows are drawn.
    """
    return {column.name: column_of(dataset, column, gamma) for column in columns if column.name != NEXT_ACTION}


def column_of(dataset: Dataset, column: Column, gamma: float) -> np.ndarray:
    episodes = dataset.episodes()
    if column.name == FIRST:
        first = np.zeros(len(dataset), bool)
        first[episodes.start] = True
        return first
    if column.source == "episode":
        return episode_column(dataset, column, gamma)
    if column.name == LOG_PROB:
        if dataset.log_prob is None or np.isnan(dataset.log_prob).any():
            raise refusal(column, "this dataset", "it does not know the log-probability of every action; log them")
        return dataset.log_prob
    if column.name not in dataset.extras:
        named = ", ".join(sorted(dataset.extras)) or "none"
        raise refusal(column, "this dataset", f"its extras are: {named}; add extras/{column.name}")
    found = dataset.extras[column.name]
    if found.shape[1:] != column.shape:
        raise refusal(column, "this dataset", f"extras/{column.name} has shape {found.shape[1:]}, not {column.shape}")
    return found


def episode_column(dataset: Dataset, column: Column, gamma: float) -> np.ndarray:
    if column.name == RETURN_TO_GO:
        return dataset.return_to_go(gamma).astype(np.float32)
    if column.name == STEPS_LEFT:
        episodes = dataset.episodes()
        return np.repeat(episodes.stop, episodes.length) - np.arange(len(dataset))
    raise refusal(column, "a dataset", UNKNOWN)
