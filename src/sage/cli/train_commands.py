"""`sage train`: it parses, calls `sage.pipeline`, and prints."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from sage.cli.parser import Fill, accept
from sage.cli.values import add_selection, seed
from sage.pipeline.choices import CASCADE, CASCADE_METHODS, DATABASE, HOLDOUT, LEARNERS, NETWORK_LEARNERS

ROWS = "the log, or what `sage log export`{} wrote"
EVERY = {**LEARNERS, CASCADE: "learn from logged cascades which model to try next and when to stop"}
AUTO = "auto"


def add_train(train: argparse.ArgumentParser) -> None:
    """Adds the options of every learner; `sage.train` says which of them one has."""
    texts = "; ".join(f"{name}: {text}" for name, text in EVERY.items())
    train.add_argument("--learner", choices=tuple(EVERY), default="dr", metavar="NAME", help=f"(default: dr) {texts}")
    train.add_argument("--data", type=Path, default=DATABASE, help=f"{ROWS.format('')} (default: {DATABASE})")
    train.add_argument("--out", type=Path, help="the checkpoint (default: policy_LEARNER.safetensors)")
    add_training(train)
    add_updates(train)
    add_embedder(train)
    add_price(train)
    method = "of --learner cascade; auto compares all on tasks left out"
    train.add_argument("--method", choices=(AUTO, *CASCADE_METHODS), default=AUTO, help=method)


def former_train(name: str) -> Fill:
    """Returns the function for `sage rl train-NAME`, which has the options of one learner."""

    def add_former(train: argparse.ArgumentParser) -> None:
        train.add_argument("--data", required=True, type=Path, help=ROWS.format(""))
        train.add_argument("--out", required=True, type=Path, help="the checkpoint; any suffix")
        add_training(train)
        train.set_defaults(learner=name, method=AUTO)
        if name in NETWORK_LEARNERS:
            add_updates(train)
        if name == "text":
            add_embedder(train)
        if name == CASCADE:
            add_price(train)
            train.add_argument("--learner", dest="method", choices=(AUTO, *CASCADE_METHODS))

    return add_former


def add_training(train: argparse.ArgumentParser) -> None:
    holdout = f"share of tasks kept for `sage prove` ({HOLDOUT})"
    train.add_argument("--holdout", type=float, default=HOLDOUT, help=holdout)
    add_common(train)
    train.set_defaults(func=train_policy)


def add_updates(train: argparse.ArgumentParser) -> None:
    train.add_argument("--updates", type=int, help=f"steps of the optimizer, of {' and '.join(NETWORK_LEARNERS)}")


def add_embedder(train: argparse.ArgumentParser) -> None:
    train.add_argument("--embed", type=Path, metavar="MODEL.onnx", help="text: read with this model, not by words")
    train.add_argument("--tokenizer", type=Path, metavar="tokenizer.json", help="of the model of --embed")


def add_price(train: argparse.ArgumentParser) -> None:
    text = "cascade: quality that a dollar is worth; default: the objective of models.yaml"
    accept(train, train.add_argument("--quality-per-usd", type=float, metavar="X", help=text), "--price")


def add_common(parser: argparse.ArgumentParser) -> None:
    """Adds the table, the choice of rows, the seed and --json."""
    parser.add_argument(
        "--models", type=Path, help="the static table (default: models.yaml, if it has models of the log)"
    )
    add_selection(parser)
    parser.add_argument("--seed", type=seed, default=0, help="of everything that is drawn (0)")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def train_policy(arguments: argparse.Namespace) -> int:
    from sage.pipeline.training import train

    learner, method = arguments.learner, arguments.method
    if method != AUTO and learner != CASCADE:
        raise ValueError(f"--method {method} is for --learner {CASCADE}, and it is {learner}: leave it out")
    names = ("models", "holdout", "seed", "updates", "embed", "tokenizer")
    given = {name: value for name, value in vars(arguments).items() if name in names}
    trained = train(
        arguments.data,
        learner=learner if method == AUTO else f"{learner}-{method}",
        out=arguments.out or Path(f"policy_{learner}.safetensors"),
        sources=arguments.source,
        tenants=arguments.tenant,
        price=vars(arguments).get("quality_per_usd"),
        **given,
    )
    if arguments.json:
        print(json.dumps(trained.to_json()))
    else:
        more = " --allow-synthetic" if trained.policy.training.data_source == "synthetic" else ""
        print(f"{trained}\nnext: sage prove {trained.checkpoint}{more}")
    return 0
