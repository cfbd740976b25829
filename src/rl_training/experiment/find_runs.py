"""The registry of runs: the run directories under a folder, filtered, sorted and compared."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

from rl_training.experiment.run_query import Query, check_fields, parse_query
from rl_training.experiment.run_record import RunRecord, is_run

COLUMNS = tuple(RunRecord(Path()).summary)
NOT_RUNS = ("checkpoints", "videos", "node_modules", "site-packages")  # folders in which no run directory is looked for


def runs(root: str | Path = "runs", *, where: str | None = None, sort: str = "started") -> list[RunRecord]:
    """Returns the runs in the folder `root` and below it, sorted by a field; those without a value come last.

    `where` is a condition such as "algorithm=ppo and score>400". Fields are those of `RunRecord.summary`, of
    `result.json`, and settings by their path, such as "training.seed"; "-score" sorts from the highest. Raises
    ValueError if the folder does not exist, the condition cannot be read, or no run has such a field.
    """
    folder = Path(root).expanduser()
    if not folder.is_dir():
        raise ValueError(f"{root} is not a folder: give the one that holds your runs (default: runs)")
    query = parse_query(where) if where is not None else None
    found = [(record, RunFields(record)) for record in find_runs(folder)]
    check_query(query, sort, [fields for _, fields in found])
    chosen = [(record, fields) for record, fields in found if query is None or query.holds(fields)]
    return [record for record, _ in sorted_runs(chosen, sort)]


def find_runs(folder: Path) -> Iterator[RunRecord]:
    """Yields the runs in a folder and below it, by name; does not look inside run directories or hidden folders."""
    for path in run_folders(folder):
        name = path.relative_to(folder).as_posix()
        yield RunRecord(path, name if name != "." else path.resolve().name)


def run_folders(folder: Path) -> Iterator[Path]:
    if is_run(folder):
        yield folder
        return
    try:
        inside = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
    except PermissionError:
        return
    for name in inside:
        if not name.startswith(".") and name not in NOT_RUNS:
            yield from run_folders(folder / name)


class RunFields(Mapping[str, object]):
    """The fields of a run that conditions may name; its config is read only if a setting is asked for."""

    def __init__(self, record: RunRecord) -> None:
        self.record = record

    @cached_property
    def without_settings(self) -> dict[str, object]:
        result = {name: value for name, value in self.record.result.items() if not isinstance(value, dict)}
        return self.record.summary | {name: value for name, value in result.items() if name not in self.record.summary}

    @cached_property
    def settings(self) -> dict[str, object]:
        return flat_settings(self.record)

    def __getitem__(self, name: str) -> object:
        return self.without_settings[name] if name in self.without_settings else self.settings[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.without_settings | self.settings)

    def __len__(self) -> int:
        return len(self.without_settings | self.settings)


def check_query(query: Query | None, sort: str, found: list[RunFields]) -> None:
    """Raises ValueError if a field of the condition or of the order is in no run, unless there are no runs."""
    for source, asked in (("--where", query.fields if query else ()), ("--sort", [sort.removeprefix("-")])):
        unknown = [field for field in asked if not any(field in fields.without_settings for fields in found)]
        if unknown and found:
            check_fields(unknown, list(dict.fromkeys(name for fields in found for name in fields)), source)


def sorted_runs(found: list[tuple[RunRecord, RunFields]], sort: str) -> list[tuple[RunRecord, RunFields]]:
    name, falling = sort.removeprefix("-"), sort.startswith("-")
    known = [pair for pair in found if pair[1].get(name) is not None]
    as_numbers = all(isinstance(fields[name], int | float) for _, fields in known)
    ordered = sorted(known, key=lambda pair: pair[1][name] if as_numbers else str(pair[1][name]), reverse=falling)  # pyrefly: ignore
    return ordered + [pair for pair in found if pair[1].get(name) is None]


def flat_settings(record: RunRecord) -> dict[str, object]:
    """Returns a run's settings by their path, such as "env.id"."""
    from rl_training.config.run_config import flatten  # imports torch, which a list need not

    return flatten(record.config)


def differing_settings(records: Iterable[RunRecord]) -> dict[str, list[object]]:
    """Returns the settings in which runs differ, by path, each with one value for each run; None where it is absent."""
    flat = [flat_settings(record) for record in records]
    rows = {path: [settings.get(path) for settings in flat] for path in dict.fromkeys(p for one in flat for p in one)}
    return {path: values for path, values in rows.items() if any(value != values[0] for value in values)}
