"""Verifiers by name: sage's own, and those that installed packages declare as entry points of `sage.verifiers`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from sage.verifiers.agreement import SelfConsistency
from sage.verifiers.given import CallerJudge
from sage.verifiers.json_schema import JsonSchema
from sage.verifiers.sandboxed import SandboxTests
from sage.verifiers.source import Lint, Syntax, Types
from sage.verifiers.verifier import VERIFIER_FAILURES, Verifier, VerifierError

GROUP = "sage.verifiers"
BUILT_IN: dict[str, Callable[..., Verifier]] = {
    "tests": SandboxTests,
    "syntax": Syntax,
    "lint": Lint,
    "types": Types,
    "json_schema": JsonSchema,
    "self_consistency": SelfConsistency,
    "judge": CallerJudge,
}


@cache
def declared() -> dict[str, EntryPoint]:
    """Returns the entry points that installed packages declare, by name; imports none of them."""
    return {point.name: point for point in entry_points(group=GROUP)}


def names() -> list[str]:
    return list(dict.fromkeys([*BUILT_IN, *declared()]))


def build(name: str, settings: dict) -> Verifier:
    """Returns the verifier of a name with these settings; raises VerifierError if a setting is unknown or wrong."""
    factory = BUILT_IN[name] if name in BUILT_IN else imported(declared()[name])
    known = list(inspect.signature(factory).parameters)
    for key in settings:
        if key not in known:
            raise VerifierError(f"{key!r} is not a setting of {name}: known are {', '.join(known) or 'none'}")
    try:
        return factory(**settings)
    except VERIFIER_FAILURES as error:
        raise error if isinstance(error, VerifierError) else VerifierError(f"{name}: {error}") from error


def imported(point: EntryPoint) -> Callable[..., Verifier]:
    try:
        return point.load()
    except (*VERIFIER_FAILURES, ImportError, SyntaxError) as error:
        raise VerifierError(
            f"{point.value}, declared as {point.name!r} of {GROUP}, cannot be imported ({error}): repair or uninstall it"
        ) from error
