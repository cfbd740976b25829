"""Speed and learning as one HTML page that needs nothing else."""

from __future__ import annotations

import html
from pathlib import Path

from rl_training.bench.gates import normalised
from rl_training.bench.learning_cells import LEARNING, LEARNING_SUITES
from rl_training.bench.plots import curves_plot, interval_plot, profile_plot, speed_plot
from rl_training.bench.records import read_cell, read_json, stored_cells
from rl_training.bench.speed import FILE
from rl_training.bench.summary import summarise
from rl_training.bench.tables import speed_table
from rl_training.experiment.html_page import html_page, to_html
from rl_training.experiment.run_directory import write_atomically


def write_report(results: Path, out: Path) -> None:
    """Writes the benchmark results of folder `results` as one HTML page to `out`.

    Raises ValueError if there are none or writing fails.
    """
    parts = [*speed_part(results), *learning_part(results / "learning")]
    if not parts:
        raise ValueError(f"{results} holds no results: run `rl-training bench speed` or `bench learn` first")
    page = html_page("rl_training: benchmarks", ["<h1>rl_training: speed and learning</h1>", *parts])
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, page)
    except OSError as error:
        raise ValueError(f"--out {out} cannot be written ({error.strerror}): choose another file") from error


def speed_part(results: Path) -> list[str]:
    if not (results / FILE).exists():
        return []
    rows: dict[str, dict] = read_json(results / FILE)
    machines = dict.fromkeys(describe(row["machine"]) for row in rows.values() if "machine" in row)
    versions = {key: value for row in rows.values() for key, value in row.get("versions", {}).items()}
    about = (
        "The same work in one run, ours and each peer alternated; the ratio is the median over repeats, with its range. "
        f"Machine: {'; '.join(machines)}. Versions: {', '.join(f'{k} {v}' for k, v in versions.items())}."
    )
    return ["<h2>Speed</h2>", f"<p>{html.escape(about)}</p>", speed_plot(rows) or "", to_html(speed_table(rows))]


def describe(machine: dict) -> str:
    return ", ".join(filter(None, [f"{machine['cores']} cores of {machine['processor']}", machine.get("gpu")]))


def learning_part(folder: Path) -> list[str]:
    stored = stored_cells(folder)
    parts = []
    for suite, names in LEARNING_SUITES.items():
        cells = [name for name in names if name in stored]
        if not cells:
            continue
        summary = summarise(folder, cells)
        records = {name: read_cell(folder, name) for name in cells}
        scales = {name: scores for name in cells if (scores := normalised(name, records[name])) is not None}
        parts += [f"<h2>Learning: {suite}</h2>", interval_plot(summary.verdicts, scales) or ""]
        parts += [] if summary.aggregate is None else [profile_plot(summary.aggregate.profile)]
        parts += [to_html(summary.markdown()), curves_plot(records) or ""]
    others = [name for name in stored if name not in LEARNING and not name.endswith("-sb3")]
    return [*parts, *([f"<p>Not in a suite: {html.escape(', '.join(others))}</p>"] if others else [])]
