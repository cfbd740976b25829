"""Errors for names of other libraries in calls and attributes, with our name for the same thing."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from rl_training.config import ConfigError
from rl_training.config.names_of_others import ATTRIBUTES, KEYWORDS
from rl_training.config.parsing import field_names, shortened, suggestion
from rl_training.core.arguments import CallError

A = TypeVar("A")
P = ParamSpec("P")
R = TypeVar("R")


class MissingNameError(ConfigError, AttributeError):
    """Error for an attribute that an agent does not have or that cannot be set."""


def explains_foreign_names(agents: type[A]) -> type[A]:
    """Changes the class of agents so that names of other libraries raise errors with our names, and returns the class.

    Wraps all public methods and the constructor, and makes reading a missing attribute, and setting a setting that
    nothing would read, raise MissingNameError.
    """
    for name, member in list(vars(agents).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if inspect.isfunction(member):
            setattr(agents, name, explains_calls(member))
        elif isinstance(member, classmethod):
            setattr(agents, name, classmethod(explains_calls(member.__func__)))

    def getattr_(self: A, name: str) -> object:
        raise missing_attribute(self, name)

    def setattr_(self: A, name: str, value: object) -> None:
        refused = refused_attribute(self, name)
        if refused is not None:
            raise refused
        object.__setattr__(self, name, value)

    for hook, function in (("__getattr__", getattr_), ("__setattr__", setattr_)):
        setattr(agents, hook, function)
    return agents


def explains_calls(method: Callable[P, R]) -> Callable[P, R]:
    """Wraps a method so that a call that does not fit its signature raises a CallError with advice.

    Other TypeErrors of the method pass unchanged.
    """
    signature = inspect.signature(method)

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except TypeError as error:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as misfit:
                called = type(args[0]).__name__ if method.__name__ == "__init__" else method.__name__
                raise CallError(advice(called, signature, args, kwargs, misfit)) from None
            raise error

    return call


def advice(name: str, signature: inspect.Signature, args: tuple, kwargs: dict, misfit: TypeError) -> str:
    """Returns the error message for a call of function `name` with arguments that do not fit its signature.

    `misfit` is Python's own error, whose text is used if there is no better advice.
    """
    named = [p for p in signature.parameters if p not in ("self", "cls")]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    for keyword, value in kwargs.items():
        if keyword in named or takes_any:
            continue
        known = KEYWORDS.get(name, {}).get(keyword)
        hint = known or suggestion(keyword, tuple(named)).removeprefix(": ") or f"it takes {', '.join(named)}"
        return f"{name}({keyword}={shortened(value)}) is not possible: {hint}"
    by_position = [p.name for p in signature.parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    if len(args) > len(by_position):
        others = [p for p in named if p not in by_position]
        return (
            f"{name}() takes {', '.join(by_position[1:]) or 'nothing'} by position, and {shortened(args[len(by_position)])} is "
            f"one too many: give the rest by name ({', '.join(others)})"
        )
    twice = next((p for p in kwargs if p in by_position[: len(args)]), None)
    if twice:
        first = args[by_position.index(twice)]
        policy = "; the network follows from the spaces, and no policy is named" if "Policy" in str(first) else ""
        mapping = isinstance(kwargs[twice], dict) and twice == "env"
        settings = "; settings of the environment are keywords of their own, such as n_envs=4" if mapping else ""
        both = f"{shortened(first)} and {shortened(kwargs[twice])}"
        return f"{name}(): {twice} is given twice, as {both}: give it once{policy}{settings}"
    return f"{name}(): {misfit}"


def missing_attribute(owner: object, name: str) -> MissingNameError:
    """Returns (does not raise) the error for an attribute that an agent lacks, with our name for it or the nearest."""
    kind = type(owner).__name__
    if name in ATTRIBUTES:
        return MissingNameError(f"{kind} has no {name}: {ATTRIBUTES[name]}")
    section = setting_section(owner, name)
    if section:
        return MissingNameError(f"{kind} has no {name}: the setting is agent.config.{section}.{name}")
    close = suggestion(name, tuple(n for n in dir(type(owner)) if not n.startswith("_")))
    return MissingNameError(f"{kind!r} object has no attribute {name!r}{close}")


def refused_attribute(owner: object, name: str) -> MissingNameError | None:
    """Returns (does not raise) the error for setting an attribute that is a setting and would have no effect.

    Returns None if the attribute may be set.
    """
    section = setting_section(owner, name)
    if section is None and name not in ATTRIBUTES:
        return None
    what = f"agent.config.{section}.{name}" if section else ATTRIBUTES[name]
    return MissingNameError(
        f"{type(owner).__name__}.{name} cannot be set ({what}): settings are fixed when an agent is built; "
        f"load(path, {name if section else 'learning_rate'}=...) gives a new agent with the saved weights"
    )


def setting_section(owner: object, name: str) -> str | None:
    """Returns the section of an agent's config that has a setting `name`, such as "algorithm"; None if none has."""
    config = vars(owner).get("config")  # not there yet while it is built
    sections = ("algorithm", "experience", "env", "training") if config else ()
    return next((section for section in sections if name in field_names(type(getattr(config, section)))), None)
