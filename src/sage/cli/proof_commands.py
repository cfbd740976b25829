"""`sage rl train-...`, `eval-offline` and `gate`: they parse, call `sage.pipeline`, and print."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from sage.cli.values import add_selection, seed
from sage.files import write_json
from sage.pipeline.choices import CASCADE, CASCADE_METHODS, DATABASE, HOLDOUT, INTERVALS, LEARNERS, NETWORK_LEARNERS

ROWS = "made by `sage rl export`{}, or the log itself"
AUTO = "auto"


def add_commands(actions: argparse._SubParsersAction) -> None:
    for name, text in LEARNERS.items():
        train = actions.add_parser(f"train-{name}", help=text)
        add_training(train, ROWS.format(""))
        if name in NETWORK_LEARNERS:
            train.add_argument("--updates", type=int, help="steps of the optimizer")
        if name == "text":
            train.add_argument(
                "--embed", type=Path, metavar="MODEL.onnx", help="read texts with this model, not by words"
            )
            train.add_argument("--tokenizer", type=Path, metavar="tokenizer.json", help="of the model of --embed")
        train.set_defaults(learner=name)
    add_cascade_training(actions)

    evaluate = actions.add_parser("eval-offline", help="gain over the static table, on tasks kept out of training")
    add_question(evaluate, eval_offline)
    evaluate.add_argument("--out", required=True, type=Path, help="the report as JSON")

    gate = actions.add_parser("gate", help="promote or refuse; exit code 0 promoted, 3 refused, 2 bad input")
    add_question(gate, run_gate)
    gate.add_argument("--against", choices=["static"], default="static")
    gate.add_argument("--allow-synthetic", action="store_true", help="judge synthetic rows too; the verdict says so")
    gate.add_argument("--out", type=Path, help="write verdict and report as JSON")


def add_cascade_training(actions: argparse._SubParsersAction) -> None:
    train = actions.add_parser(
        "train-cascade", help="learn from logged cascades which model to try next and when to stop"
    )
    add_training(train, ROWS.format(" --cascades"))
    train.add_argument("--price", type=float, help="quality points per dollar; default: the objective of models.yaml")
    train.add_argument(
        "--learner",
        choices=(AUTO, *CASCADE_METHODS),
        default=AUTO,
        help="auto: fitted Q, unless another is better on tasks left out",
    )


def add_training(parser: argparse.ArgumentParser, rows: str) -> None:
    parser.add_argument("--data", required=True, type=Path, help=rows)
    parser.add_argument("--out", required=True, type=Path, help="the checkpoint; any suffix")
    parser.add_argument(
        "--holdout", type=float, default=HOLDOUT, help=f"share of tasks kept for eval-offline and gate ({HOLDOUT})"
    )
    add_common(parser, train_policy)


def add_question(parser: argparse.ArgumentParser, func: object) -> None:
    """Adds what `eval-offline` and `gate` have in common."""
    parser.add_argument("--data", required=True, type=Path, help=ROWS.format(""))
    parser.add_argument("--checkpoint", required=True, type=Path)
    parser.add_argument("--floor", type=float, help="confidence below which the static table decides")
    parser.add_argument(
        "--interval",
        choices=INTERVALS,
        default="anytime",
        help="anytime: holds however often you look (default); fixed-n: shorter, holds for a single look",
    )
    parser.add_argument(
        "--db", type=Path, help=f"the log, which counts the looks (default: --data if it is a log, else {DATABASE})"
    )
    add_common(parser, func)


def add_common(parser: argparse.ArgumentParser, func: object) -> None:
    """Adds the table, the choice of rows, the seed and --json."""
    parser.add_argument(
        "--models", type=Path, help="the static table (default: models.yaml, if it has models of the log)"
    )
    add_selection(parser)
    parser.add_argument("--seed", type=seed, default=0)
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(func=func)


def train_policy(arguments: argparse.Namespace) -> int:
    from sage.pipeline.training import train

    learner = arguments.learner
    if arguments.action == "train-cascade":
        learner = CASCADE if learner == AUTO else f"{CASCADE}-{learner}"
    names = ("out", "models", "holdout", "seed", "updates", "embed", "tokenizer", "price")
    given = {name: value for name, value in vars(arguments).items() if name in names}
    trained = train(arguments.data, learner=learner, sources=arguments.source, tenants=arguments.tenant, **given)
    print(json.dumps(trained.to_json()) if arguments.json else trained)
    return 0


def eval_offline(arguments: argparse.Namespace) -> int:
    from sage.pipeline.evaluating import evaluate

    found = evaluate(arguments.data, arguments.checkpoint, **question(arguments))
    write_json(arguments.out, found.to_json())
    print(json.dumps(found.to_json()) if arguments.json else found)
    return 0


def run_gate(arguments: argparse.Namespace) -> int:
    from sage.pipeline.gating import gate

    verdict = gate(
        arguments.data,
        arguments.checkpoint,
        allow_synthetic=arguments.allow_synthetic,
        out=arguments.out,
        **question(arguments),
    )
    print(json.dumps(verdict.to_json()) if arguments.json else verdict)
    return verdict.exit_code


def question(arguments: argparse.Namespace) -> dict:
    given = {name: getattr(arguments, name) for name in ("models", "floor", "interval", "seed", "db")}
    return given | {"sources": arguments.source, "tenants": arguments.tenant}
