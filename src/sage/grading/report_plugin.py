"""Plugin of pytest that signs its report; it is copied into the sandbox with its settings.

The code under test runs in the same process. The plugin therefore takes what it needs before that code is imported,
removes its own file, which holds the key, and signs the report, so that a report written or changed by anybody else is
not accepted.
"""

from __future__ import annotations

import hmac
import json
import os
import random
import sys
from collections.abc import Callable, Generator, Iterator
from types import FrameType

import pluggy
import pytest

SETTINGS: dict = {}  # key, report, shuffle, profile, only, kept: the copy in the sandbox has them
RANK = {"passed": 0, "skipped": 1, "failed": 2}


class Recorder:
    """Recorder of each test's outcome and error and, with `profile`, of the functions that the test called."""

    def __init__(
        self,
        finish: Callable[[dict], None],
        *,
        shuffle: int | None,
        profile: bool,
        only: list[str] | None,
        kept: list[str],
    ) -> None:
        self.finish = finish
        self.shuffle = shuffle
        self.profile = profile
        self.only = None if only is None else set(only)
        self.kept = set(kept)
        self.folder = os.path.join(os.getcwd(), "")
        self.tests: dict[str, dict] = {}
        self.broken: dict[str, str] = {}

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Iterator[None]:
        kept = [item for item in items if item.nodeid.split("[", 1)[0] in self.kept]
        yield
        items += [item for item in kept if item not in items]
        if self.only is not None:
            items[:] = [item for item in items if item.nodeid.split("[", 1)[0] in self.only]
        if self.shuffle is not None:
            random.Random(self.shuffle).shuffle(items)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.broken[report.nodeid] = (str(report.longrepr).strip().splitlines() or [""])[-1][:300]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        if not self.profile:
            yield
            return
        called: set[tuple[str, str]] = set()
        folder, cut = self.folder, len(self.folder)

        def note(frame: FrameType, event: str, _: object) -> None:
            if event == "call" and frame.f_code.co_filename.startswith(folder):
                called.add((frame.f_code.co_filename[cut:], frame.f_code.co_qualname))

        sys.setprofile(note)
        try:
            yield
        finally:
            sys.setprofile(None)
            self.test(item.nodeid)["calls"] = sorted(called)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo
    ) -> Generator[None, pluggy.Result, None]:
        outcome = yield
        report = outcome.get_result()
        if report.failed and call.excinfo is not None:
            frames = [
                (str(entry.path)[len(self.folder) :], entry.lineno + 1, entry.name)
                for entry in call.excinfo.traceback
                if str(entry.path).startswith(self.folder)
            ]
            message = (str(call.excinfo.value).strip().splitlines() or [""])[0]
            self.test(item.nodeid).setdefault("error", [call.excinfo.type.__name__, message[:300], frames[-12:]])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = self.test(report.nodeid)
        if report.when == "call" or report.outcome != "passed":
            test["outcome"] = max(test.get("outcome", "passed"), report.outcome, key=RANK.__getitem__)
        test["seconds"] = round(test.get("seconds", 0.0) + report.duration, 5)

    def test(self, node: str) -> dict:
        return self.tests.setdefault(node, {})

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        self.finish({"tests": self.tests, "broken": self.broken})


def signed_writer(key: bytes, path: str) -> Callable[[dict], None]:
    """Returns a function that writes values as signed JSON to `path`, with functions that nobody can replace later."""
    dumps, digest, open_file, write, close = json.dumps, hmac.digest, os.open, os.write, os.close

    def finish(values: dict) -> None:
        body = dumps(values).encode()
        content = digest(key, body, "sha256").hex().encode() + b"\n" + body
        descriptor = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        while content:
            content = content[write(descriptor, content) :]
        close(descriptor)

    return finish


def pytest_configure(config: pytest.Config) -> None:
    if SETTINGS:
        os.unlink(__file__)
        finish = signed_writer(bytes.fromhex(SETTINGS.pop("key")), os.path.abspath(SETTINGS.pop("report")))
        config.pluginmanager.register(Recorder(finish, **SETTINGS))
