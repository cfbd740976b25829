"""The page of a report, put together from its sections."""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rl_training.config.parsing import parse_path
from rl_training.core.arguments import ConfigError
from rl_training.experiment import curve, run_record
from rl_training.experiment.find_runs import find_runs
from rl_training.experiment.html_page import Html, element, html_page
from rl_training.experiment.report.comparison import compare_groups
from rl_training.experiment.report.figures import (
    improvement_figure,
    learning_figure,
    legend,
    profile_figure,
    score_figure,
    training_figures,
)
from rl_training.experiment.report.formatting import plural
from rl_training.experiment.report.groups import Group, make_groups
from rl_training.experiment.report.reported_run import ReportedRun
from rl_training.experiment.report.style import STYLE
from rl_training.experiment.report.tables import results_table, runs_table, settings_part, versions_table
from rl_training.experiment.report.videos import videos_part
from rl_training.experiment.run_directory import installed, why_not_a_run, write_atomically
from rl_training.experiment.run_record import RunRecord

FEW_RUNS = 5  # from which on an interval over runs is worth its name
STATISTICS = (
    "IQM: the mean of the middle half of the runs' scores. Probability of improvement: how often a run of the first group "
    "scores higher than a run of the second, ties counted as half. Performance profile: the share of runs above a score. "
    "Intervals are 95 % percentile bootstrap intervals from 2,000 resamples of the runs of a group, point by point; one "
    "of length zero says that all resamples agree, which few runs do easily. Scores are raw returns, one per run "
)
SOURCE = "https://arxiv.org/abs/2108.13264"


class Section(NamedTuple):
    """A part of the page with its heading, and the name under which the page links to it."""

    key: str
    heading: str
    parts: list[Html]


def write_report(runs: str | Path | Iterable[str | Path], out: str | Path = "report.html") -> Path:
    """Writes a report about runs as one HTML file, which needs no other file and no network; returns its path.

    `runs` are run directories, or folders of them at any depth. Runs whose configs differ in `training.seed` alone form
    a group, whose seeds are shown together; several groups are compared. Runs may be going on, or have failed. Raises
    ConfigError if there is no run, or `out` cannot be written.
    """
    file = parse_path(out, "out")
    if file.is_dir():
        raise ConfigError(
            f"out={file} is a folder: give the name of the HTML file to write, such as {file / 'report.html'}"
        )
    with warnings_kept() as problems:
        reported = [ReportedRun(record) for record in records_of(runs)]
        groups = make_groups(reported)
        sections = [section for section in make_sections(groups) if section.parts]
    page = html_page(title_of(groups), page_parts(groups, sections, problems), STYLE)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, page)
    except OSError as error:
        raise ConfigError(f"out={file} cannot be written ({error.strerror}): choose another file") from error
    return file


def records_of(runs: object) -> list[RunRecord]:
    """Returns the runs at and below one or several paths, each once; raises ConfigError for a path without any."""
    found: dict[Path, RunRecord] = {}
    for given in runs if isinstance(runs, Iterable) and not isinstance(runs, str | bytes) else [runs]:
        path = parse_path(given, "runs")
        records = (
            [RunRecord(path)] if (path / "config.yaml").is_file() else list(find_runs(path)) if path.is_dir() else []
        )
        if not records:
            raise ConfigError(f"{path} {why_not_a_run(path)}")
        found |= {record.path.resolve(): record for record in records if record.path.resolve() not in found}
    if not found:
        raise ConfigError("runs is empty: name at least one run directory, or a folder of them")
    return list(found.values())


@contextmanager
def warnings_kept() -> Iterator[list[str]]:
    """Yields a list to which the text of every warning is added that reading runs logs inside the block."""
    found: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: found.append(record.getMessage())
    readers = (curve.log, run_record.log)
    for logger in readers:
        logger.addHandler(handler)
    try:
        yield found
    finally:
        for logger in readers:
            logger.removeHandler(handler)


def title_of(groups: Sequence[Group]) -> str:
    names = [group.name for group in groups]
    envs = list(dict.fromkeys(group.env_id for group in groups))
    what = ", ".join(names) if len(names) <= 4 else f"{len(names)} groups of runs"
    return f"{what} on {envs[0]}" if len(envs) == 1 else what


