"""Comparison of runs as plain values: settings in which their groups differ, and statistics of their scores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rl_training.core.arguments import ConfigError
from rl_training.experiment.find_runs import differing_settings
from rl_training.experiment.report.comparison import Pair, Summary, compare_groups
from rl_training.experiment.report.groups import Group, compared, make_groups
from rl_training.experiment.report.page import records_of
from rl_training.experiment.report.reported_run import ReportedRun
from rl_training.experiment.run_record import RunRecord

Source = RunRecord | str | Path


@dataclass(frozen=True)
class GroupResult:
    """A group of runs whose configs differ in `training.seed` alone, with the statistics of their scores."""

    name: str
    env: str
    runs: tuple[RunRecord, ...]
    steps: int  # of the run that has come furthest, on its clock: env steps, and updates from data alone
    score: Summary | None  # count, mean, std, median, iqm, low and high of its 95 % interval; None: no run has one


@dataclass(frozen=True)
class PairResult:
    """The probability that a run of the first group scores higher than one of the second, with its 95 % interval."""

    first: str
    second: str
    probability: float
    low: float
    high: float


@dataclass(frozen=True)
class RunComparison:
    """Groups of runs, pairs of groups in the same environment, settings that differ, and what to know about the scores."""

    groups: tuple[GroupResult, ...]
    pairs: tuple[PairResult, ...]  # of groups with several runs each
    settings: dict[str, list[object]]  # by path, a value for each group; None where a group lacks the setting
    scores: dict[str, str]  # what a score is, by environment
    notes: tuple[str, ...]


def compare_runs(runs: Source | Iterable[Source]) -> RunComparison:
    """Compares groups of runs with the statistics of a report; `runs` are records, run directories or folders of these.

    Runs whose configs differ in `training.seed` alone form a group. Raises ConfigError if there is no run at a path.
    """
    given = [runs] if isinstance(runs, RunRecord | str | Path) else list(runs)
    found = [record for one in given for record in ([one] if isinstance(one, RunRecord) else records_of(one))]
    if not found:
        raise ConfigError("runs is empty: give at least one run directory, or a folder of them")
    records = {record.path.resolve(): record for record in found}
    compared_envs = list(compare_groups(make_groups([ReportedRun(record) for record in records.values()])))
    groups = [(group, summary) for env in compared_envs for group, summary in env.groups]
    return RunComparison(
        groups=tuple(group_result(group, summary) for group, summary in groups),
        pairs=tuple(pair_result(pair) for env in compared_envs for pair in env.pairs),
        settings=compared(differing_settings(group.runs[0].record for group, _ in groups)),
        scores={env.env_id: env.score for env in compared_envs},
        notes=tuple(note for env in compared_envs for note in env.notes),
    )


def group_result(group: Group, summary: Summary | None) -> GroupResult:
    runs = tuple(run.record for run in group.runs)
    return GroupResult(group.name, group.env_id, runs, max(run.clock for run in group.runs), summary)


def pair_result(pair: Pair) -> PairResult:
    found = pair.improvement
    return PairResult(pair.better.name, pair.other.name, found.probability, found.low, found.high)
