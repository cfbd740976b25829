"""`sage report`."""

from __future__ import annotations

import argparse
from pathlib import Path

from sage.cli.parser import accept
from sage.pipeline.choices import DATABASE


def add_report(report: argparse.ArgumentParser) -> None:
    report.add_argument("--out", default=Path("report.html"), type=Path, help="the page (default: report.html)")
    report.add_argument("--db", default=str(DATABASE), help=f"the log (default: {DATABASE})")
    report.add_argument("--data-source", help="default: the strongest that the log holds")
    report.add_argument("--against", metavar="MODEL", help="the model to compare routing with (default: every one)")
    proof = report.add_argument("--proof", type=Path, help="what `sage prove` wrote, to be shown")
    accept(report, proof, "--evaluation")
    report.set_defaults(func=run_report)


def run_report(arguments: argparse.Namespace) -> int:
    from sage.report.report import write_report

    names = ("data_source", "against", "proof")
    write_report(arguments.out, arguments.db, **{name: getattr(arguments, name) for name in names})
    print(arguments.out)
    return 0
