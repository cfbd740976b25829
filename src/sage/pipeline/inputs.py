"""The inputs of training and proof: rows from a log, a file or memory, and the models.yaml that goes with them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Generic, TypeVar

from sage.evidence.cascades.cascade_data import CascadeData, read_episodes
from sage.evidence.cascades.cascade_export import ExportedCascades, export_cascades
from sage.evidence.cascades.cascade_records import CascadeEpisode
from sage.evidence.export_dataset import Exported, export
from sage.evidence.objective import DEFAULT, Objective
from sage.evidence.routing_data import RoutingData, RoutingDataError, named
from sage.evidence.selection import EVERYTHING, Selection
from sage.log.decision_log import DecisionLog
from sage.log.records import Decision, Outcome
from sage.orchestrator.models_file import GuardLimits, ModelsFile
from sage.orchestrator.static_table import StaticTable
from sage.pipeline.choices import MODELS_FILE
from sage.policies.cascades.cascade_ladder import LadderByRole

log = logging.getLogger(__name__)
Rows = TypeVar("Rows", RoutingData, CascadeData)
LogLike = str | Path | RoutingData | CascadeData | Iterable[tuple[Decision, Outcome | None]] | Iterable[CascadeEpisode]
"""A path of the SQLite log or of its export, the arrays that `read` gives, or records in the order of the log."""
SQLITE = b"SQLite format 3\0"  # how such a file begins
IN_MEMORY = "the log"  # the name of rows without a file, in sentences


@dataclass(frozen=True)
class ChosenRows(Generic[Rows]):
    """Rows as arrays, with the name of their log and a sentence part on how they were chosen."""

    rows: Rows
    where: str
    selection: str  # which rows were taken and how many were not; '' for all


def select_from(sources: str | Sequence[str], tenants: str | Sequence[str]) -> Selection:
    """Returns the choice of outcomes and rows; a single name counts as a list of one, and none takes all."""
    names = ((value,) if isinstance(value, str) else tuple(value) for value in (sources, tenants))
    return Selection(**dict(zip(("sources", "tenants"), names, strict=True)))


def check_seed(seed: int) -> None:
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError(f"seed={seed!r} must be a whole number that is not negative")


def path_of(log: LogLike) -> Path | None:
    """Returns the file; None for rows in memory."""
    return Path(log) if isinstance(log, str | Path) else None


def path_or_none(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


def is_sqlite(path: Path) -> bool:
    """Tells a log itself from what was exported from it."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(SQLITE)) == SQLITE


def read_decisions(log: LogLike, selection: Selection) -> ChosenRows[RoutingData]:
    """Reads single decisions, also those without an outcome; raises a `RoutingDataError` that names the row."""
    dropped: Counter[str] = Counter()
    path = path_of(log)
    if path is not None and is_sqlite(path):
        with exported(path, export, selection, dropped) as file:
            data = RoutingData.from_export(file, EVERYTHING, Counter(), where=named(path, selection), gaps=True)
    elif path is not None:
        data = RoutingData.read(path, gaps=True, selection=selection, dropped=dropped)
    elif isinstance(log, RoutingData) and not str(selection):
        data = log
    else:
        refuse_lost_sources(log, selection)
        records = log.records() if isinstance(log, RoutingData) else decisions_of(log)
        where = named(Path(IN_MEMORY), selection)
        data = RoutingData.from_records(selection.rows(records, dropped), where=where, gaps=True)
    return ChosenRows(data, name_of(log), describe(selection, dropped))


def read_cascades(log: LogLike, selection: Selection) -> ChosenRows[CascadeData]:
    """Reads episodes of cascades, also those without an outcome; raises a `RoutingDataError` that names the row."""
    dropped: Counter[str] = Counter()
    path = path_of(log)
    if path is not None and is_sqlite(path):
        with exported(path, export_cascades, selection, dropped) as file:
            data = CascadeData.from_episodes(read_episodes(file), where=named(path, selection))
    elif path is not None:
        data = CascadeData.read(path, selection=selection, dropped=dropped)
    elif isinstance(log, CascadeData) and not str(selection):
        data = log
    else:
        refuse_lost_sources(log, selection)
        episodes = log.episodes() if isinstance(log, CascadeData) else episodes_of(log)
        where = named(Path(IN_MEMORY), selection)
        data = CascadeData.from_episodes(selection.episodes(episodes, dropped), where=where)
    return ChosenRows(data, name_of(log), describe(selection, dropped))


