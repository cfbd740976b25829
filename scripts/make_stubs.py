"""Writes the stubs that show type checkers and editors the names which follow from the registry of algorithms.

With --check it writes nothing, and its exit code is 1 if a stub is not as it would be written.
"""

import inspect
import sys
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, Union, get_args, get_origin, get_type_hints

import rl_training
from rl_training.algorithms import AGENTS, PARTS
from rl_training.algorithms.on_policy import NetArch
from rl_training.api import names
from rl_training.config.registry import experience_of
from rl_training.config.sections import TrainingConfig
from rl_training.core import Groups, Schedule
from rl_training.core.registry import Entry
from rl_training.envs import EnvConfig, WrapperConfig
from rl_training.envs.joint_env import AgentSettings
from rl_training.experience import HindsightSettings

ROOT = Path(rl_training.__file__).parent
NOTE = '"""Written by scripts/make_stubs.py from the registry of algorithms: change that, and run it again."""\n'
TYPES = """
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from torch import nn

from rl_training.algorithms.on_policy import NetArch
from rl_training.core import Groups, Schedule
from rl_training.core.schedule import ScheduleLike
"""
ACCEPTED = {
    Schedule: "ScheduleLike",
    NetArch: "NetArch | Sequence[int] | Mapping[str, Sequence[int]]",
    Groups: "Groups | Mapping[str, Sequence[str]]",
    HindsightSettings: "Mapping[str, object]",
    AgentSettings: "Mapping[str, object]",
    WrapperConfig: "Mapping[str, object]",
    types.NoneType: "None",
    dict: "Mapping[str, object]",
}
OTHERS = {
    "encoder": "str | Callable[..., nn.Module] | None",
    "store": "str",
}  # of which code may be handed over, or more
SECTIONS = dict.fromkeys(
    ("algorithm", "experience", "training", "checkpoint", "sampling", "tracking", "data"), "Mapping[str, object]"
)
SECTIONS |= {"evaluation": "Mapping[str, object]", "phases": "Sequence[Mapping[str, object]]"}


def accepted(hint: object) -> str:
    """What a program may write for a setting of a type."""
    if get_origin(hint) in (Union, types.UnionType):
        return " | ".join(accepted(part) for part in get_args(hint))
    if get_origin(hint) is Literal:
        return f"Literal[{', '.join(map(repr, get_args(hint)))}]"
    if get_origin(hint) is tuple:
        return f"Sequence[{accepted(get_args(hint)[0])}]"
    return ACCEPTED.get(get_origin(hint) or hint) or getattr(hint, "__name__", str(hint))


def constructor(parameters: Iterable[str]) -> str:
    return (
        "    def __init__(\n        self,\n" + "".join(f"        {p},\n" for p in parameters) + "    ) -> None: ...\n"
    )


def keywords(kind: type, defaults: dict[str, object]) -> list[str]:
    """A section's settings, as parameters with the defaults that a class has."""
    hints = get_type_hints(kind)
    known = {name: OTHERS.get(name) or accepted(hint) for name, hint in hints.items() if name in defaults}
    return [f"{name}: {kind} = {defaults[name]!r}" for name, kind in known.items()]


def config_class(entry: Entry) -> str:
    """A config as programs may write it, with a number for a schedule and a list for a tuple."""
    defaults = {p.name: p.default for p in inspect.signature(names.CLASSES[entry.title]).parameters.values()}
    name = entry.config.__name__
    base = f"{entry.config.__module__}.{name}"
    return f"\nclass {name}({base}):\n" + constructor(["*", *keywords(entry.config, defaults)])


def managed_class(name: str, entry: Entry) -> str:
    """An agent's class with everything that its keywords may be."""
    defaults = {p.name: p.default for p in inspect.signature(names.CLASSES[entry.title]).parameters.values()}
    first = ["env: object = None", f"config: {entry.config.__name__} | None = None", "*"]
    first += ["dataset: Dataset | str | Path | None = None", "run_dir: str | Path | None = None"]
    kinds = (entry.config, experience_of(name), EnvConfig, TrainingConfig)
    settings = [keyword for kind in kinds for keyword in keywords(kind, defaults)]
    sections = [f"{section}: {kind} = ..." for section, kind in SECTIONS.items()]
    return f"\nclass {entry.title}(Agent):\n" + constructor([*first, *settings, *sections])


def exported(module: str, public: Iterable[str]) -> str:
    return "".join(f"from {module} import {name} as {name}\n" for name in public)


def listed(public: Iterable[str]) -> str:
    return "\n__all__ = [\n" + "".join(f'    "{name}",\n' for name in public) + "]\n"


def package_stub() -> str:
    """The names of `rl_training`."""
    homes = "".join(exported(f"rl_training.{home}", [name]) for name, home in rl_training.HOMES.items())
    configs = [entry.config.__name__ for _, entry in AGENTS.values()]
    public = exported("rl_training.algorithms", sorted(configs)) + exported("rl_training.api.names", sorted(AGENTS))
    tables = "\n__version__: str\nHOMES: dict[str, str]\nSUBPACKAGES: tuple[str, ...]\n"
    return f"{NOTE}\n{exported('rl_training', rl_training.SUBPACKAGES)}{homes}{public}{tables}{listed(rl_training.__all__)}"


def algorithms_stub() -> str:
    """The names of `rl_training.algorithms`."""
    configs = {entry.config.__name__: entry for _, entry in AGENTS.values()}
    homes = "".join(f"import {module}\n" for module in sorted({part.__module__ for part in PARTS.values()}))
    parts = "".join(exported(part.__module__, [name]) for name, part in sorted(PARTS.items()) if name not in configs)
    public = exported("rl_training.api.names", sorted(AGENTS)) + "from rl_training.core.registry import Entry\n"
    tables = "\nAGENTS: dict[str, tuple[str, Entry]]\nPARTS: dict[str, type]\n"
    classes = "".join(config_class(entry) for _, entry in sorted(configs.items()))
    return f"{NOTE}{TYPES}{homes}{parts}{public}{tables}{listed(sorted([*AGENTS, *PARTS]))}{classes}"


def names_stub() -> str:
    """The managed classes."""
    configs = exported("rl_training.algorithms", sorted(entry.config.__name__ for _, entry in AGENTS.values()))
    others = "from rl_training.api.agent import Agent\nfrom rl_training.data import Dataset\n"
    classes = "".join(managed_class(*AGENTS[title]) for title in sorted(AGENTS))
    tables = "\nCLASSES: dict[str, type[Agent]]\n"
    return f"{NOTE}{TYPES}{configs}{others}{tables}{listed(sorted(AGENTS))}{classes}"


def stale() -> dict[Path, str]:
    """The stubs that are not as they should be, and what they should hold."""
    stubs = {
        "__init__.pyi": package_stub(),
        "algorithms/__init__.pyi": algorithms_stub(),
        "api/names.pyi": names_stub(),
    }
    files = {ROOT / path: text for path, text in stubs.items()}
    return {file: text for file, text in files.items() if not file.exists() or file.read_text() != text}


def main() -> int:
    for file, text in stale().items():
        if "--check" in sys.argv:
            print(f"{file.relative_to(ROOT)} is not fresh: run python scripts/make_stubs.py")
            return 1
        file.write_text(text)
        print(f"wrote {file.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
