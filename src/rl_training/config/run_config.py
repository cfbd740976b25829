"""The whole configuration of a run, and the environments of its phases and evaluations."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from dataclasses import dataclass

from rl_training.config.code_objects import by_name
from rl_training.config.parallelism import check_device, check_sampling, resolve_device
from rl_training.config.parsing import check_once, field_names, nearest, parse_dataclass, to_plain
from rl_training.config.registry import ALGORITHMS, experience_of, origin, whose
from rl_training.config.sections import (
    GIVEN,
    NEEDED,
    NO_ENV,
    SECTIONS,
    TOTALS,
    CheckpointConfig,
    DataConfig,
    EvaluationConfig,
    PhaseConfig,
    SamplingConfig,
    TrackingConfig,
    TrainingConfig,
    parse_phases,
)
from rl_training.config.translation import by_our_names, without_absent
from rl_training.core import AlgorithmConfig, Groups, Needs
from rl_training.core.arguments import ConfigError
from rl_training.envs import BACKENDS, NATIVE, EnvConfig
from rl_training.envs.backends import implied_backend, usual_stack
from rl_training.envs.make import check_settings
from rl_training.experience import ExperienceSettings


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """All settings of one run: its algorithm, experience, environments, training, evaluations, checkpoints and data."""

    name: str  # of the algorithm
    algorithm: AlgorithmConfig
    experience: ExperienceSettings
    env: EnvConfig
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    sampling: SamplingConfig = SamplingConfig()
    tracking: TrackingConfig = TrackingConfig()
    data: DataConfig = DataConfig()
    phases: tuple[PhaseConfig, ...] = ()  # empty: updates from data alone, then env steps, as `training` says

    @classmethod
    def from_mapping(cls, values: object) -> RunConfig:
        """Builds a config from plain data, as a YAML file, a preset or a checkpoint holds it.

        Raises ConfigError if a section or setting is unknown, missing or invalid, or if settings contradict each other.
        """
        if not isinstance(values, dict):
            raise ConfigError(f"a config is a mapping, not {values!r}: {NEEDED}")
        for key in values:
            if key not in (*SECTIONS, "about"):
                raise ConfigError(f"{key} is not a section of a config: {nearest(str(key), list(SECTIONS))}")
        for key in ("algorithm", "env"):
            if not isinstance(values.get(key), dict):
                raise ConfigError(f"{key} is missing: {NEEDED}")
        values = by_our_names(values)
        name, algorithm, experience = parse_method(values)
        phases = parse_phases(values.get("phases"))
        values = with_default_budget(values, phases, only_data=algorithm.needs.experience == "data")
        config = cls(
            name=name,
            algorithm=algorithm,
            experience=experience,
            phases=phases,
            **{key: parse_dataclass(kind, values.get(key) or {}, key) for key, kind in SECTIONS.items() if kind},
        )
        config.check()
        return config

    def to_mapping(self) -> dict:
        plain = to_plain(self)
        assert isinstance(plain, dict)
        name, came_from = plain.pop("name"), origin(self.name)
        about = {"about": {"algorithm_from": came_from}} if came_from else {}
        return about | plain | {"algorithm": {"name": name, **plain["algorithm"]}}

    @property
    def needs(self) -> Needs:
        """Returns a `Needs`: the kind of experience that the algorithm learns from, and its defaults for that."""
        return self.algorithm.needs

    @property
    def evaluated_env(self) -> EnvConfig:
        """Returns the settings of environments for evaluations: section env with the changes of evaluation.env."""
        return evaluation_env(self.env, self.evaluation.env)

    @property
    def environments(self) -> dict[str, EnvConfig]:
        """Returns the settings of every environment by section: "env", "evaluation.env", "phases[0].env" and so on."""
        sections = {f"phases[{number}].env": phase.env for number, phase in enumerate(self.phases)}
        phases = {section: changed_env(self.env, changes, section) for section, changes in sections.items()}
        return {"env": self.env, "evaluation.env": self.evaluated_env, **phases}

    @property
    def envs_by_key(self) -> dict[str, EnvConfig]:
        """Returns the settings of the environments in which the run takes env steps, by `PhaseConfig.env_key`.

        The key is a phase's changes as text and "" stands for section env; the mapping is empty for a run from data
        alone.
        """
        all_of_them = self.environments
        found = {p.env_key: all_of_them[f"phases[{i}].env"] for i, p in enumerate(self.phases) if p.env_steps}
        planned = sum(phase.env_steps for phase in self.phases)
        return {"": self.env} | found if self.training.total_timesteps > planned else found

    def check(self) -> None:
        """Raises ConfigError if settings that are valid one by one cannot be used together, or not on this machine."""
        env, training = self.env, self.training
        try:
            self.experience.check(env.n_envs, with_data=self.data.given)
            self.algorithm.check(self.experience.supply(env.n_envs))
        except ValueError as error:
            raise ConfigError(str(error)) from error
        for section, settings in self.environments.items():
            check_env(settings, section)
        check_groups(env, self.name, apart=ALGORITHMS[self.name].algorithm.critic_apart)
        self.check_data()
        check_once(self.tracking.loggers, "tracking.loggers")
        if self.experience.has_goals:
            check_same_goals(phase.env_key for phase in self.phases)
        if training.overlap:
            self.check_overlap()
        if self.sampling.uses_samplers:
            check_sampling(self)
        check_device(training.device, "training.device")
        check_device(self.experience.storage_device(resolve_device(training.device)), "experience.buffer_device")
        if self.evaluation.stop_at_return is not None and not self.evaluation.interval:
            raise ConfigError("evaluation.stop_at_return needs evaluations during training: set evaluation.interval")

    def check_data(self) -> None:
        """Raises ConfigError if the method cannot use the run's dataset or budget, or needs a dataset and has none."""
        learns_from, data = self.needs.experience, self.data.given
        if learns_from == "rollout":
            if data:
                raise ConfigError(
                    f"{self.name} learns from its own rollouts and takes no dataset: use BC, DiscreteCQL, RLPD or another "
                    "method with a replay"
                )
            self.check_unused("updates", f": {self.name} learns from its own rollouts,")
        if self.data.top != 1.0 and not data:
            raise ConfigError(
                f"data.top={self.data.top:g} chooses episodes of a dataset, and there is none: pass dataset=, or set data.path"
            )
        if learns_from == "data":
            self.check_unused("env_steps", f": {self.name} learns from data alone,")
        if not data and (self.training.total_updates or learns_from == "data"):
            raise ConfigError(
                f"{self.name} is to learn from data and has none: pass dataset=, or set data.path to a file"
            )
        if not data and not self.training.total_timesteps:
            raise ConfigError("training.total_timesteps=0 must be at least 1")
        if data and self.env.id == NO_ENV:
            self.check_unused("env_steps", " needs an environment to step: name one, or to learn from data alone")
        if data and self.env.num_stacked > 1:
            raise ConfigError(
                f"env.frame_stack={self.env.frame_stack} with a dataset: stack the frames in the data, and use 1"
            )

    def check_unused(self, unit: str, why: str) -> None:
        """Raises ConfigError if the run has a budget in `unit`, "env_steps" or "updates".

        The message names the field that sets the budget, and gives `why` as the reason.
        """
        other = "updates" if unit == "env_steps" else "env_steps"
        for number, phase in enumerate(self.phases):
            if phase.unit == unit:
                place = f"phases[{number}]"
                raise ConfigError(f"{place}.{unit}={phase.budget}{why} set {place}.{other} instead")
        if total := getattr(self.training, TOTALS[unit]):
            raise ConfigError(f"training.{TOTALS[unit]}={total}{why} set training.{TOTALS[other]} instead")

    def check_overlap(self) -> None:
        """Raises ConfigError unless `training.overlap` can work.

        It needs an environment on the host, and a replay and recorded updates on a GPU.
        """
        training, reason = self.training, None
        if self.needs.experience != "replay":
            reason = f"a method with a replay, not algorithm.name={self.name!r}: use SAC, TD3, DQN or another"
        elif self.env.id == NO_ENV or self.env.can.on_device:
            reason = (
                f"an environment on the host, not env.id={self.env.id!r} with env.backend={self.env.backend!r}: use a "
                "gymnasium environment"
            )
        elif training.compile is False:
            reason = "recorded updates, not training.compile=false: use training.compile=true"
        elif self.experience.storage_device("cuda") == "cpu":
            reason = "its replay on the GPU, not experience.buffer_device='cpu': leave buffer_device out"
        elif not resolve_device(training.device).startswith("cuda"):
            reason = (
                f"updates on a GPU, not on training.device={training.device!r}: use training.device='cuda' on a machine "
                "that has one"
            )
        if reason:
            raise ConfigError(f"training.overlap=true needs {reason}, or training.overlap=false")

    def replace(self, section: str, **changes: object) -> RunConfig:
        """Returns a copy of the config with settings of one section changed; does not check the result."""
        return dataclasses.replace(self, **{section: dataclasses.replace(getattr(self, section), **changes)})

    def changed(self, section: str, **changes: object) -> RunConfig:
        """Returns a copy of the config with settings of one section changed; raises ConfigError if it is invalid."""
        config = self.replace(section, **changes)
        config.check()
        return config


