"""Summary of the cascades in a log: how they end, their cost, and how often verifiers are right."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from sage.evidence.cascades.cascade_export import episode_of, sorted_cascades, why_left_out, why_missing
from sage.evidence.cascades.cascade_records import CascadeEpisode
from sage.log.cascade_steps import STOP, taken
from sage.log.joining import attempt_of
from sage.log.records import Decision, Outcome
from sage.proof.verifier_rates import ALL, measure

Row = tuple[Decision, Outcome | None]


def calls(rows: Iterable[Row]) -> Iterator[Row]:
    """Returns the rows in which a model was called: all but the stops of cascades."""
    return (row for row in rows if row[0].cascade is None or row[0].model != STOP)


def summarize_cascades(rows: Iterable[Row]) -> dict | None:
    """Returns a summary of the cascades in the rows as plain values; None if there is none.

    Means are over the cascades that can be learned from; the others are counted under 'missing' by reason.
    """
    found = sorted_cascades(rows)
    if not found:
        return None
    by_policy: defaultdict[str, list[CascadeEpisode]] = defaultdict(list)
    by_answer: defaultdict[str, list[CascadeEpisode]] = defaultdict(list)
    missing: Counter[str] = Counter()
    for steps in found:
        episode = episode_of(steps) if not why_left_out(steps) else None
        reason = why_left_out(steps) if episode is None else why_missing(episode)
        if reason or episode is None:
            missing[reason] += 1
            continue
        attempts = [attempt_of(*row) for row in calls(steps)]
        answer = attempts[taken(attempts)]
        by_policy[f"{episode.policy} {episode.policy_version}"].append(episode)
        by_answer[answer.answered_by or answer.model].append(episode)
    return {
        "begun": len(found),
        "missing": dict(missing),
        "by_policy": {name: means(by_policy[name]) for name in sorted(by_policy)},
        "by_answer": {name: means(by_answer[name]) for name in sorted(by_answer)},
        "verifiers": [rates.to_json() for rates in measure(found) if rates.role == ALL],
    }


def means(episodes: list[CascadeEpisode]) -> dict:
    return {
        "cascades": len(episodes),
        "attempts": float(np.mean([len(episode.steps) - 1 for episode in episodes])),
        "quality": float(np.mean([episode.quality or 0.0 for episode in episodes])),
        "cost_usd": float(np.mean([sum(step.cost_usd or 0.0 for step in episode.steps) for episode in episodes])),
    }
