"""Model names that clients send: who may use each, its role, and the model that answers."""

from __future__ import annotations

from typing import NamedTuple

from sage.orchestrator.models_file import ModelsFile
from sage.orchestrator.upstream_settings import REFUSE
from sage.serve.access.access import Caller, Refusal

ROUTED = "sage"  # a name that is always routed


class Wish(NamedTuple):
    """The role and the model that a client's model name asks for."""

    role: str = ""  # of the request, unless a header says another
    model: str = ""  # that must answer; any if empty
    among: tuple[str, ...] | None = None  # models that the caller may use; all if None


def wish_of(table: ModelsFile, caller: Caller, asked: str) -> Wish | Refusal:
    """Returns the Wish of a model name, by `serve.names`; a Refusal if the caller's key does not allow the name (403)
    or it is not served (404)."""
    if caller.allowed is not None and asked not in caller.allowed:
        names = ", ".join(names_for(table, caller)) or "no name that is served here"
        return Refusal(403, "permission_error", f"this key may ask for {names}: name one of them as model")
    rule = table.serve.names.get(asked)
    known = rule is not None or asked == ROUTED or asked in table.models
    if (rule is not None and rule.refuse) or (not known and table.serve.other_names == REFUSE):
        names = ", ".join(names_for(table, caller))
        return Refusal(404, "not_found_error", f"this model name is not served here: name one of {names}")
    among = None if caller.allowed is None else tuple(name for name in caller.allowed if name in table.models)
    if rule is None:
        return Wish(among=among or None)
    return Wish(rule.role or "", rule.pin or "", None if rule.pin else among or None)


def names_for(table: ModelsFile, caller: Caller) -> list[str]:
    """Returns the model names that a caller may send: `sage`, the models of the table, and the names of `serve.names`
    that are not refused."""
    names = dict.fromkeys([ROUTED, *table.models, *table.serve.names])
    refused = {name for name, rule in table.serve.names.items() if rule.refuse}
    return [name for name in names if name not in refused and (caller.allowed is None or name in caller.allowed)]


def told_names(table: ModelsFile) -> str:
    """Returns a sentence, shown at the start, that says what is done with each model name."""
    rules = table.serve.names
    special = [f"{name} {rule.summary}" for name, rule in rules.items()]
    others = "is refused" if table.serve.other_names == REFUSE else "is routed, whatever it names"
    return "; ".join([*special, f"every {'other ' if rules else ''}model name that a client sends {others}"])
