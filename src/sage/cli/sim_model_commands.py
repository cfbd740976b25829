"""`sage sim fit-models`: the models that a policy may ask in the simulator, from recorded outcomes."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

from sage.cli.parser import accept


def add_models_option(command: argparse.ArgumentParser) -> None:
    text = "a file of `sage sim fit-models`; invented models if not given"
    accept(command, command.add_argument("--fitted-models", type=Path, metavar="FILE", help=text), "--models")


def add_fit_models(fit: argparse.ArgumentParser) -> None:
    fit.add_argument("--outcomes", type=Path, required=True, help="an outcome table of `sage log import`")
    fit.add_argument("--out", type=Path, required=True, help="the models, as JSON")
    fit.add_argument(
        "--level",
        choices=("irt", "replay"),
        default="irt",
        help="irt: item-response curves, and costs by outcome (default); replay: whole recorded rows",
    )
    fit.add_argument(
        "--tiers",
        metavar="small=A,medium=B,large=C,escalated=D",
        help="which models; default: by mean cost and score, among those that no other beats in both",
    )
    fit.add_argument(
        "--held-out-by",
        choices=("task", "category"),
        default="task",
        help="what the two fifths are that no fit sees, and that are replayed on unseen tasks only (task)",
    )
    fit.add_argument(
        "--units-per-usd",
        type=float,
        help="the simulator's currency per dollar; default: such that the large model costs 16 on average",
    )
    fit.add_argument("--seed", type=int, default=0, help="of what is held out (0)")
    fit.set_defaults(func=fit_to_outcomes)


def fit_to_outcomes(arguments: argparse.Namespace) -> int:
    from sage.outcomes.table import OutcomeTable
    from sage.sim.recorded.fitting import FitError, fit_models

    if arguments.out.exists() and arguments.out.samefile(arguments.outcomes):
        raise FitError(f"--out {arguments.out} is the outcome table, which would be overwritten: choose another name")
    table = OutcomeTable.open(arguments.outcomes)
    found = fit_models(
        table,
        arguments.level,
        tiers=arguments.tiers,
        units_per_usd=arguments.units_per_usd,
        held_out_by=arguments.held_out_by,
        seed=arguments.seed,
    )
    found.save(arguments.out)
    print(f"{arguments.out}: level {found.level}, from {len(table)} tasks of {table.name} ({table.data_source})")
    print(", ".join(f"{role} {name}" for role, name in found.tiers.items()))
    for name, checks in found.checks.items():
        print("\n".join(check_lines(name.replace("_", " "), checks)))
    print(f"licence {table.licence or 'not known'}: {found.source['licence_note']}")
    return 0


def check_lines(name: str, checks: Mapping) -> Iterator[str]:
    unions, calibration, costs = checks["unions"], checks["calibration"], checks["costs"]
    coins = unions["independent_coins"]
    yield f"{name}: {checks['tasks']} tasks"
    yield (
        f"  unions of two tiers: off by at most {100 * unions['largest_error_of_tiers']:.1f} points ({verdict(unions)}); of all "
        f"{unions['pairs']} pairs {100 * unions['largest_error']:.1f}, {unions['share_within_bound']:.0%} within "
        f"{100 * unions['bound']:g}; independent coins {100 * coins['largest_error']:.1f}"
    )
    yield f"  calibration: ECE {calibration['ece']:.3f} ({verdict(calibration)})"
    yield f"  cost quantiles: off by at most {costs['largest_error']:.0%} ({costs['where']}; {verdict(costs)})"


def verdict(check: Mapping) -> str:
    return "holds" if check["holds"] else f"does not hold, bound {check['bound']:g}"
