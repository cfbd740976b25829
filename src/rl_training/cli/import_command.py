"""The command `import-sb3`: a run directory out of a zip of Stable-Baselines3."""

from __future__ import annotations

import argparse
import shlex
from functools import reduce

from rl_training.api.sb3.importing import flat, import_sb3
from rl_training.config.overrides import apply_override
from rl_training.config.parsing import parse_path
from rl_training.config.sections import NO_ENV
from rl_training.experiment import RunDirectory
from rl_training.experiment.lineage import note_origins


def import_zip(options: argparse.Namespace) -> int:
    run_dir = parse_path(options.out, "--out")
    RunDirectory.check_free(run_dir)
    changes = flat(reduce(apply_override, options.overrides, {}))
    agent = import_sb3(options.model, options.env, vecnormalize=options.vecnormalize, **changes)
    try:
        directory = RunDirectory.create(run_dir, agent.config)
        with directory.locked():
            note_origins(run_dir, agent.origins)
            directory.save_step(agent.snapshot(), agent.config.checkpoint.keep)
    finally:
        agent.close()
    (record,), folder = agent.origins, shlex.quote(str(run_dir))
    print(f"run directory: {run_dir} ({type(agent).__name__}, {record['timesteps']:,} steps in Stable-Baselines3)")
    if agent.config.env.id == NO_ENV:
        print(f"it has no environment yet: rl_training.load({str(run_dir)!r}, env=...) gives it one, or --env here")
    else:
        print(f"try: rl-training eval {folder}, and rl-training resume {folder} --total-timesteps N to learn further")
    return 0
