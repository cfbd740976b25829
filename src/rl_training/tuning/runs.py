"""The run directories of a study's trials: where they are, what stands in them, and what is to run next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rl_training.config.overrides import apply_override
from rl_training.experiment.curve import read_lines
from rl_training.experiment.run_directory import result_of
from rl_training.tuning.job import Job
from rl_training.tuning.objective import Objective
from rl_training.tuning.param import with_params
from rl_training.tuning.records import Trial
from rl_training.tuning.settings import Settings

ENDED = ("finished", "stopped")


class Runs:
    """The run directories of a study's trials, one for each seed of a trial, for example `trials/0007/seed7`."""

    def __init__(self, study: Path, settings: Settings) -> None:
        self.study, self.settings = study, settings
        self.objective = Objective.parse(settings.objective)

    def seeds(self, trial: int) -> list[int]:
        """Returns the seeds of trial number `trial`, `settings.seeds_per_trial` of them; no other trial has these."""
        count = self.settings.seeds_per_trial
        return [self.settings.seed + trial * count + index for index in range(count)]

    def folders(self, trial: int) -> list[Path]:
        return [self.study / "trials" / f"{trial:04d}" / f"seed{seed}" for seed in self.seeds(trial)]

    def next_job(self, trial: Trial) -> Job | None:
        """Returns a job for the first of a trial's runs that has not ended; None if all have."""
        for seed, folder in zip(self.seeds(trial.number), self.folders(trial.number), strict=True):
            if result_of(folder).get("status") not in ENDED:
                return self.job_in(folder, seed, trial)
        return None

    def job(self, trial: Trial, *, stop_at: int) -> Job:
        """Returns a job that trains the first run of a trial up to step `stop_at`."""
        seed, folder = self.seeds(trial.number)[0], self.folders(trial.number)[0]
        return replace(self.job_in(folder, seed, trial), stop_at=stop_at)

    def job_in(self, folder: Path, seed: int, trial: Trial) -> Job:
        values = with_params(self.settings.config, trial.params)
        return Job(trial.number, str(folder), apply_override(values, f"training.seed={seed}"))

    def decides(self, job: Job) -> bool:
        """Returns True if a job is the first run of its trial; only its evaluations decide whether it is pruned."""
        return Path(job.folder) == self.folders(job.trial)[0]

    def value(self, trial: int) -> float:
        """Returns the value of trial number `trial`, whose runs have all ended: the mean objective over its seeds."""
        values = [self.objective.of(evaluations(folder)) for folder in self.folders(trial)]
        return sum(values) / len(values)

    def seconds(self, trial: int) -> float:
        return sum(result_of(folder).get("wall_time_s", 0.0) for folder in self.folders(trial))


def evaluations(folder: Path) -> dict[int, float]:
    """Returns the mean return of each evaluation in the log of a run directory, by step; {} if there is none."""
    return {
        row["timesteps"]: row["eval/mean_reward"] for row in read_lines(folder / "metrics.jsonl") if is_evaluation(row)
    }


def is_evaluation(row: dict) -> bool:
    return row.get("eval/mean_reward") is not None
