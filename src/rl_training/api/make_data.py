"""Generation of datasets: policies of chosen quality act in an environment; steps are kept with probabilities."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import logging
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rl_training.api.env_source import env_from, open_env
from rl_training.config import ConfigError, RunConfig
from rl_training.config.parsing import parse_dataclass, parse_seed, parse_share, parse_steps, shortened, to_plain
from rl_training.config.sections import MakeConfig
from rl_training.config.trust import OWN
from rl_training.core import Act, Box, Column, Dict, Discrete, Policy, Spec, Transition, Tree, UniformPolicy, tree_map
from rl_training.core.policy import Memory
from rl_training.data import Dataset, Provenance
from rl_training.envs import EnvConfig
from rl_training.experience.declared_columns import FIRST
from rl_training.models import RecurrentPolicy
from rl_training.models.executed_actions import at_bounds, executed_log_prob
from rl_training.runtime import make_collector
from rl_training.runtime.cache_folder import cache_folder
from rl_training.runtime.finite import check_steps

NUM_ENVS = 4
CHUNK = 500  # steps of every environment collected together
log = logging.getLogger(__name__)


class Share(NamedTuple):
    """A policy, by name or as an object, and its share of the data, between 0 and 1."""

    name: str
    share: float
    given: object = None  # an agent or a function, where one was handed over instead of a name


class FunctionPolicy(Policy):
    """A policy that calls a user's function of one observation for its action; log-probabilities are NaN."""

    def __init__(self, spec: Spec, function: Callable[[Tree], object], name: str) -> None:
        super().__init__(spec)
        self.function, self.name = function, name

    def act(self, obs: Tree, memory: Memory = (), first: Tensor | None = None, *, explore: bool = True) -> Act:
        assert not isinstance(self.spec.action, Dict)
        rows = [self.function(row) for row in self.observed(obs)]
        try:
            chosen = np.asarray(rows, np.dtype(self.spec.action.dtype)).reshape(len(rows), *self.spec.action.shape)
        except (ValueError, TypeError) as error:
            raise ConfigError(
                f"policy {self.name} returned {shortened(rows[0])}, which is no action of {self.spec.action}: return one"
            ) from error
        return Act(self.to_env.inverse(torch.from_numpy(chosen)), torch.full((len(rows),), torch.nan), memory)

    def observed(self, obs: Tree) -> list:
        """Returns a list with one observation per row of a batch, as arrays in the environment's own form."""
        spaces = self.spec.obs.spaces if isinstance(self.spec.obs, Dict) else {"": self.spec.obs}
        leaves = {key: (obs[key] if key else obs) for key in spaces}  # pyrefly: ignore  (a tree of the space's form)
        own = {key: leaf.numpy() + getattr(spaces[key], "start", 0) for key, leaf in leaves.items()}  # pyrefly: ignore
        rows = [{key: column[row] for key, column in own.items()} for row in range(len(next(iter(own.values()))))]
        return rows if isinstance(self.spec.obs, Dict) else [row[""] for row in rows]


def make_data(
    env: object, policies: Sequence[object], steps: int, *, seed: int = 0, trust: Sequence[str] = ()
) -> Dataset:
    """Lets policies act, exploring as they do in training, for `steps` steps in all, and returns them as a dataset.

    The environment is an id or a function, as for an agent, or an `EnvConfig` where it has settings. A policy is
    `random`, a run directory or saved model, or `preset@steps`, which is trained for so long first; each may be
    followed by `=share`, else all get the same. It may also be an agent, or a function of one observation that returns
    an action; with shares, pairs such as `(agent, 0.7)`. Where a policy knows the probability of its actions, the data
    hold it. `trust` names packages whose code a run or saved model may use. Raises ConfigError if a policy does not
    exist or fit the environment, or if the shares do not add up to 1.
    """
    if not isinstance(env, EnvConfig):
        settings: dict[str, object] = {}
        settings["id"], _ = env_from(env, settings)
        env = parse_dataclass(EnvConfig, settings | {"n_envs": 1}, "env")
    steps, seed = parse_steps(steps, "steps"), parse_seed(seed)
    parts, shares = [], parse_policies(policies)
    ends = [round(steps * sum(part.share for part in shares[: number + 1])) for number in range(len(shares))]
    for number, part in enumerate(shares):
        seeds = np.random.SeedSequence([seed, number]).generate_state(2)
        num_rows = ends[number] - (ends[number - 1] if number else 0)
        if num_rows < 1:
            raise ConfigError(f"{steps} steps leave none for {part.name}: make more, or drop it")
        wanted = math.ceil(num_rows / NUM_ENVS)
        envs = open_env(dataclasses.replace(env, n_envs=NUM_ENVS), OWN, num_envs=NUM_ENVS)
        try:
            policy = given_policy(part, envs.spec) or find_policy(part.name, env.id, envs.spec, int(seeds[0]), trust)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(int(seeds[1]))
                collector = make_collector(envs, policy, seed=int(seeds[1]), columns=memory_columns(policy))
                chunks = []
                for done in range(0, wanted, CHUNK):
                    chunks.append(collector.collect(policy, min(CHUNK, wanted - done)))
                    check_steps(collector.latest, done * NUM_ENVS, f" of the data of {part.name}")
        finally:
            envs.close()
        collected = tree_map(lambda *rows: torch.cat(rows), *chunks)
        parts.append(to_dataset(collected, envs.spec, policy, number, num_rows))
    names = ", ".join(f"{part.share:.0%} {part.name}" for part in shares)
    made = Dataset.concatenate(parts)
    origin = Provenance(source="rl-training data make", env_id=env.id, method=f"{steps} steps: {names}", seed=seed)
    return made.replace(provenance=origin)


