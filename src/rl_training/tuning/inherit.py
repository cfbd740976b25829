"""A run that goes on from another's checkpoint, exactly, but for settings of its algorithm."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rl_training.api import Agent
from rl_training.api.build import build_algorithm
from rl_training.api.transfer_weights import check_shapes, network_state, numbers
from rl_training.config import ConfigError, RunConfig
from rl_training.config.overrides import our_path, split_path
from rl_training.core import Spec
from rl_training.experiment import RunDirectory, load_checkpoint
from rl_training.experiment.lineage import note_origins, origin
from rl_training.tuning.param import Param, Value, with_params
from rl_training.tuning.space import Space, why_infeasible

LOGS = ("metrics.jsonl", "episodes.jsonl")


def inherit(source: Path, target: Path, params: Mapping[str, Value]) -> None:
    """Copies the run directory `source`, as of its newest checkpoint, to the new one `target` with other settings.

    `params` maps paths such as "algorithm.learning_rate" to values. But for these, the copy continues exactly from the
    checkpoint. `target` appears only when it is complete.
    """
    found = RunDirectory(source).steps()[-1]
    checkpoint = load_checkpoint(found)
    config = RunConfig.from_mapping(with_params(checkpoint.config, params))
    algorithm = build_algorithm(config, Spec.from_json(checkpoint.spec))
    fresh = algorithm.state_dict()
    own = {name: fresh[name] for name in numbers(algorithm)}  # which settings decide, not what was learned
    state = checkpoint.state | {"algorithm": dict(checkpoint.state["algorithm"]) | own}
    temporary = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    run = RunDirectory.create(temporary, config)
    for name in LOGS:
        if (source / name).exists():
            shutil.copyfile(source / name, temporary / name)
    changed = {path: [None, value] for path, value in params.items()}
    record = origin("copy", found, checkpoint, at=checkpoint.timesteps, kept=["everything"], changed=changed)
    note_origins(temporary, [record])
    run.save_step(replace(checkpoint, config=config.to_mapping(), state=state), config.checkpoint.keep)
    temporary.replace(target)


def movable(values: dict, space: Space) -> Space:
    """Returns the part of a search space whose settings may change during a run; `values` is the run's config data.

    Builds an agent, to know the environment's spaces.
    """
    config = RunConfig.from_mapping(values)
    agent = Agent(config)
    agent.close()
    return {path: param for path, param in space.items() if why_fixed(values, param, agent.spec) is None}


def why_fixed(values: dict, param: Param, spec: Spec) -> str | None:
    """Returns the reason why a setting cannot change during a run; None if it can. `values` is the run's config data.

    The setting must be of section algorithm, and all its values must leave the shapes of the networks as they are.
    """
    if split_path(our_path(param.path))[0] != "algorithm":
        return "only settings of section algorithm change during a run"
    before = network_state(build_algorithm(RunConfig.from_mapping(values), spec))
    for value in param.ends:
        if why_infeasible(values, {param.path: value}) is not None:
            continue  # with other settings than now it may be possible
        changed = RunConfig.from_mapping(with_params(values, {param.path: value}))
        try:
            check_shapes(before, network_state(build_algorithm(changed, spec)), Path())
        except ConfigError:
            return f"with {value} the networks have another shape"
    return None
