"""`sage rl train-bc`, `train-cql`, `train-table`, `train-text`, `train-dr`, `eval-offline` and `gate`."""

from __future__ import annotations

import argparse
import json
import logging
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sage.cli.cascade_commands import evaluated_cascade, is_cascade
from sage.cli.values import add_selection, seed, selection_of, selection_told
from sage.dollars import in_usd
from sage.files import write_json

if TYPE_CHECKING:
    from rl_training.evaluation.intervals import Method
    from sage.evidence.objective import Objective
    from sage.evidence.routing_data import RoutingData
    from sage.orchestrator.models_file import ModelsFile
    from sage.orchestrator.static_table import StaticTable
    from sage.policies.learned_policy import LearnedPolicy
    from sage.policies.text.embedding import Embedder
    from sage.proof.evaluation import OfflineEvaluation

log = logging.getLogger(__name__)
MODELS_FILE = Path("models.yaml")
LEARNERS = {
    "train-bc": "behaviour cloning: learn a network that imitates the log",
    "train-cql": "conservative Q-learning: learn a network; values of models hardly tried are lowered",
    "train-table": "learn the best model of each role and category, with shrunk estimates",
    "train-text": "learn to choose by the words of a task, if that was shown to help",
    "train-dr": "learn a table that leaves the static one only if a lower bound of the gain is above 0",
}
WITH_UPDATES = ("train-bc", "train-cql")
INTERVALS: dict[str, Method] = {"anytime": "anytime", "fixed-n": "t"}


def add_commands(actions: argparse._SubParsersAction) -> None:
    for command, text in LEARNERS.items():
        train = actions.add_parser(command, help=text)
        train.add_argument("--data", required=True, type=Path, help="made by `sage rl export`")
        train.add_argument("--out", required=True, type=Path, help="the checkpoint; any suffix")
        train.add_argument(
            "--holdout", type=float, default=0.4, help="share of tasks kept for eval-offline and gate (0.4)"
        )
        if command in WITH_UPDATES:
            train.add_argument("--updates", type=int, help="steps of the optimizer")
        if command == "train-text":
            train.add_argument(
                "--embed", type=Path, metavar="MODEL.onnx", help="read texts with this model, not by words"
            )
            train.add_argument("--tokenizer", type=Path, metavar="tokenizer.json", help="of the model of --embed")
        common(train, train_policy)

    evaluate = actions.add_parser("eval-offline", help="gain over the static table, on tasks kept out of training")
    judged(evaluate, eval_offline)
    evaluate.add_argument("--out", required=True, type=Path, help="the report as JSON")

    gate = actions.add_parser("gate", help="promote or refuse; exit code 0 promoted, 3 refused, 2 bad input")
    judged(gate, run_gate)
    gate.add_argument("--against", choices=["static"], default="static")
    gate.add_argument("--allow-synthetic", action="store_true", help="judge synthetic rows too; the verdict says so")
    gate.add_argument("--out", type=Path, help="write verdict and report as JSON")


def judged(parser: argparse.ArgumentParser, func: object) -> None:
    parser.add_argument("--data", required=True, type=Path, help="made by `sage rl export`")
    parser.add_argument("--checkpoint", required=True, type=Path)
    parser.add_argument("--floor", type=float, help="confidence below which the static table decides")
    parser.add_argument(
        "--interval",
        choices=INTERVALS,
        default="anytime",
        help="anytime: holds however often you look (default); fixed-n: shorter, holds for a single look",
    )
    parser.add_argument("--db", type=Path, default=Path("sage.db"), help="the log, which counts the looks (sage.db)")
    common(parser, func)


def common(parser: argparse.ArgumentParser, func: object) -> None:
    parser.add_argument(
        "--models", type=Path, help=f"the static table (default: {MODELS_FILE}, if it has models of the log)"
    )
    add_selection(parser)
    parser.add_argument("--seed", type=seed, default=0)
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(func=func)


