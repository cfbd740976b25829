"""Figures of a report: learning curves, small charts of training, and comparisons of groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from rl_training.experiment.html_page import Html, element
from rl_training.experiment.report.charts import Interval, Line, interval_chart, line_chart, swatch
from rl_training.experiment.report.comparison import Pair, Summary, profile_of, thresholds_of
from rl_training.experiment.report.curves import Curve, evaluation_curve, metric_curve
from rl_training.experiment.report.formatting import number, plural, shortened
from rl_training.experiment.report.groups import Group
from rl_training.experiment.report.reported_run import ReportedRun, finite
from rl_training.experiment.report.tables import table

MOST_ROWS = 25  # of a curve, in the table below its figure
NAMES = {
    "rollout/ep_rew_mean": "Training return (mean of recent episodes)",
    "rollout/ep_len_mean": "Episode length in steps (mean of recent episodes)",
    "eval/mean_ep_length": "Episode length in evaluations (steps)",
    "eval/std_reward": "Standard deviation of the return within an evaluation",
    "time/fps": "Throughput (steps per second)",
}
HEADINGS = {
    "rollout": "Episodes",
    "eval": "Evaluations",
    "time": "Throughput",
    "train": "Losses and updates",
    "health": "Health of value learning",
}
HIDDEN = ("eval/mean_reward", "eval/returns", "timesteps", "train/n_updates")  # shown elsewhere, or counts
TIMES = ("time/fps",)  # the others only count


def legend(groups: Sequence[Group]) -> Html:
    items = (
        element("li", swatch(group.number), f"{group.label} ({plural(len(group.runs), 'seed')})") for group in groups
    )
    return element("ul", *items, class_="legend")


def learning_figure(groups: Sequence[Group], unit: str) -> list[Html]:
    """Returns the figure of evaluations over steps and its table; nothing if no run of the groups was evaluated."""
    curves = {group.number: evaluation_curve([run.evaluations for run in group.runs]) for group in groups}
    shown = [group for group in groups if len(curves[group.number].steps)]
    if not shown:
        return []
    lines = [line for group in shown for line in (*single_runs(group), line_of(group, curves[group.number], unit))]
    ends = [f"{g.label} {number(curves[g.number].middle[-1])} at {number(curves[g.number].steps[-1])}" for g in shown]
    chart = line_chart(lines, label=f"Evaluation return over {unit}: {'; '.join(ends)}.", x_name=unit)
    several = any(len(group.runs) > 1 for group in shown)
    single = any(len(group.runs) == 1 for group in shown)
    about = [
        *(
            ["line: IQM over seeds; band: 95 % bootstrap interval over seeds; thin lines: single seeds"]
            if several
            else []
        ),
        *(["one seed: mean, and 95 % bootstrap interval over the episodes of an evaluation"] if single else []),
    ]
    caption = element("figcaption", "Evaluation return ", element("span", f"({'; '.join(about)})"))
    rows = [row for group in shown for row in curve_rows(group, curves[group.number])]
    head = ["group", unit, "return", "95 % from", "to", "seeds"]
    numbers = element(
        "details", element("summary", "The numbers of this figure"), table(head, rows, numbers=(1, 2, 3, 4, 5))
    )
    return [element("figure", caption, chart), numbers]


def line_of(group: Group, curve: Curve, unit: str) -> Line:
    notes = [
        f"{group.label}, {number(step)} {unit}: {number(middle)} ({number(low)} to {number(high)}), {plural(int(count), 'seed')}"
        for step, middle, low, high, count in zip(*curve, strict=True)
    ]
    return Line(group.number, curve.steps, curve.middle, curve.low, curve.high, notes)


def single_runs(group: Group) -> list[Line]:
    """Returns the thin lines of a group's runs; none for a single run."""
    runs = [run for run in group.runs if run.evaluations] if len(group.runs) > 1 else []
    points = [[(step, float(np.mean(returns))) for step, returns in run.evaluations] for run in runs]
    return [Line(group.number, *np.array(given).T, faint=True) for given in points]


def curve_rows(group: Group, curve: Curve) -> list[list[str]]:
    kept = np.unique(np.linspace(0, len(curve.steps) - 1, MOST_ROWS).round().astype(int))
    return [[group.label, *(number(float(column[i])) for column in curve)] for i in kept]


def training_figures(groups: Sequence[Group], unit: str) -> list[Html]:
    """Returns small charts of everything that was logged while groups trained, below a heading for each kind."""
    parts = []
    for kind, names in metric_names(groups).items():
        charts = [chart for name in names if (chart := metric_figure(groups, name, unit))]
        if charts:
            parts += [element("h3", HEADINGS.get(kind, kind)), element("div", *charts, class_="few")]
    return parts


