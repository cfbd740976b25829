"""Tables of a report: results, settings, runs and versions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from rl_training.experiment.html_page import Html, element
from rl_training.experiment.report.charts import swatch
from rl_training.experiment.report.comparison import Summary
from rl_training.experiment.report.formatting import duration, number, plural
from rl_training.experiment.report.groups import ABSENT, Group, differences
from rl_training.experiment.report.reported_run import ReportedRun, finite

LONG = 24  # letters from which a cell may wrap
CLEAN = {"finished", "stopped", "paused", "running"}  # states that nobody needs to look into


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[int] = (), caption: str | None = None
) -> Html:
    """Returns an HTML table that scrolls if it is too wide; the first cell of a row is its heading.

    `numbers` are the columns that are aligned at the right.
    """
    top = element(
        "tr", *(element("th", cell, scope="col", class_="n" if i in numbers else None) for i, cell in enumerate(head))
    )
    body = [
        element("tr", *(table_cell(cell, first=i == 0, right=i in numbers) for i, cell in enumerate(row)))
        for row in rows
    ]
    about = element("caption", caption) if caption else None
    whole = element("table", about, element("thead", top), element("tbody", *body))
    return element("div", whole, class_="wide", tabindex="0", role="region", aria_label=caption or " ".join(head))


def table_cell(content: str, *, first: bool, right: bool) -> Html:
    look = "n" if right else "long" if len(content) > LONG and not isinstance(content, Html) else None
    return element("th", content, scope="row", class_=look) if first else element("td", content, class_=look)


def group_cell(group: Group) -> Html:
    return element("span", swatch(group.number), group.name)


def results_table(rows: Sequence[tuple[Group, Summary | None]], what: str) -> Html:
    """Returns the table of groups: seeds, steps, scores over seeds, duration and speed."""
    head = ["group", "seeds", "steps", "mean \u00b1 sd", "IQM", "95 % interval", "wall time", "steps/s"]
    cells = []
    for group, summary in rows:
        steps = sorted({run.clock for run in group.runs})
        times, speeds = (numbers_of(group.runs, name) for name in ("wall_time_s", "steps_per_second"))
        scores = ["-", "-", "-"]
        if summary is not None:
            spread = f" \u00b1 {number(summary.std)}" if summary.count > 1 else ""
            around = f"{number(summary.low)} to {number(summary.high)}" if summary.count > 1 else "one seed"
            scores = [f"{number(summary.mean)}{spread}", number(summary.iqm), around]
        cells.append(
            [
                element("span", swatch(group.number), group.label),
                f"{len(group.runs)} ({some([run.seed for run in group.runs])})",
                number(steps[0]) if len(steps) == 1 else f"{number(steps[0])} to {number(steps[-1])}",
                *scores,
                duration(sum(times) / len(times)) if times else "-",
                number(round(sum(speeds) / len(speeds))) if speeds else "-",
            ]
        )
    caption = f"Score: {what}. Wall time and steps per second: means over seeds, as the runs measured them."
    return table(head, cells, numbers=(2, 3, 4, 5, 6, 7), caption=caption)


def numbers_of(runs: Sequence[ReportedRun], name: str) -> list[float]:
    return [value for run in runs if finite(value := run.result.get(name))]


def settings_part(groups: Sequence[Group]) -> list[Html]:
    """Returns the settings that differ between groups, and every group's whole config and command, folded."""
    changed = differences([group for group in groups if group.settings])
    common = {path: column for path, column in changed.items() if ABSENT not in column}
    parts = [settings_table(common, groups, "Settings in which the groups differ.")] if common else []
    if len(groups) > 1 and not changed:
        parts.append(element("p", "The groups have the same settings."))
    if others := {path: column for path, column in changed.items() if path not in common}:
        name = f"{plural(len(others), 'setting')} that only some of the groups have"
        parts.append(element("details", element("summary", name), settings_table(others, groups, None)))
    return [*parts, *(config_part(group) for group in groups)]


def settings_table(rows: dict[str, list[str]], groups: Sequence[Group], caption: str | None) -> Html:
    head = ["setting", *(group_cell(group) for group in groups if group.settings)]
    return table(head, [[path, *column] for path, column in rows.items()], caption=caption)


def config_part(group: Group) -> Html:
    """Returns a group's whole config and the command that began it, folded."""
    run = group.runs[0]
    text = yaml.safe_dump(run.record.config, sort_keys=False) if run.record.config else "config.yaml cannot be read."
    command = run.record.metadata.get("command")
    said = " ".join(map(str, command)) if isinstance(command, list) else None
    began = element("p", "Begun with: ", element("code", said)) if said else None
    name = f"Whole config of {group.name}" + (f" (seed {run.seed})" if len(group.runs) > 1 else "")
    return element("details", element("summary", name), began, element("pre", text, tabindex="0"))