def train_policy(arguments: argparse.Namespace) -> int:
    from sage.evidence.quality_and_cost import version_of
    from sage.evidence.routing_data import RoutingData
    from sage.evidence.tasks import task_hashes
    from sage.policies.checkpoint import save_policy
    from sage.policies.features import VERSION
    from sage.policies.text.categories import learn_categories

    if not 0 < arguments.holdout < 1:
        raise ValueError(f"holdout={arguments.holdout} must lie between 0 and 1: it is a share of the tasks")
    selection, dropped = selection_of(arguments), Counter()
    data = RoutingData.read(arguments.data, gaps=True, selection=selection, dropped=dropped)
    if data.features_version != VERSION:
        raise ValueError(
            f"{arguments.data} has features version {data.features_version}, and this sage has {VERSION}: a policy of it could "
            "not serve; log and export with this sage"
        )
    if data.shadows is None and (data.propensity[np.arange(len(data)), data.action] == 1).all():
        log.warning("no row explores: of models that were never tried nothing can be learned")
    table = models_file(arguments.models, data)
    version_of(data, objective_of(table))  # refuses rows that cannot be judged later, before anything is learned
    train, _ = data.split_by_task(1 - arguments.holdout, arguments.seed)
    if not train.observed.any():
        raise ValueError(
            f"{arguments.data} has no outcome in the part to learn from: report outcomes, or lower --holdout"
        )
    policy = learn(arguments, train.select(train.observed), table)
    policy = replace(policy, categorizer=learn_categories(train.contexts, seed=arguments.seed))
    hashes = task_hashes(train.contexts.task_id, train.tasks)  # without an outcome too, or the gate would judge by them
    policy = replace(policy, training=replace(policy.training, task_hashes=hashes))
    save_policy(arguments.out, policy)
    chosen = selection_told(selection, dropped)
    tell_training(arguments, policy, len(np.unique(train.contexts.task_id)), chosen)
    return 0


def learn(arguments: argparse.Namespace, data: RoutingData, table: ModelsFile | None) -> LearnedPolicy:
    objective = objective_of(table)
    given = {"static": static_of(table), "seed": arguments.seed}
    if arguments.action in WITH_UPDATES:
        if objective.constrained:
            raise ValueError(
                f"{arguments.action} learns for weights, and the objective is {objective.name!r}: learn with train-dr or "
                "train-table"
            )
        given["weights"] = objective.weights
    else:
        given["objective"] = objective
    if vars(arguments).get("updates") is not None:
        if arguments.updates < 1:
            raise ValueError(f"updates={arguments.updates} must be 1 or more")
        given["updates"] = arguments.updates
    match arguments.action:
        case "train-bc":
            from sage.rl.train_bc import train_bc

            return train_bc(data, **given)
        case "train-cql":
            from sage.rl.train_cql import train_cql

            return train_cql(data, **given)
        case "train-table":
            from sage.rl.category_table import learn_table

            return learn_table(data, **given)
        case "train-text":
            from sage.rl.train_text import learn_text

            return learn_text(data, embedder=embedder_of(arguments), **given)
        case _:
            from sage.rl.doubly_robust_learner import learn_doubly_robust

            return learn_doubly_robust(data, **given)


def embedder_of(arguments: argparse.Namespace) -> Embedder | None:
    from sage.policies.text.embedding import Embedder

    if arguments.embed is None and arguments.tokenizer is None:
        return None
    if arguments.embed is None or arguments.tokenizer is None:
        raise ValueError("--embed and --tokenizer belong together: give the ONNX model and its tokenizer.json")
    return Embedder.of(arguments.embed, arguments.tokenizer)


def tell_training(arguments: argparse.Namespace, policy: LearnedPolicy, num_tasks: int, chosen: str) -> None:
    training = policy.training
    values = {
        "checkpoint": str(arguments.out),
        "policy": policy.name,
        "version": policy.version,
        "rows": training.num_rows,
        "tasks": num_tasks,
        "data_source": training.data_source,
        "selection": chosen,
        "reward": training.reward_version,
        "settings": training.settings,
        "against": training.against,
        "calibration": training.calibration,
        "inferred_categories": None
        if policy.categorizer is None
        else {"accuracy": policy.categorizer.accuracy, "share": policy.categorizer.share},
    }
    if arguments.json:
        print(json.dumps(values))
        return
    error = training.calibration.get("expected_calibration_error")
    worth = training.settings.get("usd_worth")
    traded = "" if worth is None else f"; a dollar counts as {worth:.4g} of quality: {traded_for(training.settings)}"
    sure = "too few differing choices to check the confidence" if error is None else f"calibration error {error:.3f}"
    print(
        f"{arguments.out}: {policy.name} {policy.version} from {training.num_rows:,} {training.data_source} rows with an outcome, "
        f"{training.reward_version}; the gate leaves out the {num_tasks:,} tasks of training; {sure}{traded}"
        + (f"; {chosen}" if chosen else "")
    )


