"""The life cycle of every algorithm: construct from config, learn, evaluate, save, load, resume, predict."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike

from rl_training.api.advice import explains_foreign_names
from rl_training.api.copying import Copyable
from rl_training.api.data_source import Source
from rl_training.api.evaluation_source import evaluate_agent
from rl_training.api.exporting import export_agent
from rl_training.api.inputs import decode_action, encode_joint, encode_memory, num_rows
from rl_training.api.parts import AgentParts, parts_asked_for
from rl_training.api.recording import bind_videos, record_agent
from rl_training.api.restoring import load_agent, read_saved, reopen, with_changes
from rl_training.api.training import build_run, check_idle, pause_at, with_budget
from rl_training.api.transfer_weights import load_saved_weights
from rl_training.config import ConfigError, RunConfig, load_config_values
from rl_training.config.code_objects import note_environment_that_stays_here
from rl_training.config.parsing import parse_flag, parse_path
from rl_training.core import AlgorithmConfig, Transition
from rl_training.core.ranks import ranks_of_this_process
from rl_training.envs import VectorEnv
from rl_training.experiment import Checkpoint, RunDirectory, save_checkpoint
from rl_training.experiment.run import TrainResult
from rl_training.experiment.run_callbacks import check_callbacks
from rl_training.export import Exported
from rl_training.runtime import Callback, EvalResult, HealthCheck, Progress, Trainer
from rl_training.runtime.seeding import Streams
from rl_training.runtime.torch_context import OwnStream, one_thread, plain_torch

log = logging.getLogger(__name__)
NOTHING = nullcontext()


@explains_foreign_names
class Agent(Copyable):
    """An algorithm with its environments; use a subclass such as `PPO`.

    `PPO("CartPole-v1", gamma=0.98, n_envs=8)`, `PPO("CartPole-v1", PPOConfig(gamma=0.98), n_envs=8)`, `PPO(run_config)` and
    `PPO.from_preset("ppo/cartpole")` build the same thing. The environment may be an id, a function that returns a
    gymnasium environment or native dynamics, or an environment. With a dataset (an object or a path) it learns from
    logged steps too, or from them alone; then the environment serves to evaluate, and may be left out.
    """

    name: ClassVar[str] = ""

    @plain_torch()
    def __init__(
        self,
        env: object = None,
        config: AlgorithmConfig | None = None,
        *extra: object,
        dataset: Source | None = None,
        run_dir: str | Path | None = None,
        **settings: object,
    ) -> None:
        self.assemble(parts_asked_for(type(self), env, (config, *extra), dataset, settings))
        self.run_dir = run_dir
        if run_dir is not None:
            note_environment_that_stays_here(self.config.env.id)
        for section in ("checkpoint", "tracking"):
            if section in settings and run_dir is None:
                log.warning(f"{section}= has no effect without a folder to write to: pass run_dir=")

    def assemble(self, parts: AgentParts) -> Self:
        """Sets all attributes of this agent from the given config, algorithm, state and so on, and returns the agent.

        New, loaded and copied agents, which are made without a constructor, call it.
        """
        self.config, self.spec, self.algorithm, self.trust = parts.config, parts.spec, parts.algorithm, parts.trust
        self.envs: dict[str, VectorEnv] = {"": parts.env} if parts.env is not None else {}  # by `PhaseConfig.env_key`
        self.dataset, self.state, self.origins = parts.dataset, parts.state, list(parts.origins)
        self.ranks = ranks_of_this_process()
        self.trainer: Trainer | None = None  # from the first call of `learn` on; then the state is there
        self.run_dir = None
        self.directory: RunDirectory | None = None  # of the run that it resumes
        self.health = HealthCheck()
        self.draws: tuple[int, OwnStream] | None = None  # of `predict`, with the step that they belong to
        return self

    @classmethod
    def from_preset(cls, name: str, *, run_dir: str | Path | None = None, overrides: Sequence[str] = ()) -> Self:
        """Builds an agent from a preset (by name) or a YAML file (by path), with settings changed by `overrides`.

        An override is text, `section.field=value`. Raises ConfigError if the preset does not exist, the file cannot be
        read, or a setting is unknown or invalid.
        """
        if isinstance(overrides, str):
            raise ConfigError(f"overrides={overrides!r} must be a list, e.g. ['training.seed=1']")
        if not isinstance(name, str | Path):
            raise ConfigError(f"from_preset({name!r}) takes the name of a preset, e.g. 'ppo/cartpole', or a YAML file")
        return cls(RunConfig.from_mapping(load_config_values(str(name), overrides)), run_dir=run_dir)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        env: object = None,
        device: str | None = None,
        dataset: Source | None = None,
        trust: Sequence[str] = (),
        **changes: object,
    ) -> Self:
        """Loads a saved model, a checkpoint or a run directory's best; `learn` goes on from there exactly.

        With `env` or any setting (`learning_rate=1e-5`), it is a new agent at step 0 instead: it begins with the saved
        weights, statistics and optimizers, and with new environments, replay and random numbers. `trust` names packages
        whose code the checkpoint may use, for its environment and its networks. Code that was given as an object, such
        as `encoder=Net`, is handed over again by its keyword, which changes nothing. Raises CheckpointError if there is
        no checkpoint or it is damaged.
        """
        return load_agent(cls, path, trust, device, dataset, env, changes)

    @plain_torch()
    def warm_start(self, path: str | Path, *, trust: Sequence[str] = ()) -> None:
        """Replaces the agent's weights and observation statistics by those of a saved agent with the same networks.

        Optimizers, settings and progress stay. Raises ConfigError if the networks differ, or while the agent learns.
        """
        check_idle(self.trainer, "warm_start")
        load_saved_weights(self, "warm_start", *read_saved(path, trust))

    @staticmethod
    def class_for(name: str) -> type[Agent]:
        """Returns the class of agents, such as PPO, for an algorithm's name; Agent itself if there is no such class."""
        return next((kind for kind in Agent.__subclasses__() if kind.name == name), Agent)

    @classmethod
    def resume(
        cls,
        run_dir: str | Path,
        *,
        total_timesteps: int | None = None,
        total_updates: int | None = None,
        dataset: Source | None = None,
        trust: Sequence[str] = (),
        sampling: Mapping[str, object] | None = None,
        tracking: Mapping[str, object] | None = None,
        **code: object,
    ) -> Self:
        """Opens a run directory at its last checkpoint, or at its start if there is none; `learn()` finishes it.

        A total extends the run: it then ends at so many env steps, or updates from data alone, of the whole run.
        `sampling={"workers": 4}` changes the processes that step the environments from here on, and
        `tracking={"loggers": ["wandb"]}` where metrics are sent. Further keywords hand over code again, as for `load`,
        and `env=MyEnv` the class or function that builds its environments. Raises ConfigError if the path is no run
        directory or its config was changed.
        """
        directory = RunDirectory.open(parse_path(run_dir, "run_dir"))
        written = with_changes(directory.config(code), sampling or {}, tracking or {})
        totals = {"total_timesteps": total_timesteps, "total_updates": total_updates}
        return reopen(cls, directory, written, dataset, trust, code, totals)

    @property
    def run_dir(self) -> Path | None:
        """Returns the folder that `learn` records the run in, else None; may be set to text, a path or None."""
        return self.recorded_in

    @run_dir.setter
    def run_dir(self, folder: str | Path | None) -> None:
        self.recorded_in = parse_path(folder, "run_dir") if folder is not None else None

    @property
    def progress(self) -> Progress:
        """Returns the counters of the run: env steps, updates, episodes and time so far."""
        return Progress.from_state(self.state["progress"]) if self.trainer is None else self.trainer.progress

    @property
    def env(self) -> VectorEnv | None:
        """Returns the environments that the config's section `env` describes if they are open, else None."""
        return self.envs.get("")

    @property
    def num_timesteps(self) -> int:
        """Returns the number of env steps so far."""
        return self.progress.env_steps

    @one_thread()
    @plain_torch()
    def learn(
        self,
        total_timesteps: int | None = None,
        *,
        total_updates: int | None = None,
        stop_at: int | None = None,
        callbacks: Sequence[Callback] | Callback = (),
        progress: bool = True,
    ) -> TrainResult:
        """Trains for `total_timesteps` further env steps, or for what is left of the config's budget.

        `total_updates` asks for so many further updates from the dataset alone, before any env step. `stop_at` pauses
        when updates from data alone and env steps, counted since the run began, amount to that; schedules still run to
        the end of the budget. With a run directory, everything is recorded there, and SIGINT or SIGTERM pause the run
        with a checkpoint. Raises ConfigError if there is no budget at all, or if the agent is learning already.
        """
        check_idle(self.trainer, "learn")
        given, shown = check_callbacks(callbacks), parse_flag(progress, "progress")
        config = with_budget(self.config, self.progress, total_timesteps, total_updates)
        stop_at = pause_at(stop_at, config, self.progress)
        given = bind_videos(self, config, given)
        return build_run(self, config).train(stop_at, given, shown=shown)

    @plain_torch()
    def evaluate(
        self,
        num_episodes: int = 10,
        *,
        deterministic: bool = True,
        seed: int = 0,
        env: object = None,
        watch: Callable[[Transition], None] | None = None,
    ) -> EvalResult:
        """Runs complete episodes and returns their result, which unpacks as (mean, std) of the returns.

        Opens fresh environments and closes them afterwards. `env` names others for this once: an id, a function, an
        `EnvConfig`, a mapping of settings that differ from the agent's, or a vector environment, which is used as it
        is. `watch` is called with the steps, shape [time, env]. Raises ConfigError if there is no environment, or its
        spaces differ from those of training.
        """
        return evaluate_agent(self, num_episodes, deterministic, seed, env, watch)

    @plain_torch()
    def record(
        self,
        path: str | Path,
        num_episodes: int = 1,
        *,
        deterministic: bool = True,
        seed: int = 0,
        env: object = None,
        fps: float | None = None,
    ) -> EvalResult:
        """Writes a video of complete episodes to `path`, which ends with .mp4 or .gif, and returns their result.

        Shows what an environment draws, or its observations if these are pictures; `fps` pictures per second (None: as
        the environment says). `env` names another environment, as for `evaluate`. The file appears complete, in place
        of an older one. Raises ConfigError if the file cannot be written or mp4 lacks its package, and ValueError if
        there is nothing to show; both before the first step.
        """
        return record_agent(self, path, num_episodes, deterministic, seed, env, fps)

    @plain_torch()
    def predict(
        self,
        obs: ArrayLike | Mapping[str, ArrayLike],
        state: tuple | None = None,
        episode_start: ArrayLike | None = None,
        *,
        deterministic: bool = True,
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...] | None]:
        """Returns the action in the environment's units and the policy's memory (None without one).

        `obs` is one observation or a batch with a leading dimension, and the action has that dimension too, or not.
        Deterministic by default, unlike Stable-Baselines3's sampling; samples follow the agent's seed. Hand the memory
        of a recurrent policy back as `state` with the next observation, and set `episode_start`, a flag or one per row,
        where an episode begins. For a team, `alive` and `acting` may be left out: all agents then live and act. Raises
        ConfigError if an observation does not fit the space.
        """
        policy, explore = (
            self.algorithm.policy,
            not (deterministic is True or parse_flag(deterministic, "deterministic")),
        )
        batch, single = encode_joint(obs, policy.spec, policy.device, self.spec.obs)
        memory, first = encode_memory(
            state, episode_start, policy.initial_memory(1 if single else num_rows(batch)), batch
        )
        with torch.no_grad(), self.random_numbers().used(policy.device) if explore else NOTHING:
            action, memory = policy.decide_checked(batch, memory, first, explore=explore)
        return decode_action(action, single), tuple(part.cpu().numpy() for part in memory) or None

    @plain_torch()
    def export(self, path: str | Path, *, overwrite: bool = False, group: str | None = None) -> Exported:
        """Writes the policy as one file that runs without this library: .onnx, .pt2 (torch) or .npz (NumPy).

        A team has a policy for each `group` of agents, whose rows are agents; None: the only one.

        The file goes from the environment's observation to its deterministic action. A parity file, a model card and
        `run_policy.py`, which runs it, are written beside it. Raises ConfigError, before anything is written, if a file
        exists and `overwrite` is not set, a package of the extra `export` is missing, or the format cannot hold the
        policy; and ValueError if the written policy computes other numbers.
        """
        return export_agent(self, path, overwrite, group=group)

    def random_numbers(self) -> OwnStream:
        """Returns the stream of random numbers that `predict` samples from.

        It is determined by the agent's seed and step, also in a loaded agent, and starts anew at every step of the run.
        """
        now = self.progress.timesteps
        if self.draws is None or self.draws[0] != now:
            self.draws = now, OwnStream(Streams.from_seed(self.config.training.seed).evaluation_at(now))
        return self.draws[1]

    def full_state(self) -> dict:
        """Returns the agent's state tree with the algorithm's weights as they are now, even if they were set by hand.

        Tensors in it may be the agent's own; copy them before you change or keep them.
        """
        if self.trainer is not None:
            return self.trainer.state_dict()
        return self.state | {"algorithm": dict(self.algorithm.state_dict())}

    def snapshot(self) -> Checkpoint:
        """Returns the agent as a checkpoint: config, spaces, state tree, clock and origins."""
        config, spec, at = self.config.to_mapping(), self.spec.to_json(), self.progress.timesteps
        return Checkpoint(config, spec, self.full_state(), at, tuple(self.origins))

    def save(self, path: str | Path) -> None:
        """Writes the whole agent to a directory, all or nothing; after `load`, `learn` continues exactly from there.

        Replaces a saved agent of that name. Raises CheckpointError if the path is anything else, or cannot be written.
        """
        save_checkpoint(parse_path(path, "path"), self.snapshot())

    def close(self) -> None:
        """Closes the environments and ends their processes."""
        for env in self.envs.values():
            env.close()


load = Agent.load  # of any algorithm: the checkpoint says which
