"""Learned model routing for LLM coding agents: every choice logged with its probability, every new policy proved first."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sage.decision_log import DecisionLog
    from sage.orchestrator.model_router import Router
    from sage.records import Decision, Outcome, Request

# Every public name and where it lives; looked up on first use, so that importing the package stays fast.
HOMES = {
    "Decision": "sage.records",
    "DecisionLog": "sage.decision_log",
    "Outcome": "sage.records",
    "Request": "sage.records",
    "Router": "sage.orchestrator.model_router",
}

__all__ = ["Decision", "DecisionLog", "Outcome", "Request", "Router"]


def __getattr__(name: str) -> object:
    if name in HOMES:
        return getattr(import_module(HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