def parse_policies(given: Sequence[object]) -> list[Share]:
    if not isinstance(given, list | tuple):
        raise ConfigError(f"policies={shortened(given)} must be a list of names, agents or functions, e.g. ['random']")
    if not given:
        raise ConfigError("policies=[] makes no data: name at least one, e.g. 'random'")
    pairs = [pair if isinstance(pair, tuple) and len(pair) == 2 else (pair, None) for pair in given]
    parts, texts = [], [name_of(policy, number) for number, (policy, _) in enumerate(pairs)]
    for text, (policy, share) in zip(texts, pairs, strict=True):
        if not isinstance(policy, str) or share is not None:
            part = 1 / len(given) if share is None else parse_share(share, f"the share of policy {text}")
            parts.append(Share(text, part, None if isinstance(policy, str) else policy))
            continue
        name, separator, share = text.rpartition("=")
        try:
            parts.append(Share(name, float(share)) if separator else Share(text, 1 / len(texts)))
        except ValueError as error:
            raise ConfigError(
                f"policy {text!r} must look like NAME or NAME=SHARE, the share between 0 and 1"
            ) from error
    if any(not 0 < part.share <= 1 for part in parts) or not math.isclose(sum(p.share for p in parts), 1, abs_tol=1e-6):
        raise ConfigError(
            f"the shares of {', '.join(texts)} add up to {sum(p.share for p in parts):g}: give each a share above 0, in all 1"
        )
    return parts


def name_of(policy: object, number: int) -> str:
    """Returns a policy's name for the data's description; raises ConfigError if it is no policy.

    The error calls it `policies[number]`.
    """
    from rl_training.api.agent import Agent

    if isinstance(policy, Path):
        return str(policy)
    if isinstance(policy, str):
        return policy
    if isinstance(policy, Agent):
        return f"{policy.config.name} at step {policy.num_timesteps}"
    if callable(policy):
        return getattr(policy, "__name__", type(policy).__name__)
    raise ConfigError(
        f"policies[{number}]={shortened(policy)} is no policy: give a name such as 'random', an agent, or a function of the "
        "observation that returns an action"
    )


def given_policy(part: Share, spec: Spec) -> Policy | None:
    """Returns the policy, on the CPU, of the agent or function in `part`; None if it only has a name.

    Raises ConfigError if the agent was trained for other spaces than `spec`.
    """
    from rl_training.api.agent import Agent

    if part.given is None or isinstance(part.given, Path):
        return None
    if isinstance(part.given, Agent):
        if part.given.spec != spec:
            raise ConfigError(
                f"policy {part.name} was trained for other observations or actions than the environment has: use one of it"
            )
        return copy.deepcopy(part.given.algorithm.policy).to("cpu")
    assert callable(part.given)
    return FunctionPolicy(spec, part.given, part.name)


def find_policy(name: str, env_id: str, spec: Spec, seed: int, trust: Sequence[str]) -> Policy:
    from rl_training.api.agent import Agent, load  # an agent may need a dataset made to be built

    if name == "random":
        if not isinstance(spec.action, Box | Discrete):
            raise ConfigError(f"random actions are made for Box and Discrete spaces, not {type(spec.action).__name__}")
        return UniformPolicy(spec)
    preset, separator, steps = name.rpartition("@")
    if separator and not Path(name).exists():
        if not steps.replace("_", "").isdigit():
            raise ConfigError(f"policy {name!r}: write preset@steps, e.g. ppo/cartpole@10000")
        log.warning(f"making data: training {preset} for {int(steps):,} steps")
        quiet = [f"training.seed={seed % 2**31}", "evaluation.interval=0"]
        agent = Agent.from_preset(preset, overrides=quiet)
        if agent.config.env.id != env_id:
            raise ConfigError(
                f"policy {name!r} learns in {agent.config.env.id}, not in {env_id}: choose a preset of it"
            )
        agent.learn(stop_at=int(steps), progress=False)
        agent.close()
    elif not os.path.exists(name):
        raise ConfigError(
            f"policy {name!r} does not exist: give 'random', preset@steps such as ppo/cartpole@10000, a saved model or a run"
        )
    else:
        agent = load(name, device="cpu", trust=trust)
    if agent.spec != spec:
        raise ConfigError(
            f"policy {name!r} was trained for other observations or actions than {env_id} has: use one of that environment"
        )
    return agent.algorithm.policy.to("cpu")


