"""Writes the tables of docs/configuration.md from the dataclasses of the settings and the registry of algorithms.

Usage: python scripts/write_settings.py [--check]

Everything between `<!-- settings NAME -->` and `<!-- end of settings -->` is written, apart from the last column of a table:
meanings are edited in the page, and kept. A field without one gets a question mark, which tests/test_docs_tables.py refuses.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
from pathlib import Path
from typing import Annotated, Literal, Union, get_args, get_origin, get_type_hints

from rl_training.algorithms.on_policy import NetArch
from rl_training.config.parsing import to_plain
from rl_training.config.registry import ALGORITHMS
from rl_training.config.sections import (
    CheckpointConfig,
    DataConfig,
    EvaluationConfig,
    MakeConfig,
    PhaseConfig,
    SamplingConfig,
    TrackingConfig,
    TrainingConfig,
)
from rl_training.core import AlgorithmConfig, Groups, Schedule
from rl_training.core.ranges import Range
from rl_training.envs import EnvConfig, WrapperConfig
from rl_training.envs.joint_env import AgentSettings
from rl_training.experience import HindsightSettings, ReplaySettings, RolloutSettings

PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"
BLOCK = re.compile(r"<!-- settings (\w+) -->\n.*?<!-- end of settings -->", re.DOTALL)
HEADING = re.compile(r"^### (.+)$", re.MULTILINE)
ROW = re.compile(r"^\| `(\w+)` \| .+? \| .+? \| (.+) \|$", re.MULTILINE)
UNKNOWN = "?"  # the meaning of a new field
OTHER_SECTIONS = [
    *(
        NetArch,
        EnvConfig,
        Groups,
        AgentSettings,
        RolloutSettings,
        ReplaySettings,
        HindsightSettings,
        TrainingConfig,
        EvaluationConfig,
    ),
    *(CheckpointConfig, SamplingConfig, TrackingConfig, DataConfig, MakeConfig, PhaseConfig),
]
KINDS = {kind.__name__: kind for entry in ALGORITHMS.values() for kind in entry.config.__mro__}
KINDS |= {kind.__name__: kind for kind in OTHER_SECTIONS}
REGISTERED = [entry.config for entry in ALGORITHMS.values()]
NAMES = {
    Schedule: "schedule",
    NetArch: "net_arch",
    MakeConfig: "data.make",
    Groups: "env.obs_groups",
    AgentSettings: "env.agents",
    HindsightSettings: "experience.hindsight",
    WrapperConfig: "mapping",
    type(None): "null",
}
NO_RANGE = Range()


def write_type(hint: object, limits: Range = NO_RANGE) -> str:
    """Returns a type as the tables show it, with the range that is checked."""
    if get_origin(hint) is Annotated:
        return write_type(*get_args(hint))
    if get_origin(hint) is Literal:
        return ", ".join(map(str, get_args(hint)))
    if get_args(hint) and get_origin(hint) is tuple:
        return f"list of {write_type(get_args(hint)[0])}"
    if get_args(hint) and (get_origin(hint) is Union or type(hint).__name__ in ("UnionType", "Union")):
        return ", ".join(write_type(part, limits) for part in get_args(hint))
    text = NAMES.get(hint) or getattr(hint, "__name__", str(hint))
    if text in ("null", "str", "bool"):
        return text
    if limits.above is not None:
        return f"{text} > {limits.above}" + (f", at most {limits.max}" if limits.max is not None else "")
    if limits.max is not None:
        return f"{text} in {limits.min} to {limits.max}"
    return f"{text} >= {limits.min}" if limits.min is not None else text


def write_value(value: object) -> str:
    """Returns a value as a YAML file has it, on one line."""
    if isinstance(value, Schedule):
        falls = value.initial > 0 and value == Schedule(value.initial, 0.0)
        value = f"lin_{value.initial:g}" if falls else to_plain(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {write_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(write_value, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def write_default(field: dataclasses.Field) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return f"`{write_value(to_plain(field.default_factory()))}`"
    if field.default is dataclasses.MISSING:
        return "required"
    plain = field.default if isinstance(field.default, Schedule) else to_plain(field.default)
    return f"`{write_value(plain)}`"


def all_rows(kind: type) -> dict[str, tuple[str, str]]:
    """Returns type and default of every field."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: (write_type(hints[field.name]), write_default(field)) for field in dataclasses.fields(kind)}


