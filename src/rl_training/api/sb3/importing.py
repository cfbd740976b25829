"""`import_sb3`: an agent out of a zip of Stable-Baselines3 or sb3-contrib."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from rl_training.api.agent import Agent
from rl_training.api.build import build_algorithm
from rl_training.api.env_source import env_from
from rl_training.api.evaluation_source import plain_evaluation
from rl_training.api.parts import AgentParts, new_parts, untrained
from rl_training.api.sb3.archive import Archive, printable
from rl_training.api.sb3.families import Family, family_of
from rl_training.api.sb3.inert_pickle import PickleError
from rl_training.api.sb3.kinds import algorithm_of
from rl_training.api.sb3.networks import MissingLayersError
from rl_training.api.sb3.settings import Translation, num_envs, translate
from rl_training.api.sb3.spaces import spec_of
from rl_training.api.sb3.vecnormalize import Statistics, copy_statistics, read_statistics, reward_state
from rl_training.api.sb3.weights import copy_optimizers, copy_weights, optimizer_settings
from rl_training.config import ConfigError, RunConfig, config_from_keywords
from rl_training.config.parsing import parse_path
from rl_training.config.registry import experience_of
from rl_training.config.sections import NO_ENV
from rl_training.config.trust import OWN
from rl_training.core import Box, Dict, Space, Spec
from rl_training.core.outline import differing
from rl_training.envs import VectorEnv
from rl_training.experiment.checkpoint import CheckpointError, sha256
from rl_training.experiment.lineage import now
from rl_training.runtime.torch_context import plain_torch

SECTIONS = ("algorithm", "experience", "env", "training")  # whose settings are keywords
KEPT = ["weights", "observation statistics", "optimizers", "reward scale"]
log = logging.getLogger(__name__)


@plain_torch()
def import_sb3(
    path: str | Path,
    env: object = None,
    *,
    vecnormalize: str | Path | None = None,
    **changes: object,
) -> Agent:
    """Returns an agent with the policy, settings and optimizers of a zip of Stable-Baselines3; runs no code of the file.

    Reads PPO, A2C, TRPO, RecurrentPPO, DQN, QRDQN, DDPG, TD3, SAC, TQC and CrossQ. It is a new run at step 0, as after
    `load` with `env`. The zip does not name its environment: without `env` the agent can act, be saved and be evaluated
    in one that is named then. `vecnormalize` is the file of statistics that `VecNormalize.save` wrote, and `changes` are
    settings to change, such as `learning_rate=1e-4` or `device="cuda"`. Logs a warning about settings that cannot be
    taken over. Raises CheckpointError if a file is damaged, was made to do harm, or holds what is not available here,
    and ConfigError if the environment does not fit.
    """
    archive = Archive(parse_path(path, "path"))
    statistics = None if vecnormalize is None else read_statistics(parse_path(vecnormalize, "vecnormalize"))
    name, changes = algorithm_of(archive), flat(plain_evaluation(changes))
    spec, tensors = read_spec(archive), read_policy(archive)
    env_id, made = (NO_ENV, None) if env is None else env_from(env, changes)
    try:
        family = family_of(name, tensors, spec)
    except MissingLayersError as error:
        raise archive.refusal(str(error)) from error
    found = translated(archive, name, spec, family, statistics, changes)
    config = config_of(archive, name, env_id, found.keywords | changes)
    parts = parts_for(archive, config, spec, made)
    try:
        copy_weights(archive, parts.algorithm, family, tensors)
        found.notes += copy_optimizers(archive, parts.algorithm, family, tensors)
        if statistics is not None:
            copy_statistics(statistics, parts.algorithm, parts.spec, Path(vecnormalize or ""))
    except ValueError:
        if parts.env is not None:
            parts.env.close()
        raise
    if statistics is not None and statistics.returns is not None and config.experience.kind == "rollout":
        parts.state = untrained() | {"experience": {"reward_scaling": reward_state(statistics.returns)}}
    parts.origins = (origin(archive, name),)
    tell(archive, name, found)
    kind = Agent.class_for(name)
    return kind.__new__(kind).assemble(parts)


def flat(changes: dict[str, object]) -> dict[str, object]:
    """Returns settings in which those of whole sections, such as algorithm={"gamma": 0.9}, stand beside the others."""
    sections = [section for name in SECTIONS if isinstance(section := changes.get(name), dict)]
    others = {name: value for name, value in changes.items() if name not in SECTIONS or not isinstance(value, dict)}
    return {name: value for section in (*sections, others) for name, value in section.items()}


def read_spec(archive: Archive) -> Spec:
    """Returns the spaces in an archive; raises CheckpointError if they cannot be read or are not supported."""
    try:
        spec = spec_of(archive.plain("observation_space"), archive.plain("action_space"))
        if isinstance(spec.obs, Dict) and any(isinstance(x, Box) and x.is_image for x in spec.obs.spaces.values()):
            raise archive.refusal("sees pictures in a Dict, whose encoder is of another kind here: train it anew")
        return spec
    except CheckpointError:
        raise
    except PickleError as error:
        raise archive.refusal(str(error)) from error
    except ValueError as error:
        raise archive.refusal(f"has spaces that are not supported: {error}") from error


def read_policy(archive: Archive) -> dict[str, Tensor]:
    """Returns the tensors of an archive's policy by name, with `log_ent_coef` if it was learned."""
    tensors = archive.tensors("policy.pth")
    learned = archive.tensors("pytorch_variables.pth").get("log_ent_coef")
    if isinstance(archive.settings.get("ent_coef"), str):
        tensors = {**tensors, "log_ent_coef": torch.zeros(1) if learned is None else learned}
    wrong = next((name for name, x in tensors.items() if not isinstance(name, str) or not isinstance(x, Tensor)), None)
    if wrong is not None or not all(tensor.dtype in (torch.float32, torch.int64) for tensor in tensors.values()):
        raise archive.refusal("has something else than tensors of float32 in policy.pth")
    if "log_ent_coef" in tensors and tensors["log_ent_coef"].numel() != 1:
        raise archive.refusal("has a log_ent_coef that is not one number")
    return tensors