def make_sections(groups: list[Group]) -> Iterator[Section]:
    notes, comparisons, results = [], [], []
    compared = list(compare_groups(groups))
    for env in compared:
        heading = [element("h3", env.env_id)] if len(compared) > 1 else []
        notes += env.notes
        results += [*heading, results_table(env.groups, env.score)]
        scored = [(group, summary) for group, summary in env.groups if summary is not None]
        if len(scored) > 1:
            comparisons += [*heading, score_figure(scored, env.score)]
        if len(env.several) > 1:
            comparisons += [improvement_figure(env.pairs), profile_figure(env.several, env.score)]
    yield Section("results", "Results", [*results, *notes_part(notes)])
    curves, training = curve_parts(groups)
    yield Section("curves", "Learning curves", curves)
    if comparisons:
        yield Section("comparison", "Comparison", [statistics_text(groups), *comparisons])
    yield Section("training", "Training", training)
    yield Section("settings", "Settings", settings_part(groups))
    yield Section("videos", "Videos", videos_part(groups))
    versions = versions_table([run for group in groups for run in group.runs])
    yield Section(
        "runs", "Runs", [runs_table(groups), *([element("h3", "Versions and machines"), versions] if versions else [])]
    )


def curve_parts(groups: Sequence[Group]) -> tuple[list[Html], list[Html]]:
    """Returns learning curves and charts of training, separately for each environment and unit of the x axis."""
    panels = defaultdict[tuple[str, str], list[Group]](list)
    for group in groups:
        panels[group.env_id, group.unit].append(group)
    learned, trained = [], []
    for (env_id, unit), same in panels.items():
        heading = [element("h3", f"{env_id}, {unit}" if len(panels) > 1 else env_id)] if len(panels) > 1 else []
        if figure := learning_figure(same, unit):
            learned += [*heading, legend(same), *figure]
        if figures := training_figures(same, unit):
            about = element(
                "p",
                "Lines: mean over seeds in bins of steps; bands: from the lowest seed to the highest.",
                class_="soft",
            )
            trained += [*heading, about, legend(same), *figures]
    return learned, trained


def notes_part(notes: Sequence[str]) -> list[Html]:
    return [element("div", element("ul", *(element("li", note) for note in notes)), class_="notes")] if notes else []


def statistics_text(groups: Sequence[Group]) -> Html:
    """Returns the paragraph that says how groups are compared, and what too few runs mean."""
    fewest = min(len(group.scores) for group in groups if group.scores)
    few = (
        f" The smallest group has {plural(fewest, 'run')}: intervals of fewer than {FEW_RUNS} runs are too narrow to rely on."
        if fewest < FEW_RUNS
        else ""
    )
    if min(len(group.runs) for group in groups) == 1:
        few += " Groups of one run stand in the first figure alone."
    source = element("a", "Agarwal et al., 2021", href=SOURCE)
    return element("p", STATISTICS, Html("("), source, f").{few}", class_="soft")


def page_parts(groups: Sequence[Group], sections: Sequence[Section], problems: Sequence[str]) -> list[Html]:
    """Returns the body of the page: its head with links to the sections, what could not be read, and the sections."""
    runs = [run for group in groups for run in group.runs]
    states = Counter(run.record.status for run in runs)
    sizes = sorted({len(group.runs) for group in groups})
    seeds = plural(sizes[0], "seed") if len(sizes) == 1 else f"{sizes[0]} to {plural(sizes[-1], 'seed')}"
    each = f"{plural(len(groups), 'group')} with {seeds}{' each' if len(groups) > 1 else ''}"
    state = ", ".join(f"{count} {status}" for status, count in states.items())
    lead = f"{plural(len(runs), 'run')} in {each}; {state}."
    rule = "Runs whose configs differ in the seed alone form a group."
    if len(runs) == 1:
        lead = f"One run with seed {runs[0].seed}; {runs[0].record.status}."
        rule = "Nothing here says how much the seed matters: one run cannot."
    links = element(
        "nav", *(element("a", section.heading, href=f"#{section.key}") for section in sections), aria_label="Sections"
    )
    head = element(
        "header",
        element("h1", title_of(groups)),
        element("p", lead, class_="lead"),
        element("p", rule, class_="soft"),
        links,
    )
    body = [element("section", element("h2", s.heading, id=f"{s.key}"), *s.parts) for s in sections]
    made = (
        f"Made on {time.strftime('%Y-%m-%d %H:%M %Z')} by rl-training {installed('rl-training') or 'from a checkout'}."
    )
    return [head, element("main", *notes_part(list(dict.fromkeys(problems))), *body), element("footer", made)]
