"""Reinforcement learning from simulators, from logged data, or from both."""

import os
import sys
from importlib import import_module

__version__ = "0.2.0"

# Torch's OpenMP reads this when torch is loaded. By default its threads spin for milliseconds while they wait for each
# other, and beside another busy process two of them hardly move (benchmarks/results/threads.txt).
if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "2000")

# The public names that are no algorithm's, and where they live; looked up on first use, so that importing the package
# stays fast. The names of algorithms and their configs follow from the registry; `__init__.pyi` lists all of them.
HOMES = {
    "Agent": "api",
    "Callback": "runtime",
    "CheckpointError": "experiment",
    "ConfigError": "config",
    "Dataset": "data",
    "EvalResult": "runtime",
    "NonFiniteError": "runtime",
    "RecordVideo": "experiment",
    "RunComparison": "experiment",
    "RunConfig": "config",
    "RunRecord": "experiment",
    "Stacked": "api",
    "TrainResult": "api",
    "compare_runs": "experiment",
    "import_sb3": "api.sb3",
    "load": "api",
    "make_data": "api",
    "make_data_like": "api",
    "remove_runs": "experiment",
    "runs": "experiment",
    "stacked": "api",
    "tune": "tuning",
    "write_hub_card": "api",
    "write_report": "experiment",
}
SUBPACKAGES = ("algorithms", "core", "data", "envs", "evaluation", "extending", "functional", "models", "runtime")


def __getattr__(name: str) -> object:
    if name in HOMES:
        return getattr(import_module(f"rl_training.{HOMES[name]}"), name)
    if name in SUBPACKAGES:
        return import_module(f"rl_training.{name}")
    if name == "__all__":
        return public_names()
    if name[:1].isupper() or "_" in name.strip("_"):  # no module of ours, and none of Python's own attributes
        algorithms = import_module("rl_training.algorithms")
        if name in algorithms.__all__:
            return getattr(algorithms, name)
        advice = import_module("rl_training.config.names_of_others").NAMES.get(name)  # in other libraries
        if advice:
            raise AttributeError(f"rl_training has no {name}: {advice}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def public_names() -> list[str]:
    agents = import_module("rl_training.algorithms").AGENTS
    return sorted([*HOMES, *agents, *(entry.config.__name__ for _, entry in agents.values())])


def __dir__() -> list[str]:
    return [*public_names(), *SUBPACKAGES, "__version__"]