def to_dataset(steps: Transition, spec: Spec, policy: Policy, number: int, num_rows: int) -> Dataset:
    """Returns the first `num_rows` valid rows of `steps`, shape [time, env], as a dataset, environment by environment.

    An episode that the end of the data cuts is marked as truncated. Rows that only reset an environment are left out.
    `number` is written as the policy of every row.
    """
    kept = torch.arange(steps.reward.numel())[steps.valid.T.flatten()][:num_rows]
    truncated = steps.truncated.T.flatten()
    last = torch.cat([kept[1:] // len(steps.reward) != kept[:-1] // len(steps.reward), torch.ones(1, dtype=torch.bool)])
    truncated[kept[last]] |= ~steps.terminated.T.flatten()[kept[last]]
    truncated = truncated.view(steps.truncated.T.shape).T
    log_prob = executed_log_probs(steps, policy)
    steps = steps._replace(action=policy.to_env(steps.action), truncated=truncated, log_prob=log_prob)

    def rows(column: Tree) -> np.ndarray:
        return tree_map(lambda x: x.transpose(0, 1).flatten(0, 1)[kept].numpy(), column)  # pyrefly: ignore

    names = ("obs", "action", "reward", "terminated", "truncated", "next_obs", "log_prob")
    columns: dict = {name: rows(getattr(steps, name)) for name in names}
    return Dataset.from_arrays(**columns, extras={"policy": np.full(len(kept), number, np.int64)}, spec=spec)


@torch.no_grad()
def executed_log_probs(steps: Transition, policy: Policy) -> Tensor:
    """Returns the log-probability of every action as the environment carried it out, shape [time, env].

    It is a density in the environment's units, and NaN where it is not known.
    """
    convert, flat = policy.to_env, tree_map(lambda column: column.flatten(0, 1), steps)
    if not isinstance(policy.spec.action, Box):
        return steps.log_prob
    if convert.rounds:
        return torch.full_like(steps.log_prob, torch.nan)
    action = convert.inverse(convert(flat.action))
    log_prob = flat.log_prob - convert.log_volume(action)
    at_low, at_high = at_bounds(policy, action)
    for part in (at_low | at_high).any(-1).nonzero().squeeze(-1).split(CHUNK):
        obs, columns = tree_map(lambda column, part=part: column[part], (flat.obs, flat.columns))
        memory = tuple(columns[name] for name in columns if name != FIRST)
        found = executed_log_prob(policy, obs, action[part], memory, columns.get(FIRST))
        log_prob[part] = torch.nan if found is None else found.to(log_prob.dtype)
    return log_prob.view(steps.log_prob.shape)


def memory_columns(policy: Policy) -> tuple[Column, ...]:
    """Returns the columns for a collector to record in addition: a recurrent policy's memory and starts of episodes.

    Its probabilities can be recomputed from them. Empty for other policies.
    """
    if not isinstance(policy, RecurrentPolicy):
        return ()
    parts = enumerate(policy.initial_memory(1))
    memory = (Column(f"memory{i}", part.shape[1:], part.dtype, "policy") for i, part in parts)
    return (Column(FIRST, (), torch.bool, "policy"), *memory)


def made_on_first_use(config: RunConfig, trust: Sequence[str] = ()) -> Dataset:
    """Returns the dataset that a config's `data.make` describes; makes it first if it is not in the cache folder.

    `trust` names packages whose code its policies may use. Raises ConfigError if the folder cannot be made.
    """
    make = config.data.make
    assert make is not None
    path = cache_folder("datasets") / file_name(make, config.env)
    if not path.exists():
        make_room_for(path)
        log.warning(f"making data: {make.steps:,} steps of {config.env.id}, once, kept in {path}")
        made = make_data(config.env, make.policies, make.steps, seed=make.seed, trust=trust)
        made.save(path)
    return Dataset.open(path)


def make_room_for(path: Path) -> None:
    """Creates the folder of a file; raises ConfigError if that fails, before long work for the file begins."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"the folder for made data, {path.parent}, cannot be made ({error.strerror}): name another in the environment "
            "variable RL_TRAINING_CACHE"
        ) from error


def file_name(make: MakeConfig, env: EnvConfig) -> str:
    """Returns a file name that is unique for the recipe `make` of a dataset and the settings of `env` that matter."""
    settings = dataclasses.asdict(dataclasses.replace(env, n_envs=1))
    unshaping = ["info_keys", "timeout_s", "obs_groups", "agents"]  # a team has no datasets
    if not env.wrappers:
        unshaping.append("wrappers")
    shaping = {name: value for name, value in settings.items() if name not in unshaping}
    recipe = json.dumps([to_plain(make), shaping], sort_keys=True)
    return f"{env.id.replace('/', '-').replace(':', '-')}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}.npz"
