"""`sage report`."""

from __future__ import annotations

import argparse
from pathlib import Path

from sage.cli.parser import accept
from sage.pipeline.choices import DATABASE, MODELS_FILE


def add_report(report: argparse.ArgumentParser) -> None:
    report.add_argument("--out", default=Path("report.html"), type=Path, help="the page (default: report.html)")
    report.add_argument("--db", default=str(DATABASE), help=f"the log (default: {DATABASE})")
    table = "the table, to compare a promoted policy with its proof (default: models.yaml)"
    report.add_argument("--models", type=Path, default=MODELS_FILE, help=table)
    report.add_argument("--data-source", help="default: the strongest that the log holds")
    report.add_argument("--against", metavar="MODEL", help="the model to compare routing with (default: every one)")
    proof = report.add_argument("--proof", type=Path, help="what `sage prove` wrote, to be shown")
    accept(report, proof, "--evaluation")
    report.set_defaults(func=run_report)


def run_report(arguments: argparse.Namespace) -> int:
    from sage.report.report import write_report

    names = ("data_source", "against", "proof")
    given = {name: getattr(arguments, name) for name in names}
    write_report(arguments.out, arguments.db, served=served_lines(arguments), **given)
    print(arguments.out)
    return 0


def served_lines(arguments: argparse.Namespace) -> list[str]:
    """Returns what `sage status` says of each promoted policy; nothing without a table or a promotion."""
    if not arguments.models.is_file() or not Path(arguments.db).is_file():
        return []
    from sage.pipeline.status import lines_of, status

    slots = status(db=arguments.db, models=arguments.models).slots
    return [line for name, slot in slots.items() if slot.proof is not None for line in lines_of(name, slot)]
