"""A verifier that runs tests on a model's answer, in a sandbox that holds or not at all."""

from __future__ import annotations

import ast
import math
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import TYPE_CHECKING

from sage.verifiers.source import MOST_BYTES, python_source
from sage.verifiers.verifier import Answer, Opinion, VerifierError

if TYPE_CHECKING:
    from sage.grading.task import Task
    from sage.sandbox import Backend, Limits, Result

ANSWER = "answer.py"
TIME_LIMIT_S = 10.0
MEMORY_MB = 512
WALL = 3  # times the processor time, for a machine with other work
NOT_FOUND = 127  # the exit code of a command that is not there
MOST_FILE_BYTES = 64 * 2**20  # of all files, half of what a sandbox gives
GUARD = Lock()  # a backend runs one command at a time
OPENED: dict[tuple[int, str], Backend | str] = {}  # by process and name; a text is why there is none


class SandboxTests:
    """Verifier that passes an answer on which all tests pass in a sandbox.

    `files` are texts by their names, for the tests of a single task, or, in models.yaml, a list of files and folders.
    Without `files` and `command` it leaves the verdict to the caller.

    Without a command, pytest must report every test function of the `test_*.py` files as passed in a signed report,
    and tests that we add must fail: an answer that ends the process, skips tests or patches assertions does not pass.
    With a command, its exit code counts, so an answer that ends the process with 0 passes.

    Example:
        >>> checks = SandboxTests({"test_add.py": "from answer import add\\n\\ndef test_add():\\n    assert add(2, 3) == 5\\n"})
        >>> task = router.cascade(verifiers={"tests": checks}, role="coder", task="write add(a, b)")
    """

    def __init__(
        self,
        files: object = None,
        *,
        command: object = None,
        answer_file: object = ANSWER,
        sandbox: object = "auto",
        time_limit_s: object = TIME_LIMIT_S,
        memory_mb: object = MEMORY_MB,
    ) -> None:
        self.runs = files is not None or command is not None
        if not self.runs:
            if (answer_file, sandbox, time_limit_s, memory_mb) != (ANSWER, "auto", TIME_LIMIT_S, MEMORY_MB):
                raise VerifierError("tests has settings and nothing to run: add tests.files, or leave the settings out")
            return
        self.files = {} if files is None else contents(files)
        if (size := sum(map(len, self.files.values()))) > MOST_FILE_BYTES:
            raise VerifierError(f"tests.files have {size:,} bytes, and may have {MOST_FILE_BYTES:,}: leave some out")
        self.answer_file = checked_name(answer_file, self.files)
        self.argv = None if command is None else words_of(command)
        self.sandbox = checked_sandbox(sandbox)
        self.time_limit_s = positive_number("time_limit_s", time_limit_s)
        self.memory_mb = positive_number("memory_mb", memory_mb)
        self.expected = {} if self.argv else expected_tests(self.files)
        self.task: Task | None = None  # made when it is first needed, so that routing does not load what makes tasks

    @property
    def needs_caller(self) -> bool:
        return not self.runs

    def verify(self, answer: Answer) -> Opinion:
        if not self.runs:
            return Opinion("unknown", "no verdict of tests was reported, and no tests.files are given to run")
        text = python_source(answer.text) if self.answer_file.endswith(".py") else answer.text
        content = text.encode("utf-8", "replace")
        if len(content) > MOST_BYTES:
            return Opinion("unknown", f"more than {MOST_BYTES:,} bytes")
        with borrowed(self.sandbox) as backend:
            if isinstance(backend, str):
                return Opinion("unknown", backend)
            return self.opinion_on(backend, content)

    def opinion_on(self, backend: Backend, content: bytes) -> Opinion:
        from sage.grading.grading import grade
        from sage.sandbox import Command

        if self.argv:
            result = backend.run({**self.files, self.answer_file: content}, Command(argv=self.argv), self.limits())
            if result.code == NOT_FOUND:
                return Opinion("unknown", f"code {NOT_FOUND}: is there a program {self.argv[0]!r} in the sandbox?")
            return opinion(result, result.succeeded, f"{self.argv[0]} ended with code {result.code}")
        found = grade(backend, self.graded_task(), {self.answer_file: content}, limits=self.limits(), unnamed=True)
        number = len(found.failed | set(self.expected))
        told = "all tests passed" if found.solved else f"{len(found.failed)} of {number} tests failed"
        return opinion(found.report.result, found.solved, told if found.reason in ("", "tests") else found.reason)

    def graded_task(self) -> Task:
        from sage.grading.task import Task
        from sage.grading.test_files import guarded

        if self.task is None:
            tests = tuple(path for path in self.files if is_test_file(path))
            self.task = Task(
                id="answer",
                family="",
                level=0,
                split="",
                instruction="",
                files={self.answer_file: b""},
                editable=(self.answer_file,),
                test_roots=tests,
                tests=tests,
                visible={},
                hidden=self.expected,
                graded={path: guarded(text) if path in tests else text for path, text in self.files.items()},
                oracle={},
                seconds=self.time_limit_s,
            )
        return self.task

    def limits(self) -> Limits:
        from sage.sandbox import Limits

        cpu_s = math.ceil(self.time_limit_s)
        return Limits(cpu_s=cpu_s, wall_s=WALL * self.time_limit_s, memory_mb=math.ceil(self.memory_mb), disk_mb=128)

    def problem(self) -> str:
        """Returns the reason why nothing can be run here; '' if tests can run, or if there are none."""
        if not self.runs:
            return ""
        with borrowed(self.sandbox) as backend:
            return backend if isinstance(backend, str) else ""


