"""The settings of a study, written to its folder once: the same command goes on with it, another is refused."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rl_training.config import ConfigError, RunConfig
from rl_training.config.overrides import apply_override
from rl_training.config.parsing import shortened
from rl_training.config.run_config import flatten
from rl_training.experiment.run_directory import write_atomically
from rl_training.tuning.param import parse_form
from rl_training.tuning.space import Space

FILE = "study.json"
EVALUATIONS = 10  # of a run, where the config asks for none before its end
MIN_POPULATION = 2


@dataclass(frozen=True)
class Settings:
    """The settings of a study that decide its result: preset, search space, sampler, pruner, objective, seeds.

    Where its runs are executed, and how many at a time, is not part of them.
    """

    preset: str
    values: dict  # of the preset, with what was set: the best settings are put into them
    config: dict  # of every run, without what is searched
    space: dict[str, str]  # forms by path
    trials: int
    sampler: str
    pruner: str
    objective: str
    seeds_per_trial: int
    seed: int

    @property
    def params(self) -> Space:
        return {path: parse_form(path, form) for path, form in self.space.items()}

    @property
    def run(self) -> RunConfig:
        return RunConfig.from_mapping(self.config)

    @property
    def horizon(self) -> int:
        return self.run.training.horizon

    @property
    def interval(self) -> int:
        return self.run.evaluation.interval


def recorded(values: dict) -> dict:
    """Returns the full config data of a study's runs, made from `values`, with a checkpoint at every evaluation.

    Runs get 10 evaluations unless `values` has an interval, and one thread unless it has a number of them.
    """
    config = RunConfig.from_mapping(values)
    interval = config.evaluation.interval or max(1, config.training.horizon // EVALUATIONS)
    changes = [f"evaluation.interval={interval}", f"checkpoint.interval={interval}", "checkpoint.keep=1"]
    if config.training.threads is None:
        changes.append("training.threads=1")
    for change in changes:
        values = apply_override(values, change)
    return RunConfig.from_mapping(values).to_mapping()


def read_settings(folder: Path) -> Settings:
    """Reads the settings of the study in a folder; raises ConfigError if they are missing or damaged."""
    file = folder / FILE
    if not file.exists():
        raise ConfigError(
            f"{folder} holds no study: it has no {FILE}; `rl-training tune PRESET --out {folder}` begins one"
        )
    try:
        return Settings(**json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{file} is damaged ({error}): restore it, or choose another folder with --out") from error


def agree(folder: Path, wanted: Settings) -> Settings:
    """Begins a study in a folder, by writing its settings, or checks that the study there has the same.

    Returns the study's settings; if `wanted` has more trials, they get as many, and are written again. Raises
    ConfigError if other settings differ, if a population would change its size, or if the folder holds something else.
    """
    file = folder / FILE
    if not file.exists():
        if folder.is_dir() and any(path for path in folder.iterdir() if path.name != ".lock"):
            raise ConfigError(f"{folder} is not empty and holds no study: choose another folder with --out")
        write_settings(folder, wanted)
        return wanted
    known = read_settings(folder)
    left, right = (flatten(comparable(settings)) for settings in (known, wanted))
    differs = next((key for key in [*left, *right] if left.get(key) != right.get(key)), None)
    if differs is not None:
        raise ConfigError(
            f"{folder} holds a study with {differs}={shortened(left.get(differs))}, and you ask for "
            f"{shortened(right.get(differs))}: choose another folder, --out {shlex.quote(f'{folder}-2')}"
        )
    if known.sampler == "pbt" and wanted.trials != known.trials:
        raise ConfigError(
            f"{folder} holds a population of {known.trials}, which cannot change: give --trials {known.trials}"
        )
    if wanted.trials > known.trials:
        known = replace(known, trials=wanted.trials)
        write_settings(folder, known)
    return known


def comparable(settings: Settings) -> dict:
    return {key: value for key, value in asdict(settings).items() if key not in ("trials", "preset", "values")}


def write_settings(folder: Path, settings: Settings) -> None:
    write_atomically(folder / FILE, json.dumps(asdict(settings), indent=1) + "\n")
