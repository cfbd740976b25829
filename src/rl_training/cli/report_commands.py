"""The command `report`."""

from __future__ import annotations

import argparse

from rl_training.experiment.report import write_report


def report(options: argparse.Namespace) -> int:
    print(f"report: {write_report(options.runs, options.out)}")
    return 0