def traded_for(settings: dict) -> str:
    """What the worth of a dollar is expected to give, by policies judged on tasks that they were not learned from."""
    return f"quality {settings['quality']:+.4f} and cost {in_usd(settings['cost_usd'], '+')} USD per decision, cross-fitted"


def eval_offline(arguments: argparse.Namespace) -> int:
    found, _ = evaluated(arguments)
    write_json(arguments.out, found.to_json())
    print(json.dumps(found.to_json()) if arguments.json else found)
    return 0


def run_gate(arguments: argparse.Namespace) -> int:
    from sage.files import sha256_of
    from sage.proof.gate import decide, record_of, why_no_record
    from sage.proof.gate_record import record_path

    checkpoint = arguments.checkpoint
    sha256 = sha256_of(checkpoint) if checkpoint.is_file() else ""
    found, looks = evaluated(arguments)
    if sha256_of(checkpoint) != sha256:
        raise ValueError(f"{checkpoint} changed while it was judged: judge it again")
    verdict = decide(found, allow_synthetic=arguments.allow_synthetic, looks=looks)
    no_record = why_no_record(found, looks)
    values = {
        "promote": verdict.promote,
        "reason": verdict.reason,
        "record": None if no_record else str(record_path(checkpoint)),
        "looks": looks,
        "report": found.to_json(),
    }
    if arguments.out is not None:
        write_json(arguments.out, values)  # before the record: where it fails, nothing was judged
    if not no_record:
        record_of(sha256, found, verdict).write(checkpoint)
    text = f"{'promote' if verdict.promote else 'refuse'}: {verdict.reason}"
    if no_record:
        text += f"\nno record was written, and what serves stays: {no_record}"
    print(json.dumps(values) if arguments.json else text)
    return verdict.exit_code


def evaluated(arguments: argparse.Namespace) -> tuple[OfflineEvaluation, int | None]:
    """The proof, and how often this policy was looked at by the ledger of the log, if there is a log."""
    from sage.evidence.routing_data import RoutingData
    from sage.orchestrator.models_file import GuardLimits
    from sage.policies.checkpoint import load_policy
    from sage.proof.evaluation import evaluate_offline
    from sage.proof.look_ledger import enter_look

    if arguments.floor is not None and not 0 <= arguments.floor <= 1:
        raise ValueError(f"floor={arguments.floor} must lie between 0 and 1: it is a confidence")
    if is_cascade(arguments.checkpoint):
        cascade = evaluated_cascade(arguments, INTERVALS[arguments.interval])
        return cascade, enter_look(arguments.db, cascade) if arguments.db.is_file() else None
    policy = load_policy(arguments.checkpoint)
    selection, dropped = selection_of(arguments), Counter()
    data = RoutingData.read(arguments.data, gaps=True, selection=selection, dropped=dropped)
    table = models_file(arguments.models, data)
    guard = GuardLimits() if table is None else table.guard
    floor = guard.confidence_floor if arguments.floor is None else arguments.floor
    method = INTERVALS[arguments.interval]
    found = evaluate_offline(
        data,
        policy,
        static=static_of(table),
        objective=objective_of(table),
        floor=floor,
        method=method,
        seed=arguments.seed,
    )
    found = replace(found, selection=selection_told(selection, dropped))
    return found, enter_look(arguments.db, found) if arguments.db.is_file() else None


def models_file(path: Path | None, data: RoutingData) -> ModelsFile | None:
    """The table that was asked for, or the one in this folder if it is about these models; else the log speaks."""
    from sage.orchestrator.models_file import ModelsFile

    if path is None and not MODELS_FILE.exists():
        return None
    table = ModelsFile.read(path or MODELS_FILE)
    if set(table.models) & set(data.models):
        return table
    if path is not None:
        raise ValueError(f"{path} has none of the log's models ({', '.join(data.models)}): give the table of that pool")
    return None


def static_of(table: ModelsFile | None) -> StaticTable | None:
    from sage.orchestrator.static_table import StaticTable

    return None if table is None else StaticTable.from_file(table)


def objective_of(table: ModelsFile | None) -> Objective:
    from sage.evidence.objective import DEFAULT

    return DEFAULT if table is None else table.objective