def translated(
    archive: Archive, name: str, spec: Spec, family: Family, statistics: Statistics | None, changes: dict[str, object]
) -> Translation:
    """Returns an archive's settings under our names, with those that follow from tensors, optimizers and statistics."""
    envs = changes.get("n_envs", num_envs(archive))
    found = translate(archive, name, spec, envs if isinstance(envs, int) else 1)
    optimizers, notes = optimizer_settings(archive, name, family)
    found.keywords |= family.settings | optimizers | {"n_envs": envs}
    found.notes += notes
    take_batch_size(found, envs)
    if statistics is None:
        return found
    found.keywords |= statistics.keywords
    if statistics.returns is not None and experience_of(name).kind == "rollout":
        found.keywords |= {"normalize_reward": True, "clip_reward": statistics.clip_reward}
    elif statistics.returns is not None:
        scale = float((statistics.returns[1] + 1e-8) ** -0.5)
        found.keywords |= {"reward_scale": scale}
        found.notes.append(
            f"rewards are multiplied by {scale:.4g}, as VecNormalize did at the end; with a replay the factor stays"
        )
    return found


def take_batch_size(found: Translation, envs: object) -> None:
    """Lowers the batch size to the length of a rollout, which is then visited as a whole there, too."""
    batch, steps = found.keywords.get("batch_size"), found.keywords.get("n_steps")
    rollouts = "n_epochs" in found.keywords or "n_critic_updates" in found.keywords
    if rollouts and isinstance(batch, int) and isinstance(steps, int) and isinstance(envs, int):
        found.keywords["batch_size"] = min(batch, steps * envs)


def config_of(archive: Archive, name: str, env_id: str, keywords: dict[str, object]) -> RunConfig:
    """Returns the config of an imported agent; raises ConfigError, which names the archive, if a setting is invalid."""
    try:
        return config_from_keywords(name, env_id, keywords)
    except ConfigError as error:
        raise ConfigError(f"{archive.path}: {printable(str(error))}") from error


def parts_for(archive: Archive, config: RunConfig, spec: Spec, made: VectorEnv | None) -> AgentParts:
    """Returns the parts of a new agent with untrained networks.

    Raises ConfigError if environments have other spaces, and CheckpointError if the networks cannot be built.
    """
    if config.env.id == NO_ENV:
        try:
            return AgentParts(config=config, spec=spec, algorithm=build_algorithm(config, spec))
        except ValueError as error:
            raise archive.refusal(f"cannot be built: {error}") from error
    parts = new_parts(config, made, None, OWN)
    try:
        check_spaces(archive, spec, parts.spec, config.env.id)
    except ConfigError:
        if parts.env is not None:
            parts.env.close()
        raise
    return parts


def check_spaces(archive: Archive, theirs: Spec, ours: Spec, env_id: str) -> None:
    """Raises ConfigError if an environment has other spaces than an archive, or other bounds of actions.

    Pictures may have their channels first in one and last in the other.
    """
    seen = replace(theirs, obs=channels_moved(theirs.obs, ours.obs))
    for what, saved, own in differing(seen, ours):
        raise ConfigError(
            f"{archive.path} was trained with {what} {saved}, those of {env_id} are {own}: use the environment and the wrappers "
            "that it was trained with (frame_stack=4 stands for VecFrameStack)"
        )
    if isinstance(theirs.action, Box) and theirs.action != ours.action:
        raise ConfigError(f"{archive.path} acts in {theirs.action}, and {env_id} in {ours.action}: use the same bounds")


def channels_moved(saved: Space, own: Space) -> Space:
    """Returns the saved space, or ours if both are pictures that differ only in the place of their channels."""
    if isinstance(saved, Box) and isinstance(own, Box) and saved.is_image and own.is_image:
        channels, height, width = saved.shape
        return own if own.shape == (height, width, channels) else saved
    if isinstance(saved, Dict) and isinstance(own, Dict) and list(saved.spaces) != list(own.spaces):
        raise ConfigError(
            f"the observation's keys are {list(saved.spaces)} there and {list(own.spaces)} here: their order matters"
        )
    return saved


def origin(archive: Archive, name: str) -> dict:
    """Returns the record, a dict of JSON values, that an agent was imported from an archive."""
    steps = archive.settings.get("num_timesteps")
    return {
        "kind": "import",
        "path": str(archive.path.resolve()),
        "sha256": sha256(archive.path),
        "stable_baselines3": archive.version,
        "algorithm": name,
        "timesteps": steps if isinstance(steps, int) else 0,
        "at": 0,
        "kept": KEPT,
        "changed": {},
        "time": now(),
    }


def tell(archive: Archive, name: str, found: Translation) -> None:
    """Logs that a file was imported and, as warnings, what of it could not be taken over."""
    log.info(f"{archive.path}: {name} of Stable-Baselines3 {archive.version}, as a new run at step 0")
    for note in found.notes:
        log.warning(f"{archive.path}: {printable(note)}")
