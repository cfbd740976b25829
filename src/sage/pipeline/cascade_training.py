"""Training of cascades: which model to try next, and when to stop, from logged episodes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sage.dollars import in_usd
from sage.evidence.cascades.cascade_data import CascadeData
from sage.pipeline.choices import CASCADE_METHODS
from sage.pipeline.inputs import LogLike, find_models_file, ladders_of, objective_of, read_cascades
from sage.pipeline.training_options import TrainingOptions
from sage.policies.cascades.cascade_policy import CascadeStates
from sage.policies.cascades.learned_cascade import LearnedCascade
from sage.policies.checkpoint import save_policy
from sage.policies.policy import Contexts
from sage.proof.cascade_evaluation import price_of


@dataclass(frozen=True, kw_only=True)
class TrainedCascade:
    """A cascade, the checkpoint that holds it, and what it was learned from."""

    policy: LearnedCascade
    checkpoint: Path
    num_tasks: int  # of the part to learn from, which the gate leaves out
    selection: str  # which rows were taken and how many were not; '' for all

    def to_json(self) -> dict:
        """Returns plain values, as `sage train --learner cascade --json` prints them."""
        policy, training = self.policy, self.policy.training
        return {
            "checkpoint": str(self.checkpoint),
            "policy": policy.name,
            "version": policy.version,
            "models": list(policy.models),
            "price": policy.price,
            "other_price": None if policy.other is None else policy.other.price,
            "share": policy.share,
            "episodes": training.num_rows,
            "tasks": self.num_tasks,
            "data_source": training.data_source,
            "selection": self.selection,
            "compared": training.calibration,
        }

    def __str__(self) -> str:
        policy, training = self.policy, self.policy.training
        return (
            f"{self.checkpoint}: {policy.name} {policy.version} from {training.num_rows:,} {training.data_source} "
            f"episodes of {self.num_tasks:,} tasks, {training.reward_version}; first {first_choice(policy)}{about_limit(policy)}"
            + (f"; {self.selection}" if self.selection else "")
        )


def train_cascade(log: LogLike, options: TrainingOptions) -> TrainedCascade:
    """Learns a cascade from the part that is not held out, and writes its checkpoint."""
    chosen = read_cascades(log, options.selection)
    data = chosen.rows
    if (data.taken_propensity == 1).all():
        raise ValueError(f"no step of {chosen.where} explores: nothing can be learned; log with exploration")
    part, _ = data.split_by_task(1 - options.holdout, options.seed)
    if not part.observed.any():
        raise ValueError(
            f"{chosen.where} has no episode with its quality and the cost of every attempt in the part to learn from: "
            "report both, or lower holdout"
        )
    policy = learn(part, options)
    save_policy(options.out, policy)
    return TrainedCascade(
        policy=policy,
        checkpoint=options.out,
        num_tasks=len(np.unique(part.contexts.task_id)),
        selection=chosen.selection,
    )


def learn(data: CascadeData, options: TrainingOptions) -> LearnedCascade:
    """Learns for the given price, else for the objective; for one with a limit, for the prices that meet it."""
    from sage.rl.cascades.cascade_selection import LEARNERS, choose_cascade, learn_within

    table = None if options.price is not None else find_models_file(options.models, data.models)
    objective, method = objective_of(table), options.cascade_method
    if options.price is None and objective.constrained:
        return learn_within(data, objective, ladders_of(table), method or CASCADE_METHODS[0], seed=options.seed)
    price = price_of(objective) if options.price is None else options.price
    wanted = LEARNERS if method is None else {method: LEARNERS[method]}
    return choose_cascade(data, price, wanted, seed=options.seed)


def about_limit(policy: LearnedCascade) -> str:
    """Returns how a limit was met; empty for a cascade that was learned for a price."""
    found = policy.training.calibration
    if "within_limit" not in found:
        return ""
    if not found["within_limit"]:
        return (
            f"; no cascade keeps to the limit (the cheapest may cost {in_usd(found['least_usd_per_task'])} USD per task): "
            "the file decides as the incumbent does; raise max_usd_per_task, or log more"
        )
    if policy.other is None:
        return "; nothing else keeps to the limit" if found["incumbent_share"] else ""
    other = "the incumbent" if found["incumbent_share"] else f"one for {policy.other.price:g}/USD"
    return f"; it decides {policy.share:.0%} of the tasks, and {other} the others, as the limit lies between the two"


def first_choice(policy: LearnedCascade) -> str:
    """Returns the model that a new task is given to; cells and costs play no part before the first attempt."""
    text = np.array([""])
    contexts = Contexts(np.array(["coder"]), text, np.zeros((1, 0), np.float32), text)
    nothing = np.zeros((1, len(policy.models)), np.int64)
    values = policy.action_values(CascadeStates(contexts, nothing, nothing, np.zeros(1)))[0, :-1]
    return policy.models[int(values.argmax())]
