"""Program that runs tests on many variants of a tree, each in a process of its own; it runs in a sandbox, beside
`trials.json`.

pytest is started once and forked, so that a variant costs its imports and its tests only.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import py_compile
import select
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Literal

import pytest

OPTIONS = ["--continue-on-collection-errors", "--assert=plain", "-c", "pytest.ini"]
EXPECTED = (pytest.skip.Exception, pytest.xfail.Exception)
for plugin in ("cacheprovider", "terminal", "logging", "warnings", "faulthandler"):
    OPTIONS += ["-p", f"no:{plugin}"]


class Recorder:
    """A pytest plugin that notes the test functions that passed with all their cases, and, if asked, the lines that
    each ran."""

    def __init__(self, editable: tuple[str, ...]) -> None:
        self.editable = editable
        self.bad: set[str] = set()
        self.cases: dict[str, int] = {}
        self.lines: dict[str, set[tuple[str, int]]] = {}
        self.errors: dict[str, tuple[str, list[tuple[str, int]]]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.split("[", 1)[0]
        if report.outcome == "failed":
            self.bad.add(name)
        elif report.when == "call" and report.outcome == "passed":
            self.cases[name] = self.cases.get(name, 0) + 1

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo) -> pytest.TestReport:
        """Returns a report of a test that lacks the text of a failure, whose making takes longer than most tests;
        pytest's part for unittest has set `excinfo` before."""
        outcome: Literal["passed", "failed", "skipped"] = "passed"
        if call.excinfo is not None:
            outcome = "skipped" if isinstance(call.excinfo.value, EXPECTED) else "failed"
            if self.editable and outcome == "failed":
                frames = [(self.inside(str(entry.path)), entry.lineno + 1) for entry in call.excinfo.traceback]
                self.errors[item.nodeid.split("[", 1)[0]] = (call.excinfo.type.__name__, [f for f in frames if f[0]])
        assert call.when != "collect"
        return pytest.TestReport(item.nodeid, item.location, {}, outcome, None, call.when, duration=call.duration)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        if not self.editable:
            yield
            return
        found = self.lines.setdefault(item.nodeid.split("[", 1)[0], set())
        known: dict[str, str] = {}

        def trace(frame: FrameType, event: str, _: object) -> Callable | None:
            name = frame.f_code.co_filename
            if name not in known:
                known[name] = self.inside(name)
            path = known[name]
            if not path:
                return None

            def line(frame: FrameType, event: str, _: object) -> Callable:
                if event == "line":
                    found.add((path, frame.f_lineno))
                return line

            return line

        sys.settrace(trace)
        try:
            yield
        finally:
            sys.settrace(None)

    def inside(self, name: str) -> str:
        """Returns the path below the work folder, if a repair may change the file, else ''."""
        path = name.removeprefix("/work/")
        return path if path != name and path.startswith(self.editable) else ""

    def results(self) -> dict:
        told: dict[str, dict] = {"passed": {name: n for name, n in self.cases.items() if name not in self.bad}}
        if self.editable:
            told["lines"] = {name: sorted(lines) for name, lines in self.lines.items()}
            told["errors"] = self.errors
        return told


class Trials:
    """A pytest plugin in place of its main loop: starts a session and forks it for every variant."""

    def __init__(self, plan: dict, recorder: Recorder) -> None:
        self.plan, self.recorder, self.results = plan, recorder, []

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> int:
        config._do_configure()
        session = pytest.Session.from_config(config)
        config.hook.pytest_sessionstart(session=session)

        def run() -> None:
            config.hook.pytest_collection(session=session)
            config.hook.pytest_runtestloop(session=session)

        self.results = [trial(self.plan, edits, run, self.recorder) for edits in self.plan["variants"]]
        return 0


def make_edits(edits: dict[str, list]) -> None:
    for path, changes in edits.items():
        with open(path, "r+b") as file:
            content = file.read()
            for start, end, text in sorted(changes, reverse=True):
                content = content[:start] + text.encode() + content[end:]
            file.seek(0)
            file.truncate()
            file.write(content)


def trial(plan: dict, edits: dict[str, list], run: Callable[[], object], recorder: Recorder) -> dict:
    """Returns the test results of one variant; its `ended` says why there are none."""
    originals = {path: open(path, "rb").read() for path in edits}  # noqa: SIM115
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        signal.setitimer(signal.ITIMER_PROF, plan["cpu_s"])  # not by the clock: how busy the machine is plays no part
        os.close(reading)
        silent = os.open(os.devnull, os.O_RDWR)
        for place in range(3):
            os.dup2(silent, place)
        try:
            make_edits(edits)
            run()
            told = recorder.results()
        except BaseException as error:
            told = {"ended": type(error).__name__}
        content = json.dumps(told).encode()
        while content:
            content = content[os.write(writing, content) :]
        os._exit(0)
    os.close(writing)
    content = answer(reading, plan["wall_s"])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    for path, original in originals.items():
        with open(path, "wb") as file:
            file.write(original)
    try:
        return json.loads(content)
    except ValueError:
        return {"ended": "silent"}


def answer(reading: int, seconds: float) -> bytes:
    """Returns all bytes from the file descriptor `reading` until the end of the stream; b'' if nothing comes for
    `seconds`."""
    parts = []
    with os.fdopen(reading, "rb", buffering=0) as file:
        while True:
            if not select.select([file], [], [], seconds)[0]:
                return b""
            part = file.read(2**16)
            if not part:
                return b"".join(parts)
            parts.append(part)


def compile_rest(edited: set[str]) -> None:
    """Compiles every file that no variant changes, so that it need not be compiled for each variant."""
    for folder, _, names in os.walk("."):
        for name in names:
            path = os.path.normpath(os.path.join(folder, name))
            if name.endswith(".py") and path not in edited:
                with contextlib.suppress(py_compile.PyCompileError, OSError):
                    py_compile.compile(
                        path, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
                    )


def main() -> None:
    with open("trials.json", encoding="utf-8") as file:
        plan = json.load(file)
    compile_rest({path for edits in plan["variants"] for path in edits})
    recorder = Recorder(tuple(plan["editable"]))
    words = [*OPTIONS, *plan["tests"]]
    if any(name == "conftest.py" for _, _, names in os.walk(".") for name in names):  # it may import what is edited
        run = functools.partial(pytest.main, words, plugins=[recorder])
        told = [trial(plan, edits, run, recorder) for edits in plan["variants"]]
    else:
        trials = Trials(plan, recorder)
        pytest.main(words, plugins=[recorder, trials])
        told = trials.results
    with open("told.json", "w", encoding="utf-8") as file:
        json.dump(told, file)


if __name__ == "__main__":
    main()
