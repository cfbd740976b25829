"""`sage lab plausible` and `plan`: where exploration should go, and how much of it a proof needs."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from sage.cli.train_commands import ROWS
from sage.cli.values import seed
from sage.dollars import in_usd
from sage.pipeline.choices import HOLDOUT, INTERVALS, PLANNED

if TYPE_CHECKING:
    from sage.proof.plan import Plan


def add_plausible(plausible: argparse.ArgumentParser) -> None:
    plausible.add_argument("--data", required=True, type=Path, help=ROWS.format(""))
    plausible.add_argument("--out", required=True, type=Path, help="the file that exploration.among names")
    plausible.add_argument("--most", type=int, default=3, help="models per role and category (3)")
    plausible.add_argument(
        "--checkpoint", type=Path, help="for a trial of this policy: its models and the static table's"
    )
    plausible.add_argument("--floor", type=float, help="confidence below which the static table decides in the trial")
    common(plausible, write_plausible)


def add_plan(plan: argparse.ArgumentParser) -> None:
    plan.add_argument("--data", required=True, type=Path, help=ROWS.format(""))
    plan.add_argument("--gain", required=True, type=float, help="reward per decision that a policy would be better by")
    plan.add_argument("--power", type=float, default=0.8, help="chance that the gate promotes it (0.8)")
    plan.add_argument("--exploration", type=shares, default=(0.1, 0.2, 0.3), help="shares to compare (0.1,0.2,0.3)")
    plan.add_argument("--among", type=int, metavar="N", help="also with exploration among N plausible models only")
    plan.add_argument("--acting", type=float, default=0.3, help="share of decisions that the policy takes (0.3)")
    plan.add_argument(
        "--holdout", type=float, default=HOLDOUT, help=f"share of tasks that the gate judges on ({HOLDOUT})"
    )
    plan.add_argument(
        "--interval",
        choices=(PLANNED, *INTERVALS),
        default=PLANNED,
        help="planned: the looks of --final-rows (default); or the intervals of the gate",
    )
    plan.add_argument("--looks", type=int, default=10, help="planned looks, evenly spaced (10)")
    common(plan, print_plan)


def common(parser: argparse.ArgumentParser, func: object) -> None:
    parser.add_argument(
        "--models", type=Path, help="the static table (default: models.yaml, if it has models of the log)"
    )
    parser.add_argument("--seed", type=seed, default=0, help="of everything that is drawn (0)")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(func=func)


def write_plausible(arguments: argparse.Namespace) -> int:
    from sage.evidence.routing_data import RoutingData
    from sage.pipeline.inputs import find_models_file, floor_of, objective_of, static_of
    from sage.policies.checkpoint import load_policy
    from sage.rl.find_plausible import find_plausible, find_trial

    data = RoutingData.read(arguments.data)
    table = find_models_file(arguments.models, data.models)
    static = static_of(table)
    if arguments.checkpoint is None:
        objective = objective_of(table)
        found = find_plausible(data, static=static, objective=objective, most=arguments.most, seed=arguments.seed)
    else:
        floor = floor_of(table, arguments.floor)
        found = find_trial(data, load_policy(arguments.checkpoint), floor=floor, static=static)
    found.write(arguments.out)
    if arguments.json:
        cells = {f"{role}/{category}": list(names) for (role, category), names in found.cells.items()}
        print(json.dumps({"out": str(arguments.out), "cells": cells}))
        return 0
    for (role, category), names in found.cells.items():
        print(f"{role} {category or '(no category)'}: {', '.join(names)}")
    print(f"{arguments.out}: name it in models.yaml, as exploration: {{share: 0.3, among: {arguments.out.name}}}")
    return 0


def shares(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} must be numbers with commas between them, as 0.1,0.3") from error


def print_plan(arguments: argparse.Namespace) -> int:
    from sage.evidence.routing_data import RoutingData
    from sage.pipeline.inputs import find_models_file, objective_of, static_of
    from sage.proof.plan import make_plan, measure_log, measure_scheme

    data = RoutingData.read(arguments.data)
    table = find_models_file(arguments.models, data.models)
    static, weights = static_of(table), objective_of(table).weights
    found = measure_log(data, weights)
    plans = [
        make_plan(
            found,
            measure_scheme(data, share, most=most, static=static, weights=weights, seed=arguments.seed),
            gain=arguments.gain,
            power=arguments.power,
            acting=arguments.acting,
            holdout=arguments.holdout,
            method=INTERVALS.get(arguments.interval, "t"),
            looks=arguments.looks if arguments.interval == PLANNED else 1,
        )
        for most in (None, *([] if arguments.among is None else [arguments.among]))
        for share in arguments.exploration
    ]
    asked = ("gain", "power", "acting", "holdout", "interval", "looks")
    values = {name: getattr(arguments, name) for name in asked} | {"data_source": data.source}
    if arguments.json:
        print(json.dumps(values | {"plans": [asdict(plan) for plan in plans]}))
        return 0
    named = f"{arguments.looks} planned looks" if arguments.interval == PLANNED else f"{arguments.interval} interval"
    print(
        f"to prove a gain of {arguments.gain:g} with power {arguments.power:g}, if the policy takes {arguments.acting:.0%} of "
        f"decisions ({named}, {len(data):,} {data.source} rows of {found.rows_per_task:.1f} rows per task):"
    )
    for plan in plans:
        print(told(plan, arguments.holdout))
    if arguments.interval == PLANNED:
        print("judge with --final-rows and the first of these numbers, at about as many looks as you planned")
    return 0


def told(plan: Plan, holdout: float) -> str:
    head = f"exploration {plan.exploration:g} among {plan.models:.1f} models"
    cost = f"1,000 decisions lose {plan.reward_lost:.2f} in reward"
    if plan.usd_spent is not None:
        cost += f" and spend {in_usd(plan.usd_spent, '+')} USD more than the static table"
    if plan.proof_rows is None or plan.log_rows is None:
        return f"{head}: no number of decisions is enough; {cost}"
    days = "" if plan.days is None else f", {plan.days:,.1f} days at the log's rate"
    full = f"; full information would have power {plan.full_power:.2f} there, of which this is {plan.power_share:.0%}"
    return (
        f"{head}: {plan.proof_rows:,} decisions about tasks that were not learned from, {plan.log_rows:,} in all with "
        f"--holdout {holdout:g}{days}{full}; {cost}"
    )
