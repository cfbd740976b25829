"""Faults that a file can have and still be read: each is named with its rows, what it means, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from rl_training.core.arguments import whole_number
from rl_training.data import column_checks, episode_checks, stitching
from rl_training.data.columns import DatasetError
from rl_training.data.dataset import Dataset
from rl_training.data.findings import Finding


def lint(dataset: Dataset | str | Path, *, time_limit: int | None = None) -> list[Finding]:
    """Returns all faults found in a dataset, [] if there are none; a file that cannot be opened is one fault.

    `time_limit` is the number of steps after which the environment cuts an episode; None: gymnasium's, if it knows the
    environment that the data name.
    """
    if time_limit is not None:
        time_limit = whole_number(time_limit, "time_limit")
    try:
        opened = dataset if isinstance(dataset, Dataset) else Dataset.open(dataset, check=False)
        opened.episodes()  # of a mapped folder they have not been looked at
    except DatasetError as error:
        return [Finding("unreadable", "error", (), 1, str(error), "nothing else was looked at")]
    limit = time_limit or episode_checks.time_limit_of(opened.provenance.env_id)
    known = [] if limit is None else list(episode_checks.episodes_keep_to_the_limit(opened, limit))
    found = [found for check in CHECKS for found in check(opened)]
    return known + [other for other in found if other.fault not in {one.fault for one in known}]


def content_is_what_was_written(dataset: Dataset) -> Iterator[Finding]:
    try:
        dataset.verify()
    except DatasetError as error:
        yield Finding("changed-content", "error", (), 1, str(error), "or save the dataset again if the change is meant")


CHECKS: tuple[Callable[[Dataset], Iterator[Finding]], ...] = (
    content_is_what_was_written,
    column_checks.numbers_are_finite,
    column_checks.numbers_have_one_scale,
    column_checks.observations_are_in_the_space,
    column_checks.actions_are_in_the_space,
    column_checks.actions_keep_off_the_bounds,
    column_checks.actions_are_in_the_environments_units,
    column_checks.choices_are_taken,
    column_checks.rewards_say_something,
    episode_checks.flags_are_no_masks,
    episode_checks.timeouts_are_not_terminals,
    episode_checks.some_episode_ends,
    stitching.successors_follow,
    stitching.no_end_is_missing,
    stitching.cut_episodes_keep_their_last_observation,
    episode_checks.the_last_episode_ends,
    episode_checks.episodes_are_there_once,
    column_checks.observations_vary,
    column_checks.log_probabilities_make_sense,
    column_checks.spaces_are_known,
)
