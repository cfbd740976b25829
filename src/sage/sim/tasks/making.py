"""Production of tasks from one source: profile, check the base, try bugs, keep those that pass all rules."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from time import perf_counter

from sage.grading.source_text import SourceError, SourceText, functions
from sage.sandbox import Backend
from sage.sandbox.counted import CountingBackend
from sage.sim.tasks.acceptance import (
    broken_reason,
    changed_lines,
    cheap_reason,
    checked_base,
    instruction_reason,
    is_steady,
    quick_reason,
    static_reason,
)
from sage.sim.tasks.deduplicate import Deduplicator, shape_of, token_triples
from sage.sim.tasks.describing import features_of, instruction_of, level_of
from sage.sim.tasks.mutations import Edit
from sage.sim.tasks.omission import OMISSIONS
from sage.sim.tasks.rebuilding import make_task
from sage.sim.tasks.recipes import Step, all_edits, broken_files, edit_of, step_of
from sage.sim.tasks.sources import Source, tree_hash
from sage.sim.tasks.suites import Prepared, Suite, find_suites

MOST_MODULES = 8  # of a package
OMITTED = 0.25  # share of tries
COMBINED = 0.2  # share of the tasks of a source that join two others
TRIES = 3.0  # for each wanted task
MOST_TIMEOUTS = 4  # of a module, or it is given up


@dataclass
class Made:
    """Tasks made of one source, as rows, with the suites that they need and the number of refusals by reason."""

    unit: str
    rows: list[dict] = field(default_factory=list)
    suites: dict[str, Suite] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    tried: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0  # of the sandboxes
    runs: int = 0


def make_tasks(source: Source, backend: Backend, *, quota: int, seed: int) -> Made:
    """Returns up to `quota` tasks of a source, the same for the same source, seed and quota, as long as tests
    behave."""
    begun = perf_counter()
    made = Made(source.name)
    rng = random.Random(f"{seed}:{source.name}")
    prepared = Prepared(source)
    suites = []
    counted = CountingBackend(backend)
    found = find_suites(counted, prepared)
    rng.shuffle(found)
    for suite in found:
        if len(suites) >= min(MOST_MODULES, 1 + quota // 3):
            break
        checked = checked_base(counted, prepared, suite)
        if isinstance(checked, str):
            made.refused[checked] += 1
        else:
            suites.append(checked)
    maker = Maker(prepared, counted, made, seed, quota)
    singles = round(quota * (1 - COMBINED)) if not source.faults else quota
    for suite, steps in candidates(source, suites, rng):
        if len(made.rows) >= singles or made.tried >= TRIES * quota + 5:
            break
        if maker.hung[suite.name] < MOST_TIMEOUTS:
            maker.attempt(suite, [steps])
    for suite, steps in pairs(made, rng):
        if len(made.rows) >= quota or made.tried >= (TRIES + 1) * quota + 5:
            break
        maker.attempt(suite, steps)
    made.seconds, made.cpu_s, made.runs = perf_counter() - begun, counted.cpu_s, counted.runs
    return made


def candidates(source: Source, suites: list[Suite], rng: random.Random) -> Iterator[tuple[Suite, Step]]:
    """Yields bugs, with their suites, in functions that tests call: modules in turn, operators with equal chances."""
    if source.faults:
        for suite in suites:
            for number, fault in enumerate(source.faults):
                yield suite, {"path": suite.module, "operator": fault.operator, "fault": number}
        return
    waiting: dict[str, dict[str, list[Edit]]] = {}
    for suite in suites:
        text = source.files[suite.module].decode()
        try:
            found = [edit for edit in all_edits(text) if suite.is_watched(edit.function)]
        except SourceError:
            continue
        operators: dict[str, list[Edit]] = {}
        for edit in found:
            operators.setdefault(edit.operator, []).append(edit)
        for same in operators.values():
            rng.shuffle(same)
        if operators:
            waiting[suite.name] = operators
    while waiting:
        for suite in suites:
            if suite.name in waiting:
                operators = waiting[suite.name]
                kinds = [name for name in operators if (name in OMISSIONS) == (rng.random() < OMITTED)]
                kind = rng.choice(sorted(kinds or operators))
                yield suite, step_of(suite.module, source.files[suite.module].decode(), operators[kind].pop())
                if not operators[kind]:
                    del operators[kind]
                if not operators:
                    del waiting[suite.name]


def pairs(made: Made, rng: random.Random) -> Iterator[tuple[Suite, list[Step]]]:
    """Yields two accepted bugs at a time of programs with the same tests, first those in different files."""
    singles = [row for row in made.rows if len(row["steps"]) == 1 and "fault" not in row["steps"][0]]
    both = [
        (one, other)
        for one, other in combinations(singles, 2)
        if made.suites[one["suite"]].tests == made.suites[other["suite"]].tests and one["function"] != other["function"]
    ]
    rng.shuffle(both)
    both.sort(key=lambda rows: rows[0]["steps"][0]["path"] == rows[1]["steps"][0]["path"])
    for one, other in both:
        yield made.suites[one["suite"]], [*one["steps"], *other["steps"]]


class Maker:
    """Producer of the tasks of one source: tries one bug after the other, and notes rows and refusals in `made`."""

    def __init__(self, prepared: Prepared, backend: Backend, made: Made, seed: int, quota: int) -> None:
        self.prepared = prepared
        self.backend = backend
        self.made = made
        self.seed = seed
        self.seen = Deduplicator(per_package=quota)
        self.hung: Counter[str] = Counter()

    def attempt(self, suite: Suite, steps: list[Step]) -> None:
        """Tries one bug, and adds a row or counts the reason of its refusal."""
        self.made.tried += 1
        if reason := self.reason_or_row(suite, steps):
            self.made.refused[reason] += 1

    def count_hang(self, suite: Suite, reason: str) -> str:
        """Counts time-outs, so that a module whose bugs often hang is given up; returns the reason itself."""
        self.hung[suite.name] += reason == "timeout"
        return reason

    def reason_or_row(self, suite: Suite, steps: list[Step]) -> str:
        """Tries a bug; returns the code of its refusal, or '' if it is a task, whose row it adds to `made`."""
        prepared, source = self.prepared, self.prepared.source
        try:
            if reason := cheap_reason(prepared, steps):
                return reason
        except SourceError:  # edits that overlap
            return "unchanged"
        broken = broken_files(source, steps)
        changed = {path: changed_lines(source.files[path], content) for path, content in broken.items()}
        shape = shape_of([line for lines in changed.values() for line in lines])
        if self.seen.is_full(shape):
            return "shape"
        task = make_task(prepared, suite, steps, seed=self.seed)
        if reason := static_reason(prepared, task, suite):
            return reason
        places = [function_of_step(source, step) for step in steps]
        callers = suite.callers.get(places[0], ())
        if (
            len(steps) == 1
            and callers
            and (reason := self.count_hang(suite, quick_reason(self.backend, task, callers)))
        ):
            return reason
        reason, found = broken_reason(self.backend, task)
        if reason:
            return self.count_hang(suite, reason)
        instruction = instruction_of(task, found)
        if reason := instruction_reason(instruction, steps, changed):
            return reason
        features = features_of(task, suite, found, places)
        row = {
            "id": task.id,
            "family": family_of(source, steps),
            "package": source.name.partition(":")[0],
            "level": level_of(steps, features),
            "suite": suite.name,
            "function": places[0],
            "steps": steps,
            "seed": self.seed,
            "instruction": instruction,
            "files_sha256": tree_hash(task.files),
            "broken_sha256": tree_hash(broken),
            "failing_sha256": hashlib.sha256("\n".join(sorted(found.failed)).encode()).hexdigest(),
            "shape": shape,
            "features": features,
            "licence": source.licence,
            "version": source.version,
        }
        triples = triples_of(source, row)
        if reason := self.seen.reason(row, triples):
            return reason
        if not is_steady(self.backend, task, found):
            return "unsteady"
        self.seen.add(row, triples)
        self.made.rows.append(row)
        self.made.suites[suite.name] = suite
        return ""


def family_of(source: Source, steps: list[Step]) -> str:
    if source.family != "package":
        return {"configs": "config", "logs": "logs"}.get(source.family, "synthetic")
    return "omission" if any(step["operator"] in OMISSIONS for step in steps) else "mutation"


def function_of_step(source: Source, step: Step) -> str:
    return (
        str(step["operator"]) if "fault" in step else edit_of(source.files[str(step["path"])].decode(), step).function
    )


def triples_of(source: Source, row: dict) -> frozenset[int]:
    """Returns the token triples of the function that the bug of a row is in, or of the whole settings file."""
    content = source.files[row["steps"][0]["path"]].decode()
    return token_triples(content) if source.faults else function_triples(content)[row["function"]]


@lru_cache(maxsize=64)
def function_triples(content: str) -> dict[str, frozenset[int]]:
    text = SourceText(content)
    return {name: token_triples(text.of(node)) for name, node in functions(text.tree)}
