"""Writes the stubs that show type checkers and editors the names which follow from the registry of algorithms.

With --check it writes nothing, and its exit code is 1 if a stub is not as it would be written.
"""

import sys
from pathlib import Path

import rl_training
from rl_training.algorithms import AGENTS, PARTS

ROOT = Path(rl_training.__file__).parent
NOTE = '"""Written by scripts/make_stubs.py from the registry of algorithms: change that, and run it again."""\n'


def exported(module: str, names: list[str]) -> str:
    return "".join(f"from {module} import {name} as {name}\n" for name in names)


def listed(names: list[str]) -> str:
    return "\n__all__ = [\n" + "".join(f'    "{name}",\n' for name in names) + "]\n"


def package_stub() -> str:
    """The names of `rl_training`."""
    homes = "".join(exported(f"rl_training.{home}", [name]) for name, home in rl_training.HOMES.items())
    configs = [entry.config.__name__ for _, entry in AGENTS.values()]
    names = exported("rl_training.algorithms", sorted(configs)) + exported("rl_training.api.names", sorted(AGENTS))
    return f"{NOTE}\n{homes}{names}\n__version__: str\n{listed(rl_training.__all__)}"


def algorithms_stub() -> str:
    """The names of `rl_training.algorithms`."""
    parts = "".join(exported(part.__module__, [name]) for name, part in sorted(PARTS.items()))
    names = exported("rl_training.api.names", sorted(AGENTS))
    entries = "from rl_training.core.registry import Entry\n"
    tables = "\nAGENTS: dict[str, tuple[str, Entry]]\nPARTS: dict[str, type]\n"
    return f"{NOTE}\n{entries}{parts}{names}{tables}{listed(sorted([*AGENTS, *PARTS]))}"


def names_stub() -> str:
    """The managed classes."""
    classes = "".join(f"\nclass {title}(Agent): ...\n" for title in sorted(AGENTS))
    return f"{NOTE}\nfrom rl_training.api.agent import Agent\n{listed(sorted(AGENTS))}{classes}"


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
