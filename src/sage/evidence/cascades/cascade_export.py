"""The export of logged cascades to one JSONL file of episodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sage.evidence.cascades.cascade_data import write_episodes
from sage.evidence.cascades.cascade_records import CascadeEpisode, CascadeStep
from sage.evidence.export_dataset import STRONGEST_FIRST, ExportError, passed_over, strongest
from sage.evidence.selection import EVERYTHING, Selection
from sage.log.cascade_steps import STOP, taken
from sage.log.decision_log import DecisionLog
from sage.log.joining import attempt_of
from sage.log.records import DATA_SOURCES, Decision, Outcome

Rows = list[tuple[Decision, Outcome | None]]


@dataclass(frozen=True)
class ExportedCascades:
    """Counts of the episodes that an export wrote, and of the cascades that it left out, by reason."""

    data_source: str
    episodes: int  # with a quality and the cost of every attempt
    missing: dict[str, int]  # reason -> cascades of this source that the file holds without one of these
    left_out: dict[str, int]  # reason -> cascades of this source that the file does not hold
    other_sources: dict[str, int]  # source -> cascades that the file does not hold
    unreadable: list[str]  # sentences about records that cannot be read
    dropped: dict[str, int]  # of steps, what the selection of tenants and sources took away
    note: str = ""  # why a stronger source was passed over


def export_cascades(
    log: DecisionLog,
    path: Path,
    *,
    data_source: str | None = None,
    session: str | None = None,
    since: float | None = None,
    until: float | None = None,
    selection: Selection = EVERYTHING,
) -> ExportedCascades:
    """Writes the cascades of one source that began within the given times (seconds since 1970) as episodes.

    Those without a quality or a stop are written too, and counted. Without a `data_source`, the strongest one with
    enough usable cascades is taken. Raises ExportError if there is nothing to export.
    """
    if data_source is not None and data_source not in DATA_SOURCES:
        raise ExportError(f"data_source={data_source!r} must be one of {', '.join(DATA_SOURCES)}")
    unreadable: list[str] = []
    dropped: Counter[str] = Counter()
    found = cascades(log, session, since, until, unreadable, selection=selection, dropped=dropped)
    counts, ready = Counter(source_of(rows) for rows in found), Counter()
    ready.update(source_of(rows) for rows in found if not why_left_out(rows) and not why_missing(episode_of(rows)))
    chosen = data_source or strongest(counts, ready)
    if chosen is None or not counts[chosen]:
        raise ExportError(
            f"{log.path} has no cascade that you asked for: run some with `sage log route --cascade` first"
        )
    here = [rows for rows in found if source_of(rows) == chosen]
    episodes = [episode_of(rows) for rows in here if not why_left_out(rows)]
    missing = Counter(reason for episode in episodes if (reason := why_missing(episode)))
    if len(episodes) == missing.total():
        reasons = ", ".join(f"{number} with {reason}" for reason, number in missing.items())
        raise ExportError(f"{log.path} has no cascade with a usable outcome ({reasons}): report outcomes first")
    write_episodes(path, episodes)
    return ExportedCascades(
        chosen,
        len(episodes) - missing.total(),
        dict(missing),
        dict(Counter(reason for rows in here if (reason := why_left_out(rows)))),
        {source: counts[source] for source in STRONGEST_FIRST if counts[source] and source != chosen},
        unreadable,
        dict(dropped),
        "" if data_source else passed_over(chosen, counts, ready),
    )


def cascades(
    log: DecisionLog,
    session: str | None = None,
    since: float | None = None,
    until: float | None = None,
    unreadable: list[str] | None = None,
    data_source: str | None = None,
    *,
    selection: Selection = EVERYTHING,
    dropped: Counter[str] | None = None,
) -> list[Rows]:
    """Returns the steps of every cascade in the log that began within the given times (seconds since 1970).

    Sentences about records that cannot be read are added to `unreadable`, and what `selection` takes away to `dropped`.
    """
    rows = (row for row in log.rows(data_source, session, unreadable=unreadable) if row[0].cascade is not None)
    found = sorted_cascades(selection.rows(rows, Counter() if dropped is None else dropped))
    return [rows for rows in found if within(rows[0][0], since, until)]


def sorted_cascades(rows: Iterable[tuple[Decision, Outcome | None]]) -> list[Rows]:
    """Returns the steps of every cascade in their order; cascades are in the order of their first step."""
    found: dict[str, Rows] = {}
    for decision, outcome in rows:
        if decision.cascade is not None:
            found.setdefault(decision.cascade.cascade_id, []).append((decision, outcome))
    return [sorted(steps, key=number_of) for steps in found.values()]


def number_of(row: tuple[Decision, Outcome | None]) -> int:
    return 0 if row[0].cascade is None else row[0].cascade.number


def within(first: Decision, since: float | None, until: float | None) -> bool:
    return (since is None or first.time >= since) and (until is None or first.time < until)


def source_of(rows: Rows) -> str:
    return rows[0][0].data_source


def why_left_out(rows: Rows) -> str:
    """Returns '' if every step of the cascade, up to the last one, is in the log; else the reason to leave it out."""
    return "" if [number_of(row) for row in rows] == list(range(len(rows))) else "a step that is not in the log"


def why_missing(episode: CascadeEpisode) -> str:
    """Returns why an episode cannot be learned from; '' if it can."""
    if not episode.ended:
        return "no stop yet"
    if episode.quality is None:
        return "no quality yet"
    unpriced = any(step.cost_usd is None for step in episode.steps if step.action != STOP)
    return "an attempt without a cost" if unpriced else ""


def episode_of(rows: Rows) -> CascadeEpisode:
    """Returns the episode that the steps of a cascade make up.

    Actions are the models that were chosen, also where the provider fell back to another one.
    """
    first, judged = rows[0][0], taken_outcome(rows)
    return CascadeEpisode(
        id=first.id if first.cascade is None else first.cascade.cascade_id,
        time=first.time,
        data_source=first.data_source,
        role=first.role,
        steps=tuple(step_of(decision, outcome) for decision, outcome in rows),
        quality=quality_of(rows),
        source="" if judged is None else judged.source,
        task_id=first.task_id,
        category=first.category,
        tenant=first.tenant,
        policy=first.policy,
        policy_version=first.policy_version,
        verifier=", ".join(sorted({name for _, outcome in rows for name in verifiers_of(outcome)})),
        features=first.features,
        features_version=first.features_version,
        opening=first.opening,
    )


def step_of(decision: Decision, outcome: Outcome | None) -> CascadeStep:
    if decision.model == STOP:
        return CascadeStep(candidates=decision.candidates, probabilities=decision.probabilities, action=STOP)
    attempt = attempt_of(decision, outcome)
    return CascadeStep(
        candidates=decision.candidates,
        probabilities=decision.probabilities,
        action=decision.model,
        verdict={"passed": True, "failed": False, "unknown": None}[attempt.verdict],
        cost_usd=attempt.cost_usd,
        latency_s=attempt.latency_s,
    )


def quality_of(rows: Rows) -> float | None:
    """Returns the quality of the taken answer: 0 for a time-out, None if nobody reported it."""
    judged = taken_outcome(rows)
    return None if judged is None else 0.0 if judged.timed_out else judged.quality


def taken_outcome(rows: Rows) -> Outcome | None:
    """Returns the outcome that judges the taken answer; None if the cascade has not stopped or nobody judged it.

    An outcome reported for the cascade comes before one of that attempt itself.
    """
    if rows[-1][0].model != STOP:
        return None
    tried = rows[:-1]
    answered = tried[taken([attempt_of(*row) for row in tried])][1]
    for outcome in (rows[-1][1], answered):
        if outcome is not None and (outcome.timed_out or outcome.quality is not None):
            return outcome
    return None


def verifiers_of(outcome: Outcome | None) -> Iterator[str]:
    yield from () if outcome is None else (verdict.verifier for verdict in outcome.verdicts)
