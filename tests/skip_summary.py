"""A pytest plugin that ends a run with one line for every reason why tests were skipped.

Reasons are the sentences of `tests/needs.py`. A file that is skipped as a whole is counted once: nobody knows its tests. The
workers of xdist do not report such files, so each of them hands its list over when it ends.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

HANDED_OVER = "skipped_files"


class SkippedFiles:
    """Files that were skipped as a whole, with the reasons, in this process and in its workers."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.reasons: dict[str, str] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.reasons[report.nodeid] = reason_of(report)

    def pytest_sessionfinish(self) -> None:
        handed_over = getattr(self.config, "workeroutput", None)  # workers of xdist have one
        if handed_over is not None:
            handed_over[HANDED_OVER] = self.reasons

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.reasons |= getattr(node, "workeroutput", {}).get(HANDED_OVER, {})

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        reports = terminalreporter.getreports("skipped")
        tests = Counter(reason_of(report) for report in reports if isinstance(report, pytest.TestReport))
        for reason, number in sorted(tests.items()):
            terminalreporter.write_line(f"{number} test{'s'[: number > 1]} skipped: {reason}")
        for reason, number in sorted(Counter(self.reasons.values()).items()):
            terminalreporter.write_line(f"{number} test file{'s'[: number > 1]} skipped: {reason}")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(SkippedFiles(config))


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")
