"""The life cycle of every algorithm: construct from config, learn, evaluate, save, load, resume, predict."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Self, cast

import numpy as np
import torch
from numpy.typing import ArrayLike

from rl_training.api.advice import AnswersForeignNames, advised
from rl_training.api.budget import parse_flag, parse_steps, with_budget
from rl_training.api.copying import Copyable
from rl_training.api.data_source import (
    Source,
    check_has_data,
    data_settings,
    find_spec,
    open_data,
    with_data,
    with_identity,
)
from rl_training.api.env_source import env_device, env_from, open_env, settle_promise
from rl_training.api.evaluation_source import check_evaluation_env, evaluation_envs, plain_evaluation
from rl_training.api.going_on import extended, keep_reward_scale, take_saved
from rl_training.api.inputs import decode_action, encode_memory, encode_observation, num_rows
from rl_training.api.restoring import begin, reopen, restore
from rl_training.api.result import TrainResult
from rl_training.api.session import run
from rl_training.api.stages import check_callbacks
from rl_training.core import Transition
from rl_training.envs import VectorEnv
from rl_training.experiment import (
    Checkpoint,
    ConfigError,
    RunConfig,
    RunDirectory,
    config_from_keywords,
    find_checkpoint,
    load_checkpoint,
    load_config_values,
    save_checkpoint,
)
from rl_training.experiment.aliases import apply_override
from rl_training.experiment.build import build_algorithm, build_trainer, choose_mode, put_online, resolve
from rl_training.experiment.checkpoint import MANIFEST, damage_named
from rl_training.experiment.env_settings import NO_ENV
from rl_training.experiment.handed_over import note_what_stays_here, split_code
from rl_training.experiment.parsing import parse_path
from rl_training.experiment.trust import OWN, Trust, remember
from rl_training.runtime import Callback, EvalResult, HealthCheck, Progress, Trainer, evaluate
from rl_training.runtime.seeding import OwnStream, Streams
from rl_training.runtime.surroundings import is_learning, one_thread, plain_torch


class Agent(Copyable, AnswersForeignNames):
    """An algorithm with its environments; use a subclass such as `PPO`.

    `PPO("CartPole-v1", n_steps=128, n_envs=8, seed=1)`, `PPO(config)` and `PPO.from_preset("ppo/cartpole")` build the
    same thing. The environment may be an id, a function that returns a gymnasium environment or native dynamics, or an
    environment. With a dataset (an object or a path) it learns from logged steps too, or from them alone; then the
    environment serves to evaluate, and may be left out.
    """

    name: ClassVar[str] = ""

    @advised
    @plain_torch()
    def __init__(
        self,
        env: object = None,
        *extra: object,
        dataset: Source | None = None,
        run_dir: str | Path | None = None,
        **settings: object,
    ) -> None:
        if extra:
            raise ConfigError(
                f"{type(self).__name__} takes the environment alone, then keywords: {type(self).__name__}({extra[0]!r}); the "
                "network follows from the spaces"
            )
        if not self.name and not isinstance(env, RunConfig):
            raise ConfigError("Agent is no algorithm: use PPO, DQN, SAC or another class, or hand over a RunConfig")
        if isinstance(env, RunConfig):
            if settings:
                raise ConfigError(f"{', '.join(settings)} given beside a config: change the config instead")
            config, made = env, None
            config = config if dataset is None else with_data(config, dataset)
        else:
            env_id, made = (NO_ENV, None) if env is None and dataset is not None else env_from(env, settings)
            if dataset is not None:
                if "data" in settings:
                    raise ConfigError("dataset= and data= both say what to learn from: give one of them")
                settings["data"] = data_settings(dataset)
            config = config_from_keywords(self.name, env_id, plain_evaluation(settings))
        if self.name and config.name != self.name:
            raise ConfigError(
                f"the config is for {config.name!r}, not {self.name!r}: use {class_for(config.name).__name__}"
            )
        if "checkpoint" in settings and run_dir is None:
            print("note: checkpoint= has no effect without a folder to write to: pass run_dir=", file=sys.stderr)
        self.build(config, made, dataset, OWN)
        self.run_dir = parse_path(run_dir, "run_dir") if run_dir is not None else None

    def build(self, config: RunConfig, made: VectorEnv | None, dataset: Source | None, trust: Trust) -> None:
        """Opens what a new run needs and builds its networks."""
        check_has_data(config)
        self.trust = trust
        self.dataset = open_data(config, dataset, trust)
        config = with_identity(config, self.dataset)
        self.env: VectorEnv | None = None
        if config.env.id != NO_ENV:
            self.env = made or open_env(config.env, self.trust, device=env_device(config))
            self.env.ask_columns(config.env.info_keys)
        try:
            self.spec = find_spec(self.env, self.dataset, config.env)
            check_evaluation_env(config, self.spec)
            self.algorithm = build_algorithm(config, self.spec)
        except ValueError:
            self.close()
            raise
        remember(config)
        note_what_stays_here(config.algorithm)
        self.config = config
        self.run_dir: Path | None = None
        self.trainer: Trainer | None = None
        self.health = HealthCheck()
        self.draws = OwnStream(Streams.from_seed(config.training.seed).evaluation)
        self.restored: Checkpoint | None = None
        self.resumed = False
        self.origins: list[dict] = []  # checkpoints whose weights it took
        self.reward_moments: dict | None = None  # with which it begins to scale rewards

    @classmethod
    @advised
    def from_preset(cls, name: str, *, run_dir: str | Path | None = None, overrides: Sequence[str] = ()) -> Self:
        """Builds from a preset or a YAML file; `overrides` are `section.field=value`."""
        if isinstance(overrides, str):
            raise ConfigError(f"overrides={overrides!r} must be a list, e.g. ['training.seed=1']")
        if not isinstance(name, str | Path):
            raise ConfigError(f"from_preset({name!r}) takes the name of a preset, e.g. 'ppo/cartpole', or a YAML file")
        values = load_config_values(str(name))
        for assignment in overrides:
            values = apply_override(values, assignment)
        return cls(RunConfig.from_mapping(values), run_dir=run_dir)

    @classmethod
    @advised
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
        as `encoder=Net`, is handed over again by its keyword, which changes nothing.
        """
        found = find_checkpoint(parse_path(path, "path"))
        wanted = Trust.of(found / MANIFEST, trust)
        checkpoint, changes = split_code(load_checkpoint(found), changes)
        if env is None and not changes:
            return restore(cls, checkpoint, str(path), wanted, device, dataset)
        changes |= {"device": device} if device else {}
        return begin(cls, checkpoint, found, wanted, env, dataset, changes)

    @advised
    @plain_torch()
    def warm_start(self, path: str | Path, *, trust: Sequence[str] = ()) -> None:
        """Takes the weights and observation statistics of a saved agent with the same networks, and nothing else."""
        if self.trainer is not None and self.trainer.running:
            raise ConfigError("warm_start() was called while this agent learns: call it before learn()")
        found = find_checkpoint(parse_path(path, "path"))
        wanted = Trust.of(found / MANIFEST, trust)
        if self.trainer is not None:
            self.trainer.fused.leave()
        take_saved(self, "warm_start", found, load_checkpoint(found), wanted)

    @classmethod
    def kind_of(cls, name: str, source: str, how: str = "load") -> type[Self]:
        """The class for a saved algorithm; one class does not load or resume another's."""
        if cls.name and name != cls.name:
            owner = class_for(name).__name__ if how == "resume" else "rl_training"
            raise ConfigError(f"{source} holds {name!r}, not {cls.name!r}: use {owner}.{how}({source!r})")
        return cls if cls.name else cast("type[Self]", class_for(name))

    @classmethod
    @advised
    def resume(
        cls,
        run_dir: str | Path,
        *,
        total_timesteps: int | None = None,
        total_updates: int | None = None,
        dataset: Source | None = None,
        trust: Sequence[str] = (),
        **code: object,
    ) -> Self:
        """Opens a run directory at its last checkpoint, or at its start if there is none; `learn()` finishes it.

        A total extends the run: it then ends at so many env steps, or updates from data alone, of the whole run. Further
        keywords hand over code again, as for `load`.
        """
        run = RunDirectory.open(parse_path(run_dir, "run_dir"))
        agent = reopen(cls, run, dataset, trust, code)
        agent.config = extended(
            agent.config, agent.progress, total_timesteps=total_timesteps, total_updates=total_updates
        )
        return agent

    @property
    def progress(self) -> Progress:
        """Where the run stands."""
        if self.trainer is not None:
            return self.trainer.progress
        if self.restored is None:
            return Progress()
        return Progress.from_state(self.restored.state["progress"])

    @property
    def num_timesteps(self) -> int:
        """Env steps so far."""
        return self.progress.env_steps

    @advised
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
        when updates from data alone and env steps amount to that, without changing the horizon that schedules see.
        With a run directory, everything is recorded there, and SIGINT or SIGTERM pause the run with a checkpoint.
        """
        if self.trainer is not None and self.trainer.running:
            raise ConfigError(
                "learn() was called while this agent learns, from a callback or another thread: wait until it has returned, or "
                "train another agent"
            )
        given, shown = check_callbacks(callbacks), parse_flag(progress, "progress")
        config = self.config = with_budget(self.config, self.progress, total_timesteps, total_updates)
        horizon, now = config.training.horizon, self.progress.timesteps
        stop_at = horizon if stop_at is None else min(parse_steps(stop_at, "stop_at"), horizon)
        if stop_at < min(now, horizon):
            raise ConfigError(f"stop_at={stop_at} lies behind this run, which has {now} steps: raise it")
        return run(self, self.prepare_trainer(), stop_at, given, stop_at if shown else None)

    @plain_torch()
    def prepare_trainer(self) -> Trainer:
        if self.trainer is None:
            self.config = resolve(self.config, self.algorithm)
            self.dataset = self.dataset or open_data(self.config, trust=self.trust)
            env = self.training_env()
            trainer = build_trainer(self.config, self.algorithm, env, self.dataset)
            if self.reward_moments is not None:
                keep_reward_scale(trainer, self.reward_moments)
            if self.restored is not None:
                with damage_named(self.trust.source):
                    trainer.load_state_dict(self.restored_state())
                self.restored = None  # what was loaded need not stay in memory
                if env is not None and env.state_kind == "boundary":
                    print("note: this environment's state cannot be saved; new episodes were started", file=sys.stderr)
            self.trainer = trainer
        elif self.trainer.collector is None and (env := self.training_env()) is not None:
            put_online(self.trainer, self.config, env)
        self.trainer.total_timesteps = self.config.training.total_timesteps
        self.trainer.total_updates = self.config.training.total_updates
        choose_mode(self.trainer, self.config)
        return self.trainer

    def training_env(self) -> VectorEnv | None:
        """The environments to collect from, opened if need be; None in a run that takes no steps."""
        if not self.config.training.total_timesteps:
            return None
        self.env = self.env or open_env(self.config.env, self.trust, device=self.config.training.device)
        settle_promise(self.env, self.config.env, self.trust, say=self.restored is None)
        return self.env

    @advised
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
        """Runs complete episodes on fresh environments; unpacks as (mean, std); `watch` sees their [time, env] steps.

        `env` names other environments for this once: an id, a function, an `EnvConfig`, a mapping of settings that differ
        from the agent's, or a vector environment, which is used as it is.
        """
        num_episodes = parse_steps(num_episodes, "num_episodes")
        seed, deterministic = parse_steps(seed, "seed", least=0), parse_flag(deterministic, "deterministic")
        if watch is not None and not callable(watch):
            raise ConfigError(f"watch={watch!r} must be a function of the [time, env] steps")
        policy, limit = self.algorithm.policy, self.config.evaluation.max_steps
        with evaluation_envs(self.config, self.spec, self.trust, env, num_episodes, policy) as envs:
            return evaluate(
                policy, envs, num_episodes, seed=seed, deterministic=deterministic, max_steps=limit, watch=watch
            )

    @advised
    @plain_torch()
    @torch.no_grad()
    def predict(
        self,
        obs: ArrayLike | Mapping[str, ArrayLike],
        state: tuple | None = None,
        episode_start: ArrayLike | None = None,
        *,
        deterministic: bool = True,
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...] | None]:
        """Returns the action in the environment's units and the policy's state, for one observation or a batch.

        Deterministic by default, unlike Stable-Baselines3, whose default is to sample. A recurrent policy returns its
        memory as the state: hand it back with the next observation, and set `episode_start` where an episode begins.
        """
        policy, explore = self.algorithm.policy, not parse_flag(deterministic, "deterministic")
        batch, single = encode_observation(obs, policy.spec.obs, policy.device, self.spec.obs)
        memory, first = encode_memory(state, episode_start, policy.initial_memory(num_rows(batch)), batch)
        with self.draws.used(policy.device) if explore and is_learning() else nullcontext():
            action, memory = policy.decide(batch, memory, first, explore=explore)
        return decode_action(action, single), tuple(part.cpu().numpy() for part in memory) or None

    def restored_state(self) -> dict:
        """The state that was loaded, with the weights of now: what was done to them since counts."""
        assert self.restored is not None
        return self.restored.state | {"algorithm": dict(self.algorithm.state_dict())}

    def snapshot(self) -> Checkpoint:
        """Everything a checkpoint holds, as one tree."""
        if self.trainer is None and self.restored is not None:
            return replace(
                self.restored, config=self.config.to_mapping(), state=self.restored_state(), origins=tuple(self.origins)
            )
        trainer = self.prepare_trainer()
        return Checkpoint(
            self.config.to_mapping(),
            self.spec.to_json(),
            trainer.state_dict(),
            trainer.progress.timesteps,
            tuple(self.origins),
        )

    @advised
    def save(self, path: str | Path) -> None:
        """Writes the whole agent to a directory, atomically; `load` brings it back and `learn` goes on exactly."""
        save_checkpoint(parse_path(path, "path"), self.snapshot())

    def close(self) -> None:
        """Ends the environments' processes."""
        if self.env is not None:
            self.env.close()


def class_for(name: str) -> type[Agent]:
    """The managed class of an algorithm; one that was registered without a class is a plain Agent."""
    return next((kind for kind in Agent.__subclasses__() if kind.name == name), Agent)


load = Agent.load  # of any algorithm: the checkpoint says which
