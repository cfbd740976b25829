"""The `cascade` section of models.yaml: per role a ladder of models, the verifiers of their answers, and limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sage.log.cascade_steps import STOP
from sage.log.records import ROLES
from sage.orchestrator.file_values import (
    ModelsFileError,
    choice,
    entries,
    non_negative_number,
    positive_integer,
    section,
)
from sage.verifiers.verifier import Verifier, VerifierError, judges_alone

DEFAULT_ROLE = "default"


@dataclass(frozen=True, kw_only=True)
class CascadeRule:
    """A ladder of models, tried one after the other until the verifiers pass an answer."""

    ladder: tuple[str, ...]
    verifiers: dict[str, Verifier] = field(default_factory=dict)
    exploration: float | None = None  # share of steps drawn evenly among all that is possible; None: as for calls
    max_attempts: int | None = None  # None: the whole ladder
    budget_usd: float | None = None  # that the attempts of one task may cost

    @property
    def most_attempts(self) -> int:
        return min(self.max_attempts or len(self.ladder), len(self.ladder))


def parse_cascades(value: object, roles_of_models: Mapping[str, tuple[str, ...]]) -> dict[str, CascadeRule]:
    """Returns the rule of every role that has one; the entry `default` is for all others.

    `roles_of_models` has the roles that each model may serve. Raises ModelsFileError if something in the section is
    wrong.
    """
    if value is None:
        return {}
    if STOP in roles_of_models:
        raise ModelsFileError(f"models.{STOP} has the name of the action that ends a cascade: call the model otherwise")
    rules = {}
    for name, given in entries(value, "cascade"):
        choice(name, "cascade", (*ROLES, DEFAULT_ROLE))
        rules[name] = parse_rule(f"cascade.{name}", section(CascadeRule, given, f"cascade.{name}"), roles_of_models)
    default = rules.get(DEFAULT_ROLE)
    found = {role: rules.get(role, default) for role in ROLES}
    return {role: serving(role, rule, rule is default, roles_of_models) for role, rule in found.items() if rule}


def parse_rule(place: str, given: dict, models: Mapping[str, tuple[str, ...]]) -> CascadeRule:
    ladder = given["ladder"]
    if not isinstance(ladder, list) or not ladder or len(set(map(str, ladder))) != len(ladder):
        raise ModelsFileError(f"{place}.ladder={ladder!r} must be a list of different models, the first to try first")
    given["ladder"] = tuple(str(choice(name, f"{place}.ladder", models)) for name in ladder)
    given["verifiers"] = parse_verifiers(f"{place}.verifiers", given.get("verifiers", []))
    if "exploration" in given:
        given["exploration"] = non_negative_number(given["exploration"], f"{place}.exploration", most=1.0)
    if "max_attempts" in given:
        given["max_attempts"] = positive_integer(given["max_attempts"], f"{place}.max_attempts")
    if "budget_usd" in given:
        given["budget_usd"] = non_negative_number(given["budget_usd"], f"{place}.budget_usd")
    return CascadeRule(**given)


def parse_verifiers(place: str, value: object) -> dict[str, Verifier]:
    """Returns the verifiers of a list of names, or of names with settings; raises ModelsFileError if one is wrong."""
    if not isinstance(value, list):
        raise ModelsFileError(f"{place}={value!r} must be a list, such as [tests, {{lint: {{select: [F]}}}}]")
    from sage.verifiers.registry import build, names

    found = {}
    for item in value:
        [(name, settings)] = item.items() if isinstance(item, dict) and len(item) == 1 else [(item, {})]
        if not isinstance(name, str) or name in found:
            raise ModelsFileError(f"{place}: {item!r} must be a verifier that is not there twice, or one with settings")
        if not isinstance(settings, dict):
            raise ModelsFileError(f"{place}.{name}={settings!r} must be a mapping of settings")
        choice(name, place, names())
        try:
            found[name] = build(name, settings)
        except VerifierError as error:
            raise ModelsFileError(f"{place}: {error}") from error
    return found


def serving(role: str, rule: CascadeRule, by_default: bool, roles: Mapping[str, tuple[str, ...]]) -> CascadeRule:
    """Returns the rule with only the models that may serve the role.

    Raises ModelsFileError if the role's own rule names others, or if `default` (`by_default`) leaves no model.
    """
    ladder = tuple(model for model in rule.ladder if role in roles[model])
    others = [model for model in rule.ladder if model not in ladder]
    if others and (not by_default or not ladder):
        raise ModelsFileError(
            f"cascade.{DEFAULT_ROLE if by_default else role}.ladder names {others[0]!r}, which may not serve {role}: add "
            f"{role} to models.{others[0]}.roles"
        )
    return replace(rule, ladder=ladder)


def check_served_cascades(roles: Iterable[str], rules: Mapping[str, CascadeRule]) -> None:
    """Raises ModelsFileError if a role to be served has no cascade, or one that no verifier could end early."""
    for role in roles:
        if role not in rules:
            raise ModelsFileError(
                f"serve.cascades names {role}, which has no cascade: add cascade.{role} or cascade.{DEFAULT_ROLE}"
            )
        if not any(map(judges_alone, rules[role].verifiers.values())):
            raise ModelsFileError(
                f"serve.cascades names {role}, and no verifier of its cascade looks at an answer itself, so that every request "
                "would go through the whole ladder: add one, such as syntax, json_schema or tests with files"
            )