def parse_method(values: dict) -> tuple[str, AlgorithmConfig, ExperienceSettings]:
    """Returns the algorithm's name and the parsed sections `algorithm` and `experience` of a config's data.

    For `experience`, the defaults that the algorithm declares take precedence over those of the store. Raises
    ConfigError if the algorithm or a setting is unknown, or a value is invalid.
    """
    settings, section = by_name(values["algorithm"]), values.get("experience") or {}
    name = settings.pop("name", None)
    entry = ALGORITHMS.find(str(name))
    if entry is None:
        raise ConfigError(f"algorithm.name={name!r} is not an algorithm: {missing(str(name), values.get('about'))}")
    if not isinstance(section, dict):
        raise ConfigError(f"experience={section!r} must be a mapping of settings")
    store = experience_of(name, section.get("store"))
    settings = without_absent(entry.config, settings)
    for place, kind, given in (("algorithm", entry.config, settings), ("experience", store, section)):
        unknown = next((str(key) for key in given if key not in field_names(kind)), None)
        if unknown is not None:
            raise ConfigError(f"{place}.{unknown} is not a setting of {name}: {whose(unknown, name, place)}")
    algorithm = parse_dataclass(entry.config, settings, "algorithm")
    own = {k: v for k, v in algorithm.needs.settings.items() if k in field_names(store)}
    return name, algorithm, parse_dataclass(store, own | section, "experience")


