"""What a verifier is: it looks at an answer and says passed, failed or unknown, and where it has that from."""

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
    """A verifier that cannot be used: the sentence says which, and the fix."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a model answered."""

    text: str
    samples: tuple[str, ...] = ()  # other answers of the same model to the same task


class Opinion(NamedTuple):
    """A word of WORDS, and who says so and why."""

    verdict: str
    source: str = ""


class Verifier(Protocol):
    """Runs what a model wrote in a sandbox or not at all; an answer it cannot judge is 'unknown'."""

    def verify(self, answer: Answer) -> Opinion: ...


def judges_alone(verifier: Verifier) -> bool:
    """Whether it looks at an answer itself; those with `needs_caller` only know what a caller tells them."""
    return not getattr(verifier, "needs_caller", False)


Judge = Callable[[Answer], Said]


def said(name: str, value: object, source: str) -> Verdict:
    """A verdict from what somebody gave for it."""
    if value is None or isinstance(value, bool):
        value = {None: "unknown", True: "passed", False: "failed"}[value]
    if not isinstance(value, str) or value not in WORDS:
        raise RecordError(f"the verdict {name}={value!r} must be true, false or one of {', '.join(WORDS)}")
    return Verdict(verifier=name, verdict=value, source=source[:MOST_SOURCE])


def verify(
    answer: Answer | None, verifiers: Mapping[str, Verifier | Judge], given: Mapping[str, Said]
) -> tuple[Verdict, ...]:
    """The verdicts that were given, and those of the verifiers that nobody spoke for; without an answer, none of these."""
    verdicts = [said(name, value, "given by the caller") for name, value in given.items()]
    if answer is not None:
        verdicts += [ask(name, verifier, answer) for name, verifier in verifiers.items() if name not in given]
    return tuple(verdicts)


def ask(name: str, verifier: Verifier | Judge, answer: Answer) -> Verdict:
    """Never raises: whatever goes wrong, the answer is unverified."""
    try:
        if callable(verifier):
            return said(name, verifier(answer), "a function of the caller")
        return said(name, *verifier.verify(answer))
    except VERIFIER_FAILURES as error:
        text = " ".join(f"{type(error).__name__}: {error}".split()).encode("utf-8", "replace").decode()
        return said(name, None, f"it failed ({text[:150]})")
