"""Loading of agents from checkpoints and run directories, also with other samplers than before."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from rl_training.api.data_source import Source
from rl_training.api.parts import new_parts, parts_asked_for, saved_parts
from rl_training.api.training import extended
from rl_training.api.transfer_weights import changed_config, check_same_spaces, load_saved_weights
from rl_training.config import ConfigError, RunConfig
from rl_training.config.code_objects import with_code
from rl_training.config.parallelism import on_device
from rl_training.config.parsing import parse_dataclass, parse_path, shortened
from rl_training.config.run_config import diff
from rl_training.config.sections import SamplingConfig, TrackingConfig
from rl_training.config.trust import Trust
from rl_training.experiment import Checkpoint, RunDirectory, find_checkpoint, load_checkpoint
from rl_training.experiment.checkpoint import MANIFEST
from rl_training.experiment.lineage import planned
from rl_training.runtime import Progress
from rl_training.runtime.torch_context import plain_torch

if TYPE_CHECKING:
    from rl_training.api.agent import Agent


A = TypeVar("A", bound="Agent")


def kind_of(wanted: type[A], name: str, source: str, how: str = "load") -> type[A]:
    """Returns `wanted` or, if that is `Agent` itself, the agent class of the saved algorithm `name`, such as PPO.

    Raises ConfigError if `wanted` is the class of another algorithm; `source` (the saved agent's path) and `how`
    ("load" or "resume") are for the message.
    """
    if wanted.name and name != wanted.name:
        owner = wanted.class_for(name).__name__ if how == "resume" else "rl_training"
        raise ConfigError(f"{source} holds {name!r}, not {wanted.name!r}: use {owner}.{how}({source!r})")
    return wanted if wanted.name else cast("type[A]", wanted.class_for(name))


def read_saved(path: str | Path, trust: Sequence[str]) -> tuple[Path, Checkpoint, Trust]:
    """Returns the path of a saved agent's checkpoint, its content, and which code it may use.

    In a run directory, that is the best checkpoint, else the last. `trust` names packages whose code is allowed. Raises
    CheckpointError if there is none or it is damaged.
    """
    found = find_checkpoint(parse_path(path, "path"))
    trusted = Trust.of(found / MANIFEST, trust)
    return found, load_checkpoint(found), trusted


@plain_torch()
def load_agent(
    wanted: type[A],
    path: str | Path,
    trust: Sequence[str],
    device: str | None,
    dataset: Source | None,
    env: object,
    changes: dict[str, object],
) -> A:
    """Returns the saved agent or, if `env` or `changes` are given, a new agent that starts with its weights.

    Raises CheckpointError if the checkpoint cannot be read, and ConfigError if it does not fit the arguments.
    """
    found, checkpoint, trusted = read_saved(path, trust)
    checkpoint, changes = split_code(checkpoint, changes)
    if env is None and not changes:
        config = RunConfig.from_mapping(checkpoint.config if device is None else on_device(checkpoint.config, device))
        kind = kind_of(wanted, config.name, str(path))
        return kind.__new__(kind).assemble(saved_parts(config, checkpoint, str(path), trusted, dataset))
    changes |= {"device": device} if device else {}
    kind = kind_of(wanted, checkpoint.config["algorithm"]["name"], str(found))
    config, made = changed_config(checkpoint, env, dataset, changes)
    trusted.check(config)
    agent = kind.__new__(kind).assemble(new_parts(config, made, dataset, trusted))
    try:
        check_same_spaces(checkpoint, agent.spec, agent.config.env.id)
        load_saved_weights(agent, "load", found, checkpoint, trusted)
    except ValueError:
        agent.close()
        raise
    return agent


@plain_torch()
def reopen(
    wanted: type[A],
    run: RunDirectory,
    written: RunConfig,
    dataset: Source | None,
    trust: Sequence[str],
    code: Mapping[str, object],
    totals: Mapping[str, int | None],
) -> A:
    """Returns the agent of a run directory at its last checkpoint, or at its start if there is none.

    `written` is the config in the directory; its sampling settings may differ from those of the checkpoint. `code` maps
    settings to objects such as encoder classes, and `totals` the two budgets to new ones, None where they stay. Raises
    ConfigError if other settings were changed.
    """
    kind, steps = kind_of(wanted, written.name, str(run.path), "resume"), run.steps()
    if steps:
        trusted = Trust.of(steps[-1] / MANIFEST, trust)
        checkpoint = load_checkpoint(steps[-1])
        config = RunConfig.from_mapping(with_code(checkpoint.config, code))
        kind_of(kind, config.name, str(steps[-1]))
        parts = saved_parts(sampled_as(config, written), checkpoint, str(steps[-1]), trusted, dataset)
    else:
        Trust.of(run.path / "config.yaml", trust).check(written)
        parts = parts_asked_for(kind, written, (None,), dataset, {})
    config = planned(parts.config, run.path)
    if steps and diff(parts.config, written):
        refuse_changes(run.path, config, written)
    parts.config = extended(config, Progress.from_state(parts.state["progress"]), totals)
    agent = kind.__new__(kind).assemble(parts)
    agent.run_dir, agent.directory = run.path, run
    return agent


def refuse_changes(run: Path, config: RunConfig, written: RunConfig) -> None:
    """Raises ConfigError if the config in a run directory (`written`) differs from the trained one (`config`)."""
    for path, old, new in diff(config, written):
        raise ConfigError(
            f"{run / 'config.yaml'} was changed after the run began ({path}: {old!r} -> {new!r}): a resumed run keeps "
            "its settings; undo the change, or start a new run from that file with `rl-training train`; a longer one is "
            f"`rl-training resume {shlex.quote(str(run))} --total-timesteps N`"
        )


def split_code(checkpoint: Checkpoint, keywords: dict[str, object]) -> tuple[Checkpoint, dict[str, object]]:
    """Returns the checkpoint with code among the keywords, such as an encoder class, in its config, and the others.

    A callable counts as code only if the saved setting of that name is code, too.
    """
    settings = checkpoint.config.get("algorithm")
    if not isinstance(settings, dict):
        return checkpoint, keywords
    schedules = {name for name, setting in settings.items() if isinstance(setting, dict) and "function" in setting}
    known = schedules | {"encoder"} if ":" in str(settings.get("encoder")) else schedules
    code = {name: value for name, value in keywords.items() if callable(value) and name in known}
    others = {name: value for name, value in keywords.items() if name not in code}
    return replace(checkpoint, config=with_code(checkpoint.config, code)), others


def with_changes(config: RunConfig, sampling: Mapping[str, object], tracking: Mapping[str, object]) -> RunConfig:
    """Returns the config of a resumed run with changed settings of two sections, such as {"workers": 4}.

    Raises ConfigError if one is invalid, or if `sampling.lag` would change.
    """
    changes, examples = (
        {"sampling": sampling, "tracking": tracking},
        {"sampling": "'workers': 4", "tracking": "'loggers': ['wandb']"},
    )
    for section, given in changes.items():
        if not isinstance(given, Mapping):
            raise ConfigError(
                f"{section}={shortened(given)} must be a mapping of settings, e.g. {section}={{{examples[section]}}}"
            )
    if sampling.get("lag", config.sampling.lag) != config.sampling.lag:
        raise ConfigError(
            f"sampling.lag={sampling['lag']!r}: a resumed run keeps its lag, which is {config.sampling.lag}, because another "
            "one changes what is learned; start a new run, or leave it out"
        )
    for section, kind in (("sampling", SamplingConfig), ("tracking", TrackingConfig)):
        parsed = parse_dataclass(kind, asdict(getattr(config, section)) | dict(changes[section]), section)
        config = config.changed(section, **asdict(parsed))
    return config


def sampled_as(config: RunConfig, other: RunConfig) -> RunConfig:
    """Returns the config with the sections `tracking` and `sampling` of `other`, except `lag`, which stays."""
    sampled = config.replace("sampling", **asdict(other.sampling) | {"lag": config.sampling.lag})
    return replace(sampled, tracking=other.tracking)