@contextmanager
def exported(
    path: Path,
    write: Callable[..., Exported | ExportedCascades],
    selection: Selection,
    dropped: Counter[str],
) -> Iterator[Path]:
    """Exports a log as `sage log export` does, to a private file that is gone afterwards."""
    with TemporaryDirectory(prefix="sage-") as folder:
        file = Path(folder) / "rows.jsonl"
        with closing(DecisionLog(path)) as opened:
            found = write(opened, file, selection=selection)
        dropped.update(found.dropped)
        for sentence in (*found.unreadable, *([found.note] if found.note else [])):
            log.warning(f"{path}: {sentence}")
        yield file


def refuse_lost_sources(log: LogLike, selection: Selection) -> None:
    if selection.sources and isinstance(log, RoutingData | CascadeData):
        raise ValueError(
            f"sources={selection.sources}: arrays do not keep who judged an outcome: give the log, its export, or "
            "records"
        )


def decisions_of(log: LogLike) -> Iterator[tuple[Decision, Outcome | None]]:
    """Passes on decisions with their outcomes; raises a `RoutingDataError` at the first row that is something else."""
    for number, row in enumerate(iterated(log), start=1):
        match row:
            case (Decision() as decision, (Outcome() | None) as outcome):
                yield decision, outcome
            case _:
                raise RoutingDataError(
                    f"log: row {number} is a {type(row).__name__}: give pairs of a Decision and its Outcome, or None "
                    "for one that nobody reported"
                )


def episodes_of(log: LogLike) -> Iterator[CascadeEpisode]:
    """Passes on episodes; raises a `RoutingDataError` at the first row that is something else."""
    for number, row in enumerate(iterated(log), start=1):
        if not isinstance(row, CascadeEpisode):
            raise RoutingDataError(
                f"log: row {number} is a {type(row).__name__}: a cascade needs rows of CascadeEpisode"
            )
        yield row


def iterated(log: LogLike) -> Iterable[object]:
    if isinstance(log, RoutingData | CascadeData):
        kind = "single decisions" if isinstance(log, RoutingData) else "cascades"
        raise RoutingDataError(f"log: these are rows of {kind}: give those that the learner or the checkpoint is about")
    if isinstance(log, str | Path) or not isinstance(log, Iterable):
        raise RoutingDataError(f"log={log!r} must be the path of a log or of its export, or rows")
    return log


def name_of(log: LogLike) -> str:
    return str(path_of(log) or IN_MEMORY)


def describe(selection: Selection, dropped: Counter[str]) -> str:
    """Returns which rows were taken and how many were not; '' for all."""
    counts = ", ".join(f"{number:,} {reason}" for reason, number in dropped.items())
    return f"{selection} ({counts or 'nothing dropped'})" if str(selection) else ""


def find_models_file(path: str | Path | None, models: Sequence[str]) -> ModelsFile | None:
    """Reads the given file, or models.yaml of this folder if it has any of the log's models; None if there is neither.

    A given file without any of these models is a `ValueError`.
    """
    if path is None and not MODELS_FILE.exists():
        return None
    table = ModelsFile.read(path or MODELS_FILE)
    if set(table.models) & set(models):
        return table
    if path is not None:
        raise ValueError(f"{path} has none of the log's models ({', '.join(models)}): give the table of that pool")
    return None


def static_of(table: ModelsFile | None) -> StaticTable | None:
    """Returns the incumbent of single decisions; None leaves it to the log."""
    return None if table is None else StaticTable.from_file(table)


def ladders_of(table: ModelsFile | None) -> LadderByRole | None:
    """Returns the incumbent of cascades; None leaves it to the log."""
    if table is None or not table.cascade:
        return None
    return LadderByRole({role: rule.ladder for role, rule in table.cascade.items()})


def objective_of(table: ModelsFile | None) -> Objective:
    return DEFAULT if table is None else table.objective


def floor_of(table: ModelsFile | None, floor: float | None) -> float:
    """Returns the confidence below which the static table decides: the given one, else that of the file."""
    guard = GuardLimits() if table is None else table.guard
    return guard.confidence_floor if floor is None else floor
