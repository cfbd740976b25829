"""The sections of a config that are the same for every algorithm."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Annotated, Literal

from rl_training.config.parsing import check_once, parse_value, to_plain
from rl_training.core.arguments import ConfigError
from rl_training.core.ranges import Count, Natural, Positive, PositiveShare, Real, Share
from rl_training.core.schedule import Range
from rl_training.envs import EnvConfig

NEEDED = "a config needs the sections algorithm (with name) and env (with id)"
TOTALS = {"env_steps": "total_timesteps", "updates": "total_updates"}  # the whole run's budgets, by unit
Threads = Annotated[int, Range(min=1, max=1024)]  # torch crashes where the system refuses to start as many
MOST_AT_ONCE = 4096  # environments of an evaluation, where more of them take no longer


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Settings of the training loop: budgets, seed, device, compilation, precision and logging."""

    total_timesteps: Natural = 100_000  # env steps of all environments together
    total_updates: Natural = 0  # from data alone, before any env step
    seed: Natural = 0
    device: str = "cpu"  # "cpu", "cuda", "cuda:1", or "auto"
    compile: Literal["auto", "record"] | bool = "auto"  # auto: where it pays; record: CUDA graphs without the compiler
    precision: Literal["float32", "tf32", "bf16"] = "float32"  # of matrix products; tf32: on GPUs that have it
    overlap: bool = False  # collect on the host while the last updates run on the GPU: actions lag by one iteration
    threads: Threads | None = None  # None: one for small networks, else all cores
    log_interval: Count = 2_000  # env steps

    @property
    def horizon(self) -> int:
        """Returns the run's total budget: updates from data alone plus env steps."""
        return self.total_updates + self.total_timesteps


@dataclass(frozen=True, kw_only=True)
class PhaseConfig:
    """A part of a run: a number of env steps, or a number of updates from data alone."""

    env_steps: Natural = 0  # of all environments together
    updates: Natural = 0
    methods: tuple[str, ...] | None = None  # of the algorithm that take batches in it; None: all
    env: dict[str, object] = field(default_factory=dict)  # settings in which its environments differ from section env

    @property
    def unit(self) -> Literal["env_steps", "updates"]:
        return "updates" if self.updates else "env_steps"

    @property
    def budget(self) -> int:
        return self.updates or self.env_steps

    @property
    def env_key(self) -> str:
        """Returns the phase's changes to section env as text, "" if there are none.

        Phases with the same text share their environments.
        """
        return json.dumps(to_plain(self.env), sort_keys=True) if self.env else ""


@dataclass(frozen=True, kw_only=True)
class MakeConfig:
    """A recipe for a dataset to generate: the policies that act, the number of steps, and a seed."""

    policies: tuple[str, ...] = ("random",)  # NAME=SHARE; a name is random, a run, or preset@steps (trained first)
    steps: Count = 10_000
    seed: Natural = 0


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Settings of the dataset that a run learns from, besides or instead of environments."""

    path: str | None = None  # a file or folder
    sha256: str | None = None  # of its columns, where known: another dataset is refused
    make: MakeConfig | None = None  # made on first use and kept in the cache, if there is no path
    top: PositiveShare = 1.0  # of the episodes, by return, that are learned from; 0.1: the best tenth

    @property
    def given(self) -> bool:
        return (self.path, self.sha256, self.make) != (None, None, None)


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """Settings of evaluations: episodes on separate environments, during training and at its end."""

    interval: Natural = 0  # env steps; 0: only at the end
    episodes: Count = 10
    n_envs: Count | None = None  # None: 5; one per episode in a native environment
    deterministic: bool = True
    epsilon: Share = 0.0  # of the actions that are drawn at random; of discrete ones
    max_steps: Count = 30_000  # of one episode; a longer one is an error
    video_interval: Natural = 0  # env steps between videos of one episode in the run directory; 0: none
    video_format: Literal["mp4", "gif"] = "mp4"  # mp4 needs the extra `video`
    stop_at_return: Real | None = None  # end the run when an evaluation reaches this mean return
    env: dict[str, object] = field(default_factory=dict)  # settings in which its environments differ from section env

    def num_envs(self, num_episodes: int, *, at_once: bool) -> int:
        """Returns the number of environments to open for an evaluation of `num_episodes`, at most one for each episode.

        Without the setting `n_envs` it is 5, or up to 4,096 for environments that are stepped all `at_once` as tensors.
        """
        return min(num_episodes, self.n_envs or (MOST_AT_ONCE if at_once else 5))


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    """Settings of checkpoints: complete, resumable snapshots in the run directory."""

    interval: Count = 50_000  # env steps
    keep: Count = 3  # the last so many; the best is kept besides


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """Settings of samplers, processes that step environments: their number, engine, lag and replacement.

    Only `lag` changes what is learned; the other settings may change when a run is resumed.
    """

    workers: Count = 1  # processes that step env.n_envs / workers environments each; 1: this process
    engine: Literal["processes", "ray"] = "processes"
    lag: Natural = 0  # iterations by which the policy that acts is older than the one that learns; 0: none
    restarts: Natural = 3  # failed samplers that are replaced within `window_s`; one more ends the run
    window_s: Positive = 600.0

    @property
    def uses_samplers(self) -> bool:
        """Returns True if processes other than the one that learns step the environments."""
        return self.workers > 1 or self.engine != "processes" or self.lag > 0


@dataclass(frozen=True, kw_only=True)
class TrackingConfig:
    """Settings of trackers: programs and services that a recorded run sends its metrics to, besides its own logs."""

    loggers: tuple[Literal["tensorboard", "wandb", "mlflow", "trackio"], ...] = ()
    project: str = "rl_training"  # of Weights & Biases and trackio; the experiment of MLflow


SECTIONS: dict[str, type | None] = {
    "algorithm": None,  # which these two are depends on its name
    "experience": None,
    "env": EnvConfig,
    "training": TrainingConfig,
    "evaluation": EvaluationConfig,
    "checkpoint": CheckpointConfig,
    "sampling": SamplingConfig,
    "tracking": TrackingConfig,
    "data": DataConfig,
    "phases": None,  # a list
}


def parse_phases(given: object) -> tuple[PhaseConfig, ...]:
    """Returns the phases of section `phases`, a list of mappings; empty if it is None or empty.

    Raises ConfigError if a phase has not exactly one of `env_steps` and `updates`, or an invalid setting.
    """
    phases = parse_value(tuple[PhaseConfig, ...], given or [], "phases")
    assert isinstance(phases, tuple)
    for number, phase in enumerate(phases):
        if bool(phase.updates) == bool(phase.env_steps):
            raise ConfigError(
                f"phases[{number}] has updates={phase.updates} and env_steps={phase.env_steps}: give it one of them, updates "
                "(from data alone) or env_steps"
            )
        if phase.env and phase.updates:
            raise ConfigError(
                f"phases[{number}].env={phase.env!r}: updates from data alone step no environment, drop it"
            )
        if "n_envs" in phase.env:
            raise ConfigError(f"phases[{number}].env.n_envs: all phases step as many environments, set env.n_envs")
        if phase.methods == ():
            raise ConfigError(f"phases[{number}].methods=[] learns nothing: name some, or leave it out")
        check_once(phase.methods or (), f"phases[{number}].methods")
    return phases


NO_ENV = "none"  # the id of a run that has no environment, only data


GIVEN = "object:"  # begins the id of a vector environment of which only the object is known
