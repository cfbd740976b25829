"""Trains PPO on compiled tasks: `sage sim train`, as code."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from importlib.resources import files
from pathlib import Path

import yaml

from rl_training.api import Agent
from rl_training.experiment import RunConfig
from rl_training.experiment.aliases import apply_override
from sage.sim.environment import pointer_ppo

PRESET = files("sage").joinpath("assets", "sim_ppo.yaml")
TABLES = "tables.npz"  # of tasks that were compiled for a run, in its folder
ALGORITHM = pointer_ppo.NAME  # importing it makes it known


def training_config(tables: Path, *, seed: int = 0, settings: Sequence[str] = ()) -> RunConfig:
    """The preset on some compiled tasks; `settings` are `section.field=value`. It is evaluated on the split val, unshaped."""
    values = yaml.safe_load(PRESET.read_text(encoding="utf-8"))
    values["env"]["kwargs"] |= {"tables": str(tables)}
    values["evaluation"]["env"] = {"kwargs": {"tables": str(tables), "split": "val", "shaping": False, "outage": 0.0}}
    values["training"]["seed"] = seed
    return RunConfig.from_mapping(reduce(apply_override, settings, values))


def train(
    tables: Path,
    out: Path,
    *,
    steps: int | None = None,
    seed: int = 0,
    settings: Sequence[str] = (),
    progress: bool = True,
) -> Agent:
    """A trained agent. `out` has its checkpoints; a run that is there goes on as it was begun, until `steps`."""
    if (out / "checkpoints").exists():
        agent = Agent.resume(out, total_timesteps=steps, trust=["sage"])
    else:
        length = [] if steps is None else [f"training.total_timesteps={steps}"]
        agent = Agent(training_config(tables, seed=seed, settings=[*length, *settings]), run_dir=out)
    agent.learn(progress=progress)
    return agent
