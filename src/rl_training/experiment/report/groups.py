"""Runs as a report sees them, and their groups: the runs whose configs differ in the seed alone."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from rl_training.config.presets import one_line
from rl_training.config.score_protocol import unlike
from rl_training.experiment.report.formatting import plural
from rl_training.experiment.report.reported_run import LAST_EPISODES, SEED, ReportedRun

T = TypeVar("T")
NOT_COMPARED = (SEED, "about")  # settings in which runs of one group may differ, at any depth
ABSENT = "\u2013"  # for a setting that a config does not have
NUM_NAMED = 3  # settings at most in the name of a group


@dataclass
class Group:
    """Runs that differ in their seed alone, with the name and the number (of its colour) that they have in a report."""

    runs: list[ReportedRun]
    number: int
    label: str = ""  # within its environment
    name: str = ""  # within the whole report
    scores: list[float] = field(default_factory=list)

    @property
    def env_id(self) -> str:
        return self.runs[0].env_id

    @property
    def unit(self) -> str:
        return next((run.unit for run in self.runs if run.metrics), self.runs[0].unit)

    @property
    def settings(self) -> dict[str, object]:
        return self.runs[0].settings


def make_groups(runs: Iterable[ReportedRun]) -> list[Group]:
    """Returns the groups of runs, in the order in which they come, named by what tells them apart."""
    found = defaultdict[str, list[ReportedRun]](list)
    for run in runs:
        found[key_of(run)].append(run)
    groups = [
        Group(sorted(given, key=lambda run: seed_order(run.seed)), number)
        for number, given in enumerate(found.values())
    ]
    several_envs = len({group.env_id for group in groups}) > 1
    alike = defaultdict[tuple[str, str], list[Group]](list)
    for group in groups:
        alike[group.runs[0].algorithm, group.env_id].append(group)
    for (algorithm, env_id), same in alike.items():
        for group, detail in zip(same, details(same), strict=True):
            group.label = f"{algorithm}{detail}"
            group.name = f"{algorithm} on {env_id}{detail}" if several_envs else group.label
    return groups


def key_of(run: ReportedRun) -> str:
    """Returns a text that is equal for the runs of one group; a run without a readable config has a group of its own."""
    if not run.settings:
        return str(run.path)
    return json.dumps(compared(run.settings), sort_keys=True, default=str)


def compared(settings: dict[str, T]) -> dict[str, T]:
    """Returns the settings, by path, in which the runs of one group are equal."""
    return {
        path: value
        for path, value in settings.items()
        if path not in NOT_COMPARED and not path.startswith(("about.", "tracking."))
    }


def differences(groups: Sequence[Group]) -> dict[str, list[str]]:
    """Returns the settings, by path, that differ between groups, each with its value in every group as text."""
    given = [compared(group.settings) for group in groups]
    paths = sorted({path for settings in given for path in settings})
    columns = {path: [shown(settings[path]) if path in settings else ABSENT for settings in given] for path in paths}
    return {path: column for path, column in columns.items() if len(set(column)) > 1}


def details(same: Sequence[Group]) -> list[str]:
    """Returns what tells groups of one algorithm and environment apart, as the end of the name of each."""
    if len(same) == 1:
        return [""]
    changed = differences(same)
    if not 0 < len(changed) <= NUM_NAMED:
        return [f", config {letter(index)}" for index in range(len(same))]
    named = [[f"{path.rpartition('.')[2]}={value}" for value in rounded(column)] for path, column in changed.items()]
    return [f", {', '.join(row)}" for row in zip(*named, strict=True)]


def rounded(texts: list[str]) -> list[str]:
    """Returns values as text with fewer digits, unless two of them would look alike."""
    short = [f"{float(text):.4g}" if re.fullmatch(r"-?\d+\.\d+(e-?\d+)?", text) else text for text in texts]
    return short if len(set(short)) == len(set(texts)) else texts


def letter(index: int) -> str:
    return chr(ord("A") + index) if index < 26 else str(index + 1)


def shown(value: object) -> str:
    """Returns the value of a setting as short text."""
    if isinstance(value, dict) and {"initial", "final"} <= value.keys():
        return f"{shown(value['initial'])} to {shown(value['final'])}"
    return f"{value:.10g}" if isinstance(value, float) else one_line(value)


def unlike_rules(groups: Sequence[Group]) -> list[str]:
    """Returns a sentence about the first run whose protocol differs from that of the runs before it; [] if none does."""
    known = [(run.name, rules) for group in groups for run in group.runs if (rules := run.protocol)]
    for name, rules in known:
        if differing := unlike(known[0][1], rules):
            return [f"Scores do not follow the same rules: {known[0][0]} and {name} differ in {'; '.join(differing)}."]
    return []


def seed_order(seed: str) -> tuple[float, str]:
    return (int(seed) if seed.lstrip("-").isdigit() else math.inf, seed)


def set_scores(groups: Sequence[Group]) -> tuple[str, list[str]]:
    """Gives every group the scores of its runs; returns what a score is, and sentences about runs without or before their end.

    A score is the mean return of the last evaluation or, if none of the runs was ever evaluated, of the last training
    episodes.
    """
    evaluated = any(run.evaluations for group in groups for run in group.runs)
    notes = []
    for group in groups:
        scores = [run.score(evaluated=evaluated) for run in group.runs]
        group.scores = [score for score in scores if score is not None]
        if len(group.scores) < len(scores):
            without = [run.seed for run, score in zip(group.runs, scores, strict=True) if score is None]
            notes.append(f"{group.name}: seed {', '.join(without)} has no score yet and does not count.")
        twice = sorted({run.seed for run in group.runs if [r.seed for r in group.runs].count(run.seed) > 1})
        if twice:
            notes.append(f"{group.name}: seed {', '.join(twice)} occurs more than once; such runs are not independent.")
        early = [run for run, score in zip(group.runs, scores, strict=True) if score is not None and not run.ended]
        if early:
            states = ", ".join(f"{run.seed} ({run.record.status} at {run.clock:,})" for run in early)
            notes.append(f"{group.name}: not every run has ended, and the last value so far counts for seed {states}.")
    last = plural(LAST_EPISODES, "training episode")
    what = "mean return of the last evaluation" if evaluated else f"mean return of the last {last}"
    return what, [*notes, *unlike_rules(groups)]
