"""Episodes of cascades as records: attempts, verdicts, the stop, and the quality of the taken answer."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

from sage.log.cascade_steps import STOP
from sage.log.records import (
    DATA_SOURCES,
    NAME,
    ROLES,
    RecordError,
    check_amount,
    check_probabilities,
    check_schema,
    check_texts,
    known_fields,
)

SCHEMA_VERSION = 1
EPISODE_TEXTS = (
    "id",
    "role",
    "task_id",
    "category",
    "tenant",
    "policy",
    "policy_version",
    "verifier",
    "opening",
    "source",
)


@dataclass(frozen=True, kw_only=True)
class CascadeStep:
    """One decision of an episode: to try another model, or to stop.

    Raises RecordError for fields that contradict each other.
    """

    candidates: tuple[str, ...]  # the models that could have been tried, and STOP where that was possible
    probabilities: tuple[float, ...]  # of each candidate, as they were when the action was drawn
    action: str  # the chosen candidate
    verdict: bool | None = (
        None  # the verifier's, of this attempt; a time-out or an error is false; None: it could not say
    )
    cost_usd: float | None = None  # of the attempt and its verification; of a stop nothing
    latency_s: float | None = None

    def __post_init__(self) -> None:
        check_probabilities(self.candidates, self.probabilities)
        if self.action not in self.candidates:
            raise RecordError(f"action={self.action!r} is not among the candidates {', '.join(self.candidates)}")
        if self.probabilities[self.candidates.index(self.action)] <= 0:
            raise RecordError(f"action={self.action!r} has probability 0: log the probabilities it was drawn from")
        if self.verdict is not None and not isinstance(self.verdict, bool):
            raise RecordError(f"verdict={self.verdict!r} must be true, false or left out")
        if self.action == STOP and self.verdict is not None:
            raise RecordError(f"verdict={self.verdict!r} of a stop: only attempts are verified")
        for name in ("cost_usd", "latency_s"):
            if getattr(self, name) is not None:
                check_amount(name, getattr(self, name))

    def to_json(self) -> dict:
        return vars(self) | {"candidates": list(self.candidates), "probabilities": list(self.probabilities)}

    @classmethod
    def from_json(cls, values: object) -> Self:
        if not isinstance(values, dict):
            raise RecordError(f"a step is a mapping, not {values!r}")
        if unknown := set(values) - {f.name for f in fields(cls)}:
            raise RecordError(f"{sorted(unknown)[0]!r} is not a field of a step")
        for name in ("candidates", "probabilities"):
            if not isinstance(values.get(name), list | tuple):
                raise RecordError(f"{name}={values.get(name)!r} must be a list")
        if "action" not in values:
            raise RecordError("a step needs the field 'action'")
        given = dict(values)
        for name in ("candidates", "probabilities"):
            given[name] = tuple(given[name])
        return cls(**given)


@dataclass(frozen=True, kw_only=True)
class CascadeEpisode:
    """One task that a cascade worked on; its answer is the latest that the verifier accepted, or else the latest one.

    Raises RecordError for fields that contradict each other.
    """

    id: str
    time: float  # seconds since 1970, UTC, of the first attempt
    data_source: str
    role: str
    steps: tuple[CascadeStep, ...]  # one that was broken off has no STOP at its end, and no quality
    quality: float | None = None  # of the taken answer, 0 to 1; None: nobody reported it
    task_id: str = ""  # empty: the episode's own id
    category: str = ""
    tenant: str = "default"
    policy: str = ""
    policy_version: str = ""
    verifier: str = ""  # which one, with its version
    features: tuple[float, ...] = ()
    features_version: int = 0
    opening: str = ""  # the keyed hash of tenant and first words
    source: str = ""  # who judged the taken answer; empty: the file is of an older sage
    schema: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        check_schema(self.schema)
        check_texts(self, EPISODE_TEXTS)
        if not NAME.fullmatch(self.id):
            raise RecordError(f"id={self.id!r} must be 1 to 200 characters without blanks")
        check_amount("time", self.time)
        if self.data_source not in DATA_SOURCES:
            raise RecordError(f"data_source={self.data_source!r} must be one of {', '.join(DATA_SOURCES)}")
        if self.role not in ROLES:
            raise RecordError(f"role={self.role!r} is not one of {', '.join(ROLES)}")
        if self.quality is not None:
            check_amount("quality", self.quality)
            if self.quality > 1:
                raise RecordError(f"quality={self.quality} must be between 0 and 1")
        check_steps(self.steps)
        if self.quality is not None and not self.ended:
            raise RecordError(f"quality={self.quality} of an episode that did not stop: no answer was taken")

    @property
    def ended(self) -> bool:
        """Returns True if the last step is a stop."""
        return self.steps[-1].action == STOP

    @property
    def taken(self) -> int:
        """Returns the index of the step whose answer is the episode's."""
        attempts = [k for k, step in enumerate(self.steps) if step.action != STOP]
        return max((k for k in attempts if self.steps[k].verdict), default=attempts[-1])

    def to_json(self) -> dict:
        values = vars(self) | {"steps": [step.to_json() for step in self.steps], "features": list(self.features)}
        return {name: value for name, value in values.items() if name not in ("opening", "source") or value}

    @classmethod
    def from_json(cls, values: object) -> Self:
        given = known_fields(cls, values)
        for name in ("steps", "features"):
            if not isinstance(given.get(name, []), list | tuple):
                raise RecordError(f"{name}={given[name]!r} must be a list")
        given["steps"] = tuple(CascadeStep.from_json(step) for step in given["steps"])
        return cls(**given | {"features": tuple(given.get("features", ()))})


def check_steps(steps: tuple[CascadeStep, ...]) -> None:
    """Raises RecordError unless the steps begin with an attempt, try each model once, and end at the first stop."""
    if not steps or steps[0].action == STOP:
        raise RecordError("steps must begin with an attempt: without one there is no answer to take")
    tried: set[str] = set()
    for number, step in enumerate(steps):
        if again := tried & set(step.candidates):
            raise RecordError(
                f"step {number} offers {sorted(again)[0]!r} again, which was tried: a model is tried once"
            )
        if step.action == STOP and number + 1 < len(steps):
            raise RecordError(f"step {number} is a stop, and {len(steps) - number - 1} more follow: a stop is the end")
        tried.add(step.action)
