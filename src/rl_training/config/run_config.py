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
    TrainingConfig,
    parse_phases,
)
from rl_training.config.translation import by_our_names, without_absent
from rl_training.core import AlgorithmConfig, Groups, Needs
from rl_training.core.arguments import ConfigError
from rl_training.envs import BACKENDS, NATIVE, EnvConfig
from rl_training.envs.backends import implied_backend
from rl_training.envs.make import check_settings
from rl_training.experience import ExperienceSettings


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that determines a run."""

    name: str  # of the algorithm
    algorithm: AlgorithmConfig
    experience: ExperienceSettings
    env: EnvConfig
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    sampling: SamplingConfig = SamplingConfig()
    data: DataConfig = DataConfig()
    phases: tuple[PhaseConfig, ...] = ()  # empty: updates from data alone, then env steps, as `training` says

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
        """Returns the kind of experience that the algorithm learns from, and its defaults for it."""
        return self.algorithm.needs

    @property
    def evaluated_env(self) -> EnvConfig:
        """Returns the settings of the environment that evaluations use."""
        return evaluation_env(self.env, self.evaluation.env)

    @property
    def environments(self) -> dict[str, EnvConfig]:
        """Returns the settings of every environment, by the section that describes it."""
        sections = {f"phases[{number}].env": phase.env for number, phase in enumerate(self.phases)}
        phases = {section: changed_env(self.env, changes, section) for section, changes in sections.items()}
        return {"env": self.env, "evaluation.env": self.evaluated_env, **phases}

    @property
    def envs_by_key(self) -> dict[str, EnvConfig]:
        """Returns the environments in which env steps are taken, by `PhaseConfig.env_key`; "" is section env."""
        all_of_them = self.environments
        found = {p.env_key: all_of_them[f"phases[{i}].env"] for i, p in enumerate(self.phases) if p.env_steps}
        planned = sum(phase.env_steps for phase in self.phases)
        return {"": self.env} | found if self.training.total_timesteps > planned else found

    def check(self) -> None:
        """Refuses combinations that cannot work."""
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
        """Refuses a dataset for a method that cannot use it, and a run that needs a dataset and has none."""
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
        if data and self.env.frame_stack > 1:
            raise ConfigError(
                f"env.frame_stack={self.env.frame_stack} with a dataset: stack the frames in the data, and use 1"
            )

    def check_unused(self, unit: str, why: str) -> None:
        """Refuses a budget in `unit` ("env_steps" or "updates"), naming the field that sets it; `why` is the reason."""
        other = "updates" if unit == "env_steps" else "env_steps"
        for number, phase in enumerate(self.phases):
            if phase.unit == unit:
                place = f"phases[{number}]"
                raise ConfigError(f"{place}.{unit}={phase.budget}{why} set {place}.{other} instead")
        if total := getattr(self.training, TOTALS[unit]):
            raise ConfigError(f"training.{TOTALS[unit]}={total}{why} set training.{TOTALS[other]} instead")

    def check_overlap(self) -> None:
        """Refuses `training.overlap` without a host environment, a replay on the GPU and recorded updates there."""
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
        """Returns a config with settings of one section changed; does not check the result."""
        return dataclasses.replace(self, **{section: dataclasses.replace(getattr(self, section), **changes)})

    def changed(self, section: str, **changes: object) -> RunConfig:
        """Returns a config with settings of one section changed; raises ConfigError if they do not go together."""
        config = self.replace(section, **changes)
        config.check()
        return config


def parse_method(values: dict) -> tuple[str, AlgorithmConfig, ExperienceSettings]:
    """Returns the algorithm's name and its parsed sections `algorithm` and `experience`.

    For `experience`, the defaults that the algorithm declares take precedence over those of the store.
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
    """Returns advice on an unknown algorithm: install its origin, if `about` names one, or the nearest name."""
    came_from = about.get("algorithm_from") if isinstance(about, dict) else None
    if came_from is None:
        return nearest(name, ALGORITHMS.names())
    return (
        f"it came from the {' '.join(str(came_from).split())}; install that, or import what registers it, and try again"
    )


