"""A run's whole configuration: one frozen tree, checked once, before anything is written."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
import yaml

from rl_training.algorithms.off_policy import OffPolicyConfig
from rl_training.core import AlgorithmConfig
from rl_training.envs import EnvConfig
from rl_training.experiment.env_settings import NO_ENV, check_env, check_groups, evaluation_env
from rl_training.experiment.handed_over import by_name
from rl_training.experiment.parsing import ConfigError, nearest, parse_dataclass, to_plain
from rl_training.experiment.registry import ALGORITHMS, whose
from rl_training.strict_yaml import parse_yaml


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How long, from which seed, and on what."""

    total_timesteps: int = field(default=100_000, metadata={"min": 0})  # env steps of all environments together
    total_updates: int = field(default=0, metadata={"min": 0})  # from data alone, before any env step
    seed: int = field(default=0, metadata={"min": 0})
    device: str = "cpu"  # "cpu", "cuda", "cuda:1", or "auto"
    compile: Literal["auto", "record"] | bool = "auto"  # auto: where it pays; record: CUDA graphs without the compiler
    precision: Literal["float32", "tf32", "bf16"] = "float32"  # of matrix products; tf32: on GPUs that have it
    overlap: bool = False  # collect on the host while the last updates run on the GPU: actions lag by one iteration
    threads: int | None = field(default=None, metadata={"min": 1})  # None: one for small networks, else all cores
    log_interval: int = field(default=2_000, metadata={"min": 1})  # env steps

    @property
    def horizon(self) -> int:
        """What the run's clock shows at its end: updates from data alone, and env steps."""
        return self.total_updates + self.total_timesteps