def opinion(result: Result, passed: bool, told: str) -> Opinion:
    """Returns the opinion that follows from a run; 'unknown' if the sandbox failed or the wall time ran out."""
    if result.ended_by in ("broken", "wall_s"):
        return Opinion("unknown", f"ended by {result.ended_by}")
    return Opinion(
        "passed" if passed else "failed", told if result.ended_by == "exit" else f"ended by {result.ended_by}"
    )


def contents(files: object) -> dict[str, bytes]:
    """Returns the bytes of each file by name; `files` is a mapping of texts by name, or a list of files and folders.

    Raises VerifierError if it is something else, a path does not exist, or two files have the same name.
    """
    if isinstance(files, dict) and all(
        isinstance(name, str) and isinstance(files[name], str | bytes) for name in files
    ):
        return {name: text.encode() if isinstance(text, str) else text for name, text in files.items()}
    if not isinstance(files, list) or not files or not all(isinstance(path, str) for path in files):
        raise VerifierError(
            f"tests.files={files!r} must be a list of files and folders, such as [checks/test_answer.py]"
        )
    found: dict[str, bytes] = {}
    for path in map(Path, files):
        if not path.exists():
            raise VerifierError(f"tests.files: {str(path)!r} is not there, seen from {Path.cwd()}: correct the path")
        inside = sorted(part for part in path.rglob("*") if part.is_file()) if path.is_dir() else [path]
        for part in inside:
            if "__pycache__" in part.parts:
                continue
            name = part.relative_to(path.parent).as_posix()
            if name in found:
                raise VerifierError(
                    f"tests.files: two files are called {name!r}, and one would be left out: rename one"
                )
            found[name] = part.read_bytes()
    return found


@contextmanager
def borrowed(name: str) -> Iterator[Backend | str]:
    """Yields the backend of that name, which each process opens once, or a sentence that says why there is none.

    Only one thread has it at a time.
    """
    from sage.sandbox import SandboxError, choose

    with GUARD:
        key = os.getpid(), name
        if key not in OPENED:
            try:
                OPENED[key] = choose.open_backend(name)
            except SandboxError as error:
                OPENED[key] = f"nothing was run: {error}"
        yield OPENED[key]


def expected_tests(files: Mapping[str, bytes]) -> dict[str, int]:
    """Returns the test functions of the test files by their ids in pytest, each with 1, the least number of its cases.

    Raises VerifierError if there are none, or if a test file is not Python.
    """
    expected: dict[str, int] = {}
    for path, content in files.items():
        if not is_test_file(path):
            continue
        try:
            tree = ast.parse(content)
        except (SyntaxError, ValueError) as error:
            raise VerifierError(f"tests.files: {path} is not Python ({error}): repair it") from error
        expected |= dict.fromkeys((f"{path}::{name}" for name in names_of_tests(tree.body)), 1)
    if not expected:
        raise VerifierError(
            "tests.files has no test function in a file test_*.py: add one, or give a command whose exit code counts"
        )
    return expected


def names_of_tests(body: Sequence[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            yield node.name
        elif isinstance(node, ast.ClassDef) and is_test_class(node):
            yield from (f"{node.name}::{name}" for name in names_of_tests(node.body))


def is_test_class(node: ast.ClassDef) -> bool:
    return node.name.startswith("Test") or any(ast.unparse(base).endswith("TestCase") for base in node.bases)


def is_test_file(path: str) -> bool:
    name = PurePosixPath(path).name
    return name.startswith("test_") and name.endswith(".py")


def checked_name(value: object, files: Mapping[str, bytes]) -> str:
    from sage.grading.grading import RESERVED
    from sage.sandbox import SandboxError
    from sage.sandbox.contract import checked_path

    try:
        path = checked_path(value) if isinstance(value, str) else ""
        for name in files:
            checked_path(name)
    except SandboxError as error:
        raise VerifierError(f"tests: {error}") from error
    if not path or path in files or is_test_file(path) or PurePosixPath(path).name in RESERVED:
        raise VerifierError(
            f"tests.answer_file={value!r} must be a name for the answer that is none of the files and no test, such as {ANSWER}"
        )
    return path


def words_of(command: object) -> tuple[str, ...]:
    try:
        words = shlex.split(command) if isinstance(command, str) else command
    except ValueError:
        words = None
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise VerifierError(f"tests.command={command!r} must be a command for the sandbox, such as 'python check.py'")
    return tuple(words)


def checked_sandbox(value: object) -> str:
    from sage.sandbox.choose import BACKENDS

    if not isinstance(value, str) or value not in ("auto", *BACKENDS):
        raise VerifierError(
            f"tests.sandbox={value!r} must be one of auto, {', '.join(BACKENDS)}; without one, nothing is run"
        )
    return value


def positive_number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 100_000:
        raise VerifierError(f"tests.{name}={value!r} must be a number above 0, at most 100,000")
    return value