def missing(name: str, about: object) -> str:
    """Returns advice about an unknown algorithm: what to install, or the most similar name.

    `about` is the section `about` of the config's data; its `algorithm_from` names the package that had the algorithm.
    """
    came_from = about.get("algorithm_from") if isinstance(about, dict) else None
    if came_from is None:
        return nearest(name, ALGORITHMS.names())
    return (
        f"it came from the {' '.join(str(came_from).split())}; install that, or import what registers it, and try again"
    )


def with_default_budget(values: dict, phases: tuple[PhaseConfig, ...], *, only_data: bool) -> dict:
    """Returns config data with the totals in section `training` filled in that it leaves out.

    With phases, they are the sums of the phases' budgets; without, `total_timesteps` is 0 if there is a dataset or
    `only_data` says that the method has no use for env steps. Totals that are given stay.
    """
    training, data = (values.get(key) or {} for key in ("training", "data"))
    if phases and isinstance(training, dict):
        sums = {"total_timesteps": sum(p.env_steps for p in phases), "total_updates": sum(p.updates for p in phases)}
        return values | {"training": sums | training}
    if not isinstance(training, dict) or not isinstance(data, dict) or "total_timesteps" in training:
        return values
    given = any(value is not None for value in data.values())
    return values | {"training": training | {"total_timesteps": 0}} if given or only_data else values


def diff(a: RunConfig, b: RunConfig) -> list[tuple[str, object, object]]:
    """Returns (path, value in `a`, value in `b`) for every setting in which two configs differ, sorted by path."""
    left, right = (flatten({k: v for k, v in c.to_mapping().items() if k != "about"}) for c in (a, b))
    return [(key, left.get(key), right.get(key)) for key in sorted(left | right) if left.get(key) != right.get(key)]


def flatten(values: dict, prefix: str = "") -> dict[str, object]:
    """Returns nested settings as one mapping from path, such as "env.id", to value; a schedule counts as one value."""
    flat: dict[str, object] = {}
    for key, value in values.items():
        path = f"{prefix}.{key}" if prefix else str(key)
        nested = isinstance(value, dict) and not (set(value) == {"function"} or "initial" in value)
        flat |= flatten(value, path) if nested else {path: value}
    return flat


OWN_COLUMNS = ("timesteps", "env", "return", "length")  # of an episode, in episodes.jsonl


