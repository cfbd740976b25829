"""Checks for faults in single numbers of a column."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rl_training.core import Box, Dict, Discrete
from rl_training.data.columns import chunks, leaves
from rl_training.data.dataset import Dataset
from rl_training.data.findings import SHOWN, Finding, finding
from rl_training.data.values import finite_columns, rows_not_finite, rows_outside, rows_where

AT_BOUNDS = 0.05  # of the rows: more of them than a policy inside of the bounds would give
SAMPLED = 100_000  # rows that scales are taken from
EXTREME = 1e4  # times the scale of a column: a number that stands for "unknown"
PER_CHOICE = 100  # rows per choice above which a choice that is missing is no chance


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


def actions_keep_off_the_bounds(dataset: Dataset) -> Iterator[Finding]:
    """Yields a warning if more than 5 % of continuous actions are exactly at a bound, because they were clipped there."""
    space = dataset.spec.action
    if not isinstance(space, Box) or dataset.provenance.spec_inferred:
        return
    low, high = (np.array(bound, np.float32).reshape(space.shape) for bound in (space.low, space.high))
    rows = rows_where(dataset.action, lambda x: (x == low) | (x == high))
    if len(rows) <= AT_BOUNDS * len(dataset):
        return
    taken = dataset.action[rows].reshape(len(rows), -1)
    share = ((taken == low.reshape(-1)) | (taken == high.reshape(-1))).sum(0) / len(dataset)
    most = int(share.argmax())
    meaning = f"{len(rows) / len(dataset):.0%} of the actions are exactly at a bound, most often component {most} ({share[most]:.0%})"
    advice = (
        "they were clipped: learn with a method whose policy is deterministic or clips as well, such as TD3+BC or IQL, because "
        "the likelihood of a squashed policy is extreme at the bounds; log_prob there is that of being clipped"
    )
    yield from finding("action-at-bounds", "warning", rows, meaning, advice)


def actions_are_in_the_environments_units(dataset: Dataset) -> Iterator[Finding]:
    """Yields a warning if actions fill [-1, 1] although the bounds are wider: they seem to be scaled to it."""
    space = dataset.spec.action
    if not isinstance(space, Box) or dataset.provenance.spec_inferred or len(dataset) < PER_CHOICE:
        return
    low, high = (np.array(bound) for bound in (space.low, space.high))
    largest = np.max(
        [np.abs(dataset.action[part]).reshape(-1, len(low)).max(0) for part in chunks(len(dataset))], axis=0
    )
    scaled = (low < -1) & (high > 1) & (largest > 0.95) & (largest <= 1)
    if scaled.all():
        meaning = f"all actions are in [-1, 1] and fill it, though the bounds are {low[0]:g} and {high[0]:g}"
        advice = "they were scaled by the policy that took them: store them in the environment's units, or correct the bounds"
        yield Finding("scaled-action", "warning", (), len(dataset), meaning, advice)


def choices_are_taken(dataset: Dataset) -> Iterator[Finding]:
    space = dataset.spec.action
    if not isinstance(space, Discrete) or len(dataset) < PER_CHOICE * space.num:
        return
    counts = sum(np.bincount(dataset.action[part] - space.start, minlength=space.num) for part in chunks(len(dataset)))
    never = np.flatnonzero(np.asarray(counts) == 0) + space.start
    if len(never) and not len(rows_outside(dataset.action, space)):
        meaning = f"actions {never[:SHOWN].tolist()} are never taken in {len(dataset):,} rows"
        advice = (
            "nothing can be learned about them: use a method that keeps to the data, or correct the number of choices"
        )
        yield Finding("unused-choice", "warning", (), len(never), meaning, advice)


def observations_are_in_the_space(dataset: Dataset) -> Iterator[Finding]:
    spaces = {"obs": dataset.spec.obs} if not isinstance(dataset.spec.obs, Dict) else dataset.spec.obs.spaces
    for (name, column), space in zip(leaves("obs", dataset.obs).items(), spaces.values(), strict=True):
        if isinstance(space, Box) and not np.isfinite([*space.low, *space.high]).any():
            continue
        rows = rows_outside(column, space)
        meaning = f"{name} is outside {type(space).__name__} in {len(rows)} rows"
        if isinstance(space, Box):
            advice = "correct the bounds of the space, or look for a sensor that was scaled differently"
            yield from finding("observation-outside", "warning", rows, meaning, advice)
        else:
            advice = (
                "a choice that does not exist has no place in a network: repair them, or correct the number of choices"
            )
            yield from finding("observation-outside", "error", rows, meaning, advice)


def rewards_say_something(dataset: Dataset) -> Iterator[Finding]:
    if len(dataset) > 1 and not len(rows_where(dataset.reward, lambda x: x != 0)):
        meaning = f"the reward is 0 in all {len(dataset)} rows"
        advice = "every policy is as good as any other by these data: check that rewards were recorded, or learn by BC"
        yield Finding("no-reward", "warning", (), len(dataset), meaning, advice)


def numbers_have_one_scale(dataset: Dataset) -> Iterator[Finding]:
    """Yields a warning per float column, except actions, that has numbers such as 1e9 or -99999 among small ones.

    They often stand for "unknown", and spoil statistics.
    """
    for name, column in finite_columns(dataset.columns).items():
        if column.dtype.kind != "f" or len(column) < PER_CHOICE or name == "action":
            continue
        sample = np.abs(column[:: max(1, len(column) // SAMPLED)])
        if not np.isfinite(sample).all():
            continue  # another fault
        limit = EXTREME * np.maximum(np.quantile(sample, 0.9, axis=0), 1.0)
        rows = rows_where(column, lambda x, limit=limit: np.abs(x) > limit)
        if name.startswith("last_obs"):
            rows = dataset.episodes().stop[rows] - 1
        meaning = f"{name} is more than {EXTREME:,.0f} times as large as usual in {len(rows)} rows"
        advice = "such numbers often stand for a missing one: repair these rows or leave their episodes out"
        yield from finding("extreme-number", "warning", rows, meaning, advice)


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
