"""The life cycle of every algorithm: construct from config, learn, evaluate, save, load, resume, predict."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike

from rl_training.api.env_source import GIVEN, env_device, env_from, open_env
from rl_training.api.inputs import decode_action, encode_memory, encode_observation, num_rows
from rl_training.core import ActionConverter, Spec, Transition
from rl_training.envs import VectorEnv
from rl_training.experiment import (
    Checkpoint,
    CheckpointError,
    ConfigError,
    RunConfig,
    RunDirectory,
    config_from_keywords,
    find_checkpoint,
    load_checkpoint,
    load_config_values,
    save_checkpoint,
)
from rl_training.experiment.build import build_algorithm, build_trainer, resolve
from rl_training.experiment.config import apply_override, diff
from rl_training.experiment.curve import draw_curve
from rl_training.experiment.keeping import Checkpointing, Evaluation, SaveFirst, StopOnSignal
from rl_training.experiment.loggers import JsonLines, ProgressBar, TensorBoard
from rl_training.experiment.parsing import parse_value
from rl_training.runtime import Callback, EvalResult, HealthCheck, StopOnReturn, Streams, Trainer, evaluate


@dataclass(frozen=True)
class TrainResult:
    """What a call to `learn` did; the same fields stand in `result.json`."""

    status: str  # finished, paused, stopped (see reason)
    reason: str
    algorithm: str
    env_id: str
    seed: int
    total_timesteps: int  # env steps so far
    gradient_steps: int
    episodes: int
    wall_time_s: float
    steps_per_second: float
    eval_mean_return: float | None
    eval_std_return: float | None
    eval_episodes: int
    checkpoint: str | None  # the last one, if a run directory was given
    best_checkpoint: str | None
    resume: str  # what a resumed run can promise: exact, replayed or boundary


class Agent:
    """An algorithm with its environments; use a subclass such as `PPO`.

    `PPO("CartPole-v1", n_steps=128, n_envs=8, seed=1)`, `PPO(config)` and `PPO.from_preset("ppo/cartpole")` build the
    same thing. The environment may be an id, a function that returns a gymnasium environment or native dynamics, or an
    environment.
    """

    name: ClassVar[str] = ""

    def __init__(self, env: object, *extra: object, run_dir: str | Path | None = None, **settings: object) -> None:
        if extra:
            raise ConfigError(
                f"{type(self).__name__} takes the environment alone, then keywords: {type(self).__name__}({extra[0]!r}); the "
                "network follows from the spaces"
            )
        if isinstance(env, RunConfig):
            if settings:
                raise ConfigError(f"{', '.join(settings)} given beside a config: change the config instead")
            config, made = env, None
        else:
            env_id, made = env_from(env, settings)
            config = config_from_keywords(self.name, env_id, settings)
        if self.name and config.name != self.name:
            raise ConfigError(
                f"the config is for {config.name!r}, not {self.name!r}: use {class_for(config.name).__name__}"
            )
        self.env: VectorEnv | None = made or open_env(config.env, device=env_device(config))
        self.spec = self.env.spec
        try:
            self.algorithm = build_algorithm(config, self.spec)
        except ValueError:
            self.env.close()
            raise
        self.config = config
        self.run_dir = Path(run_dir) if run_dir is not None else None
        self.trainer: Trainer | None = None
        self.health = HealthCheck()
        self.restored: Checkpoint | None = None
        self.resumed = False

    @classmethod
    def from_preset(cls, name: str, *, run_dir: str | Path | None = None, overrides: Sequence[str] = ()) -> Self:
        """Builds from a preset or a YAML file; `overrides` are `section.field=value`."""
        if isinstance(overrides, str):
            raise ConfigError(f"overrides={overrides!r} must be a list, e.g. ['training.seed=1']")
        values = load_config_values(name)
        for assignment in overrides:
            values = apply_override(values, assignment)
        return cls(RunConfig.from_mapping(values), run_dir=run_dir)

    @classmethod
    def load(cls, path: str | Path, *, device: str | None = None) -> Self:
        """Loads a saved model, a checkpoint or a run directory's best; `learn` goes on from there exactly."""
        return cls.restore(load_checkpoint(find_checkpoint(Path(path))), str(path), device)

    @classmethod
    def restore(cls, checkpoint: Checkpoint, source: str, device: str | None = None) -> Self:
        """Builds an agent from a checkpoint that was read; `source` names it in errors."""
        values = checkpoint.config
        if device is not None:
            values = values | {"training": values["training"] | {"device": device}}
        config = RunConfig.from_mapping(values)
        if cls.name and config.name != cls.name:
            raise ConfigError(f"{source} holds {config.name!r}, not {cls.name!r}: use rl_training.load({source!r})")
        agent = cls.__new__(cls)
        agent.config, agent.spec, agent.env = config, Spec.from_json(checkpoint.spec), None
        agent.algorithm = build_algorithm(config, agent.spec)
        try:
            agent.algorithm.load_state_dict(checkpoint.state["algorithm"])
        except RuntimeError as error:
            raise CheckpointError(f"{source} does not fit its own config: {' '.join(str(error).split())}") from error
        agent.run_dir, agent.trainer, agent.restored, agent.resumed = None, None, checkpoint, False
        agent.health = HealthCheck()
        return agent

    @classmethod
    def resume(cls, run_dir: str | Path) -> Self:
        """Opens a run directory at its last checkpoint, or at its start if there is none; `learn()` finishes it."""
        run = RunDirectory.open(Path(run_dir))
        steps = run.steps()
        agent = cls.restore(load_checkpoint(steps[-1]), str(steps[-1])) if steps else cls(run.config())
        changed = diff(agent.config, run.config()) if steps else []
        if changed:
            path, old, new = changed[0]
            raise ConfigError(
                f"{run.path / 'config.yaml'} was changed after the run began ({path}: {old!r} -> {new!r}): a resumed run keeps "
                "its settings; undo the change, or start a new run from that file with `rl-training train`"
            )
        agent.run_dir, agent.resumed = run.path, True
        return agent

    @property
    def num_timesteps(self) -> int:
        if self.trainer is not None:
            return self.trainer.progress.timesteps
        return self.restored.timesteps if self.restored else 0

    def learn(
        self,
        total_timesteps: int | None = None,
        *,
        stop_at: int | None = None,
        callbacks: Sequence[Callback] | Callback = (),
        progress: bool = True,
    ) -> TrainResult:
        """Trains for `total_timesteps` further env steps, or for what is left of the config's budget.

        `stop_at` pauses at that many steps in all without changing the horizon that schedules see. With a run
        directory, everything is recorded there, and SIGINT or SIGTERM pause the run with a checkpoint.
        """
        config = self.config
        if total_timesteps is not None:
            further = parse_steps(total_timesteps, "total_timesteps")
            config = config.replace("training", total_timesteps=self.num_timesteps + further)
        horizon = config.training.total_timesteps
        stop_at = horizon if stop_at is None else min(parse_steps(stop_at, "stop_at"), horizon)
        if stop_at < min(self.num_timesteps, horizon):
            raise ConfigError(f"stop_at={stop_at} lies behind this run, which has {self.num_timesteps} steps: raise it")
        self.config = config
        trainer = self.prepare_trainer()
        if self.run_dir is None:
            evaluation = self.evaluation_callback() if self.config.evaluation.interval else None
            return self.run(trainer, stop_at, evaluation, [], callbacks, progress)
        run = (
            RunDirectory.open(self.run_dir)
            if self.run_dir_is_ours()
            else RunDirectory.create(self.run_dir, self.config)
        )
        with run.locked():
            finished = trainer.progress.timesteps >= trainer.total_timesteps
            run.trim_logs(trainer.progress.timesteps, redo_evaluation=finished)
            run.write_config(self.config)
            recorders = self.recorders(run, trainer)
            result = None
            try:
                result = self.run(trainer, stop_at, self.evaluation_callback(), recorders, callbacks, progress)
            finally:
                run.write_result(asdict(result) if result else self.failure(trainer))
            draw_curve(run.path, f"{self.config.name} on {self.config.env.id}, seed {self.config.training.seed}")
        return result

    def failure(self, trainer: Trainer) -> dict:
        """What `result.json` says of a run that an error ended."""
        error, progress = sys.exc_info()[1], trainer.progress
        return {
            "status": "failed",
            "reason": f"{type(error).__name__}: {error}",
            "algorithm": self.config.name,
            "env_id": self.config.env.id,
            "seed": self.config.training.seed,
            "total_timesteps": progress.timesteps,
            "gradient_steps": progress.gradient_steps,
            "wall_time_s": round(progress.wall_time, 3),
        }

    def run_dir_is_ours(self) -> bool:
        """A directory that this agent resumes or has already begun, not somebody else's run."""
        assert self.run_dir is not None
        begun = self.trainer is not None and self.trainer.progress.timesteps > 0
        return (self.resumed or begun) and (self.run_dir / "config.yaml").exists()

    def prepare_trainer(self) -> Trainer:
        if self.trainer is None:
            self.config = resolve(self.config, self.algorithm)
            if self.env is None:
                self.env = open_env(self.config.env, device=self.config.training.device)
            self.trainer = build_trainer(self.config, self.algorithm, self.env)
            if self.restored is not None:
                self.trainer.load_state_dict(self.restored.state)
                if self.env.state_kind == "boundary":
                    print("note: this environment's state cannot be saved; new episodes were started", file=sys.stderr)
        self.trainer.total_timesteps = self.config.training.total_timesteps
        return self.trainer

    def run(
        self,
        trainer: Trainer,
        stop_at: int,
        evaluation: Evaluation | None,
        recorders: list[Callback],
        callbacks: Sequence[Callback] | Callback,
        progress: bool,
    ) -> TrainResult:
        callbacks = [callbacks] if isinstance(callbacks, Callback) else list(callbacks)
        wrong = next((c for c in callbacks if not isinstance(c, Callback)), None)
        if wrong is not None:
            raise ConfigError(
                f"callbacks={wrong!r} is not a Callback: derive from rl_training.Callback and override a method"
            )
        stages: list[Callback] = [c for c in recorders if isinstance(c, SaveFirst)]
        stages += [evaluation] if evaluation else []
        if self.config.evaluation.stop_at_return is not None:
            stages.append(StopOnReturn(self.config.evaluation.stop_at_return))
        stages += [
            *callbacks,
            *(c for c in recorders if not isinstance(c, SaveFirst)),
            *([ProgressBar(stop_at)] if progress else []),
        ]
        before, began = trainer.progress.timesteps, trainer.progress.wall_time
        reason = trainer.run(stop_at, stages)
        finished = trainer.progress.timesteps >= trainer.total_timesteps
        status = "finished" if finished else "paused" if reason == "budget" or reason.startswith("SIG") else "stopped"
        last = evaluation.last[1] if evaluation and evaluation.last else None
        run = RunDirectory(self.run_dir) if self.run_dir else None
        wall = trainer.progress.wall_time - began
        return TrainResult(
            status=status,
            reason=f"paused at {stop_at} of {trainer.total_timesteps} steps"
            if status == "paused" and reason == "budget"
            else reason,
            algorithm=self.config.name,
            env_id=self.config.env.id,
            seed=self.config.training.seed,
            total_timesteps=trainer.progress.timesteps,
            gradient_steps=trainer.progress.gradient_steps,
            episodes=trainer.progress.episodes,
            wall_time_s=round(trainer.progress.wall_time, 3),
            steps_per_second=round((trainer.progress.timesteps - before) / max(wall, 1e-9), 1),
            eval_mean_return=last.mean if last else None,
            eval_std_return=last.std if last else None,
            eval_episodes=len(last.returns) if last else 0,
            checkpoint=str(run.steps()[-1]) if run and run.steps() else None,
            best_checkpoint=str(run.best()) if run and run.best() else None,
            resume=self.env.state_kind if self.env else "boundary",
        )

    def recorders(self, run: RunDirectory, trainer: Trainer) -> list[Callback]:
        keep = self.config.checkpoint.keep
        recorders: list[Callback] = [
            SaveFirst(lambda: run.save_step(self.snapshot(), keep)),
            JsonLines(run.path),
            Checkpointing(
                self.config.checkpoint.interval,
                lambda: run.save_step(self.snapshot(), keep),
                lambda: run.save_best(self.snapshot()),
            ),
            StopOnSignal(),
        ]
        if importlib.util.find_spec("tensorboard"):
            recorders.append(TensorBoard(run.path))
        return recorders

    def evaluation_callback(self) -> Evaluation | None:
        if self.config.env.id.startswith(GIVEN):
            return None
        settings, streams = self.config.evaluation, Streams.from_seed(self.config.training.seed)

        def run_evaluation(timesteps: int) -> EvalResult:
            seed, watch = streams.evaluation_at(timesteps), partial(self.health.watch, self.algorithm)
            result = self.evaluate(settings.episodes, deterministic=settings.deterministic, seed=seed, watch=watch)
            return replace(
                result, health=self.health.measure(self.prepare_trainer(), self.config.algorithm.gamma, seed)
            )

        return Evaluation(settings.interval, run_evaluation)

    def evaluate(
        self,
        num_episodes: int = 10,
        *,
        deterministic: bool = True,
        seed: int = 0,
        watch: Callable[[Transition], None] | None = None,
    ) -> EvalResult:
        """Runs complete episodes on fresh environments; unpacks as (mean, std); `watch` sees their [time, env] steps."""
        num_episodes = parse_steps(num_episodes, "num_episodes")
        if seed < 0:
            raise ConfigError(f"seed={seed} must be at least 0")
        num_envs = min(num_episodes, self.config.evaluation.n_envs)
        device = next(self.algorithm.parameters()).device
        env = open_env(self.config.env, num_envs=num_envs, device=device)
        try:
            policy = self.algorithm.policy
            return evaluate(policy, env, num_episodes, seed=seed, deterministic=deterministic, watch=watch)
        finally:
            env.close()

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
        device = next(self.algorithm.parameters()).device
        batch, single = encode_observation(obs, self.spec.obs, device)
        policy = self.algorithm.policy
        memory, first = encode_memory(state, episode_start, policy.initial_memory(num_rows(batch)), device)
        act = policy.act(batch, memory, first, explore=not deterministic)
        convert = ActionConverter(self.spec.action, squashed=policy.squashed, device=device)
        return decode_action(convert(act.action), single), tuple(m.cpu().numpy() for m in act.memory) or None

    def snapshot(self) -> Checkpoint:
        """Everything a checkpoint holds, as one tree."""
        if self.trainer is None and self.restored is not None:
            return replace(self.restored, config=self.config.to_mapping())
        trainer = self.prepare_trainer()
        return Checkpoint(
            self.config.to_mapping(), self.spec.to_json(), trainer.state_dict(), trainer.progress.timesteps
        )

    def save(self, path: str | Path) -> None:
        """Writes the whole agent to a directory, atomically; `load` brings it back and `learn` goes on exactly."""
        save_checkpoint(Path(path), self.snapshot())

    def close(self) -> None:
        """Ends the environments' processes."""
        if self.env is not None:
            self.env.close()


def parse_steps(value: object, name: str) -> int:
    steps = parse_value(int, value, name)
    assert isinstance(steps, int)
    if steps < 1:
        raise ConfigError(f"{name}={steps} must be at least 1")
    return steps


def load(path: str | Path, *, device: str | None = None) -> Agent:
    """Loads any saved agent; the checkpoint says which algorithm it is."""
    checkpoint = load_checkpoint(find_checkpoint(Path(path)))
    return class_for(checkpoint.config["algorithm"]["name"]).restore(checkpoint, str(path), device)


def class_for(name: str) -> type[Agent]:
    """The managed class of an algorithm; one that was registered without a class is a plain Agent."""
    return next((kind for kind in Agent.__subclasses__() if kind.name == name), Agent)
