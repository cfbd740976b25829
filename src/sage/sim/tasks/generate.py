"""Generation of a manifest of verified tasks from packages and synthetic families: in parallel, resumable, the same
each time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from time import perf_counter

from sage.grading.grading import grade
from sage.sandbox import Backend
from sage.sandbox.pool import BackendPool
from sage.sim.tasks.acceptance import ran_badly
from sage.sim.tasks.deduplicate import Deduplicator
from sage.sim.tasks.families import FAMILIES
from sage.sim.tasks.journal import Journal
from sage.sim.tasks.making import Made, make_tasks, triples_of
from sage.sim.tasks.manifest import Manifest
from sage.sim.tasks.package_index import FetchError
from sage.sim.tasks.rebuilding import Rebuilder
from sage.sim.tasks.sdists import SDISTS
from sage.sim.tasks.sources import Sources, UnknownSourceError
from sage.sim.tasks.splits import share_of, split_of
from sage.sim.tasks.stdlib import MODULES, NoTestsError
from sage.sim.tasks.suites import Suite

PER_PACKAGE = 0.03  # share of all tasks, if there are packages enough
EXTRA = 1.2  # made for each that is wanted: some are too much of the same
PROGRAMS = 4  # of a family, in each round
ROUNDS = 4
SECOND = 0.02  # share of tasks that a second sandbox checks


class GenerateError(ValueError):
    """A generation that cannot begin; the message says why, with the fix."""


@dataclass(frozen=True)
class Unit:
    """One source, a seed, and the number of tasks to make of it."""

    source: str
    seed: int
    quota: int

    @property
    def name(self) -> str:
        return f"{self.source}@{self.seed}x{self.quota}"


def groups_of(sources: str) -> list[str]:
    """Returns the sources that a text names, with commas between packages, families, `stdlib/MODULE` and kinds (`all`
    has no `stdlib`); raises GenerateError for a name that is not known."""
    packages, library = sorted(SDISTS), [f"stdlib/{module}" for module in MODULES]
    kinds = {"all": [*packages, *FAMILIES], "packages": packages, "families": list(FAMILIES), "stdlib": library}
    groups: list[str] = []
    for name in sources.split(","):
        if name not in kinds and name not in kinds["all"] + library:
            raise GenerateError(
                f"the source {name!r} is not known: use {', '.join([*kinds, *kinds['all']])} or stdlib/MODULE"
            )
        groups += kinds.get(name, [name])
    return list(dict.fromkeys(groups))


def units_of(round_number: int, groups: Sequence[str], seed: int, quota: int) -> Iterator[Unit]:
    """Yields the units of one round: a package, or some programs of a family."""
    for group in groups:
        if group not in FAMILIES:
            yield Unit(group, seed + round_number, quota)
        else:
            programs = min(PROGRAMS, quota)
            for program in range(programs):
                number = (seed * ROUNDS + round_number) * PROGRAMS + program
                yield Unit(f"{group}:{number}", seed, math.ceil(quota / programs))


def generate(
    count: int,
    *,
    seed: int,
    backends: Sequence[Backend],
    sources: Sources,
    journal: Path,
    chosen: str = "all",
    second: Backend | None = None,
    progress: Callable[[int, int, int], None] = lambda *_: None,
) -> Manifest:
    """Returns a manifest of `count` tasks, or of as many as the sources give; finished units are in the file `journal`,
    with which a killed generation goes on. `progress` gets units done, units planned, and tasks."""
    if count < 1 or not backends:
        raise GenerateError(f"count={count} and {len(backends)} sandboxes: both must be at least 1")
    begun = perf_counter()
    groups = groups_of(chosen)
    cap = max(math.ceil(PER_PACKAGE * count), math.ceil(1.3 * count / len(groups)))
    log = Journal(journal, {"count": count, "seed": seed, "sources": chosen})
    skipped: dict[str, str] = {}
    units: list[Unit] = []
    kept: list[dict] = []
    refused: Counter[str] = Counter()
    for round_number in range(ROUNDS):
        full = {group for group, rows in Counter(row["package"] for row in kept).items() if rows >= cap}
        open_groups = [group for group in groups if group not in full and group not in skipped]
        if len(kept) >= count or not open_groups:
            break
        quota = min(cap, math.ceil(EXTRA * (count - len(kept)) / len(open_groups)))
        units += units_of(round_number, open_groups, seed, quota)
        run_units(units, log, backends, sources, skipped, progress)
        kept, refused = merge(units, log.made, sources, count, cap)
    suites = {name: suite for made in log.made.values() for name, suite in made.suites.items()}
    if second is not None:
        kept, other = rechecked(kept, suites, sources, second)
        refused["other_backend"] += other
    rows = [{**row, "split": split_of(row)} for row in kept]
    rejected = sum((made.refused for made in log.made.values()), start=refused)
    header = header_of(rows, log, rejected, skipped) | {
        "count": count,
        "seed": seed,
        "sources": chosen,
        "sandbox": backends[0].name,
        "second_sandbox": second.name if second else None,
        "resumed_units": log.resumed,
        "wall_s": round(perf_counter() - begun, 1),
    }
    log.remove()
    return Manifest(header, suites, rows)


def run_units(
    units: Sequence[Unit],
    log: Journal,
    backends: Sequence[Backend],
    sources: Sources,
    skipped: dict[str, str],
    progress: Callable[[int, int, int], None],
) -> None:
    """Makes the units that the journal lacks, one per sandbox at a time; sources that cannot be had are noted in
    `skipped`."""
    pool = BackendPool(backends)

    def work(unit: Unit) -> None:
        if unit.name not in log.made:
            try:
                with pool.borrowed() as backend:
                    source = sources.get(unit.source)
                    made = make_tasks(source, backend, quota=unit.quota, seed=unit.seed)
                    made.unit = unit.name
                    log.add(made)
            except (FetchError, UnknownSourceError, NoTestsError) as error:
                skipped[unit.source] = str(error)
                log.made[unit.name] = Made(unit.name)  # not written: the next start tries it again
        progress(len(log.made), len(units), sum(len(made.rows) for made in log.made.values()))

    list(pool.map(work, units))


def merge(
    units: Sequence[Unit], made: dict[str, Made], sources: Sources, count: int, cap: int
) -> tuple[list[dict], Counter[str]]:
    """Returns up to `count` rows, taken from all units in turn, without those that are too much of the same (`cap` for
    each package), and the number of refusals by reason."""
    seen = Deduplicator(cap)
    kept: list[dict] = []
    refused: Counter[str] = Counter()
    for layer in zip_longest(*(made[unit.name].rows for unit in units)):
        for unit, row in zip(units, layer, strict=True):
            if row is None or len(kept) >= count:
                continue
            triples = triples_of(sources.get(unit.source), row)
            if reason := seen.reason(row, triples):
                refused[reason] += 1
            else:
                seen.add(row, triples)
                kept.append(row)
    return kept, refused


def rechecked(rows: list[dict], suites: dict[str, Suite], sources: Sources, second: Backend) -> tuple[list[dict], int]:
    """Returns the rows without those of a sample that a second sandbox grades otherwise, and the number of rows left
    out (rule 10)."""
    rebuilder = Rebuilder(sources, suites)
    kept = []
    for row in rows:
        if share_of(row["id"]) < SECOND:
            task = rebuilder.materialise(row)
            broken, repaired = grade(second, task, task.files), grade(second, task, task.repaired())
            if broken.solved or ran_badly(broken.report) or not repaired.solved:
                continue
            row["second_sandbox"] = second.name
        kept.append(row)
    return kept, len(rows) - len(kept)


def header_of(rows: Sequence[dict], log: Journal, refused: Counter[str], skipped: dict[str, str]) -> dict:
    """Returns the header of a manifest: counts of its tasks, of tries, and of refusals by reason."""

    def counts(key: str) -> dict[str, int]:
        return dict(sorted(Counter(str(row[key]) for row in rows).items()))

    cpu_s = sum(made.cpu_s for made in log.made.values())
    return {
        "tasks": len(rows),
        "shapes": len({row["shape"] for row in rows}),
        "tried": sum(made.tried for made in log.made.values()),
        "runs": sum(made.runs for made in log.made.values()),
        "sandbox_cpu_s_per_task": round(cpu_s / max(1, len(rows)), 3),
        "splits": counts("split"),
        "families": counts("family"),
        "levels": counts("level"),
        "packages": counts("package"),
        "operators": dict(sorted(Counter(step["operator"] for row in rows for step in row["steps"]).items())),
        "refused": dict(sorted(refused.items())),
        "skipped_sources": skipped,
    }
