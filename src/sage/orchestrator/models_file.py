"""models.yaml, read strictly: the models, the model of each role, and the guard's limits."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TypeVar

import yaml

from rl_base.strict_yaml import parse_yaml
from sage.evidence.objective import DEFAULT, Objective, points_worse, usd_per_task, weighted
from sage.evidence.reward import RewardError, RewardWeights
from sage.log.record_checks import NAME
from sage.log.records import ROLES
from sage.orchestrator.cascade_rules import CascadeRule, check_served_cascades, parse_cascades
from sage.orchestrator.file_values import (
    ModelsFileError,
    checked_bools,
    choice,
    entries,
    non_negative_number,
    positive_integer,
    section,
)
from sage.orchestrator.triggers import Condition, TriggerError
from sage.orchestrator.upstream_settings import ServeSettings, Upstream, parse_serve, parse_upstream
from sage.policies.plausible import PlausibleError, PlausibleModels

T = TypeVar("T")
DEFAULT_ROLE = "default"
BANDITS = ("ucb1", "contextual")
LONG_ANSWER = 4  # times a typical one: few are longer
PRICES = ("input_usd_per_mtok", "output_usd_per_mtok", "cached_input_usd_per_mtok", "cache_write_usd_per_mtok")


@dataclass(frozen=True, kw_only=True)
class Model:
    input_usd_per_mtok: float
    output_usd_per_mtok: float
    roles: tuple[str, ...] = ROLES  # that it may serve
    max_context: int | None = None  # tokens
    latency_s: float | None = None  # of a typical call
    output_tokens: int = 1000  # of a typical answer
    max_output_tokens: int | None = None  # of any answer, where a request sets no limit of its own
    cached_input_usd_per_mtok: float | None = None  # of input read from the provider's cache; the input price if None
    cache_write_usd_per_mtok: float | None = None  # of input written to it; the input price if None
    upstream: Upstream | None = None  # where `sage serve` asks it

    def cost_usd(
        self, input_tokens: float, output_tokens: float, *, cached_tokens: float = 0.0, written_tokens: float = 0.0
    ) -> float:
        """Returns the list price of a call in USD.

        `cached_tokens` and `written_tokens` are the parts of the input that were read from a cache, and written to it.
        """
        cost = input_tokens * self.input_usd_per_mtok + output_tokens * self.output_usd_per_mtok
        if self.cached_input_usd_per_mtok is not None:
            cost -= cached_tokens * (self.input_usd_per_mtok - self.cached_input_usd_per_mtok)
        if self.cache_write_usd_per_mtok is not None:
            cost -= written_tokens * (self.input_usd_per_mtok - self.cache_write_usd_per_mtok)
        return cost / 1e6

    def most_usd(self, input_tokens: float, output_tokens: float | None) -> float:
        """Returns the most USD that a call can cost, if its answer has at most `output_tokens`.

        Without any limit on the answer (None), several typical answers are assumed.
        """
        limits = [tokens for tokens in (output_tokens, self.max_output_tokens) if tokens is not None]
        input_price = max(self.input_usd_per_mtok, self.cache_write_usd_per_mtok or 0.0)
        answer = min(limits, default=LONG_ANSWER * self.output_tokens) * self.output_usd_per_mtok
        return (input_tokens * input_price + answer) / 1e6


@dataclass(frozen=True, kw_only=True)
class Trigger:
    when: Condition
    use: str


@dataclass(frozen=True, kw_only=True)
class RoleRule:
    """The rule of a role: the first trigger that holds decides, else the primary.

    The fallback if that is not eligible.
    """

    primary: str
    fallback: str | None = None
    triggers: tuple[Trigger, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GuardLimits:
    confidence_floor: float = 0.9  # below it the static table answers
    budget_usd: float | None = None  # that a session may spend
    max_latency_s: float | None = None  # models that typically take longer are left out


@dataclass(frozen=True, kw_only=True)
class BanditSettings:
    """Settings of a bandit, which learns online from outcomes; None leaves a value to the bandit."""

    kind: str  # one of BANDITS
    noise: float | None = None  # of a reward, as Thompson sampling takes it: more explores more; for `contextual`
    keep: float | None = None  # of a cell's weight at each of its updates: less forgets sooner, 1 never


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    store_prompts: bool = False
    store_words: bool = False  # hashed, from which text policies learn; they give away part of the text


@dataclass(frozen=True, kw_only=True)
class Exploration:
    """Shares of the calls that may get another model than the policy's choice, and the models drawn from, evenly."""

    share: float = 0.0  # of all calls
    among: PlausibleModels | None = None  # all eligible models if there are none
    shadow: float = 0.0  # of all calls: those in which a second one of these models is asked, and its answer not used


