"""The command `rl-training tune`."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from rl_training.config import ConfigError
from rl_training.tuning import TuneResult
from rl_training.tuning.study import default_folder, report
from rl_training.tuning.study import tune as search


def tune(options: argparse.Namespace) -> int:
    if options.report:
        if not (options.out or options.config):
            raise ConfigError("--report needs the study: give --out FOLDER, or the preset")
        return say(report(Path(options.out) if options.out else default_folder(options.config)))
    if not options.config:
        raise ConfigError("which settings? Name a preset such as ppo/acrobot, or a YAML file")
    overrides = list(options.overrides)
    if options.total_timesteps is not None:
        overrides.append(f"training.total_timesteps={options.total_timesteps}")
    try:
        result = search(
            options.config,
            options.params,
            trials=options.trials,
            jobs=options.jobs,
            sampler=options.sampler,
            pruner=options.pruner,
            engine=options.engine,
            objective=options.objective,
            seeds_per_trial=options.seeds_per_trial,
            seed=options.seed,
            out=options.out,
            overrides=overrides,
            progress=not options.quiet,
        )
    except KeyboardInterrupt:
        print("the runs are paused; the same command goes on", file=sys.stderr)
        raise
    return say(result)


def say(result: TuneResult) -> int:
    """Prints a study's best settings and its report's path; returns exit code 1 if no trial is complete, else 0."""
    if result.preset is None:
        print(f"{result.trials} trials, none is complete; report: {result.report}")
        return 1
    assert result.best_trial is not None
    beyond = (
        "; numbers also count draws whose settings do not go together" if result.best_trial >= result.trials else ""
    )
    print(f"best of {result.trials} trials: {result.best_value:.4g} (number {result.best_trial}{beyond})")
    for path, value in result.best_params.items():
        print(f"  {path}={value}")
    print(f"report: {result.report}")
    seeds = ",".join(str(seed) for seed in range(result.unused_seed, result.unused_seed + 5))
    print(f"try: rl-training train {shlex.quote(str(result.preset))} --seeds {seeds}")
    return 0
