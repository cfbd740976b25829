"""`sage rl train-cascade`, and cascades in `eval-offline` and `gate`."""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sage.cli.values import add_selection, seed, selection_of, selection_told
from sage.dollars import in_usd

if TYPE_CHECKING:
    from rl_training.evaluation.intervals import Method
    from sage.evidence.cascades.cascade_data import CascadeData
    from sage.orchestrator.models_file import ModelsFile
    from sage.policies.cascades.cascade_policy import CascadePolicy
    from sage.policies.cascades.learned_cascade import LearnedCascade
    from sage.proof.cascade_evaluation import CascadeEvaluation

MODELS_FILE = Path("models.yaml")
CHOICES = ("auto", "fitted-q", "fitted-q-wide", "dqn")
FLOOR = 0.0  # a cascade has no confidence below which another decides


def add_commands(actions: argparse._SubParsersAction) -> None:
    train = actions.add_parser(
        "train-cascade", help="learn from logged cascades which model to try next and when to stop"
    )
    train.add_argument("--data", required=True, type=Path, help="made by `sage rl export --cascades`")
    train.add_argument("--out", required=True, type=Path, help="the checkpoint; any suffix")
    train.add_argument("--holdout", type=float, default=0.4, help="share of tasks kept for eval-offline and gate (0.4)")
    train.add_argument("--price", type=float, help="quality points per dollar; default: the objective of models.yaml")
    train.add_argument(
        "--learner", choices=CHOICES, default="auto", help="auto: fitted Q, unless another is better on tasks left out"
    )
    train.add_argument("--models", type=Path, help=f"objective and ladders (default: {MODELS_FILE}, if there is one)")
    add_selection(train)
    train.add_argument("--seed", type=seed, default=0)
    train.add_argument("--json", action="store_true")
    train.set_defaults(func=train_cascade)


def train_cascade(arguments: argparse.Namespace) -> int:
    import numpy as np

    from sage.evidence.cascades.cascade_data import CascadeData
    from sage.policies.checkpoint import save_policy

    if not 0 < arguments.holdout < 1:
        raise ValueError(f"holdout={arguments.holdout} must lie between 0 and 1: it is a share of the tasks")
    if arguments.price is not None and not 0 <= arguments.price < math.inf:
        raise ValueError(f"price={arguments.price} must be a finite number that is not negative")
    selection, dropped = selection_of(arguments), Counter()
    data = CascadeData.read(arguments.data, selection=selection, dropped=dropped)
    if (data.taken_propensity == 1).all():
        raise ValueError(f"no step of {arguments.data} explores: nothing can be learned; log with exploration")
    train, _ = data.split_by_task(1 - arguments.holdout, arguments.seed)
    if not train.observed.any():
        raise ValueError(
            f"{arguments.data} has no episode with its quality and the cost of every attempt in the part to learn from: report "
            "both, or lower --holdout"
        )
    policy = learned(arguments, train)
    save_policy(arguments.out, policy)
    tell(arguments, policy, len(np.unique(train.contexts.task_id)), selection_told(selection, dropped))
    return 0


def learned(arguments: argparse.Namespace, data: CascadeData) -> LearnedCascade:
    """For the price that was asked for, or what the objective says; for one with a limit, the prices that meet it."""
    from sage.evidence.objective import DEFAULT
    from sage.proof.cascade_evaluation import price_of
    from sage.rl.cascades.cascade_selection import LEARNERS, choose_cascade, learn_within

    table = None if arguments.price is not None else models_file(arguments.models, data)
    objective = DEFAULT if table is None else table.objective
    if arguments.price is None and objective.constrained:
        learner = "fitted-q" if arguments.learner == "auto" else arguments.learner
        return learn_within(data, objective, incumbent_of(table), learner, seed=arguments.seed)
    price = price_of(objective) if arguments.price is None else arguments.price
    wanted = LEARNERS if arguments.learner == "auto" else {arguments.learner: LEARNERS[arguments.learner]}
    return choose_cascade(data, price, wanted, seed=arguments.seed)


