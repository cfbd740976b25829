"""Weights of saved agents, taken into another run."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from rl_training.api.build import build_algorithm, load_weights
from rl_training.api.data_source import Source, with_dataset
from rl_training.api.env_source import env_from
from rl_training.api.evaluation_source import plain_evaluation
from rl_training.config import ConfigError, RunConfig
from rl_training.config.keywords import sort_keywords
from rl_training.config.run_config import diff
from rl_training.config.translation import by_our_names
from rl_training.config.trust import NAMED, Trust
from rl_training.core import Algorithm, Groups, Scheduled, Spec
from rl_training.core.outline import differing, outline
from rl_training.envs import VectorEnv
from rl_training.experiment import Checkpoint, load_checkpoint
from rl_training.experiment.checkpoint import MANIFEST, damage_named, sha256
from rl_training.experiment.lineage import origin

if TYPE_CHECKING:
    from rl_training.api.agent import Agent

KEPT = {
    "load": ["weights", "observation statistics", "optimizers", "reward scale"],
    "warm_start": ["weights", "observation statistics"],
}
FLAGS, OPTIMIZERS = ("stop", "failed"), "optimizers."
log = logging.getLogger(__name__)


def changed_config(
    checkpoint: Checkpoint, env: object, dataset: Source | None, changes: dict[str, object]
) -> tuple[RunConfig, VectorEnv | None]:
    """Returns a checkpoint's config with the settings `changes`, and the vector environment if `env` is one, else None.

    With `env`, the saved `kwargs` and `max_episode_steps` are dropped. Raises ConfigError if the result is invalid.
    """
    saved, changes, made = by_our_names(checkpoint.config), dict(changes), None
    name, replaced = saved["algorithm"]["name"], {}
    if env is not None:
        env_id, made = env_from(env, changes)
        replaced = {"id": env_id, "kwargs": {}, "max_episode_steps": None}
        NAMED.add(env_id)
    if isinstance(changes.get("encoder"), str):
        NAMED.add(str(changes["encoder"]))
    changes = plain_evaluation(with_dataset(changes, dataset))
    given = sort_keywords(name, changes, saved.get("experience", {}).get("store"))
    given = by_our_names(given | {"algorithm": {"name": name} | given.get("algorithm", {})})
    values = {key: saved.get(key, {}) | given.get(key, {}) for key in [*saved, *given] if key != "phases"}
    values["phases"] = given.get("phases", saved.get("phases"))
    if "phases" in given:  # whose sums are the budget, unless it is given too
        values["training"] = {key: v for key, v in saved["training"].items() if not key.startswith("total_")} | given[
            "training"
        ]
    values["env"] = saved["env"] | replaced | given.get("env", {})
    return RunConfig.from_mapping(values), made


def load_saved_weights(agent: Agent, kind: str, path: Path, checkpoint: Checkpoint, trust: Trust) -> None:
    """Loads a checkpoint's weights and observation statistics into an agent, and records that in `agent.origins`.

    `kind` "load" also takes optimizers and reward scale, "warm_start" does not. Raises ConfigError if the networks
    differ.
    """
    saved = RunConfig.from_mapping(checkpoint.config)
    trust.check_algorithm(saved.algorithm)
    with damage_named(trust.source):
        spec, weights = Spec.from_json(checkpoint.spec), checkpoint.state["algorithm"]
        rewards = checkpoint.state["experience"].get("reward_scaling")
    check_same_groups(spec, agent.spec)
    take_state(agent, kind, build_algorithm(saved, spec), weights, saved, path)
    if kind == "load":
        agent.state = agent.state | {"experience": {"reward_scaling": rewards}}
    changed = {key: [old, new] for key, old, new in diff(saved, agent.config)}
    record = origin(
        kind, path, checkpoint, at=agent.progress.timesteps, kept=KEPT[kind], changed=changed if kind == "load" else {}
    )
    agent.origins = [*agent.origins, record]
    what = ", ".join(f"{key}: {old!r} -> {new!r}" for key, (old, new) in record["changed"].items()) or "nothing else"
    log.warning(
        f"a new run with the weights of {path} ({checkpoint.timesteps:,} steps), not its exact continuation"
        + (f"; changed: {what}" if kind == "load" else "")
    )


def take_state(agent: Agent, kind: str, theirs: Algorithm, state: dict, saved: RunConfig, source: Path) -> None:
    """Copies `state`, saved weights and optimizers, into an agent; keeps values that its own settings determine.

    `theirs` is an algorithm built from the saved config, into which the state is loaded first. `kind` "warm_start"
    leaves optimizers out. Raises ConfigError if the networks have other shapes.
    """
    ours = agent.algorithm
    twin = build_algorithm(agent.config.replace("training", seed=saved.training.seed), agent.spec)
    before, fresh = ({name: x.clone() for name, x in network_state(a).items()} for a in (theirs, twin))
    check_shapes(before, fresh, source)
    load_weights(theirs, state, source)
    found, weights = network_state(theirs), {name for name, x in ours.named_parameters() if x.ndim}
    by_settings = {name for name in fresh if not torch.equal(before[name], fresh[name])}
    if kind == "load" and by_settings & weights:
        raise ConfigError(initial_only(saved, agent.config))
    mine = dict(ours.state_dict())
    taken = {name: x for name, x in found.items() if name in weights or name not in by_settings}
    if kind == "load":
        both = {name: x for name, x in theirs.state_dict().items() if name.startswith(OPTIMIZERS) and name in mine}
        taken |= {name: x for name, x in both.items() if x.shape == mine[name].shape and name not in numbers(ours)}
    ours.load_state_dict(mine | taken)


def network_state(algorithm: Algorithm) -> dict[str, Tensor]:
    """Returns an algorithm's weights and statistics by name, without optimizers, scheduled values and flags."""
    left_out = {*FLAGS, *numbers(algorithm)}
    return {n: x for n, x in algorithm.state_dict().items() if n not in left_out and not n.startswith(OPTIMIZERS)}


