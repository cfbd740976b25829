"""Training of PPO on compiled tasks: `sage sim train`, as code."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from importlib.resources import files
from pathlib import Path

import torch
import yaml
from torch import Tensor

from rl_training.api import Agent, load
from rl_training.config import RunConfig
from rl_training.config.overrides import apply_override
from rl_training.experiment.checkpoint import difference
from sage.sim.environment import pointer_ppo
from sage.sim.environment.baselines import Chooser
from sage.sim.environment.dynamics import SoftwareTaskDynamics
from sage.sim.environment.packed import packed
from sage.sim.policies import PolicyError

PRESET = files("sage.sim").joinpath("assets", "sim_ppo.yaml")
TABLES = "tables.npz"  # of tasks that were compiled for a run, in its folder
ALGORITHM = pointer_ppo.NAME  # importing it makes it known


def training_config(
    tables: Path, *, models: Path | None = None, seed: int = 0, settings: Sequence[str] = ()
) -> RunConfig:
    """Returns the preset for some compiled tasks, with `settings` such as `section.field=value`; the policy is
    evaluated on the split val, without shaping and outages."""
    values = yaml.safe_load(PRESET.read_text(encoding="utf-8"))
    world = {"tables": str(tables)} | ({} if models is None else {"models": str(models)})
    values["env"]["kwargs"] |= world
    values["evaluation"]["env"] = {"kwargs": {**world, "split": "val", "shaping": False, "outage": 0.0}}
    values["training"]["seed"] = seed
    return RunConfig.from_mapping(reduce(apply_override, settings, values))


def train(
    tables: Path,
    out: Path,
    *,
    models: Path | None = None,
    steps: int | None = None,
    seed: int = 0,
    settings: Sequence[str] = (),
    progress: bool = True,
) -> Agent:
    """Returns an agent that was trained for `steps` (None: the preset's), with checkpoints in `out`; a run that is
    there goes on. Raises ValueError if that run has other settings.

    `models` is a file of `sage sim fit-models`; None means the invented models.
    """
    length = [] if steps is None else [f"training.total_timesteps={steps}"]
    config = training_config(tables, models=models, seed=seed, settings=[*length, *settings])
    if (out / "checkpoints").exists():
        agent = Agent.resume(out, total_timesteps=config.training.total_timesteps, trust=["sage"])
        other = difference(agent.config.to_mapping(), config.to_mapping())
        if other is not None:
            agent.close()
            raise ValueError(f"{out} has a run with other settings ({other}): give the same, or choose another --out")
    else:
        agent = Agent(config, run_dir=out)
    agent.learn(progress=progress)
    return agent


def load_policy(path: Path) -> Agent:
    """Returns the agent of a checkpoint or a run directory, on the CPU; raises PolicyError if it was trained on
    something else than software tasks."""
    agent = load(path, trust=["sage"], device="cpu")
    seen = SoftwareTaskDynamics(packed([])).spec
    if (agent.spec.obs, agent.spec.action) != (seen.obs, seen.action):
        raise PolicyError(f"{path} was trained on something else than software tasks: use one of `sage sim train`")
    return agent


def acting(agent: Agent, *, explore: bool = True) -> Chooser:
    """Returns a policy that draws its actions from the agent as in training, or takes the most probable ones if not
    `explore`."""

    @torch.no_grad()
    def choose(obs: dict[str, Tensor]) -> Tensor:
        return agent.algorithm.policy.act(obs, explore=explore).action

    return choose
