"""Datasets in the manner of D4RL, and datasets out of a replay."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch

from rl_training.api.agent import Agent
from rl_training.api.make_data import make_data
from rl_training.config import ConfigError, list_presets, load_config_values
from rl_training.core import Tree, tree_map
from rl_training.data import Dataset, Provenance, ReferenceScore
from rl_training.data.reference_scores import NOT_D4RL
from rl_training.experience import Replay
from rl_training.experience.ring import DRAWABLE
from rl_training.functional import ENDED, TERMINATED
from rl_training.runtime import StopOnReturn

Kind = Literal["medium-replay", "medium", "medium-expert"]
KINDS = get_args(Kind)
MEDIUM = 100 / 3  # the score of a medium policy: about a third of the expert's return
EVALUATIONS = 100  # of a whole run; it stops at medium skill
LEAST = 500  # steps between evaluations
log = logging.getLogger(__name__)


def make_data_like(
    env_id: str,
    kind: Kind,
    steps: int | None = None,
    *,
    preset: str | None = None,
    expert: str | None = None,
    score: float = MEDIUM,
    reference: ReferenceScore | None = None,
    seed: int = 0,
    trust: Sequence[str] = (),
) -> Dataset:
    """Trains a policy until an evaluation reaches `score`, and makes a dataset in D4RL's manner; it is not D4RL's data.

    `medium-replay` is the replay up to then, `medium` are `steps` of that policy, `medium-expert` are half of it and
    half of `expert`, a saved agent, or without one the same run at the end of its preset. `preset` is a method with a
    replay, by default SAC's for the environment. Scores are 0 and 100 at the returns of `reference`, by default D4RL's
    constants. Raises ConfigError if the arguments do not fit together or there is no such preset.
    """
    reference = reference or ReferenceScore.d4rl(env_id)
    check(kind, steps, expert, score)
    preset = preset or find_preset(env_id)
    target = reference.minimum + score / 100 * (reference.maximum - reference.minimum)
    agent = begin(preset, env_id, seed)
    try:
        log.warning(f"making data: training {preset} in {env_id} up to a return of {target:.1f}")
        reached = train_until(agent, target)
        story = f"{preset} (seed {seed}) at {agent.progress.env_steps:,} steps, whose evaluation was {reached:.1f}"
        if kind == "medium-replay":
            made, how = replay_dataset(agent), f"the replay of {story}"
        else:
            assert steps is not None
            made, how = roll_out(agent, env_id, kind, steps, expert, story, seed=seed, trust=trust)
    finally:
        agent.close()
    method = f"{kind} in D4RL's manner, not D4RL's data: {how}"
    origin = Provenance(source="rl-training data make", env_id=env_id, method=method, seed=seed)
    if reference.source == NOT_D4RL:
        log.warning(f"made {kind} of {env_id}: {NOT_D4RL}; scores do not compare with those on D4RL's own")
    return made.replace(provenance=origin, reference=reference)


def check(kind: Kind, steps: int | None, expert: str | None, score: float) -> None:
    if kind not in KINDS:
        raise ConfigError(f"like={kind!r} is not known: use {', '.join(KINDS)}")
    if (kind == "medium-replay") != (steps is None):
        wanted = "has as many steps as the run took: leave steps out" if steps else "needs steps, how many rows to make"
        raise ConfigError(f"like={kind!r} {wanted}")
    if expert is not None and kind != "medium-expert":
        raise ConfigError(f"expert={expert!r} is for like='medium-expert', not {kind!r}: leave it out")
    if expert is not None and not Path(expert).exists():
        raise ConfigError(f"expert={expert!r} does not exist: give a run directory or a saved model")
    if not 0 < score <= 100:
        raise ConfigError(f"score={score:g}: a medium policy is between 0 and 100, where 100 is the expert")


def find_preset(env_id: str) -> str:
    """Returns the name of SAC's preset for an environment; raises ConfigError if there is none."""
    for name in list_presets():
        if name.startswith("sac/") and load_config_values(name)["env"]["id"] == env_id:
            return name
    raise ConfigError(
        f"no preset of SAC learns in {env_id}: name one with a replay by preset=, a preset or a YAML file"
    )


