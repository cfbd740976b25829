"""One managed class per algorithm, made from its registration; `names.pyi` shows them to type checkers."""

from rl_training.algorithms import AGENTS
from rl_training.api.agent import Agent
from rl_training.core.registry import Entry


def agent_class(name: str, entry: Entry) -> type[Agent]:
    """The class of an algorithm that is registered under a name."""
    about = f"{entry.about} Keywords are the fields of `{entry.config.__name__}`."
    return type(entry.title, (Agent,), {"name": name, "__doc__": about, "__module__": __name__})


CLASSES = {title: agent_class(name, entry) for title, (name, entry) in AGENTS.items()}
globals().update(CLASSES)
__all__ = [*CLASSES]
