"""`sage prove`, and `eval-offline` and `gate`, which were its parts: they parse, call `sage.pipeline`, and print."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from sage.cli.train_commands import ROWS, add_common
from sage.files import write_json
from sage.pipeline.choices import DATABASE, INTERVALS, PROOF


def add_prove(prove: argparse.ArgumentParser) -> None:
    prove.description = (
        "Judges a policy on tasks that it was not learned from, and decides whether it may serve. Exit code: 0 it may, "
        "3 it may not, 2 the question cannot be answered."
    )
    prove.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="a policy of `sage train`")
    prove.add_argument("--data", type=Path, default=DATABASE, help=f"{ROWS.format('')} (default: {DATABASE})")
    prove.add_argument("--out", type=Path, help=f"evaluation and verdict as JSON (default: CHECKPOINT{PROOF})")
    add_question(prove)
    add_verdict(prove)
    prove.set_defaults(func=run_prove)


def add_eval_offline(evaluate: argparse.ArgumentParser) -> None:
    add_former_inputs(evaluate)
    add_question(evaluate)
    evaluate.add_argument("--out", required=True, type=Path, help="the report as JSON")
    evaluate.set_defaults(func=eval_offline)


def add_gate(gate: argparse.ArgumentParser) -> None:
    add_former_inputs(gate)
    add_question(gate)
    add_verdict(gate)
    gate.add_argument("--against", choices=["static"], default="static")
    gate.add_argument("--out", type=Path, help="write verdict and report as JSON")
    gate.set_defaults(func=run_gate)


def add_former_inputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", required=True, type=Path, help=ROWS.format(""))
    parser.add_argument("--checkpoint", required=True, type=Path)


def add_question(parser: argparse.ArgumentParser) -> None:
    """Adds what `sage.evaluate` and `sage.gate` have in common."""
    parser.add_argument("--floor", type=float, help="confidence below which the static table decides")
    parser.add_argument(
        "--interval",
        choices=INTERVALS,
        default="anytime",
        help="anytime: holds however often you look (default); fixed-n: shorter, holds for a single look",
    )
    parser.add_argument(
        "--final-rows",
        type=int,
        metavar="N",
        help="plan the looks, if you know how much you will log: the judged rows at the last one, fixed at the first look",
    )
    parser.add_argument(
        "--db", type=Path, help=f"the log, which counts the looks (default: --data if it is a log, else {DATABASE})"
    )
    add_common(parser)


def add_verdict(parser: argparse.ArgumentParser) -> None:
    """Adds what only a verdict asks for."""
    parser.add_argument("--allow-synthetic", action="store_true", help="judge synthetic rows too; the verdict says so")


def run_prove(arguments: argparse.Namespace) -> int:
    from sage.pipeline.gating import gate

    out = arguments.out or arguments.checkpoint.with_name(arguments.checkpoint.name + PROOF)
    found = gate(arguments.data, arguments.checkpoint, out=out, **asked_of_the_gate(arguments))
    if arguments.json:
        print(json.dumps(found.to_json()))
        return found.exit_code
    print(f"{found.report}\n{found}\nproof: {out}")
    if found.promote:
        more = "" if arguments.out is None else f" --proof {out}"
        more += " --allow-synthetic" if arguments.allow_synthetic else ""
        print(f"next: sage promote {arguments.checkpoint}{more}")
    return found.exit_code


def eval_offline(arguments: argparse.Namespace) -> int:
    from sage.pipeline.evaluating import evaluate

    found = evaluate(arguments.data, arguments.checkpoint, **question(arguments))
    write_json(arguments.out, found.to_json())
    print(json.dumps(found.to_json()) if arguments.json else found)
    return 0


def run_gate(arguments: argparse.Namespace) -> int:
    from sage.pipeline.gating import gate

    verdict = gate(arguments.data, arguments.checkpoint, out=arguments.out, **asked_of_the_gate(arguments))
    print(json.dumps(verdict.to_json()) if arguments.json else verdict)
    return verdict.exit_code


def asked_of_the_gate(arguments: argparse.Namespace) -> dict:
    return question(arguments) | {"allow_synthetic": arguments.allow_synthetic}


def question(arguments: argparse.Namespace) -> dict:
    given = {name: getattr(arguments, name) for name in ("models", "floor", "interval", "seed", "db", "final_rows")}
    return given | {"sources": arguments.source, "tenants": arguments.tenant}