@dataclass(frozen=True, kw_only=True)
class MakeConfig:
    """How to make a dataset that does not exist yet; see `rl-training data make`."""

    policies: tuple[str, ...] = ("random",)  # NAME=SHARE; a name is random, a run, or preset@steps (trained first)
    steps: int = field(default=10_000, metadata={"min": 1})
    seed: int = field(default=0, metadata={"min": 0})


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The dataset that is learned from, besides or instead of environments."""

    path: str | None = None  # a file or folder
    sha256: str | None = None  # of its columns, where known: another dataset is refused
    make: MakeConfig | None = None  # made on first use and kept in the cache, if there is no path

    @property
    def given(self) -> bool:
        return (self.path, self.sha256, self.make) != (None, None, None)


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """Episodes on separate environments, during training and at its end."""

    interval: int = field(default=0, metadata={"min": 0})  # env steps; 0: only at the end
    episodes: int = field(default=10, metadata={"min": 1})
    n_envs: int | None = field(default=None, metadata={"min": 1})  # None: 5; one per episode in a native environment
    deterministic: bool = True
    max_steps: int = field(default=30_000, metadata={"min": 1})  # of one episode; a longer one is an error
    stop_at_return: float | None = None  # end the run when an evaluation reaches this mean return
    env: dict[str, object] = field(default_factory=dict)  # settings in which its environments differ from section env

    def num_envs(self, num_episodes: int, *, native: bool) -> int:
        """How many environments run these episodes: no more than there are episodes."""
        return min(num_episodes, self.n_envs or (MOST_NATIVE if native else 5))


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    """Complete, resumable snapshots in the run directory."""

    interval: int = field(default=50_000, metadata={"min": 1})  # env steps
    keep: int = field(default=3, metadata={"min": 1})  # the last so many; the best is kept besides


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that determines a run."""

    name: str  # of the algorithm
    algorithm: AlgorithmConfig
    env: EnvConfig
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    data: DataConfig = DataConfig()

    @classmethod
    def from_mapping(cls, values: object) -> RunConfig:
        """Checks and builds a config from plain data: what a YAML file, a checkpoint or a preset holds."""
        if not isinstance(values, dict):
            raise ConfigError(f"a config is a mapping, not {values!r}: {NEEDED}")
        for key in values:
            if key not in (*SECTIONS, "about"):
                raise ConfigError(f"{key} is not a section of a config: {nearest(str(key), list(SECTIONS))}")
        for key in ("algorithm", "env"):
            if not isinstance(values.get(key), dict):
                raise ConfigError(f"{key} is missing: {NEEDED}")
        values = by_our_names(values)
        settings = by_name(values["algorithm"])
        name = settings.pop("name", None)
        if not isinstance(name, str) or name not in ALGORITHMS:
            raise ConfigError(f"algorithm.name={name!r} is not an algorithm: {nearest(str(name), list(ALGORITHMS))}")
        unknown = next((str(key) for key in settings if key not in ALGORITHMS[name].fields), None)
        if unknown is not None:
            raise ConfigError(f"algorithm.{unknown} is not a setting of {name}: {whose(unknown, name)}")
        values = with_default_budget(values, only_data=ALGORITHMS[name].algorithm.learns_from == "data")
        config = cls(
            name=name,
            algorithm=parse_dataclass(ALGORITHMS[name].config, settings, "algorithm"),
            **{key: parse_dataclass(kind, values.get(key) or {}, key) for key, kind in SECTIONS.items() if kind},
        )
        config.check()
        return config

    def to_mapping(self) -> dict:
        plain = to_plain(self)
        assert isinstance(plain, dict)
        name = plain.pop("name")
        return plain | {"algorithm": {"name": name, **plain["algorithm"]}}

    @property
    def evaluated_env(self) -> EnvConfig:
        """The environment that evaluations use."""
        return evaluation_env(self.env, self.evaluation.env)

    def check(self) -> None:
        """Refuses combinations that cannot work."""
        env, training = self.env, self.training
        try:
            self.algorithm.check(env.n_envs)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        check_env(env, "env")
        check_groups(env, self.name, apart=ALGORITHMS[self.name].algorithm.critic_apart)
        evaluation_env(env, self.evaluation.env)
        self.check_data()
        if training.overlap:
            self.check_overlap()
        check_device(training.device, "training.device")
        if isinstance(self.algorithm, OffPolicyConfig) and self.algorithm.buffer_device is not None:
            check_device(self.algorithm.buffer_device, "algorithm.buffer_device")
        if self.evaluation.stop_at_return is not None and not self.evaluation.interval:
            raise ConfigError("evaluation.stop_at_return needs evaluations during training: set evaluation.interval")

    def check_data(self) -> None:
        """Refuses data where it cannot be used, and runs that need it and have none."""
        learns_from, training = ALGORITHMS[self.name].algorithm.learns_from, self.training
        if not self.data.given:
            if training.total_updates or learns_from == "data":
                raise ConfigError(
                    f"{self.name} is to learn from data and has none: pass dataset=, or set data.path to a file"
                )
            if not training.total_timesteps:
                raise ConfigError("training.total_timesteps=0 must be at least 1")
            return
        if learns_from == "rollout":
            raise ConfigError(
                f"{self.name} learns from its own rollouts and takes no dataset: use BC, DiscreteCQL, RLPD or another method "
                "with a replay"
            )
        if learns_from == "data" and training.total_timesteps:
            raise ConfigError(
                f"training.total_timesteps={training.total_timesteps}: {self.name} learns from data alone, set "
                "training.total_updates instead"
            )
        if self.env.id == NO_ENV and training.total_timesteps:
            raise ConfigError(
                f"training.total_timesteps={training.total_timesteps} needs an environment to step: name one, or learn from "
                "data alone with training.total_updates"
            )
        if self.env.frame_stack > 1:
            raise ConfigError(
                f"env.frame_stack={self.env.frame_stack} with a dataset: stack the frames in the data, and use 1"
            )
        if isinstance(self.algorithm, OffPolicyConfig) and self.algorithm.prioritized:
            raise ConfigError(
                "algorithm.prioritized=true with a dataset: data is drawn uniformly, use prioritized=false"
            )

    def check_overlap(self) -> None:
        """Refuses to overlap collection and updates where there is nothing to overlap."""
        training, settings = self.training, self.algorithm
        reason = None
        if ALGORITHMS[self.name].algorithm.learns_from != "replay":
            reason = f"a method with a replay, not algorithm.name={self.name!r}: use SAC, TD3, DQN or another"
        elif self.env.id == NO_ENV or self.env.backend == "native":
            reason = (
                f"an environment on the host, not env.id={self.env.id!r} with env.backend={self.env.backend!r}: use a "
                "gymnasium environment"
            )
        elif training.compile is False:
            reason = "recorded updates, not training.compile=false: use training.compile=true"
        elif isinstance(settings, OffPolicyConfig) and settings.buffer_device == "cpu":
            reason = "its replay on the GPU, not algorithm.buffer_device='cpu': leave buffer_device out"
        elif not resolve_device(training.device).startswith("cuda"):
            reason = (
                f"updates on a GPU, not on training.device={training.device!r}: use training.device='cuda' on a machine "
                "that has one"
            )
        if reason:
            raise ConfigError(f"training.overlap=true needs {reason}, or training.overlap=false")

    def replace(self, section: str, **changes: object) -> RunConfig:
        """Returns a config with settings of one section changed."""
        return dataclasses.replace(self, **{section: dataclasses.replace(getattr(self, section), **changes)})


SECTIONS: dict[str, type | None] = {
    "algorithm": None,
    "env": EnvConfig,
    "training": TrainingConfig,
    "evaluation": EvaluationConfig,
    "checkpoint": CheckpointConfig,
    "data": DataConfig,
}
NEEDED = "a config needs the sections algorithm (with name) and env (with id)"
MOST_NATIVE = 4096  # environments of an evaluation, where more of them take no longer
# What these settings are called elsewhere, accepted wherever ours are.
ALIASES = {
    ("algorithm", "buffer_capacity"): ("algorithm", "buffer_size"),
    ("algorithm", "train_frequency"): ("algorithm", "train_freq"),
    ("algorithm", "gradient_updates_per_step"): ("algorithm", "gradient_steps"),
    ("algorithm", "offline_pretrain_updates"): ("training", "total_updates"),
}


