"""The protocol of verifiers: from an answer to 'passed', 'failed' or 'unknown', with the source of that verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from sage.log.cascade_steps import WORDS, Verdict
from sage.log.record_checks import RecordError

# What a verifier of somebody else may raise; the answer is then unverified, and the request goes on.
VERIFIER_FAILURES = (ValueError, ArithmeticError, LookupError, TypeError, AttributeError, RuntimeError, OSError)
MOST_SOURCE = 200  # characters
Said = bool | str | None  # true, false, a word of WORDS, or None for unknown


class VerifierError(ValueError):
    """Error about a verifier that cannot be used; the message says which, and the fix."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A model's answer, with other answers of the same model to the same task if there are any."""

    text: str
    samples: tuple[str, ...] = ()  # other answers of the same model to the same task


class Opinion(NamedTuple):
    """A verdict ('passed', 'failed' or 'unknown') and its source: who gave it and why."""

    verdict: str
    source: str = ""


class Verifier(Protocol):
    """Protocol of a verifier, which says 'unknown' of an answer that it cannot judge.

    It runs a model's code in a sandbox or not at all.
    """

    def verify(self, answer: Answer) -> Opinion: ...


def judges_alone(verifier: Verifier) -> bool:
    """Returns True if the verifier looks at answers itself; one with `needs_caller` needs a verdict from the caller."""
    return not getattr(verifier, "needs_caller", False)


Judge = Callable[[Answer], Said]


def verdict_from(name: str, value: object, source: str) -> Verdict:
    """Returns the verdict that a value stands for: True, False, None (unknown), 'passed', 'failed' or 'unknown'.

    Raises RecordError for any other value.
    """
    if value is None or isinstance(value, bool):
        value = {None: "unknown", True: "passed", False: "failed"}[value]
    if not isinstance(value, str) or value not in WORDS:
        raise RecordError(f"the verdict {name}={value!r} must be true, false or one of {', '.join(WORDS)}")
    return Verdict(verifier=name, verdict=value, source=source[:MOST_SOURCE])


def verify(
    answer: Answer | None, verifiers: Mapping[str, Verifier | Judge], given: Mapping[str, Said]
) -> tuple[Verdict, ...]:
    """Returns the given verdicts, then those of all verifiers without a given one.

    Without an answer, returns the given verdicts alone.
    """
    verdicts = [verdict_from(name, value, "given by the caller") for name, value in given.items()]
    if answer is not None:
        verdicts += [ask(name, verifier, answer) for name, verifier in verifiers.items() if name not in given]
    return tuple(verdicts)


def ask(name: str, verifier: Verifier | Judge, answer: Answer) -> Verdict:
    """Returns one verifier's verdict on the answer; 'unknown' if it raises one of VERIFIER_FAILURES."""
    try:
        if callable(verifier):
            return verdict_from(name, verifier(answer), "a function of the caller")
        return verdict_from(name, *verifier.verify(answer))
    except VERIFIER_FAILURES as error:
        text = " ".join(f"{type(error).__name__}: {error}".split()).encode("utf-8", "replace").decode()
        return verdict_from(name, None, f"it failed ({text[:150]})")