def own_rows(kind: type, shown: list[type]) -> dict[str, tuple[str, str]]:
    """Returns the fields that no table of a base class shows in the same way.

    A field that every method sets for itself is left out of the table that methods share.
    """
    known = {}
    for base in reversed([base for base in kind.__mro__[1:] if base in shown]):
        known |= all_rows(base)
    shared = issubclass(kind, AlgorithmConfig) and kind not in REGISTERED
    rows = {name: row for name, row in all_rows(kind).items() if known.get(name) != row}
    return {name: row for name, row in rows.items() if not (shared and row[1] == "required")}


class Page:
    """The text of the page, with the headings and meanings that stand in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        blocks = [match for match in BLOCK.finditer(text) if match[1] in KINDS]
        self.shown = [KINDS[block[1]] for block in blocks]
        self.headings = {KINDS[b[1]]: HEADING.findall(text, 0, b.start())[-1] for b in blocks}
        self.meanings = {KINDS[block[1]]: dict(ROW.findall(block[0])) for block in blocks}

    def rewritten(self) -> str:
        return BLOCK.sub(
            lambda block: f"<!-- settings {block[1]} -->\n{self.render(block[1])}\n<!-- end of settings -->", self.text
        )

    def render(self, name: str) -> str:
        if name == "algorithms":
            return self.overview()
        kind, table = KINDS[name], self.table(KINDS[name])
        bases = " and ".join(map(self.link, self.nearest(kind)))
        if not bases:
            return table
        return f"All fields of {bases}, and:\n\n{table}" if table else f"All fields of {bases}."

    def overview(self) -> str:
        """Returns a row for every algorithm: its name, its class, the tables of its fields and its own defaults."""
        lines = ["| name | in Python | fields | own defaults in `experience` |", "|---|---|---|---|"]
        for name, entry in sorted(ALGORITHMS.items()):
            own = [f"`{key}: {write_value(value)}`" for key, value in entry.config.needs.settings.items()]
            lines.append(f"| `{name}` | `{entry.title}` | {self.tables(entry.config)} | {', '.join(own)} |")
        return "\n".join(lines)

    def tables(self, kind: type) -> str:
        """Returns links to the tables of a class, the most general one first, or to its base if it only has other defaults."""
        links = [self.link(base) for base in reversed(kind.__mro__) if base in self.shown]
        if kind in self.shown:
            return ", ".join(links)
        other = [f"`{field}: {row[1].strip('`')}`" for field, row in own_rows(kind, self.shown).items()]
        return self.link(kind.__mro__[1]) + (f" with {', '.join(other)}" if other else "")

    def table(self, kind: type) -> str:
        rows = own_rows(kind, self.shown).items()
        lines = [f"| `{name}` | {hint} | {default} | {self.meaning(kind, name)} |" for name, (hint, default) in rows]
        return "\n".join(["| field | type | default | meaning |", "|---|---|---|---|", *lines]) if lines else ""

    def meaning(self, kind: type, field: str) -> str:
        """Returns what the page says of a field, or says of it in the table of a base class."""
        found = (self.meanings.get(base, {}).get(field) for base in kind.__mro__)
        return next(filter(None, found), UNKNOWN)

    def nearest(self, kind: type) -> list[type]:
        """Returns the base classes that have a table, without the bases of these."""
        bases = [base for base in kind.__mro__[1:] if base in self.shown]
        return [base for base in bases if not any(issubclass(other, base) for other in bases if other is not base)]

    def link(self, kind: type) -> str:
        heading = self.headings[kind]
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        return f"[{heading.removeprefix('algorithm: ')}](#{anchor})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is not up to date")
    check = parser.parse_args().check
    old = PAGE.read_text()
    new = Page(old).rewritten()
    if not check:
        PAGE.write_text(new)
    print("up to date" if old == new else "stale" if check else f"wrote {PAGE.name}")
    return int(check and old != new)


if __name__ == "__main__":
    sys.exit(main())