@dataclass(frozen=True, kw_only=True)
class OutcomeSettings:
    sample: float = (
        1.0  # share of decisions whose outcome is wanted, drawn when they are made; others count in no proof
    )


@dataclass(frozen=True, kw_only=True)
class ModelsFile:
    models: dict[str, Model]
    roles: dict[str, RoleRule]
    guard: GuardLimits = GuardLimits()
    log: LogSettings = LogSettings()
    exploration: Exploration = Exploration()
    outcomes: OutcomeSettings = OutcomeSettings()
    bandit: BanditSettings | None = None
    objective: Objective = DEFAULT  # that policies are learned, judged and promoted for
    cascade: dict[str, CascadeRule] = field(default_factory=dict)  # role -> rule, of roles that have one
    serve: ServeSettings = ServeSettings()

    @classmethod
    def read(cls, path: str | Path) -> ModelsFile:
        path = Path(path)
        if not path.is_file():
            raise ModelsFileError(f"{path}: there is no such file: `sage init` writes one to start from")
        try:
            return cls.parse(path.read_text(encoding="utf-8"), path.parent)
        except (ModelsFileError, UnicodeDecodeError) as error:
            raise ModelsFileError(f"{path}: {error}") from error

    @classmethod
    def parse(cls, text: str, folder: Path = Path()) -> ModelsFile:
        """Returns the table in a text; files that it names are looked for in `folder`.

        Raises ModelsFileError for a mistake.
        """
        try:
            values = parse_yaml(text)
        except yaml.YAMLError as error:
            raise ModelsFileError(f"not YAML: {' '.join(str(error).split())}") from error
        top = section(cls, values, "the file")
        models = {
            model_name(name): parse_model(name, value, folder) for name, value in entries(top["models"], "models")
        }
        table = cls(
            models=models,
            roles=parse_roles(top["roles"], models),
            guard=parse_guard(top.get("guard", {})),
            log=LogSettings(**checked_bools(section(LogSettings, top.get("log", {}), "log"), "log")),
            exploration=parse_exploration(top.get("exploration", 0.0), models, folder),
            outcomes=parse_outcomes(top.get("outcomes", {})),
            bandit=parse_bandit(top.get("bandit")),
            objective=parse_objective(top.get("objective", {"weights": {}})),
            cascade=parse_cascades(top.get("cascade"), {name: model.roles for name, model in models.items()}),
            serve=parse_serve(top.get("serve", {}), folder),
        )
        check_roles_are_served(table)
        for name, rule in table.serve.names.items():
            choice(rule.pin, f"serve.names.{name}.pin", models)
        check_served_cascades(table.serve.cascades, table.cascade)
        if table.bandit is not None and table.objective.constrained:
            raise ModelsFileError(
                "a bandit learns for objective.weights alone: leave `bandit` out, or give weights instead of a limit"
            )
        return table


def parse_model(name: str, value: object, folder: Path = Path()) -> Model:
    place = f"models.{name}"
    given = section(Model, value, place)
    for key in (*PRICES, "latency_s"):
        if key in given:
            given[key] = non_negative_number(given[key], f"{place}.{key}")
    for key in ("max_context", "output_tokens", "max_output_tokens"):
        if key in given:
            given[key] = positive_integer(given[key], f"{place}.{key}")
    if "roles" in given:
        roles = given["roles"]
        if not isinstance(roles, list) or not roles:
            raise ModelsFileError(f"{place}.roles={roles!r} must be a list of roles")
        given["roles"] = tuple(str(choice(role, f"{place}.roles", ROLES)) for role in roles)
    return Model(**given | {"upstream": parse_upstream(given.get("upstream"), f"{place}.upstream", folder)})


def parse_roles(value: object, models: dict[str, Model]) -> dict[str, RoleRule]:
    rules = {}
    for name, given in entries(value, "roles"):
        choice(name, "roles", (*ROLES, DEFAULT_ROLE))
        rules[name] = parse_rule(f"roles.{name}", section(RoleRule, given, f"roles.{name}"), models)
    missing = [role for role in ROLES if role not in rules]
    if missing and DEFAULT_ROLE not in rules:
        raise ModelsFileError(f"roles has no entry for {', '.join(missing)}: add them, or an entry {DEFAULT_ROLE!r}")
    return {role: rules[role] if role in rules else rules[DEFAULT_ROLE] for role in ROLES}


def parse_rule(place: str, given: dict, models: dict[str, Model]) -> RoleRule:
    triggers = given.get("triggers", [])
    if not isinstance(triggers, list):
        raise ModelsFileError(f"{place}.triggers={triggers!r} must be a list of {{when, use}}")
    return RoleRule(
        primary=str(choice(given["primary"], f"{place}.primary", models)),
        fallback=choice(given.get("fallback"), f"{place}.fallback", models),
        triggers=tuple(parse_trigger(f"{place}.triggers[{i}]", value, models) for i, value in enumerate(triggers)),
    )


