"""Learned model routing for LLM coding agents: every choice logged with its probability, every new policy proved first."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sage.log.decision_log import DecisionLog
    from sage.log.records import Decision, Outcome, Request
    from sage.orchestrator.model_router import Router
    from sage.pipeline.evaluating import evaluate
    from sage.pipeline.gating import gate
    from sage.pipeline.promoting import promote, rollback
    from sage.pipeline.status import status
    from sage.pipeline.training import train

# Every public name and where it lives; looked up on first use, so that importing the package stays fast.
HOMES = {
    "Decision": "sage.log.records",
    "DecisionLog": "sage.log.decision_log",
    "Outcome": "sage.log.records",
    "Request": "sage.log.records",
    "Router": "sage.orchestrator.model_router",
    "evaluate": "sage.pipeline.evaluating",
    "gate": "sage.pipeline.gating",
    "promote": "sage.pipeline.promoting",
    "rollback": "sage.pipeline.promoting",
    "status": "sage.pipeline.status",
    "train": "sage.pipeline.training",
}

__all__ = [
    "Decision",
    "DecisionLog",
    "Outcome",
    "Request",
    "Router",
    "evaluate",
    "gate",
    "promote",
    "rollback",
    "status",
    "train",
]


def __getattr__(name: str) -> object:
    if name in HOMES:
        return getattr(import_module(HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
