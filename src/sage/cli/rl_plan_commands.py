"""`sage rl plausible` and `plan`: where exploration should go, and how much of it a proof needs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from sage.cli.values import seed


def add_commands(actions: argparse._SubParsersAction) -> None:
    plausible = actions.add_parser("plausible", help="the models that are worth exploring, for models.yaml")
    plausible.add_argument("--data", required=True, type=Path, help="made by `sage rl export`")
    plausible.add_argument("--out", required=True, type=Path, help="the file that exploration.among names")
    plausible.add_argument("--most", type=int, default=3, help="models per role and category (3)")
    common(plausible, write_plausible)


def common(parser: argparse.ArgumentParser, func: object) -> None:
    parser.add_argument(
        "--models", type=Path, help="the static table (default: models.yaml, if it has models of the log)"
    )
    parser.add_argument("--seed", type=seed, default=0)
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(func=func)


def write_plausible(arguments: argparse.Namespace) -> int:
    from sage.cli.rl_commands import models_file, static_of
    from sage.rl.find_plausible import find_plausible
    from sage.rl.routing_data import RoutingData

    data = RoutingData.read(arguments.data)
    static = static_of(models_file(arguments.models, data))
    found = find_plausible(data, static=static, most=arguments.most, seed=arguments.seed)
    found.write(arguments.out)
    if arguments.json:
        cells = {f"{role}/{category}": list(names) for (role, category), names in found.cells.items()}
        print(json.dumps({"out": str(arguments.out), "cells": cells}))
        return 0
    for (role, category), names in found.cells.items():
        print(f"{role} {category or '(no category)'}: {', '.join(names)}")
    print(f"{arguments.out}: name it in models.yaml, as exploration: {{share: 0.3, among: {arguments.out.name}}}")
    return 0
