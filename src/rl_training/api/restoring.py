"""Agents from checkpoints: as they were, at the end of a run directory, or as the beginning of something else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rl_training.api.data_source import Source, check_fit, open_data, with_data
from rl_training.api.going_on import changed_config, check_same_spaces, planned, take_saved
from rl_training.core import Spec
from rl_training.experiment import Checkpoint, CheckpointError, ConfigError, RunConfig, RunDirectory, load_checkpoint
from rl_training.experiment.build import build_algorithm
from rl_training.experiment.checkpoint import MANIFEST, damage_named
from rl_training.experiment.config import diff
from rl_training.experiment.devices import on_device
from rl_training.experiment.handed_over import with_code
from rl_training.experiment.trust import Trust
from rl_training.runtime import HealthCheck
from rl_training.runtime.seeding import OwnStream, Streams
from rl_training.runtime.surroundings import plain_torch

if TYPE_CHECKING:
    from rl_training.api.agent import Agent

A = TypeVar("A", bound="Agent")


@plain_torch()
def restore(
    wanted: type[A],
    checkpoint: Checkpoint,
    source: str,
    trust: Trust,
    device: str | None = None,
    dataset: Source | None = None,
) -> A:
    """Builds an agent from a checkpoint that was read; `source` names it in errors."""
    values = checkpoint.config
    if device is not None:
        values = on_device(values, device)
    config = RunConfig.from_mapping(values)
    if dataset is not None and not config.data.given:
        config = with_data(config, dataset)
    kind = wanted.kind_of(config.name, source)
    trust.check_algorithm(config.algorithm)
    agent = kind.__new__(kind)
    agent.trust = trust
    agent.config, agent.env, agent.run_dir, agent.trainer = config, None, None, None
    agent.restored, agent.resumed = checkpoint, False
    with damage_named(trust.source):
        agent.spec, weights = Spec.from_json(checkpoint.spec), checkpoint.state["algorithm"]
        assert agent.progress  # that it can be read
    agent.algorithm = build_algorithm(config, agent.spec)
    try:
        agent.algorithm.load_state_dict(weights)
    except (RuntimeError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{source} does not fit its own config: {' '.join(str(error).split())}") from error
    agent.dataset = open_data(config, dataset, trust) if dataset is not None else None  # else when `learn` wants it
    if agent.dataset is not None:
        check_fit(agent.dataset, agent.spec, config.env.id)
    agent.health, agent.origins, agent.reward_moments = HealthCheck(), list(checkpoint.origins), None
    agent.draws = OwnStream(Streams.from_seed(config.training.seed).evaluation_at(agent.progress.timesteps))
    return agent


@plain_torch()
def begin(
    wanted: type[A],
    checkpoint: Checkpoint,
    path: Path,
    trust: Trust,
    env: object,
    dataset: Source | None,
    changes: dict[str, object],
) -> A:
    """A new agent with changed settings and what a checkpoint has learned."""
    kind = wanted.kind_of(checkpoint.config["algorithm"]["name"], str(path))
    config, made = changed_config(checkpoint, env, dataset, changes)
    trust.check(config)
    agent = kind.__new__(kind)
    agent.build(config, made, dataset, trust)
    try:
        check_same_spaces(checkpoint, agent.spec, agent.config.env.id)
        take_saved(agent, "load", path, checkpoint, trust)
    except ValueError:
        agent.close()
        raise
    return agent


def reopen(
    wanted: type[A], run: RunDirectory, dataset: Source | None, trust: Sequence[str], code: Mapping[str, object]
) -> A:
    """The agent of a run directory at its last checkpoint, or at its start if there is none."""
    steps, written = run.steps(), run.config(code)
    wanted = wanted.kind_of(written.name, str(run.path), "resume")
    if steps:
        trusted = Trust.of(steps[-1] / MANIFEST, trust)
        checkpoint = load_checkpoint(steps[-1])
        checkpoint = replace(checkpoint, config=with_code(checkpoint.config, code))
        agent = restore(wanted, checkpoint, str(steps[-1]), trusted, dataset=dataset)
    else:
        Trust.of(run.path / "config.yaml", trust).check(written)
        agent = wanted(written, dataset=dataset)
    saved, agent.config = agent.config, planned(agent.config, run.path)
    changed = diff(agent.config, written)
    if steps and changed and diff(saved, written):
        path, old, new = changed[0]
        raise ConfigError(
            f"{run.path / 'config.yaml'} was changed after the run began ({path}: {old!r} -> {new!r}): a resumed run keeps "
            "its settings; undo the change, or start a new run from that file with `rl-training train`; a longer one is "
            f"`rl-training resume {run.path} --total-timesteps N`"
        )
    agent.run_dir, agent.resumed = run.path, True
    return agent
