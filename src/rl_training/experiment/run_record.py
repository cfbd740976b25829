"""A run directory as it is read back: settings, result, logs and checkpoints, without torch and without changing it."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml

from rl_base.file_lock import lock
from rl_training.experiment.curve import having, read_lines

log = logging.getLogger(__name__)
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C is nine times as fast
TAIL = 65_536  # bytes at the end of metrics.jsonl in which a run that has not ended is looked for
DAMAGED = (OSError, ValueError, yaml.YAMLError, RecursionError)


@dataclass(frozen=True)
class RunRecord:
    """The content of a run directory; each file is read when it is first asked for.

    A missing file counts as empty. So does a damaged one, with a logged warning that names it.
    """

    path: Path
    name: str = ""  # the path below the folder in which it was found

    @cached_property
    def config(self) -> dict:
        """Returns the settings of the run as plain data, by section; those of `config.yaml`."""
        return self.mapping("config.yaml")

    @cached_property
    def metadata(self) -> dict:
        """Returns start time, command, versions of packages, git commit, hardware, origins and extensions."""
        return self.mapping("metadata.json")

    @cached_property
    def result(self) -> dict:
        """Returns the fields of a `TrainResult`, or of a failure; {} before the first call of `learn` has ended."""
        return self.mapping("result.json")

    @cached_property
    def running(self) -> bool:
        """Returns True if a process of this machine holds the directory's lock, as a run does until it ends."""
        file = self.path / ".lock"
        try:
            owner = int(file.read_text(encoding="utf-8"))
            os.kill(owner, 0)  # most owners are gone, and their directories need not be locked to find out
        except PermissionError:  # it is alive, and another user's
            pass
        except (OSError, ValueError):
            return False
        try:
            with file.open("r+", encoding="utf-8") as opened:
                lock(opened.fileno(), wait=False)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    @property
    def status(self) -> str:
        """Returns running, finished, paused, stopped or failed; interrupted for a run whose process was killed."""
        return "running" if self.running else str(self.result.get("status", "interrupted"))

    @cached_property
    def latest(self) -> dict:
        """Returns the last value of every metric in the last 64 KiB of `metrics.jsonl`, by name; {} without any."""
        file, found = self.path / "metrics.jsonl", dict[str, object]()
        try:
            with file.open("rb") as opened:
                opened.seek(max(0, file.stat().st_size - TAIL))
                lines = opened.read().splitlines()
        except FileNotFoundError:
            return {}
        except OSError as error:
            tell_unread(file, error)
            return {}
        for line in lines:
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):  # cut at the beginning of the tail, or still being written
                continue
            found |= row if isinstance(row, dict) else {}
        return found

    @cached_property
    def current(self) -> dict:
        """Returns the latest metrics if they go beyond `result.json`, or if there is none; else {}."""
        result, metrics = self.path / "result.json", self.path / "metrics.jsonl"
        if result.exists() and metrics.exists() and metrics.stat().st_mtime_ns <= result.stat().st_mtime_ns:
            return {}
        ended_at = sum(as_number(self.result.get(name)) for name in ("total_timesteps", "offline_updates"))
        return self.latest if not self.result or as_number(self.latest.get("timesteps")) > ended_at else {}

    @cached_property
    def summary(self) -> dict[str, object]:
        """Returns one value for each column of a list of runs, such as "score" and "steps"; None where it is unknown.

        Takes `result.json`, or the end of `metrics.jsonl` if that has gone on since.
        """
        result, current = self.result, self.current
        algorithm, env, training = (self.section(name) for name in ("algorithm", "env", "training"))
        score = current.get("eval/mean_reward", result.get("eval_mean_return"))
        return {
            "run": self.name or str(self.path),
            "status": self.status,
            "algorithm": result.get("algorithm", algorithm.get("name")),
            "env": result.get("env_id", env.get("id")),
            "seed": result.get("seed", training.get("seed")),
            "steps": current.get("time/total_timesteps", result.get("total_timesteps")),
            "updates": current.get("train/n_updates", result.get("gradient_steps")),
            "score": score,
            "spread": current.get("eval/std_reward", result.get("eval_std_return")),
            "success": current.get("eval/success_rate", result.get("eval_success_rate")),
            "train_return": self.latest.get("rollout/ep_rew_mean") if current or score is None else None,
            "seconds": current.get("time/time_elapsed", result.get("wall_time_s")),
            "speed": current.get("time/fps", result.get("steps_per_second")),
            "started": self.metadata.get("started"),
            "reason": result.get("reason"),
        }

    def section(self, name: str) -> dict:
        """Returns a section of the config; {} if `result.json` has what a list needs of it, so that YAML stays unread."""
        found = {} if "seed" in self.result else self.config.get(name)
        return found if isinstance(found, dict) else {}

    def metrics(self) -> list[dict]:
        """Returns the records of `metrics.jsonl`, one per log and per evaluation, oldest first."""
        return self.lines("metrics.jsonl")

    def evaluations(self) -> list[dict]:
        """Returns the records of evaluations, with "timesteps", "eval/mean_reward" and, for each episode, "eval/returns"."""
        return having(self.metrics(), "timesteps", "eval/mean_reward")

    def episodes(self) -> list[dict]:
        """Returns the records of finished training episodes, with "timesteps", "return" and "length"."""
        return self.lines("episodes.jsonl")

    def lines(self, name: str) -> list[dict]:
        """Returns the records in a log of the run; [] if it is missing or cannot be read."""
        try:
            return read_lines(self.path / name)
        except OSError as error:
            tell_unread(self.path / name, error)
            return []

    def checkpoints(self) -> list[Path]:
        """Returns the paths of the checkpoints, `best-...` before `step-...`, each from the oldest to the newest."""
        return sorted(path for kind in ("best", "step") for path in (self.path / "checkpoints").glob(f"{kind}-*"))

    def mapping(self, name: str) -> dict:
        """Returns the mapping in a JSON or YAML file of the run; {} if it is missing or damaged."""
        file = self.path / name
        try:
            text = file.read_text(encoding="utf-8")
            found = json.loads(text) if name.endswith(".json") else yaml.load(text, Loader)  # a safe loader, either way
        except FileNotFoundError:
            return {}
        except DAMAGED as error:
            tell_unread(file, error)
            return {}
        return found if isinstance(found, dict) else {}


def tell_unread(file: Path, error: Exception) -> None:
    log.warning(f"{file} cannot be read and counts as empty: {' '.join(str(error).split())}")


def as_number(value: object) -> float:
    """Returns a number as it is, and 0 for anything else."""
    return value if isinstance(value, int | float) else 0


def is_run(path: Path) -> bool:
    """Returns True for a folder with the files that every run directory has from its beginning."""
    return (path / "config.yaml").is_file() and (path / "metadata.json").is_file()
