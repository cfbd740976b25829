"""Requests, decisions and outcomes: the records that all parts of sage exchange."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Literal, Self, get_args

from sage.log.cascade_steps import STOP, Step, Verdict, check_verdicts, read_verdicts
from sage.log.record_checks import (
    CLIENT,
    MOST,
    NAME,
    SCHEMA_VERSION,
    RecordError,
    check_amount,
    check_count,
    check_probabilities,
    check_schema,
    check_shadow,
    check_source,
    check_texts,
    former_source,
    known_fields,
)
from sage.words import check_words

ROLES = (
    "planner",
    "architect",
    "coder",
    "debugger",
    "reviewer",
    "test_engineer",
    "documentation",
    "memory_optimizer",
)
DataSource = Literal["real", "synthetic", "replay"]
DATA_SOURCES: tuple[str, ...] = get_args(DataSource)
REQUEST_TEXTS = ("role", "task", "task_id", "category", "tenant", "session")
DECISION_TEXTS = (
    "id",
    "data_source",
    "role",
    "model",
    "policy",
    "policy_version",
    *REQUEST_TEXTS[2:],
    "verdict",
    "reason",
    "follows",
    "opening",
)
LATER_FIELDS = (
    "cascade",
    "words",
    "category_inferred",
    "shadow",
    "shadow_probabilities",
    "follows",
    "fallbacks",
    "opening",
    "outcome_probability",
)  # written only where they say something: records were once without them
UNLOGGED = "unlogged"  # the verdict of a decision that is not in the log, as that could not be written
HELD = "held"  # the verdict of a call whose session kept its model, so that nothing was chosen


@dataclass(frozen=True, kw_only=True)
class Request:
    """A call that needs a model; the log stores its text only if it is configured to."""

    role: str
    task: str = ""
    task_id: str = ""  # groups decisions about one task; empty: the opening tells it apart
    category: str = ""  # of the task, where the caller knows one
    tenant: str = "default"
    session: str = ""
    past_failures: int = 0  # of this task, before this call
    probe_calls: int | None = None  # what a cheap attempt took, where one was made
    probe_cost_usd: float | None = None
    probe_verified: bool | None = None  # what the verifier said of it
    opening: str = ""  # the user's first words, where `task` is what came later; empty: the task

    def __post_init__(self) -> None:
        check_texts(self, REQUEST_TEXTS)
        if not isinstance(self.opening, str):
            raise RecordError(f"opening={self.opening!r} must be text")
        if self.role not in ROLES:
            raise RecordError(f"role={self.role!r} is not one of {', '.join(ROLES)}")
        check_count("past_failures", self.past_failures)
        if self.probe_calls is not None:
            check_count("probe_calls", self.probe_calls)
        if self.probe_cost_usd is not None:
            check_amount("probe_cost_usd", self.probe_cost_usd)
        if self.probe_verified is not None and not isinstance(self.probe_verified, bool):
            raise RecordError(f"probe_verified={self.probe_verified!r} must be true, false or left out")


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One routed call with everything needed to learn from it: the candidates, their probabilities and the choice."""

    id: str
    time: float  # seconds since 1970, UTC
    data_source: str  # set by the producer, never guessed
    role: str
    candidates: tuple[str, ...]  # models that were eligible
    probabilities: tuple[float, ...]  # of each candidate, as they were when the choice was drawn
    model: str  # the chosen one
    policy: str
    policy_version: str
    features: tuple[float, ...]
    features_version: int
    task_id: str = ""
    category: str = ""
    tenant: str = "default"
    session: str = ""
    verdict: str = "ok"  # the guard's: 'ok', or why the static table answered instead
    confidence: float | None = None
    reason: str = ""  # one sentence for people
    prompt: str | None = None  # only where the log is configured to keep it
    expected_cost_usd: float | None = None  # what a budget counts until the cost is reported
    cascade: Step | None = None  # where it is a step of a cascade; its candidates may then hold 'stop'
    words: tuple[int, ...] | None = None  # hashed, of the task's text; only where the log is configured to keep them
    category_inferred: bool = False  # from the text, as the caller gave none
    shadow: str | None = None  # a second model to ask, whose answer is judged and not used
    shadow_probabilities: tuple[float, ...] | None = (
        None  # that each candidate is the shadow, whichever model is chosen
    )
    follows: str = ""  # of a held call: the id of the decision that drew the model
    fallbacks: tuple[
        str, ...
    ] = ()  # of a held call: models that may be asked if the held one, its only candidate, fails
    opening: str = ""  # the keyed hash of tenant and first words: rows with the same one are one task
    outcome_probability: float | None = None  # with which its outcome is wanted; None: every outcome is
    number: int | None = field(default=None, compare=False)  # in its log, from 1 without a gap; None: not read from one
    schema: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        check_schema(self.schema)
        check_texts(self, DECISION_TEXTS)
        if not all(isinstance(name, str) for name in self.fallbacks):
            raise RecordError(f"fallbacks={self.fallbacks!r} must be names of models")
        if not NAME.fullmatch(self.id):
            raise RecordError(f"id={self.id!r} must be 1 to 200 characters without blanks")
        check_amount("time", self.time)
        if self.data_source not in DATA_SOURCES:
            raise RecordError(f"data_source={self.data_source!r} must be one of {', '.join(DATA_SOURCES)}")
        if self.role not in ROLES:
            raise RecordError(f"role={self.role!r} is not one of {', '.join(ROLES)}")
        check_probabilities(self.candidates, self.probabilities)
        if self.model not in self.candidates:
            raise RecordError(f"model={self.model!r} is not among the candidates {', '.join(self.candidates)}")
        if self.propensity <= 0:
            raise RecordError(
                f"probabilities gives the chosen model {self.model!r} probability {self.propensity}: it could not have been "
                "chosen; log the probabilities that the choice was drawn from"
            )
        if not all(isinstance(x, int | float) and -MOST <= x <= MOST for x in self.features):
            raise RecordError(f"features={self.features!r} must be finite numbers")
        check_count("features_version", self.features_version)
        for name in ("confidence", "expected_cost_usd"):
            if getattr(self, name) is not None:
                check_amount(name, getattr(self, name))
        if self.prompt is not None and not isinstance(self.prompt, str):
            raise RecordError(f"prompt={self.prompt!r} must be text or left out")
        if self.cascade is not None and (self.model == STOP) != (self.id == self.cascade.cascade_id):
            raise RecordError(
                f"id={self.id!r} chooses {self.model!r}: the stop of a cascade, and only that, has its id"
            )
        if not isinstance(self.category_inferred, bool):
            raise RecordError(f"category_inferred={self.category_inferred!r} must be true or false")
        check_shadow(self.shadow, self.shadow_probabilities, self.candidates, self.model)
        if self.number is not None:
            check_count("number", self.number)
        if (chance := self.outcome_probability) is not None and not (
            isinstance(chance, int | float) and 0 < chance <= 1
        ):
            raise RecordError(f"outcome_probability={chance!r} must be above 0 and at most 1, or left out")

    @property
    def propensity(self) -> float:
        """Returns the probability with which the chosen model was drawn."""
        return self.probabilities[self.candidates.index(self.model)]

    @property
    def outcome_wanted(self) -> bool:
        """Returns True if its outcome was drawn to be reported; other outcomes count in no proof.

        The draw is a hash of the id, which is random: anybody can repeat it, and nobody can choose it afterwards. A held
        call has the draw of the decision that it follows.
        """
        return self.outcome_probability is None or drawn_at(self.follows or self.id) < self.outcome_probability

    @property
    def logged(self) -> bool:
        """Returns False if the log could not be written, so that nothing can be learned from the decision's outcome."""
        return self.verdict != UNLOGGED

    @property
    def held(self) -> bool:
        """Returns True if the session kept its model: nothing was drawn, and the outcome counts for `follows`."""
        return self.verdict == HELD

    def to_json(self) -> dict:
        values = vars(self) | {
            "candidates": list(self.candidates),
            "probabilities": list(self.probabilities),
            "features": list(self.features),
            "words": None if self.words is None else list(self.words),
            "shadow_probabilities": list(self.shadow_probabilities or ()),
            "fallbacks": list(self.fallbacks),
        }
        values["cascade"] = None if self.cascade is None else self.cascade.to_json()
        del values["number"]  # which belongs to the log
        return {name: value for name, value in values.items() if name not in LATER_FIELDS or value}

    @classmethod
    def from_json(cls, values: object) -> Self:
        values = known_fields(cls, values)
        values.setdefault("fallbacks", ())
        for name in ("candidates", "probabilities", "features", "fallbacks"):
            if not isinstance(values.get(name), list | tuple):
                raise RecordError(f"{name}={values.get(name)!r} must be a list")
            values[name] = tuple(values[name])
        if values.get("shadow_probabilities") is not None:
            values["shadow_probabilities"] = tuple(values["shadow_probabilities"])
        if values.get("cascade") is not None:
            values["cascade"] = Step.from_json(values["cascade"])
        if values.get("words") is not None:
            values["words"] = read_words(values["words"])
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a decision; an unknown value is None, which is not zero."""

    decision_id: str
    time: float
    quality: float | None = None  # 0 to 1
    cost_usd: float | None = None
    latency_s: float | None = None
    retries: int = 0
    timed_out: bool = False  # censored: the quality was never seen
    tokens_in: int | None = None
    tokens_cached: int | None = None  # of tokens_in
    tokens_out: int | None = None
    provenance: str = ""  # who judged: tests, a person, a verifier ...
    model: str | None = None  # that really answered, where the provider fell back to another than the chosen one
    verdicts: tuple[Verdict, ...] = ()  # of verifiers, about the answer
    shadow: Outcome | None = None  # what came of the decision's shadow
    usage_problem: str = (
        ""  # why the tokens are not those that the upstream reported, but the most that they can be, or None
    )
    source: str = CLIENT  # who reports, one of SOURCES; of several reports together, who judged
    schema: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        check_schema(self.schema)
        if not self.decision_id or not isinstance(self.decision_id, str):
            given = "decision, not decision.id," if isinstance(self.decision_id, Decision) else repr(self.decision_id)
            raise RecordError(f"decision_id={given} must be the id of a decision")
        check_amount("time", self.time)
        if self.quality is not None:
            check_amount("quality", self.quality)
            if self.quality > 1:
                raise RecordError(f"quality={self.quality} must be between 0 and 1")
        for name in ("cost_usd", "latency_s"):
            if getattr(self, name) is not None:
                check_amount(name, getattr(self, name))
        check_count("retries", self.retries)
        for name in ("tokens_in", "tokens_cached", "tokens_out"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        if not isinstance(self.timed_out, bool) or not isinstance(self.provenance, str):
            raise RecordError(
                f"timed_out={self.timed_out!r} must be true or false, provenance={self.provenance!r} text"
            )
        check_texts(self, ("decision_id", "provenance", "usage_problem"))
        check_source(self.source)
        check_verdicts(self.verdicts)
        if self.shadow is not None and (self.shadow.shadow or self.shadow.decision_id != self.decision_id):
            raise RecordError(f"shadow={self.shadow!r} must be the outcome of the second model of the same decision")
        if self.model is not None and not (isinstance(self.model, str) and NAME.fullmatch(self.model)):
            raise RecordError(f"model={self.model!r} must be the name of the model that answered, or left out")
        if self.timed_out and self.quality is not None:
            raise RecordError(
                f"quality={self.quality} of a time-out: nobody saw one; report the quality or the time-out"
            )
        if self.tokens_cached is not None and self.tokens_in is not None and self.tokens_cached > self.tokens_in:
            raise RecordError(
                f"tokens_cached={self.tokens_cached} are a part of tokens_in={self.tokens_in}: they cannot be more"
            )

    def to_json(self) -> dict:
        values = dict(vars(self))
        verdicts = [vars(verdict) for verdict in values.pop("verdicts")]
        shadow = values.pop("shadow")
        if not self.usage_problem:  # records were once without it
            del values["usage_problem"]
        values |= {"verdicts": verdicts} if verdicts else {}
        return values | {"shadow": shadow.to_json()} if shadow is not None else values

    @classmethod
    def from_json(cls, values: object) -> Self:
        values = known_fields(cls, values)
        if values.get("shadow") is not None:
            values["shadow"] = cls.from_json(values["shadow"])
        values.setdefault("source", former_source(values.get("provenance"), values.get("quality") is not None))
        return cls(**values | {"verdicts": read_verdicts(values.get("verdicts", []))})


def drawn_at(decision_id: str) -> float:
    """Returns the number between 0 and 1 that an id stands for in the draw of outcomes."""
    return int.from_bytes(hashlib.blake2b(decision_id.encode(), digest_size=7).digest()) / 2**56


def of_shadow(outcome: Outcome) -> Outcome:
    """Wraps the outcome of a decision's second model in a report about that decision."""
    return Outcome(decision_id=outcome.decision_id, time=outcome.time, source=outcome.source, shadow=outcome)


def read_words(values: object) -> tuple[int, ...]:
    try:
        return tuple(check_words(values).tolist())
    except ValueError as error:
        raise RecordError(str(error)) from error
