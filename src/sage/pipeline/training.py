"""Training: from a log to a checkpoint that the gate can judge on the tasks that were left out."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sage.dollars import in_usd
from sage.evidence.quality_and_cost import version_of
from sage.evidence.reward import RewardWeights
from sage.evidence.routing_data import RoutingData
from sage.evidence.tasks import task_hashes
from sage.orchestrator.models_file import ModelsFile
from sage.orchestrator.static_table import StaticTable
from sage.pipeline.cascade_training import TrainedCascade, train_cascade
from sage.pipeline.choices import HOLDOUT, NETWORK_LEARNERS
from sage.pipeline.inputs import (
    LogLike,
    find_models_file,
    objective_of,
    path_or_none,
    read_decisions,
    select_from,
    static_of,
)
from sage.pipeline.training_options import TrainingOptions
from sage.policies.cell_policy import CellPolicy
from sage.policies.checkpoint import save_policy
from sage.policies.features import VERSION
from sage.policies.learned_policy import LearnedPolicy
from sage.policies.text.categories import learn_categories
from sage.policies.text.embedding import Embedder
from sage.proof.open_questions import OpenQuestion, open_questions
from sage.rl.category_table import learn_table
from sage.rl.doubly_robust_learner import learn_doubly_robust
from sage.rl.train_text import learn_text

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class TrainedPolicy:
    """A policy of single decisions, the checkpoint that holds it, and what it was learned from."""

    policy: LearnedPolicy
    checkpoint: Path
    num_tasks: int  # of the part to learn from, which the gate leaves out
    selection: str  # which rows were taken and how many were not; '' for all
    questions: tuple[OpenQuestion, ...] = ()  # what the log cannot say yet, most promising first

    def to_json(self) -> dict:
        """Returns plain values, as `sage train --json` prints them."""
        policy, training = self.policy, self.policy.training
        categories = policy.categorizer
        return {
            "checkpoint": str(self.checkpoint),
            "policy": policy.name,
            "version": policy.version,
            "rows": training.num_rows,
            "tasks": self.num_tasks,
            "data_source": training.data_source,
            "selection": self.selection,
            "reward": training.reward_version,
            "settings": training.settings,
            "against": training.against,
            "calibration": training.calibration,
            "open_questions": [question.to_json() for question in self.questions],
            "inferred_categories": None
            if categories is None
            else {"accuracy": categories.accuracy, "share": categories.share},
        }

    def __str__(self) -> str:
        policy, training = self.policy, self.policy.training
        error = training.calibration.get("expected_calibration_error")
        worth = training.settings.get("usd_worth")
        traded = "" if worth is None else f"; a dollar counts as {worth:.4g} of quality: {effect(training.settings)}"
        sure = (
            "too few differing choices to check the confidence" if error is None else f"calibration error {error:.3f}"
        )
        return (
            f"{self.checkpoint}: {policy.name} {policy.version} from {training.num_rows:,} {training.data_source} rows "
            f"with an outcome, {training.reward_version}; the gate leaves out the {self.num_tasks:,} tasks of training; "
            f"{sure}{traded}" + (f"; {self.selection}" if self.selection else "")
        ) + "".join(f"\nundecided: {question}" for question in self.questions)


def effect(settings: dict) -> str:
    """Returns what the worth of a dollar should give, by policies judged on tasks that they were not learned from."""
    quality, cost = f"{settings['quality']:+.4f}", in_usd(settings["cost_usd"], "+")
    return f"quality {quality} and cost {cost} USD per decision, cross-fitted"


def train(
    log: LogLike,
    *,
    out: str | Path,
    learner: str = "dr",
    models: str | Path | None = None,
    holdout: float = HOLDOUT,
    seed: int = 0,
    sources: str | Sequence[str] = (),
    tenants: str | Sequence[str] = (),
    updates: int | None = None,
    embed: str | Path | None = None,
    tokenizer: str | Path | None = None,
    price: float | None = None,
) -> TrainedPolicy | TrainedCascade:
    """Learns a policy from a part of the log's tasks, and writes it to a checkpoint; the proof gets the other tasks.

    The same rows, arguments and seed give the same policy, bit for bit. Input that cannot be learned from is a
    `ValueError` that names the field, the value and the fix, and nothing is written.

    Args:
        log: the SQLite log, a file that `sage log export` wrote, or rows: pairs of a `Decision` and its `Outcome`, or
            None for an outcome that nobody reported.
        out: the checkpoint to write.
        learner: "dr", "table", "text", "bc" or "cql"; for logged cascades "cascade", which compares three learners, or
            one of them: "cascade-fitted-q", "cascade-fitted-q-wide" or "cascade-dqn".
        models: the models.yaml with the static table and the objective; None takes models.yaml of this folder, if it
            has any of the log's models.
        holdout: the share of tasks that `evaluate` and `gate` judge on.
        seed: decides which tasks are left out, and everything else that is drawn.
        sources: only outcomes that these judged count (operator, ci, traffic, client); none given takes all.
        tenants: only rows of these; none given takes all.
        updates: steps of the optimizer; for "bc" and "cql" only, which need PyTorch.
        embed: an ONNX model that reads the texts, with its `tokenizer`; for "text" only.
        tokenizer: the tokenizer.json of that model.
        price: quality points per dollar; for cascades only. None takes the objective of `models`.
    """
    options = TrainingOptions(
        learner=learner,
        out=Path(out),
        models=path_or_none(models),
        holdout=holdout,
        seed=seed,
        selection=select_from(sources, tenants),
        updates=updates,
        embed=path_or_none(embed),
        tokenizer=path_or_none(tokenizer),
        price=price,
    )
    return train_cascade(log, options) if options.cascade else train_policy(log, options)


def train_policy(log_of_rows: LogLike, options: TrainingOptions) -> TrainedPolicy:
    """Learns a policy of single decisions from the part that is not held out, and writes its checkpoint."""
    chosen = read_decisions(log_of_rows, options.selection)
    data = chosen.rows
    if data.features_version != VERSION:
        raise ValueError(
            f"{chosen.where} has features version {data.features_version}, and this sage has {VERSION}: a policy of it "
            "could not serve; log and export with this sage"
        )
    if data.shadows is None and (data.propensity[np.arange(len(data)), data.action] == 1).all():
        log.warning("no row explores: of models that were never tried nothing can be learned")
    table = find_models_file(options.models, data.models)
    version_of(data, objective_of(table))  # refuses rows that cannot be judged later, before anything is learned
    part, _ = data.split_by_task(1 - options.holdout, options.seed)
    if not part.observed.any():
        raise ValueError(f"{chosen.where} has no outcome in the part to learn from: report outcomes, or lower holdout")
    seen = part.select(part.observed)
    policy = learn(seen, table, options)
    questions = questions_of(seen, policy, table, options)
    policy = replace(policy, categorizer=learn_categories(part.contexts, seed=options.seed))
    hashes = task_hashes(part.contexts.task_id, part.tasks)  # without an outcome too, or the gate would judge by them
    policy = replace(policy, training=replace(policy.training, task_hashes=hashes))
    save_policy(options.out, policy)
    return TrainedPolicy(
        policy=policy,
        checkpoint=options.out,
        num_tasks=len(np.unique(part.contexts.task_id)),
        selection=chosen.selection,
        questions=questions,
    )


def questions_of(
    data: RoutingData, policy: LearnedPolicy, table: ModelsFile | None, options: TrainingOptions
) -> tuple[OpenQuestion, ...]:
    """Returns the choices of a `CellPolicy` that its log leaves open; () for other policies, and for objectives with a limit."""
    objective = objective_of(table)
    if not isinstance(policy, CellPolicy) or objective.constrained:
        return ()
    given = {"static": static_of(table), "objective": objective, "holdout": options.holdout}
    return tuple(open_questions(data, policy, **given))


def learn(data: RoutingData, table: ModelsFile | None, options: TrainingOptions) -> LearnedPolicy:
    """Learns from rows that all have an outcome, for the table's objective and against its static choices."""
    static, objective = static_of(table), objective_of(table)
    if options.learner in NETWORK_LEARNERS:
        if objective.constrained:
            raise ValueError(
                f"the learner {options.learner} learns for weights, and the objective is {objective.name!r}: take the "
                "learner dr or table"
            )
        return learn_network(data, static, objective.weights, options)
    given = {"static": static, "objective": objective, "seed": options.seed}
    match options.learner:
        case "table":
            return learn_table(data, **given)
        case "text":
            embedder = Embedder.of(options.embed, options.tokenizer) if options.embed and options.tokenizer else None
            return learn_text(data, embedder=embedder, **given)
        case _:
            return learn_doubly_robust(data, **given)


def learn_network(
    data: RoutingData, static: StaticTable | None, weights: RewardWeights, options: TrainingOptions
) -> LearnedPolicy:
    """Learns with PyTorch, which is loaded for nothing else."""
    given = {"static": static, "weights": weights, "seed": options.seed}
    if options.updates is not None:
        given["updates"] = options.updates
    if options.learner == "bc":
        from sage.rl.train_bc import train_bc

        return train_bc(data, **given)
    from sage.rl.train_cql import train_cql

    return train_cql(data, **given)
