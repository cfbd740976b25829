"""Faults of the numbers of a column, whatever episode they are in."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rl_training.core import Box
from rl_training.data.columns import chunks, leaves
from rl_training.data.dataset import Dataset
from rl_training.data.findings import SHOWN, Finding, finding
from rl_training.data.values import finite_columns, rows_not_finite, rows_outside, rows_where


def numbers_are_finite(dataset: Dataset) -> Iterator[Finding]:
    for name, column in finite_columns(dataset.columns).items():
        rows = rows_not_finite(column)
        if name.startswith("last_obs"):
            rows = dataset.episodes().stop[rows] - 1
        advice = "repair these rows or leave their episodes out: one such number makes every weight NaN"
        yield from finding("not-finite", "error", rows, f"{name} is NaN or infinite in {len(rows)} rows", advice)


def actions_are_in_the_space(dataset: Dataset) -> Iterator[Finding]:
    rows = rows_outside(dataset.action, dataset.spec.action)
    meaning = f"{len(rows)} actions are outside {type(dataset.spec.action).__name__}"
    advice = (
        "store actions in the environment's units, clip what the environment clipped, or correct the bounds"
        if isinstance(dataset.spec.action, Box)
        else "repair them, or correct the number of choices"
    )
    yield from finding("action-outside", "error", rows, meaning, advice)


def observations_vary(dataset: Dataset) -> Iterator[Finding]:
    if len(dataset) == 1:
        return
    for name, column in leaves("obs", dataset.obs).items():
        first = np.asarray(column[0])
        same = np.ones(first.shape, bool)
        for part in chunks(len(column)):
            same &= (column[part] == first).all(0)
        if same.any() and (first.size == 1 or first.dtype != np.uint8 or same.all()):  # images have still borders
            which = "all of it" if same.all() else f"elements {np.flatnonzero(same)[:SHOWN].tolist()}"
            meaning = f"{name} never changes ({which})"
            advice = "check that it was recorded, or leave it out; a normaliser divides by its spread"
            yield from finding("constant-observation", "warning", np.array([0]), meaning, advice)


def log_probabilities_make_sense(dataset: Dataset) -> Iterator[Finding]:
    if dataset.log_prob is None:
        return
    discrete = not isinstance(dataset.spec.action, Box)
    rows = rows_where(dataset.log_prob, lambda x: np.isposinf(x) | ((x > 1e-5) & discrete))
    advice = "store the logarithm of the probability with which the executed action was chosen"
    yield from finding("log-prob", "error", rows, f"{len(rows)} log-probabilities are above 0 or infinite", advice)
    unknown = rows_where(dataset.log_prob, np.isnan)
    meaning = f"log_prob is unknown in {len(unknown)} of {len(dataset)} rows"
    yield from finding("log-prob", "warning", unknown, meaning, "off-policy evaluation needs all of them")


def spaces_are_known(dataset: Dataset) -> Iterator[Finding]:
    if dataset.provenance.spec_inferred:
        meaning = "the spaces were guessed from the data, the bounds of actions among them"
        advice = "say them with Dataset.open(path, spec=...) and save"
        yield Finding("guessed-spaces", "warning", (), 1, meaning, advice)