def tell(arguments: argparse.Namespace, policy: LearnedCascade, num_tasks: int, chosen: str) -> None:
    training = policy.training
    values = {
        "checkpoint": str(arguments.out),
        "policy": policy.name,
        "version": policy.version,
        "models": list(policy.models),
        "price": policy.price,
        "other_price": None if policy.other is None else policy.other.price,
        "share": policy.share,
        "episodes": training.num_rows,
        "tasks": num_tasks,
        "data_source": training.data_source,
        "selection": chosen,
        "compared": training.calibration,
    }
    text = (
        f"{arguments.out}: {policy.name} {policy.version} from {training.num_rows:,} {training.data_source} episodes of "
        f"{num_tasks:,} tasks, {training.reward_version}; first {first_choice(policy)}"
    )
    print(json.dumps(values) if arguments.json else text + about_limit(policy) + (f"; {chosen}" if chosen else ""))


def about_limit(policy: LearnedCascade) -> str:
    """Returns how a limit was met; empty for a cascade that was learned for a price."""
    found = policy.training.calibration
    if "within_limit" not in found:
        return ""
    if not found["within_limit"]:
        return (
            f"; no cascade keeps to the limit (the cheapest may cost {in_usd(found['least_usd_per_task'])} USD per task): the file "
            "decides as the incumbent does; raise max_usd_per_task, or log more"
        )
    if policy.other is None:
        return "; nothing else keeps to the limit" if found["incumbent_share"] else ""
    other = "the incumbent" if found["incumbent_share"] else f"one for {policy.other.price:g}/USD"
    return f"; it decides {policy.share:.0%} of the tasks, and {other} the others, as the limit lies between the two"


def first_choice(policy: LearnedCascade) -> str:
    """The model that a new task is given to; cells and costs play no part before the first attempt."""
    import numpy as np

    from sage.policies.cascades.cascade_policy import CascadeStates
    from sage.policies.policy import Contexts

    text = np.array([""])
    contexts = Contexts(np.array(["coder"]), text, np.zeros((1, 0), np.float32), text)
    nothing = np.zeros((1, len(policy.models)), np.int64)
    values = policy.action_values(CascadeStates(contexts, nothing, nothing, np.zeros(1)))[0, :-1]
    return policy.models[int(values.argmax())]


def is_cascade(checkpoint: Path) -> bool:
    from sage.policies.cascades.learned_cascade import LearnedCascade
    from sage.policies.checkpoint import load_any

    return isinstance(load_any(checkpoint), LearnedCascade)


def evaluated_cascade(arguments: argparse.Namespace, method: Method) -> CascadeEvaluation:
    """Against the ladders of models.yaml, or else the most likely steps of the log."""
    from sage.evidence.cascades.cascade_data import CascadeData
    from sage.policies.checkpoint import load_cascade
    from sage.proof.cascade_evaluation import evaluate_cascade

    if arguments.floor not in (None, FLOOR):
        raise ValueError(f"floor={arguments.floor}: a cascade has no confidence, leave --floor out")
    selection, dropped = selection_of(arguments), Counter()
    policy = load_cascade(arguments.checkpoint)
    data = CascadeData.read(arguments.data, selection=selection, dropped=dropped)
    table = models_file(arguments.models, data)
    found = evaluate_cascade(
        data,
        policy,
        static=incumbent_of(table),
        objective=None if table is None else table.objective,
        floor=FLOOR,
        method=method,
        seed=arguments.seed,
    )
    return replace(found, selection=selection_told(selection, dropped))


def models_file(path: Path | None, data: CascadeData) -> ModelsFile | None:
    from sage.orchestrator.models_file import ModelsFile

    if path is None and not MODELS_FILE.exists():
        return None
    table = ModelsFile.read(path or MODELS_FILE)
    if set(table.models) & set(data.models):
        return table
    if path is not None:
        raise ValueError(f"{path} has none of the log's models ({', '.join(data.models)}): give the table of that pool")
    return None


def incumbent_of(table: ModelsFile | None) -> CascadePolicy | None:
    from sage.policies.cascades.cascade_ladder import LadderByRole

    if table is None or not table.cascade:
        return None
    return LadderByRole({role: rule.ladder for role, rule in table.cascade.items()})