def metric_names(groups: Sequence[Group]) -> dict[str, list[str]]:
    """Returns the names of all logged metrics by kind, the part before the slash, in a fixed order of kinds."""
    found = dict.fromkeys(name for group in groups for run in group.runs for row in run.metrics for name in row)
    kinds = defaultdict[str, list[str]](list)
    kinds |= {kind: [] for kind in HEADINGS}
    kinds["rollout"] = ["return", "length"]
    replaced = ("rollout/ep_rew_mean", "rollout/ep_len_mean") if any(r.episodes for g in groups for r in g.runs) else ()
    for name in found:
        kind = name.partition("/")[0] if "/" in name else "Other metrics"
        if name not in (*HIDDEN, *replaced) and (kind != "time" or name in TIMES):
            kinds[kind].append(name)
    return {kind: names for kind, names in kinds.items() if names}


def metric_figure(groups: Sequence[Group], name: str, unit: str) -> Html | None:
    """Returns the small chart of one metric over steps; None if no run has a finite value of it."""
    episodes = {"return": "Training return (per episode)", "length": "Episode length (steps)"}

    def read(run: ReportedRun) -> list[tuple[float, float]]:
        return [(row["timesteps"], row[name]) for row in run.episodes] if name in episodes else run.metric(name)

    curves = [(group, metric_curve([read(run) for run in group.runs])) for group in groups]
    lines = [
        Line(group.number, curve.steps, curve.middle, curve.low, curve.high)
        for group, curve in curves
        if len(curve.steps)
    ]
    if not lines:
        return None
    title = episodes.get(name) or NAMES.get(name) or name.partition("/")[2] or name
    if name == "time/fps" and unit != "env steps":
        title = f"Throughput ({unit} per second)"
    ends = "; ".join(f"{group.label} {number(float(curve.middle[-1]))}" for group, curve in curves if len(curve.steps))
    lost = sum(lost_values(run, name) for group in groups for run in group.runs)
    note = element("span", f" ({plural(lost, 'value')} not finite, left out)") if lost else None
    chart = line_chart(lines, label=f"{title} over {unit}, at the end: {ends}.", x_name=unit, small=True)
    return element("figure", element("figcaption", title, note), chart)


def lost_values(run: ReportedRun, name: str) -> int:
    return sum(1 for row in run.metrics if name in row and not finite(row[name]))


def score_figure(rows: Iterable[tuple[Group, Summary]], what: str) -> Html:
    """Returns the figure of every group's IQM with its interval and the scores of its runs as rings."""
    shown = [
        Interval(g.number, f"{shortened(g.label, 40)} ({s.count})", s.iqm, s.low, s.high, g.scores) for g, s in rows
    ]
    said = "; ".join(f"{row.name}: {number(row.point)} ({number(row.low)} to {number(row.high)})" for row in shown)
    chart = interval_chart(shown, label=f"IQM of the {what}. {said}.", x_name=what)
    caption = element(
        "figcaption",
        "IQM ",
        element("span", "(dot; bar: 95 % bootstrap interval; rings: single runs; in brackets: runs)"),
    )
    return element("figure", caption, chart)


def improvement_figure(pairs: Sequence[Pair]) -> Html:
    """Returns the figure of the probability, for each pair of groups, that a run of one beats a run of the other."""
    shown = [
        Interval(
            pair.better.number,
            f"{shortened(pair.better.label, 26)} > {shortened(pair.other.label, 26)}",
            p.probability,
            p.low,
            p.high,
        )
        for pair in pairs
        for p in (pair.improvement,)
    ]
    said = "; ".join(f"{row.name}: {row.point:.2f} ({row.low:.2f} to {row.high:.2f})" for row in shown)
    chart = interval_chart(
        shown, label=f"Probability of improvement. {said}.", x_name="probability", reference=0.5, within=(0.0, 1.0)
    )
    caption = element(
        "figcaption",
        "Probability of improvement ",
        element("span", "(bar: 95 % bootstrap interval; line: no difference)"),
    )
    return element("figure", caption, chart)


def profile_figure(groups: Sequence[Group], what: str) -> Html:
    """Returns the figure of the share of each group's runs that score above a threshold, over thresholds."""
    thresholds = thresholds_of(groups)
    lines = []
    for group in groups:
        _, share, low, high = map(np.array, profile_of(group, thresholds))
        lines.append(Line(group.number, thresholds, share, low, high, stairs=True))
    label = (
        f"Share of runs with a {what} above a threshold, over the threshold, for {', '.join(g.label for g in groups)}."
    )
    chart = line_chart(lines, label=label, x_name=what, x_within=(), y_within=(0.0, 1.0))
    caption = element(
        "figcaption",
        "Performance profile ",
        element("span", "(share of runs above a score; band: 95 % bootstrap interval)"),
    )
    return element("figure", caption, chart)
