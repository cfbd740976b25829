"""Checks of the fields of records; a failed check raises RecordError, which names the field, the value and the fix."""

from __future__ import annotations

import math
import re
from dataclasses import fields

SCHEMA_VERSION = 1
SUM_TOLERANCE = 1e-6
MOST = 1e15  # that any amount or count can be: more is a mistake, and numbers beyond it lose their last digits
NAME = re.compile(r"[^\s\x00-\x1f]{1,200}")
# Sources of reports about a decision, strongest first. A report never changes what a stronger source said.
OPERATOR = "operator"  # whoever has the log's file: `sage log outcome`, Router.outcome
PROXY = "proxy"  # measured by sage itself: cost, tokens, latency, a call that failed
CI = "ci"  # a signed result of a CI system
TRAFFIC = "traffic"  # seen in what agents send: tests that they ran, a client that left
CLIENT = "client"  # whoever has a key: POST /v1/outcomes
SOURCES = (OPERATOR, PROXY, CI, TRAFFIC, CLIENT)
JUDGES = tuple(source for source in SOURCES if source != PROXY)  # whose outcomes one may choose to trust
RANK = {source: len(SOURCES) - place for place, source in enumerate(SOURCES)}
SEEN_IN_TRAFFIC = ("proxy: the client left", "proxy: the worker was killed")


class RecordError(ValueError):
    """Error about a record that cannot be true; the message names the field, the value and the fix."""


def check_probabilities(candidates: tuple[str, ...], probabilities: tuple[float, ...]) -> None:
    if (
        not candidates
        or not all(isinstance(name, str) for name in candidates)
        or len(set(candidates)) != len(candidates)
    ):
        raise RecordError(f"candidates={list(candidates)!r} must be one or more different models")
    if len(probabilities) != len(candidates):
        raise RecordError(f"probabilities has {len(probabilities)} entries for {len(candidates)} candidates")
    if not all(isinstance(p, int | float) and 0 <= p <= 1 for p in probabilities):  # which NaN is not
        raise RecordError(f"probabilities={list(probabilities)!r} must lie between 0 and 1")
    if abs(sum(probabilities) - 1) > SUM_TOLERANCE:
        raise RecordError(f"probabilities={list(probabilities)!r} add up to {sum(probabilities):.6g}, not 1")


def check_shadow(
    shadow: object, probabilities: tuple[float, ...] | None, candidates: tuple[str, ...], model: str
) -> None:
    """Raises RecordError unless the shadow, a second model to ask, is another candidate with a probability above 0.

    Without shadow and probabilities (both None) nothing is checked.
    """
    if probabilities is None and shadow is None:
        return
    if (
        probabilities is None
        or len(probabilities) != len(candidates)
        or not all(isinstance(p, int | float) and 0 <= p <= 1 for p in probabilities)
        or sum(probabilities) > 1 + SUM_TOLERANCE
    ):
        raise RecordError(
            f"shadow_probabilities={probabilities!r} must give each of the {len(candidates)} candidates a probability, and add "
            "up to at most 1"
        )
    if shadow is not None and (
        shadow == model or shadow not in candidates or not probabilities[candidates.index(shadow)]
    ):
        raise RecordError(f"shadow={shadow!r} must be another candidate than {model!r}, with a probability above 0")


def check_texts(record: object, names: tuple[str, ...]) -> None:
    for name in names:
        if not isinstance(getattr(record, name), str):
            raise RecordError(f"{name}={getattr(record, name)!r} must be text")
        if name != "task" and not is_unicode(getattr(record, name)):
            raise RecordError(f"{name}={getattr(record, name)!r} holds bytes that are no text: give it in UTF-8")


def is_unicode(text: str) -> bool:
    """Returns True if the text can be written as UTF-8; arguments of programs may hold bytes that are not text."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def too_much(value: object) -> str:
    """Returns words for an error message about a number above MOST; '' for any other value."""
    return f" and at most {MOST:g}" if isinstance(value, int | float) and MOST < value < math.inf else ""


def check_amount(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:
        raise RecordError(f"{name}={value!r} must be a finite number that is not negative{too_much(value)}")


def check_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
        raise RecordError(f"{name}={value!r} must be a whole number that is not negative{too_much(value)}")


def check_source(source: object) -> None:
    if source not in SOURCES:
        raise RecordError(f"source={source!r} must be one of {', '.join(SOURCES)}")


def former_source(provenance: object, judged: bool) -> str:
    """Returns the source of a report that was logged before reports named one.

    The server marked a client's quality with 'api', CI's with 'ci' and its own with 'proxy'; any other quality came
    from the operator. An unmarked report without a quality (`judged` is False) counts as a client's.
    """
    words = provenance if isinstance(provenance, str) else ""
    if words in SEEN_IN_TRAFFIC:
        return TRAFFIC
    marks = {"proxy": PROXY, "ci": CI, "sage run": TRAFFIC, "api": CLIENT}
    marked = marks.get(words.partition(":")[0])
    return marked or (OPERATOR if judged else CLIENT)


def check_schema(version: object) -> None:
    if version != SCHEMA_VERSION:
        raise RecordError(
            f"schema={version!r} is not the version this sage reads ({SCHEMA_VERSION}): export the rows anew with this version"
        )


def known_fields(cls: type, values: object) -> dict:
    if not isinstance(values, dict):
        raise RecordError(f"a {cls.__name__.lower()} is a mapping, not {values!r}")
    names = [f.name for f in fields(cls)]
    if "schema" in names:
        check_schema(values.get("schema"))
    unknown = [key for key in values if key not in names]
    if unknown:
        raise RecordError(f"{unknown[0]!r} is not a field of a {cls.__name__.lower()}: known are {', '.join(names)}")
    required = [f.name for f in fields(cls) if f.default is f.default_factory and f.name not in values]
    if required:
        raise RecordError(f"a {cls.__name__.lower()} needs the field {required[0]!r}")
    return dict(values)
