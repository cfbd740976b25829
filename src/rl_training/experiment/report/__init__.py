"""Reports about runs: one HTML page with curves, comparisons, settings and everything else that the runs wrote."""

from rl_training.experiment.report.page import write_report

__all__ = ["write_report"]