def numbers(algorithm: Algorithm) -> set[str]:
    """Returns the names, in an algorithm's state, of the values of schedules, which follow from its settings."""
    return {f"{name}.value" for name, module in algorithm.named_modules() if isinstance(module, Scheduled)}


def check_shapes(theirs: dict[str, Tensor], ours: dict[str, Tensor], source: Path) -> None:
    """Raises ConfigError, which names the first tensor that does not fit, if two states have other names or shapes."""
    for name in [*ours, *theirs]:
        shapes = [tuple(state[name].shape) if name in state else None for state in (theirs, ours)]
        if shapes[0] != shapes[1]:
            saved, own = (f"has the shape {shape}" if shape is not None else "is missing" for shape in shapes)
            raise ConfigError(
                f"the weights of {source} do not fit: {name} {saved} there and {own} here: use the same algorithm and networks "
                "(net_arch, encoder, normalize_observation and the like)"
            )


def initial_only(saved: RunConfig, config: RunConfig) -> str:
    changed = [key for key, _, _ in diff(saved, config) if key.startswith("algorithm.")]
    return (
        f"{', '.join(changed)} would only change the weights that a network begins with, and these are the saved ones: leave "
        "it out, or build a new agent"
    )


def check_same_spaces(checkpoint: Checkpoint, spec: Spec, env_id: str) -> None:
    """Raises ConfigError if the spaces `spec` of an environment differ from the saved agent's; bounds may differ."""
    for what, theirs, ours in differing(Spec.from_json(checkpoint.spec), spec):
        raise ConfigError(
            f"the saved agent's {what} are {theirs}, those of {env_id} are {ours}: use an environment with the same spaces"
        )


def check_same_groups(saved: Spec, spec: Spec) -> None:
    """Raises ConfigError if the saved policy or critic sees other observation keys than under `spec`.

    Keys with equal shapes differ, too.
    """
    if saved.groups == spec.groups == Groups():
        return
    groups: tuple[Literal["policy", "critic"], ...] = ("policy", "critic")
    for group in groups:
        theirs, ours = (outline(side.seen_by(group).obs) for side in (saved, spec))
        if theirs != ours:
            raise ConfigError(
                f"env.obs_groups: the saved agent's {group} sees {theirs}, and this one's {ours}: give it the same keys"
            )


def take_again(agent: Agent, origins: Sequence[dict]) -> None:
    """Loads the weights of the checkpoints that `origins`, an earlier agent's records, name into a new agent.

    Raises ConfigError if weights were taken later than at step 0 or imported, or a checkpoint is gone or was changed.
    """
    for record in origins:
        path = Path(record["path"])
        if record["kind"] == "import":
            raise ConfigError(
                f"the run began with {path}, which is no checkpoint: it cannot be trained again from the start"
            )
        if record["at"] or not (path / MANIFEST).exists() or sha256(path / MANIFEST) != record["manifest_sha256"]:
            where = "in the middle of its training" if record["at"] else "which is not there any more, or was changed"
            raise ConfigError(f"the run took the weights of {path}, {where}: it cannot be trained again from the start")
        load_saved_weights(agent, record["kind"], path, load_checkpoint(path), agent.trust)
