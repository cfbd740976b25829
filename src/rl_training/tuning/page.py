"""A study as one HTML page that needs nothing else."""

from __future__ import annotations

import html

from rl_training.experiment.html_page import html_page, to_html
from rl_training.tuning.display import outcome
from rl_training.tuning.plots import curves_plot, history_plot, importance_plot, parallel_plot
from rl_training.tuning.records import Records, Trial
from rl_training.tuning.settings import Settings

IMPORTANCE = (
    "By PED-ANOVA (arXiv:2304.10255) over complete trials: how far the values of a setting in the best trials differ from those "
    "in all. With few trials this is rough."
)


def page_of(settings: Settings, records: Records, trials: list[Trial], best: Trial | None) -> str:
    """Returns a study's report as the text of one HTML page: summary, plots, and the table of all trials."""
    title = f"Search: {settings.preset}"
    parts = [
        f"<h1>{html.escape(title)}</h1>",
        to_html(summary(settings, trials, best)),
        *part("History", history_plot(trials)),
        *part("Learning curves", curves_plot(trials, best)),
        *part("Importance", importance_plot(records.importances()), IMPORTANCE),
        *part("Parallel coordinates", parallel_plot(trials, settings.params)),
        "<h2>Trials</h2>",
        to_html(table(settings, trials)),
    ]
    return html_page(title, parts)


def part(heading: str, picture: str | None, words: str = "") -> list[str]:
    if picture is None:
        return []
    return [f"<h2>{heading}</h2>", *([f"<p>{html.escape(words)}</p>"] if words else []), picture]


def summary(settings: Settings, trials: list[Trial], best: Trial | None) -> str:
    """Returns the start of a study's report as Markdown: its trials by state, its settings, and the best trial."""
    states = [trial.state for trial in trials]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(sorted(states)))
    steps = f"{settings.horizon:,} steps, evaluated every {settings.interval:,}"
    lines = [
        f"- {len(trials)} trials ({counts}) by {settings.sampler}, pruned by {settings.pruner}; seed {settings.seed}",
        f"- a trial is {settings.seeds_per_trial} run(s) of {steps}; the objective is {settings.objective}",
    ]
    if best is None:
        return "\n".join([*lines, "- no trial is complete"])
    found = ", ".join(f"{path}={shown(value)}" for path, value in best.params.items())
    warning = "it was chosen by this very number, which is therefore too high: train best.yaml again on other seeds"
    return "\n".join([*lines, f"- best: trial {best.number} with {best.value:.4g}; {warning}", f"- {found}"])


def table(settings: Settings, trials: list[Trial]) -> str:
    """Returns a Markdown table of all trials and their settings, the best first, those without a value last."""
    paths = list(settings.space)
    head = ["trial", "value", "state", "steps", *paths, "how it ended"]
    rows = sorted(trials, key=lambda t: (t.value is None, -(t.value or 0.0), -t.reached, t.number))
    cells = [
        [
            str(t.number),
            "" if t.value is None else f"{t.value:.4g}",
            t.state,
            f"{t.reached:,}",
            *(shown(t.params.get(path, "")) for path in paths),
            "" if t.value is not None else outcome(t),
        ]
        for t in rows
    ]
    lines = [head, ["---"] * len(head), *cells]
    return "\n".join("|" + "|".join(cell.replace("|", "/").replace("\n", " ") for cell in line) + "|" for line in lines)


def shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
