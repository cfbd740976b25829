"""Faults that a file can have and still be read: each is named with its rows, what it means, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from rl_training.data.column_checks import (
    actions_are_in_the_space,
    log_probabilities_make_sense,
    numbers_are_finite,
    observations_vary,
    spaces_are_known,
)
from rl_training.data.columns import DatasetError
from rl_training.data.dataset import Dataset
from rl_training.data.episode_checks import episodes_are_there_once, the_last_episode_ends, timeouts_are_not_terminals
from rl_training.data.findings import Finding
from rl_training.data.stitching import cut_episodes_keep_their_last_observation, successors_follow


def lint(dataset: Dataset | str | Path) -> list[Finding]:
    """Looks for every fault; a file that cannot be opened is one fault. An empty list means that none was found."""
    try:
        opened = dataset if isinstance(dataset, Dataset) else Dataset.open(dataset, check=False)
        opened.episodes()  # of a mapped folder they have not been looked at
    except DatasetError as error:
        return [Finding("unreadable", "error", (), 1, str(error), "nothing else was looked at")]
    return [found for check in CHECKS for found in check(opened)]


def content_is_what_was_written(dataset: Dataset) -> Iterator[Finding]:
    try:
        dataset.verify()
    except DatasetError as error:
        yield Finding("changed-content", "error", (), 1, str(error), "or save the dataset again if the change is meant")


CHECKS: tuple[Callable[[Dataset], Iterator[Finding]], ...] = (
    content_is_what_was_written,
    numbers_are_finite,
    actions_are_in_the_space,
    timeouts_are_not_terminals,
    successors_follow,
    cut_episodes_keep_their_last_observation,
    the_last_episode_ends,
    episodes_are_there_once,
    observations_vary,
    log_probabilities_make_sense,
    spaces_are_known,
)