def begin(preset: str, env_id: str, seed: int) -> Agent:
    """Builds an untrained agent from a preset, changed so that it is evaluated often and its replay keeps every step.

    Raises ConfigError if the preset is for another environment.
    """
    total = int(load_config_values(preset)["training"]["total_timesteps"])
    settings = {
        "training.seed": seed,
        "evaluation.interval": max(total // EVALUATIONS, LEAST),
        "experience.buffer_size": 2 * total,  # the end of a cut episode takes a row of its own
    }
    agent = Agent.from_preset(preset, overrides=[f"{name}={value}" for name, value in settings.items()])
    if agent.config.env.id != env_id:
        raise ConfigError(f"preset={preset!r} learns in {agent.config.env.id}, not in {env_id}: choose one of it")
    return agent


def train_until(agent: Agent, target: float) -> float:
    """Trains an agent until an evaluation reaches the return `target`, or to the end of its budget.

    Returns the last evaluation's mean return; logs a warning if that is below the target.
    """
    reached = agent.learn(callbacks=[StopOnReturn(target)], progress=False).eval_mean_return
    assert reached is not None
    if reached < target:
        log.warning(
            f"making data: after {agent.progress.env_steps:,} steps the return is {reached:.1f}, below {target:.1f}: the data are "
            "of a worse policy; ask for a lower score, or name a preset that learns longer"
        )
    return reached


def roll_out(
    agent: Agent,
    env_id: str,
    kind: Kind,
    steps: int,
    expert: str | None,
    story: str,
    *,
    seed: int,
    trust: Sequence[str],
) -> tuple[Dataset, str]:
    """Returns a dataset of `steps` steps and a description: the agent's own steps, or half of them an expert's.

    `kind` "medium" means the agent's own. `expert` is the path of a saved agent; if None, the agent itself is trained
    to the end of its budget. `story` describes the agent.
    """
    with tempfile.TemporaryDirectory() as folder:
        medium = Path(folder) / "medium"
        agent.save(medium)
        if kind == "medium":
            return make_data(env_id, [str(medium)], steps, seed=seed, trust=trust), f"{steps:,} steps of {story}"
        if expert is None:
            expert, better = str(Path(folder) / "expert"), finish(agent, Path(folder) / "expert")
        else:
            better = expert
        made = make_data(env_id, [f"{medium}=0.5", f"{expert}=0.5"], steps, seed=seed, trust=trust)
    return made, f"{steps:,} steps, half of {story}, half of {better}"


def finish(agent: Agent, path: Path) -> str:
    """Trains an agent to the end of its budget, saves it to `path`, and returns the text "the same run at N steps"."""
    if agent.progress.env_steps < agent.config.training.total_timesteps:
        agent.learn(progress=False)
    agent.save(path)
    return f"the same run at {agent.progress.env_steps:,} steps"


def replay_dataset(agent: Agent) -> Dataset:
    """Returns the steps in an agent's replay as a dataset, one environment after the other, each oldest first.

    Episodes that are still open are marked as truncated. Actions and rewards are in the environment's units; action
    probabilities are missing. Raises ConfigError if the agent has no replay with steps.
    """
    replay = None if agent.trainer is None else agent.trainer.experience
    if not isinstance(replay, Replay) or not replay.added:
        raise ConfigError(
            f"{agent.config.name} has no replay with steps: take a method with one, and let it learn first"
        )
    ring, columns = replay.ring, replay.columns
    numbers = [torch.arange(max(0, end - ring.reach), end) for end in columns.written.tolist()]
    row = torch.cat([number % ring.slots * ring.num_envs + env for env, number in enumerate(numbers)])
    newest = torch.cat([torch.arange(len(number)) == len(number) - 1 for number in numbers])
    kept = (columns.flags[row.to(ring.device)] & DRAWABLE != 0).cpu()
    # The last slot of an environment may hold the observation after a cut: then the step before it is the newest.
    newest[:-1] |= newest[1:] & ~kept[1:]
    row, newest = row[kept].to(ring.device), newest[kept].numpy()
    flags = columns.flags[row].cpu().numpy()
    terminated = flags & TERMINATED != 0
    truncated = ((flags & ENDED != 0) | newest) & ~terminated
    last = row[torch.from_numpy(np.flatnonzero(terminated | truncated)).to(row.device)]
    after = torch.where(columns.flags[last] & TERMINATED != 0, last, ring.follow(last))  # never looked at if terminated
    return Dataset.from_arrays(
        obs=arrays(ring.observation(columns, row)),
        action=agent.algorithm.policy.to_env(columns.action[row].cpu()).numpy(),
        reward=(columns.reward[row].cpu().numpy() - replay.rewards.shift) / replay.rewards.scale,
        terminated=terminated,
        truncated=truncated,
        last_obs=arrays(ring.observation(columns, after)),
        spec=agent.spec,
    )


def arrays(tree: Tree) -> np.ndarray | dict[str, np.ndarray]:
    return tree_map(lambda leaf: leaf.cpu().numpy(), tree)  # pyrefly: ignore (tensors in, arrays out)