def parse_trigger(place: str, value: object, models: dict[str, Model]) -> Trigger:
    given = section(Trigger, value, place)
    try:
        when = Condition.parse(given["when"])
    except TriggerError as error:
        raise ModelsFileError(f"{place}.when: {error}") from error
    return Trigger(when=when, use=str(choice(given["use"], f"{place}.use", models)))


def parse_guard(value: object) -> GuardLimits:
    given = section(GuardLimits, value, "guard")
    most = {"confidence_floor": 1.0}
    return GuardLimits(
        **{
            key: non_negative_number(number, f"guard.{key}", most=most.get(key, math.inf))
            for key, number in given.items()
        }
    )


def parse_exploration(value: object, models: dict[str, Model], folder: Path) -> Exploration:
    """Returns the exploration of a share alone, or of a mapping with models or the file of `sage lab plausible`."""
    if not isinstance(value, dict):
        return Exploration(share=non_negative_number(value, "exploration", most=1.0))
    given = section(Exploration, value, "exploration")
    share, shadow = (
        non_negative_number(given.get(key, 0.0), f"exploration.{key}", most=1.0) for key in ("share", "shadow")
    )
    among = given.get("among")
    if isinstance(among, list) and among:
        names = tuple(str(choice(name, "exploration.among", models)) for name in among)
        return Exploration(share=share, shadow=shadow, among=PlausibleModels(cells={}, elsewhere=names))
    if isinstance(among, str):
        try:
            return Exploration(share=share, shadow=shadow, among=PlausibleModels.read(folder / among))
        except PlausibleError as error:
            raise ModelsFileError(f"exploration.among: {error}") from error
    if among is not None:
        raise ModelsFileError(
            f"exploration.among={among!r} must be a list of models, or the file that `sage lab plausible` wrote"
        )
    return Exploration(share=share, shadow=shadow)


def parse_outcomes(value: object) -> OutcomeSettings:
    given = section(OutcomeSettings, value, "outcomes")
    sample = non_negative_number(given.get("sample", 1.0), "outcomes.sample", most=1.0)
    if sample == 0:
        raise ModelsFileError("outcomes.sample=0 must be above 0: without outcomes nothing is learned")
    return OutcomeSettings(sample=sample)


def parse_bandit(value: object) -> BanditSettings | None:
    """Returns the settings of a bandit's name alone, or of a mapping; None if there is no bandit."""
    if not isinstance(value, dict):
        kind = choice(value, "bandit", BANDITS)
        return None if kind is None else BanditSettings(kind=kind)
    given = section(BanditSettings, value, "bandit")
    kind = str(choice(given.pop("kind"), "bandit.kind", BANDITS))
    if kind == "ucb1" and "noise" in given:
        raise ModelsFileError("bandit.noise is a setting of `contextual`: leave it out, or set kind: contextual")
    numbers = {key: non_negative_number(number, f"bandit.{key}", most=1.0) for key, number in given.items()}
    for key, number in numbers.items():
        if number == 0:
            raise ModelsFileError(f"bandit.{key}=0 must be above 0")
    return BanditSettings(kind=kind, **numbers)


def parse_objective(value: object) -> Objective:
    """Returns the objective, one of three: weights, a limit on the loss of quality, or a limit on cost."""
    given = section(Objective, value, "objective")
    if len(given) != 1:
        names = ", ".join(field.name for field in fields(Objective))
        raise ModelsFileError(f"objective has {', '.join(given) or 'nothing'}: give exactly one of {names}")
    ((key, item),) = given.items()
    if key == "weights":
        weights = section(RewardWeights, item, "objective.weights")
        if "version" in weights:
            raise ModelsFileError("objective.weights.version is not a setting: sage names the weights that differ")
        try:
            return weighted(
                **{name: non_negative_number(number, f"objective.weights.{name}") for name, number in weights.items()}
            )
        except RewardError as error:
            raise ModelsFileError(f"objective.weights: {error}") from error
    if key == "max_points_worse":
        return points_worse(non_negative_number(item, "objective.max_points_worse", most=100.0))
    if (limit := non_negative_number(item, "objective.max_usd_per_task")) == 0:
        raise ModelsFileError("objective.max_usd_per_task=0 must be above 0: nothing is free")
    return usd_per_task(limit)


def check_roles_are_served(table: ModelsFile) -> None:
    for role, rule in table.roles.items():
        named = (rule.primary, rule.fallback, *(trigger.use for trigger in rule.triggers))
        for name in named:
            if name is not None and role not in table.models[name].roles:
                raise ModelsFileError(
                    f"roles.{role} names {name!r}, which may not serve it: add {role} to models.{name}.roles"
                )


def model_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise ModelsFileError(f"models: {name!r} must be 1 to 200 characters without blanks")
    return name