def runs_table(groups: Sequence[Group]) -> Html:
    """Returns the table of all runs: how each ended, and where it and its checkpoints are."""
    head = [
        "run",
        "state",
        "steps",
        "last evaluation",
        "best evaluation",
        "wall time",
        "started",
        "checkpoints",
        "folder",
    ]
    rows, right = [run_cells(group, run) for group in groups for run in group.runs], (2, 3, 4, 5)
    said = [" ".join(remarks(run)) for group in groups for run in group.runs]
    if any(said):  # next to the state, as that is what they explain
        head.insert(2, "remarks")
        rows = [[*row[:2], remark, *row[2:]] for row, remark in zip(rows, said, strict=True)]
        right = (3, 4, 5, 6)
    caption = "Evaluations: mean returns. Checkpoints: the steps of the best and of the last, in folder/checkpoints."
    return table(head, rows, numbers=right, caption=caption)


def run_cells(group: Group, run: ReportedRun) -> list[str]:
    status, planned = run.record.status, run.planned
    means = [sum(returns) / len(returns) for _, returns in run.evaluations]
    return [
        element("span", swatch(group.number), f"{group.name}, seed {run.seed}"),
        status if status in CLEAN else element("span", status, class_="bad"),
        f"{number(run.clock)} of {number(planned)}" if planned > run.clock else number(run.clock),
        number(means[-1]) if means else "-",
        number(max(means)) if means else "-",
        duration(run.result.get("wall_time_s")),
        str(run.record.metadata.get("started", "-"))[:16].replace("T", " "),
        checkpoints_text([path.name for path in run.record.checkpoints()]),
        from_here(run.path),
    ]


def from_here(path: Path) -> str:
    """Returns a path from the current folder on, if it is inside."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def checkpoints_text(names: Sequence[str]) -> str:
    """Returns the steps of the best and of the last checkpoint, given the names of all, such as "step-000000050000"."""
    found = dict(sorted((kind, step) for kind, _, step in (name.partition("-") for name in names) if step.isdigit()))
    words = {"best": "best", "step": "last"}
    return ", ".join(f"{word} {number(int(found[kind]))}" for kind, word in words.items() if kind in found) or "none"


def remarks(run: ReportedRun) -> list[str]:
    """Returns sentences about a run: why it ended, whose weights it began with, and changes of its budget."""
    reason = run.result.get("reason")
    found = [f"{reason}." if not str(reason).endswith(".") else str(reason)] if reason not in (None, "budget") else []
    origins, changes = (entries(run.record.metadata.get(name)) for name in ("origins", "extensions"))
    found += [f"Began with weights of {entry.get('path', 'another checkpoint')}." for entry in origins]
    found += [f"Its budget was changed at {number(entry.get('timesteps'))}." for entry in changes]
    return found


def entries(value: object) -> list[dict]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def versions_table(runs: Sequence[ReportedRun]) -> Html | None:
    """Returns the table of versions, commits and machines, a column for each set of them; None if no run says any."""
    found: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for run in runs:
        found.setdefault(tuple(origin_of(run).items()), []).append(run.name)
    names = list(dict.fromkeys(name for origin in found for name, _ in origin))
    if not names:
        return None
    known = [dict(origin) for origin in found]
    who = ["all runs"] if len(found) == 1 else [some(runs, 3) for runs in found.values()]
    return table(["version of", *who], [[name, *(origin.get(name, "-") for origin in known)] for name in names])


def some(names: Sequence[str], most: int = 10) -> str:
    """Returns names as text, with the number of those beyond the first `most`."""
    return ", ".join(names) if len(names) <= most else f"{', '.join(names[:most])} and {len(names) - most} more"


def origin_of(run: ReportedRun) -> dict[str, str]:
    """Returns where a run comes from, by column: versions of packages, commit, and machine."""
    metadata = run.record.metadata
    versions, hardware = (
        value if isinstance(value := metadata.get(name), dict) else {} for name in ("versions", "hardware")
    )
    found = {str(name): value for name, value in versions.items()}
    found |= {"python": metadata.get("python"), "commit": metadata.get("git")}
    found |= {name: hardware.get(name) for name in ("processor", "cores", "platform")}
    return {name: str(value) for name, value in found.items() if value is not None}
