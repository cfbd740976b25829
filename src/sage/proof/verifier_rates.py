"""The error rates of verifiers, from logged cascades: the share of right answers that pass, and of wrong ones.

Usually only the quality of taken answers is known, and verdicts decide which answers are taken. A taken answer
therefore counts by the inverse of the logged probability with which the cascade stopped there. Where the quality of
every attempt was reported, all count alike.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np

from sage.evidence.cascades.cascade_export import Rows, quality_of, why_left_out
from sage.log.cascade_steps import STOP, taken
from sage.log.joining import attempt_of
from sage.rl.cascades.simulated_verifier import RIGHT

ALL = "all"
Z = 1.959963984540054  # of 95 % intervals


@dataclass(frozen=True)
class JudgedAnswer:
    """One verdict about one answer, and the facts about that answer."""

    verifier: str
    model: str  # that answered
    role: str
    passed: bool
    quality: float | None
    own: bool  # it was reported of this answer, whether taken or not
    taken: bool  # the cascade stopped with this answer
    stop_chance: float | None  # that it stops there; None: nothing followed, or an earlier answer would be taken


@dataclass(frozen=True)
class Rate:
    """A share with its 95 % interval, and the effective number of answers behind it."""

    share: float
    low: float
    high: float
    effective: float


@dataclass(frozen=True)
class Rates:
    """The rates of one verifier for the answers of one model in one role; "all" stands for any."""

    verifier: str
    model: str
    role: str
    verdicts: int  # passed or failed
    known: int  # of these, with a known quality that counts
    true_positive: Rate | None  # of right answers (quality of .5 or more), the share that passes
    false_positive: Rate | None  # of the others
    note: str = ""

    def to_json(self) -> dict:
        return asdict(self)


def measure(cascades: Iterable[Rows]) -> list[Rates]:
    """Returns the rates of every verifier: over all answers, by model, by role, and by model and role."""
    groups: defaultdict[tuple[str, str, str], list[JudgedAnswer]] = defaultdict(list)
    for rows in cascades:
        for one in judged_answers(rows):
            for key in {(m, r) for m in (ALL, one.model) for r in (ALL, one.role)}:
                groups[one.verifier, *key].append(one)
    return [rates(*key, groups[key]) for key in sorted(groups, key=lambda key: [(part != ALL, part) for part in key])]


def judged_answers(rows: Rows) -> Iterable[JudgedAnswer]:
    """Yields the verdicts on the answers of one cascade; none if a step is missing from the log."""
    if why_left_out(rows):
        return
    stopped = rows[-1][0].model == STOP
    tried = rows[:-1] if stopped else rows
    attempts = [attempt_of(*row) for row in tried]
    answer = taken(attempts) if stopped else None
    for number, (decision, outcome) in enumerate(tried):
        if outcome is None or outcome.timed_out:
            continue
        following = rows[number + 1][0] if number + 1 < len(rows) else None
        open_still = not any(attempt.verdict == "passed" for attempt in attempts[:number])
        chance = (
            dict(zip(following.candidates, following.probabilities, strict=True)).get(STOP, 0.0) if following else None
        )
        is_taken = answer == number and following is not None and following.model == STOP
        quality = quality_of(rows) if is_taken and outcome.quality is None else outcome.quality
        for verdict in outcome.verdicts:
            if verdict.verdict != "unknown":
                yield JudgedAnswer(
                    verifier=verdict.verifier,
                    model=outcome.model or decision.model,
                    role=decision.role,
                    passed=verdict.verdict == "passed",
                    quality=quality,
                    own=outcome.quality is not None,
                    taken=is_taken,
                    stop_chance=chance if open_still else None,
                )


def rates(verifier: str, model: str, role: str, group: list[JudgedAnswer]) -> Rates:
    """Returns the rates from one group's verdicts.

    A rate is None without known qualities, or (with a note) if the cascade never stops after some of these answers.
    """
    note = ""
    if all(one.own for one in group):
        used, weights = group, np.ones(len(group))
    else:
        within = [one for one in group if one.stop_chance is not None]
        never = sum(one.stop_chance == 0 for one in within)
        if never:
            note = (
                f"after {never} of these answers the cascade never stops: set an exploration, or report their quality"
            )
        used = [one for one in within if one.taken and one.quality is not None]
        weights = np.array([1 / (one.stop_chance or 1.0) for one in used])
    passed = np.array([one.passed for one in used], bool)
    right = np.array([(one.quality or 0.0) >= RIGHT for one in used], bool)
    true, false = (None if note else rate(passed[rows], weights[rows]) for rows in (right, ~right))
    return Rates(verifier, model, role, len(group), len(used), true, false, note)


def rate(passed: np.ndarray, weights: np.ndarray) -> Rate | None:
    """Returns the weighted share of True in `passed` [n], with Wilson's interval; None without answers.

    The effective number of answers is the one that gives the share its variance.
    """
    if not len(passed):
        return None
    share = float((weights * passed).sum() / weights.sum())
    variance = float((weights**2 * (passed - share) ** 2).sum() / weights.sum() ** 2)
    kish = float(weights.sum() ** 2 / (weights**2).sum())
    effective = min(share * (1 - share) / variance, len(passed)) if variance > 0 else kish
    return Rate(share, *wilson(share, effective), effective)


def wilson(share: float, number: float) -> tuple[float, float]:
    """Returns low and high end of the 95 % interval of a share among `number` draws."""
    spread = Z * math.sqrt(share * (1 - share) / number + Z**2 / (4 * number**2))
    middle, scale = share + Z**2 / (2 * number), 1 + Z**2 / number
    return max((middle - spread) / scale, 0.0), min((middle + spread) / scale, 1.0)
