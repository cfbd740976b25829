"""A run's origins and extensions, as recorded in checkpoint manifests and metadata.json."""

from __future__ import annotations

import json
import time
from pathlib import Path

from rl_training.config.run_config import RunConfig
from rl_training.config.sections import TOTALS, TrainingConfig
from rl_training.core import Schedule
from rl_training.core.arguments import ConfigError
from rl_training.experiment.checkpoint import MANIFEST, Checkpoint, sha256
from rl_training.experiment.run_directory import write_atomically
from rl_training.runtime import Progress


def origin(kind: str, path: Path, checkpoint: Checkpoint, *, at: int, kept: list[str], changed: dict) -> dict:
    """Returns the record, a dict of JSON values, that an agent took weights from the checkpoint in the folder `path`.

    `kind` is "load" or "warm_start", `at` is the agent's own clock then, `kept` names the parts that were taken, and
    `changed` maps settings to [old, new].
    """
    return {
        "kind": kind,
        "path": str(path.resolve()),
        "manifest_sha256": sha256(path / MANIFEST),
        "algorithm": checkpoint.config["algorithm"]["name"],
        "timesteps": checkpoint.timesteps,
        "at": at,
        "kept": kept,
        "changed": changed,
        "time": now(),
    }


def extensions(run: Path) -> list[dict]:
    """Returns the records of a run directory about changes of its budget, oldest first; [] if it was never changed.

    Each is a dict with the clock then ("timesteps"), the new and the old totals, and the time.
    """
    return read_metadata(run).get("extensions", [])


def planned(config: RunConfig, run: Path) -> RunConfig:
    """Returns the config with the newest totals of env steps and updates that the run directory `run` records.

    Returns it unchanged if the run's budget was never changed.
    """
    known = extensions(run)
    return config.replace("training", **{name: known[-1][name] for name in TOTALS.values()}) if known else config


def moved_schedules(old: RunConfig, new: RunConfig, progress: Progress) -> list[str]:
    """Returns texts such as "algorithm.learning_rate: 0.0003 -> 0.0002" for all schedules that a new budget stretches.

    `old` and `new` are the configs before and after. The numbers are the schedule's values at the current step under
    each.
    """
    found, at = [], progress.timesteps
    for name, schedule in vars(new.algorithm.fitted(new.experience.supply(new.env.n_envs))).items():
        if isinstance(schedule, Schedule) and schedule.changes:
            before, after = (schedule.at(min(at / max(c.training.horizon, 1), 1.0)) for c in (old, new))
            found.append(f"algorithm.{name}: {before:.3g} -> {after:.3g}")
    return found


def note_extension(run: Path, timesteps: int, old: TrainingConfig, new: TrainingConfig) -> None:
    """Records a new budget, and the clock `timesteps` at which it was given, in the run's metadata.json.

    Does nothing if the budget is the same or recorded already.
    """
    known, before, now_said = extensions(run), totals(old), {"timesteps": timesteps, **totals(new)}
    if before == totals(new) or (known and known[-1].items() >= now_said.items()):
        return  # noted by a process that was killed before it wrote the config
    record = now_said | {f"old_{name}": total for name, total in before.items()} | {"time": now()}
    write_metadata(run, {"extensions": [*known, record]})


def totals(training: TrainingConfig) -> dict[str, int]:
    """Returns the budgets of a whole run by the names of their settings, "total_timesteps" and "total_updates"."""
    return {name: getattr(training, name) for name in TOTALS.values()}


def note_origins(run: Path, origins: list[dict]) -> None:
    if origins and read_metadata(run).get("origins") != origins:
        write_metadata(run, {"origins": origins})


def read_metadata(run: Path) -> dict:
    file = run / "metadata.json"
    try:
        found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be read ({error}): restore it, or delete it") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{file} does not hold metadata: restore it, or delete it")
    return found


def write_metadata(run: Path, changes: dict) -> None:
    write_atomically(run / "metadata.json", json.dumps(read_metadata(run) | changes, indent=2))


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