def with_default_budget(values: dict, phases: tuple[PhaseConfig, ...], *, only_data: bool) -> dict:
    """Returns config data with the budget of its phases; without phases, 0 env steps if there is data and no total."""
    training, data = (values.get(key) or {} for key in ("training", "data"))
    if phases and isinstance(training, dict):
        sums = {"total_timesteps": sum(p.env_steps for p in phases), "total_updates": sum(p.updates for p in phases)}
        return values | {"training": sums | training}
    if not isinstance(training, dict) or not isinstance(data, dict) or "total_timesteps" in training:
        return values
    given = any(value is not None for value in data.values())
    return values | {"training": training | {"total_timesteps": 0}} if given or only_data else values


def diff(a: RunConfig, b: RunConfig) -> list[tuple[str, object, object]]:
    """Returns (path, value in `a`, value in `b`) for every setting in which two configs differ."""
    left, right = (flatten({k: v for k, v in c.to_mapping().items() if k != "about"}) for c in (a, b))
    return [(key, left.get(key), right.get(key)) for key in sorted(left | right) if left.get(key) != right.get(key)]


def flatten(values: dict, prefix: str = "") -> dict[str, object]:
    """Returns nested settings as one mapping from path to value; a schedule counts as one value."""
    flat: dict[str, object] = {}
    for key, value in values.items():
        path = f"{prefix}.{key}" if prefix else str(key)
        nested = isinstance(value, dict) and not (set(value) == {"function"} or "initial" in value)
        flat |= flatten(value, path) if nested else {path: value}
    return flat


OWN_COLUMNS = ("timesteps", "env", "return", "length")  # of an episode, in episodes.jsonl


def check_env(env: EnvConfig, section: str) -> None:
    """Refuses settings of an environment that do not go together."""
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
    """Returns an error message about the section `env` as one about another section."""
    return re.sub(r"(?<![\w.'])env\.", f"{section}.", text)


def check_groups(env: EnvConfig, name: str, *, apart: bool) -> None:
    """Refuses different observations for policy and critic if the method has no separate critic (`apart`)."""
    if env.obs_groups != Groups() and not apart:
        raise ConfigError(
            f"env.obs_groups={to_plain(env.obs_groups)}: {name} has no critic apart from its policy, so there is nobody to see "
            "more than the policy does; drop it, or use PPO, SAC, DiscreteSAC or another method with actor and critic"
        )
    check_once(env.obs_groups.policy, "env.obs_groups.policy")
    check_once(env.obs_groups.critic, "env.obs_groups.critic")


def check_same_goals(env_keys: Iterable[str]) -> None:
    """Refuses phases with other environments in a run with hindsight, which uses the goals of section env for all."""
    for changes in env_keys:
        if changes:
            raise ConfigError(
                f"experience.hindsight judges all steps by the goals of section env, and phases change it by {changes}: use one "
                "environment in all phases, or drop hindsight"
            )


def evaluation_env(env: EnvConfig, changes: dict[str, object]) -> EnvConfig:
    """Returns the environment of evaluations: the training environment with these changes."""
    if "n_envs" in changes:
        raise ConfigError(f"evaluation.env.n_envs={changes['n_envs']!r}: set evaluation.n_envs instead")
    return changed_env(env, changes, "evaluation.env")


def changed_env(env: EnvConfig, changes: dict[str, object], section: str) -> EnvConfig:
    """Returns the environment settings of section `env` with `changes` applied.

    `kwargs` are merged key by key; a different `id` starts without the kwargs and wrappers of training, and without a
    backend that the old id implied. A `vectorization` that the backend does not take is not inherited.
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
    """Returns True if environments can be made from the settings alone."""
    return env.id != NO_ENV and not env.id.startswith(GIVEN)
