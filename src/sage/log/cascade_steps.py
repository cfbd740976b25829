"""Steps of cascades: a cascade is one task with several decisions, to try a model, to escalate to another, or to stop.

Every step is a decision whose candidates are the models that may still be tried and `stop`. It is stored with what was
known at the time: models that answered, verdicts of verifiers, costs. The decision to stop has the cascade's id, so an
outcome that is reported under that id is the outcome of the whole task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self, get_args

from sage.log.record_checks import NAME, RecordError, check_amount, check_count, check_texts, known_fields

STOP = "stop"  # the action that ends a cascade: no model can have this name in one
Word = Literal["passed", "failed", "unknown"]
WORDS: tuple[str, ...] = get_args(Word)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict of one verifier on one answer: 'passed', 'failed' or 'unknown'."""

    verifier: str
    verdict: str  # one of WORDS
    source: str = ""  # who says so and why, in a few words: a tool and its version, the caller, what it lacked

    def __post_init__(self) -> None:
        check_texts(self, ("verifier", "source"))
        if not NAME.fullmatch(self.verifier):
            raise RecordError(f"verifier={self.verifier!r} must be 1 to 200 characters without blanks")
        if self.verdict not in WORDS:
            raise RecordError(f"verdict={self.verdict!r} of {self.verifier} must be one of {', '.join(WORDS)}")

    @classmethod
    def from_json(cls, values: object) -> Self:
        return cls(**known_fields(cls, values))


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """An earlier attempt of a cascade with its verdicts and cost, as they were known when the next step was decided."""

    decision_id: str
    model: str  # that was chosen
    answered_by: str | None = None  # where the provider fell back to another
    verdicts: tuple[Verdict, ...] = ()
    cost_usd: float | None = None
    latency_s: float | None = None
    timed_out: bool = False

    def __post_init__(self) -> None:
        check_texts(self, ("decision_id", "model", *(("answered_by",) if self.answered_by is not None else ())))
        check_verdicts(self.verdicts)
        for name in ("cost_usd", "latency_s"):
            if getattr(self, name) is not None:
                check_amount(name, getattr(self, name))
        if not isinstance(self.timed_out, bool):
            raise RecordError(f"timed_out={self.timed_out!r} must be true or false")

    @property
    def verdict(self) -> str:
        """Returns the joint verdict of all verifiers ('passed', 'failed' or 'unknown'); 'failed' after a time-out."""
        return "failed" if self.timed_out else together(self.verdicts)

    def to_json(self) -> dict:
        return vars(self) | {"verdicts": [vars(verdict) for verdict in self.verdicts]}

    @classmethod
    def from_json(cls, values: object) -> Self:
        values = known_fields(cls, values)
        return cls(**values | {"verdicts": read_verdicts(values.get("verdicts", []))})


@dataclass(frozen=True, kw_only=True)
class Step:
    """The position of a decision in its cascade: the cascade's id, and the attempts before this step.

    The probabilities of the decision depend on it.
    """

    cascade_id: str
    number: int  # of attempts before it: 0 for the first
    attempts: tuple[Attempt, ...] = ()

    def __post_init__(self) -> None:
        check_texts(self, ("cascade_id",))
        if not NAME.fullmatch(self.cascade_id):
            raise RecordError(f"cascade_id={self.cascade_id!r} must be 1 to 200 characters without blanks")
        check_count("number", self.number)
        if len(self.attempts) != self.number:
            raise RecordError(f"number={self.number} of a step with {len(self.attempts)} attempts before it")

    @property
    def cost_usd(self) -> float:
        """Returns the known cost of all attempts so far, in USD; an unknown cost counts as 0."""
        return sum(attempt.cost_usd or 0.0 for attempt in self.attempts)

    def to_json(self) -> dict:
        return vars(self) | {"attempts": [attempt.to_json() for attempt in self.attempts]}

    @classmethod
    def from_json(cls, values: object) -> Self:
        values = known_fields(cls, values)
        attempts = values.get("attempts", [])
        if not isinstance(attempts, list):
            raise RecordError(f"attempts={attempts!r} must be a list")
        return cls(**values | {"attempts": tuple(Attempt.from_json(attempt) for attempt in attempts)})


def together(verdicts: Sequence[Verdict]) -> str:
    """Returns the joint verdict: 'failed' if one verdict is, else 'passed' if one is, else 'unknown'."""
    words = {verdict.verdict for verdict in verdicts}
    return next((word for word in ("failed", "passed") if word in words), "unknown")


def taken(attempts: Sequence[Attempt]) -> int:
    """Returns the index of the attempt whose answer is used when the cascade stops.

    It is the last that passed, else the last that did not time out, else the last. Raises ValueError if there is no
    attempt.
    """
    for wanted in (lambda a: a.verdict == "passed", lambda a: not a.timed_out, lambda a: True):
        found = [number for number, attempt in enumerate(attempts) if wanted(attempt)]
        if found:
            return found[-1]
    raise ValueError("a cascade without an attempt has no answer")


def check_verdicts(verdicts: tuple[Verdict, ...]) -> None:
    names = [verdict.verifier for verdict in verdicts]
    if len(set(names)) != len(names):
        raise RecordError(f"verdicts has two of one verifier ({', '.join(names)}): a verifier speaks once of an answer")


def read_verdicts(values: object) -> tuple[Verdict, ...]:
    if not isinstance(values, list | tuple):
        raise RecordError(f"verdicts={values!r} must be a list")
    return tuple(Verdict.from_json(value) for value in values)