def check_env(env: EnvConfig, section: str) -> None:
    """Raises ConfigError if settings of an environment cannot be used together; the message names `section`."""
    NATIVE.load(env.id)
    try:
        check_settings(env)
    except ValueError as error:
        raise ConfigError(in_section(str(error), section)) from error
    for key in env.info_keys:
        if not key:
            raise ConfigError(f"{section}.info_keys holds an empty name: give the names of keys that `info` has")
        if key in OWN_COLUMNS:
            raise ConfigError(
                f"{section}.info_keys: {key!r} is the name of an episode's own column: give it another name in a wrapper"
            )
    check_once(env.info_keys, f"{section}.info_keys")


def in_section(text: str, section: str) -> str:
    """Returns an error message with every "env." before a setting replaced by `section`, such as "evaluation.env"."""
    return re.sub(r"(?<![\w.'])env\.", f"{section}.", text)


def check_groups(env: EnvConfig, name: str, *, apart: bool) -> None:
    """Raises ConfigError if `env.obs_groups` names a key twice, or is set for a method without a separate critic.

    `apart` says if method `name` has one.
    """
    if env.obs_groups != Groups() and not apart:
        raise ConfigError(
            f"env.obs_groups={to_plain(env.obs_groups)}: {name} has no critic apart from its policy, so there is nobody to see "
            "more than the policy does; drop it, or use PPO, SAC, DiscreteSAC or another method with actor and critic"
        )
    check_once(env.obs_groups.policy, "env.obs_groups.policy")
    check_once(env.obs_groups.critic, "env.obs_groups.critic")


def check_same_goals(env_keys: Iterable[str]) -> None:
    """Raises ConfigError if a key is not "", that is, if a phase changes the environment in a run with hindsight.

    Hindsight judges all steps by the goals of section env.
    """
    for changes in env_keys:
        if changes:
            raise ConfigError(
                f"experience.hindsight judges all steps by the goals of section env, and phases change it by {changes}: use one "
                "environment in all phases, or drop hindsight"
            )


def evaluation_env(env: EnvConfig, changes: dict[str, object]) -> EnvConfig:
    """Returns the settings of environments for evaluations: those of `env` with `changes` applied.

    Raises ConfigError if the changes name `n_envs`, are invalid, or leave no environment that can be built.
    """
    if "n_envs" in changes:
        raise ConfigError(f"evaluation.env.n_envs={changes['n_envs']!r}: set evaluation.n_envs instead")
    return changed_env(env, changes, "evaluation.env")


def changed_env(env: EnvConfig, changes: dict[str, object], section: str) -> EnvConfig:
    """Returns the environment settings of section `env` with `changes` applied; `env` itself if there are none.

    `kwargs` are merged key by key; a different `id` starts without the kwargs and wrappers of training, and without a
    backend that the old id implied. A `vectorization` that the backend does not take is not inherited. Raises
    ConfigError, which names `section`, if the result is invalid or cannot be built.
    """
    if not changes:
        return env
    inherited = to_plain(env)
    assert isinstance(inherited, dict)
    kwargs = changes.get("kwargs", {})
    if changes.get("id", env.id) == env.id and isinstance(kwargs, dict):
        kwargs = env.kwargs | kwargs
    else:
        del inherited["wrappers"]
    if "id" in changes and env.backend == implied_backend(env.id):
        del inherited["backend"]
        if env.num_stacked == usual_stack(env.backend):
            del inherited["frame_stack"]
    result = parse_dataclass(EnvConfig, inherited | changes | {"kwargs": kwargs}, section)
    known = BACKENDS.find(result.backend)  # an unknown one is refused below
    if "vectorization" not in changes and known and env.vectorization not in known.can.vectorizations:
        result = dataclasses.replace(result, vectorization="sync")
    if result.obs_groups not in (Groups(), env.obs_groups):
        raise ConfigError(f"{section}.obs_groups: who sees what is settled in training, by env.obs_groups; drop it")
    if not can_be_built(result):
        raise ConfigError(f"{section} has no id, and that of training, env.id={env.id!r}, cannot be built: give it one")
    check_env(result, section)
    return result


def can_be_built(env: EnvConfig) -> bool:
    """Returns True if environments can be built from the settings alone.

    That is impossible without an environment, and for one that was passed as an object without a usable spec.
    """
    return env.id != NO_ENV and not env.id.startswith(GIVEN)