def by_our_names(values: dict) -> dict:
    """Config data with every alias replaced by our name."""
    result = {key: dict(section) if isinstance(section, dict) else section for key, section in values.items()}
    for (section, alias), (home, name) in ALIASES.items():
        if isinstance(result.get(section), dict) and alias in result[section]:
            value = result[section].pop(alias)
            result[home] = dict(result.get(home) or {})
            if name in result[home]:
                raise ConfigError(f"{section}.{alias} and {home}.{name} are the same setting: give one of them")
            result[home][name] = value
            if name == "total_updates":  # pretraining: environment steps follow, as many as usual
                result[home].setdefault("total_timesteps", TrainingConfig.total_timesteps)
    return result


def with_default_budget(values: dict, *, only_data: bool) -> dict:
    """Config data in which no environment steps are meant where none were asked for: beside data, or updates from it."""
    training, data = (values.get(key) or {} for key in ("training", "data"))
    if not isinstance(training, dict) or not isinstance(data, dict) or "total_timesteps" in training:
        return values
    given = any(value is not None for value in data.values())
    return values | {"training": training | {"total_timesteps": 0}} if given or only_data else values


def resolve_device(device: str) -> str:
    """What `auto` means on this machine."""
    return ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device


def on_device(values: dict, device: str) -> dict:
    """The data of a config for use on another device; what only a GPU can do is left behind with it."""
    if not isinstance(values.get("training", {}), dict):
        return values  # which is refused where it is read
    if not isinstance(device, str):
        raise ConfigError(f"training.device={device!r} must be text: use 'cpu' or 'cuda'")
    training = values.get("training", {}) | {"device": device}
    if not resolve_device(device).startswith("cuda"):
        training["overlap"] = False
    return values | {"training": training}


def check_device(device: str, field: str) -> None:
    if device == "auto" and field == "training.device":
        return
    try:
        kind = torch.device(device).type
    except RuntimeError:
        kind = "unknown"
    if kind not in ("cpu", "cuda"):
        raise ConfigError(f"{field}={device!r} is not a device to train on: use 'cpu' or 'cuda'")
    if kind == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"{field}={device!r}, but this machine has no usable GPU: use 'cpu'")


def apply_override(values: dict, assignment: str) -> dict:
    """Applies one `section.field=value` (the value is YAML) to plain config data and returns a new mapping."""
    path, separator, text = assignment.partition("=") if isinstance(assignment, str) else ("", "", "")
    keys = path.strip().split(".")
    if not separator or len(keys) < 2:
        raise ConfigError(f"--set {assignment!r} must look like algorithm.n_steps=128")
    try:
        value = parse_yaml(text)
    except yaml.YAMLError as error:
        raise ConfigError(
            f"--set {assignment!r}: the value is not valid YAML: {' '.join(str(error).split())}"
        ) from error
    result = {key: dict(section) if isinstance(section, dict) else section for key, section in values.items()}
    target = result
    for key in keys[:-1]:
        if not isinstance(target.get(key) or {}, dict):
            raise ConfigError(
                f"--set {assignment!r}: {key}={target[key]!r} has no fields of its own, set it as a whole"
            )
        target[key] = dict(target.get(key) or {})
        target = target[key]
    for pair in (item for item in ALIASES.items() if tuple(keys) in item):  # the last to be said holds
        for section, name in pair:
            result[section] = {k: v for k, v in (result.get(section) or {}).items() if k != name}
        target = result[keys[0]]
    target[keys[-1]] = value
    return result


def load_yaml(path: Path) -> dict:
    """Reads a config file; a syntax error is reported with its place."""
    try:
        values = parse_yaml(path.read_text())
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a text file ({error})") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path} does not hold a config: {NEEDED}")
    return values


def diff(a: RunConfig, b: RunConfig) -> list[tuple[str, object, object]]:
    """Lists the settings in which two configs differ, by path."""
    left, right = flatten(a.to_mapping()), flatten(b.to_mapping())
    return [(key, left.get(key), right.get(key)) for key in sorted(left | right) if left.get(key) != right.get(key)]


def flatten(values: dict, prefix: str = "") -> dict[str, object]:
    """Settings by path; a schedule is one setting."""
    flat: dict[str, object] = {}
    for key, value in values.items():
        path = f"{prefix}.{key}" if prefix else str(key)
        nested = isinstance(value, dict) and set(value) not in ({"initial", "final", "fraction"}, {"function"})
        flat |= flatten(value, path) if nested else {path: value}
    return flat
