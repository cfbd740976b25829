"""The outcome of a study: the best settings as a preset, all trials as a table, and a page."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from rl_training.experiment.run_directory import write_atomically
from rl_training.tuning.param import Value, with_params
from rl_training.tuning.settings import Settings

if TYPE_CHECKING:
    from rl_training.tuning.records import Records, Trial

BEST, TABLE, PAGE = "best.yaml", "trials.json", "report.html"


@dataclass(frozen=True)
class TuneResult:
    """The result of a study: the best trial's number, value and settings, and the files that were written.

    If no trial is complete, `best_trial`, `best_value` and `preset` are None, and `best_params` is empty.
    """

    folder: Path
    trials: int  # that ended
    best_trial: int | None
    best_value: float | None
    best_params: dict[str, Value]
    preset: Path | None  # a YAML file that `rl-training train` takes
    report: Path
    unused_seed: int  # neither it nor a higher one was a seed of a trial


def write_outcome(folder: Path, settings: Settings, records: Records) -> TuneResult:
    """Writes a study's `best.yaml`, `trials.json` and `report.html` from its records, and returns the result.

    Replaces earlier files. Without a complete trial it writes no `best.yaml`.
    """
    from rl_training.tuning.page import page_of  # imports matplotlib
    from rl_training.tuning.runs import Runs

    trials = [trial for trial in records.all() if trial.counts and trial.state != "waiting"]
    best = best_of(trials)
    runs = Runs(folder, settings)
    rows = [row_of(trial, runs.folders(trial.number)[0], runs.seconds(trial.number)) for trial in trials]
    write_atomically(folder / TABLE, json.dumps(rows, indent=1) + "\n")
    if best is not None:
        write_atomically(folder / BEST, preset_text(settings, best, len(trials)))
    write_atomically(folder / PAGE, page_of(settings, records, trials, best))
    return TuneResult(
        folder=folder,
        trials=sum(trial.state != "running" for trial in trials),
        best_trial=best.number if best else None,
        best_value=best.value if best else None,
        best_params=best.params if best else {},
        preset=folder / BEST if best else None,
        report=folder / PAGE,
        unused_seed=max((max(runs.seeds(trial.number)) for trial in records.all()), default=settings.seed - 1) + 1,
    )


def best_of(trials: list[Trial]) -> Trial | None:
    """Returns the complete trial with the highest value, the first of those that are equal; None if no trial is complete."""
    return max((t for t in trials if t.value is not None), key=lambda t: (t.value, -t.number), default=None)


def row_of(trial: Trial, folder: Path, seconds: float) -> dict:
    return {
        "trial": trial.number,
        "state": trial.state,
        "value": trial.value,
        "params": trial.params,
        "curve": trial.curve,
        "notes": trial.notes,
        "run": folder.relative_to(folder.parents[2]).as_posix(),
        "seconds": round(seconds, 1),
    }


def preset_text(settings: Settings, best: Trial, count: int) -> str:
    """Returns the study's preset with the best trial's settings as YAML text.

    Its section `about` names the study, and `count`, the number of trials.
    """
    about = {
        "source": f"rl-training tune {settings.preset}, the best of {count} trials, number {best.number}, {time.strftime('%Y-%m-%d')}",
        "result": f"{best.value:.4g} ({settings.objective}; too high, because it was chosen by this number)",
    }
    rest = {key: value for key, value in settings.values.items() if key != "about"}
    return yaml.safe_dump({"about": about, **with_params(rest, best.params)}, sort_keys=False)
