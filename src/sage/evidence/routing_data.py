"""Logged decisions with their outcomes as arrays, from which policies are learned and on which they are evaluated."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path

import numpy as np

from sage.evidence.completeness import UNCHECKED, Completeness, ExportHeader, HeaderError
from sage.evidence.export_file import RoutingDataError, read_header, read_records, write_records
from sage.evidence.held_calls import HeldCalls, is_seen
from sage.evidence.judged_quality import weighted_mean
from sage.evidence.reward import REWARD_V1, RewardWeights, composite_reward, measured_weights
from sage.evidence.selection import EVERYTHING, Selection
from sage.evidence.shadows import Shadows, none_if_nan, shadows_of
from sage.evidence.tasks import TaskKeys, keys_of, label_tasks, text_digest
from sage.log.record_checks import OPERATOR
from sage.log.records import Decision, Outcome
from sage.policies.policy import Contexts, object_array, select_rows
from sage.splitting import in_first_part

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class RoutingData:
    """One row per decision, over all models that were a candidate in any row (sorted by name).

    Decisions without an outcome are among the rows only if they were read with `gaps`.
    """

    contexts: Contexts
    models: tuple[str, ...]
    eligible: np.ndarray  # bool [n, models]
    action: np.ndarray  # int64 [n]: index into models, of the one that answered
    propensity: np.ndarray  # float64 [n, models]: that it answers; 0 where not eligible
    quality: np.ndarray  # float64 [n]: NaN where timed out before anyone saw it, or not reported
    cost_usd: np.ndarray  # float64 [n]: NaN where not known
    latency_s: np.ndarray  # float64 [n]: NaN where not known
    retries: np.ndarray  # int64 [n]
    timed_out: np.ndarray  # bool [n]
    data_source: np.ndarray  # text [n]: one and the same, as sources are never mixed
    policy: np.ndarray  # text [n]
    policy_version: np.ndarray  # text [n]
    decision_id: np.ndarray  # text [n]
    time: np.ndarray  # float64 [n], seconds since 1970
    features_version: int
    shadows: Shadows | None = None  # None where no second model was asked
    tasks: TaskKeys | None = None  # what names the tasks of `contexts`; None: callers' ids alone
    tenant: np.ndarray | None = None  # text [n]
    completeness: Completeness = UNCHECKED  # of the file that all rows came from, or of the log
    sampled: np.ndarray | None = None  # bool [n]: the outcome was drawn to be reported; None: every outcome is wanted
    sampling_rates: np.ndarray | None = None  # float64 [n]: the probability of that

    def __len__(self) -> int:
        """Returns the number of decisions."""
        return len(self.action)

    @property
    def source(self) -> str:
        """Returns the data_source that all rows share."""
        return str(self.data_source[0])

    @property
    def sha256(self) -> str:
        """Returns a hash (hex) of everything that the rows hold, whichever file they came from."""
        digest = hashlib.sha256(json.dumps([self.models, self.features_version]).encode())
        besides = [] if self.shadows is None else [*self.shadows.columns]
        besides += [] if self.tasks is None or not any(self.tasks.opening) else [self.tasks.opening]
        besides += [] if self.tenant is None or (self.tenant == "default").all() else [self.tenant]
        besides += [] if self.sampled is None or self.sampling_rates is None else [self.sampled, self.sampling_rates]
        for values in (*self.contexts.columns, *(getattr(self, name) for name in ROW_COLUMNS), *besides):
            text = values.dtype.kind == "U"
            digest.update("\0".join(values.tolist()).encode() if text else np.ascontiguousarray(values).tobytes())
        if self.completeness.absent:
            digest.update(repr(self.completeness).encode())
        for text in () if self.contexts.text is None else self.contexts.text:
            digest.update((text.encode() if isinstance(text, str) else text.tobytes()) + b"\0")
        return digest.hexdigest()

    @property
    def observed(self) -> np.ndarray:
        """Returns bool [n]: the rows with a quality or a time-out."""
        return ~np.isnan(self.quality) | self.timed_out

    @property
    def lacks_outcome(self) -> np.ndarray:
        """Returns bool [n]: the rows whose outcome is wanted and not known."""
        return ~self.observed if self.sampled is None else ~self.observed & self.sampled

    def measured(self, weights: RewardWeights = REWARD_V1) -> RewardWeights:
        """Returns the weights without the parts (cost, latency) that no observed row has; time-outs need not have them.

        Raises RewardError if only some of the rows have a part that counts.
        """
        asked = self.observed & ~self.timed_out
        parts = (
            np.where(asked, x, np.nan if np.isnan(x[asked]).all() else 0.0) for x in (self.cost_usd, self.latency_s)
        )
        return measured_weights(weights, *parts)

    def reward(self, weights: RewardWeights = REWARD_V1) -> np.ndarray:
        """Returns the reward of every row, float64 [n], finite in observed rows; parts that no row has are left out.

        Raises RewardError if only some of the rows have a part that counts.
        """
        outcome = (self.quality, self.cost_usd, self.latency_s, self.retries, self.timed_out)
        return composite_reward(*outcome, self.measured(weights))

    def drawn_mean(self, values: np.ndarray) -> float | None:
        """Returns the mean of `values` [n] over rows that have one, each weighted with the decisions that it stands for.

        That is one over the probability with which its outcome was drawn. None if all are NaN.
        """
        known = ~np.isnan(values)
        rates = np.ones(len(self)) if self.sampling_rates is None else self.sampling_rates
        return weighted_mean(values[known], 1 / rates[known]) if known.any() else None

    def select(self, rows: np.ndarray) -> RoutingData:
        """Returns the given rows (indices or a mask) in that order; the models stay the same."""
        columns = {name: getattr(self, name)[rows] for name in ROW_COLUMNS}
        return RoutingData(
            contexts=select_rows(self.contexts, rows),
            models=self.models,
            features_version=self.features_version,
            shadows=None if self.shadows is None else self.shadows.select(rows),
            tasks=None if self.tasks is None else self.tasks.select(rows),
            tenant=None if self.tenant is None else self.tenant[rows],
            completeness=self.completeness,
            sampled=None if self.sampled is None else self.sampled[rows],
            sampling_rates=None if self.sampling_rates is None else self.sampling_rates[rows],
            **columns,
        )

    def split_by_task(self, fraction: float, seed: int) -> tuple[RoutingData, RoutingData]:
        """Returns two parts without a task in common; the first has about `fraction` of the tasks."""
        first = in_first_part(self.contexts.task_id, fraction, seed)
        return self.select(first), self.select(~first)

    @classmethod
    def read(
        cls,
        path: str | Path,
        *,
        gaps: bool = False,
        selection: Selection = EVERYTHING,
        dropped: Counter[str] | None = None,
    ) -> RoutingData:
        """Reads the JSONL that `sage log export` writes; decisions without an outcome only with `gaps`.

        Rows that `selection` takes away are counted in `dropped` by reason. Raises RoutingDataError for a missing file,
        a damaged line, mixed data, or no outcome at all.
        """
        path = Path(path)
        if not path.is_file():
            log = "`sage serve` or `sage lab collect-synth` starts a log"
            fix = log if path.suffix == ".db" else f"make it with `sage log export --out {path}`"
            raise RoutingDataError(f"{path}: there is no such file: {fix}")
        taken = Counter() if dropped is None else dropped
        return cls.from_export(path, selection, taken, where=named(path, selection), gaps=gaps)

    @classmethod
    def from_export(
        cls, path: Path, selection: Selection, dropped: Counter[str], *, where: str, gaps: bool
    ) -> RoutingData:
        """Returns the selected rows of an export, and what the file lacks of its log, by its header."""
        numbers: list[int | None] = []

        def counted() -> Iterator[tuple[Decision, Outcome | None]]:
            for row in read_records(path):
                numbers.append(row[0].number)
                yield row

        header = read_header(path)
        data = cls.from_records(selection.rows(counted(), dropped), where=where, gaps=gaps)
        header = ExportHeader.lost(numbers) if header is None else header
        if header is None:
            return data
        try:
            return replace(data, completeness=header.compare(numbers, selection))
        except HeaderError as error:
            raise RoutingDataError(f"{path}, the header in line 1: {error}") from error

    @classmethod
    def from_records(
        cls, records: Iterable[tuple[Decision, Outcome | None]], where: str = "the log", *, gaps: bool = False
    ) -> RoutingData:
        """Returns the rows of decisions and outcomes, in their order; `where` names their source in error messages.

        Raises RoutingDataError for an id that occurs twice, mixed sources, mixed feature versions, a step of a cascade,
        or no outcome at all.
        """
        rows: list[tuple[Decision, Outcome | None]] = []
        seen: set[str] = set()
        held = HeldCalls()
        for line, (decision, outcome) in enumerate(records, start=1):
            check_row(decision, outcome, rows[0][0] if rows else decision, seen, f"{where}, line {line}")
            seen.add(decision.id)
            held.add(decision, outcome)
            rows.append((decision, outcome))
        decisions: list[Decision] = []
        outcomes: list[Outcome] = []
        for decision, outcome, _ in held.rows(rows):
            known = (outcome if decision.outcome_wanted else None) or Outcome(
                decision_id=decision.id, time=decision.time
            )
            if gaps or is_seen(known):
                decisions.append(decision)
                outcomes.append(known)
        for reason, number in held.left_out.items():
            log.warning(f"{where}: left out {number} {reason}")
        if not any(is_seen(outcome) for outcome in outcomes):
            raise RoutingDataError(
                f"{where} holds no decision with an outcome: route and report outcomes first, then export"
            )
        return to_arrays(decisions, outcomes)

    def records(self) -> Iterator[tuple[Decision, Outcome]]:
        """Returns the rows as records; fields that the arrays do not hold (session, reason) are left empty."""
        for i in range(len(self)):
            text = "" if self.contexts.text is None else self.contexts.text[i]
            eligible = np.flatnonzero(self.eligible[i])
            decision = Decision(
                id=str(self.decision_id[i]),
                time=float(self.time[i]),
                data_source=str(self.data_source[i]),
                role=str(self.contexts.role[i]),
                candidates=tuple(self.models[k] for k in eligible),
                probabilities=tuple(self.propensity[i, eligible].tolist()),
                model=self.models[self.action[i]],
                policy=str(self.policy[i]),
                policy_version=str(self.policy_version[i]),
                features=tuple(self.contexts.features[i].tolist()),
                features_version=self.features_version,
                task_id=str((self.contexts.task_id if self.tasks is None else self.tasks.given)[i]),
                opening="" if self.tasks is None else str(self.tasks.opening[i]),
                tenant="default" if self.tenant is None else str(self.tenant[i]),
                outcome_probability=None if self.sampling_rates is None else float(self.sampling_rates[i]),
                category=str(self.contexts.category[i]),
                prompt=text if isinstance(text, str) and text else None,
                words=None if isinstance(text, str) else tuple(text.tolist()),
            )
            told = None
            if self.shadows is not None:
                asked, told = self.shadows.record(i, self.models, decision)
                decision = replace(decision, **asked)
            yield (
                decision,
                Outcome(
                    decision_id=decision.id,
                    time=float(self.time[i]),
                    quality=none_if_nan(self.quality[i]),
                    cost_usd=none_if_nan(self.cost_usd[i]),
                    latency_s=none_if_nan(self.latency_s[i]),
                    retries=int(self.retries[i]),
                    timed_out=bool(self.timed_out[i]),
                    shadow=told,
                    source=OPERATOR,  # whoever has the rows
                ),
            )

    def write(self, path: str | Path) -> None:
        """Writes JSONL that `read` turns into equal arrays, complete or not at all."""
        write_records(Path(path), self.records())


ROW_COLUMNS = tuple(
    f.name
    for f in fields(RoutingData)
    if f.default is MISSING and f.name not in ("contexts", "models", "features_version")
)


def named(path: Path, selection: Selection) -> str:
    """Returns the path, and in parentheses the selection if there is one, for messages."""
    return f"{path} ({selection})" if str(selection) else str(path)


def check_row(decision: Decision, outcome: Outcome | None, first: Decision, seen: set[str], where: str) -> None:
    """Raises RoutingDataError if a record cannot stand beside the first one, or repeats an id of `seen`."""
    if outcome is not None and outcome.decision_id != decision.id:
        raise RoutingDataError(f"{where}: the outcome is of decision {outcome.decision_id!r}, not {decision.id!r}")
    if outcome is not None and not could_answer(decision, outcome):
        raise RoutingDataError(
            f"{where}: {outcome.model!r} answered and was not among the candidates: export the file again, which leaves such "
            "outcomes out"
        )
    if decision.cascade is not None:
        raise RoutingDataError(
            f"{where}: decision {decision.id!r} is a step of a cascade, and steps of one task are not independent decisions: "
            "export the file again, which leaves them out"
        )
    if decision.id in seen:
        raise RoutingDataError(f"{where}: decision {decision.id!r} is there twice: export the file again")
    if decision.data_source != first.data_source:
        raise RoutingDataError(
            f"{where}: data_source is {decision.data_source!r} after {first.data_source!r}: sources are never mixed, "
            "export one with --data-source"
        )
    if (decision.features_version, len(decision.features)) != (first.features_version, len(first.features)):
        raise RoutingDataError(
            f"{where}: features version {decision.features_version} with {len(decision.features)} features after version "
            f"{first.features_version} with {len(first.features)}: export the newer rows alone with --since"
        )


def could_answer(decision: Decision, outcome: Outcome) -> bool:
    """Returns False if a model answered that was no candidate, because the provider fell back to it.

    Held calls always count: their fallbacks are a consequence of the decision that they follow.
    """
    return decision.held or outcome.model is None or outcome.model in decision.candidates


def answering(propensity: np.ndarray, eligible: np.ndarray, chosen: np.ndarray, answered: np.ndarray) -> np.ndarray:
    """Returns [n, models]: the probability that each model answers, where providers may fall back from the chosen one.

    `propensity` and `eligible` are [n, models], `chosen` and `answered` int [n]. The probabilities of choosing are
    moved by the shares with which each chosen model was answered by each other, over all rows. This is exact if falling
    back depends on nothing but the chosen model.
    """
    if (chosen == answered).all():
        return propensity
    moved = np.zeros((propensity.shape[1],) * 2)
    np.add.at(moved, (chosen, answered), 1.0)
    total = moved.sum(axis=1, keepdims=True)
    moved = np.where(total > 0, moved / np.maximum(total, 1.0), np.eye(len(moved)))
    answers = np.where(eligible, propensity @ moved, 0.0)
    return answers / answers.sum(axis=1, keepdims=True)


def to_arrays(decisions: list[Decision], outcomes: list[Outcome]) -> RoutingData:
    models = tuple(sorted({model for decision in decisions for model in decision.candidates}))
    column = {model: k for k, model in enumerate(models)}
    rows = np.repeat(np.arange(len(decisions)), [len(decision.candidates) for decision in decisions])
    columns = np.array([column[model] for decision in decisions for model in decision.candidates])
    eligible = np.zeros((len(decisions), len(models)), bool)
    eligible[rows, columns] = True
    propensity = np.zeros((len(decisions), len(models)))
    propensity[rows, columns] = [p for decision in decisions for p in decision.probabilities]
    chosen = np.array([column[d.model] for d in decisions])
    answered = np.array([column[o.model or d.model] for d, o in zip(decisions, outcomes, strict=True)])
    tasks = keys_of((d.task_id, d.opening, d.id) for d in decisions)
    rates = None
    if any(d.outcome_probability is not None for d in decisions):
        rates = np.array([d.outcome_probability or 1.0 for d in decisions])
    return RoutingData(
        contexts=Contexts(
            role=np.array([d.role for d in decisions]),
            category=np.array([d.category for d in decisions]),
            features=np.array([d.features for d in decisions], np.float32).reshape(len(decisions), -1),
            task_id=label_tasks(tasks, ["" if d.task_id or d.opening else text_digest(d) for d in decisions]),
            text=kept_texts(decisions),
        ),
        models=models,
        eligible=eligible,
        action=answered,
        propensity=answering(propensity, eligible, chosen, answered),
        quality=number_or_nan([o.quality for o in outcomes]),
        cost_usd=number_or_nan([o.cost_usd for o in outcomes]),
        latency_s=number_or_nan([o.latency_s for o in outcomes]),
        retries=np.array([o.retries for o in outcomes]),
        timed_out=np.array([o.timed_out for o in outcomes]),
        data_source=np.array([d.data_source for d in decisions]),
        policy=np.array([d.policy for d in decisions]),
        policy_version=np.array([d.policy_version for d in decisions]),
        decision_id=np.array([d.id for d in decisions]),
        time=np.array([d.time for d in decisions], np.float64),
        features_version=decisions[0].features_version,
        shadows=shadows_of(decisions, outcomes, column),
        tasks=tasks,
        tenant=np.array([d.tenant for d in decisions]),
        sampled=None if rates is None else np.array([d.outcome_wanted for d in decisions]),
        sampling_rates=rates,
    )


def kept_texts(decisions: list[Decision]) -> np.ndarray | None:
    """Returns object [n]: the task's text, its hashed words, or '' if the log kept neither; None if no row has any."""
    if all(not d.prompt and d.words is None for d in decisions):
        return None
    return object_array([d.prompt or ("" if d.words is None else np.array(d.words, np.uint16)) for d in decisions])


def number_or_nan(values: list[float | None]) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values], np.float64)
