"""The agent's tools: they change files in memory and run commands in a sandbox."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import PurePosixPath

from sage.agent.host import Host
from sage.agent.old_tests import OldTests
from sage.agent.protocol import HELP, Block, hunks_of, lines_named
from sage.agent.pytest_words import pytest_command
from sage.sandbox import Backend, Command, Files, Limits, Result, SandboxError
from sage.workspace.searching import matches
from sage.workspace.workspace import ToolError, Workspace, shortened

NO_TESTS = 5  # pytest's exit code
NOT_FOUND = 127  # of a command that is not there
LIMITS = Limits(memory_mb=2048, processes=128, cpu_s=120, wall_s=120.0, disk_mb=512, output_bytes=60_000)
LOOKING = ("list", "read", "search")
CHANGING = ("edit", "write", "delete")
KEPT_OUT = {".git", ".hg", ".svn"}  # what is in them could start programs on the host later
MOST_OUTPUT = 6_000  # characters of a command's output that a model sees


class RepositoryCopy(Workspace):
    """The repository's files, all of which may be changed except those of its version control."""

    def __init__(self, files: Files) -> None:
        super().__init__(files, LIMITS)

    def why_not_changed(self, path: str) -> str:
        if KEPT_OUT.intersection(part.lower() for part in PurePosixPath(path).parts):
            return "it belongs to the version control"
        return ""


@dataclass(frozen=True)
class CheckResult:
    """The result of the tests: passed, failed, or None if they showed nothing."""

    passed: bool | None
    text: str
    proved: bool = False  # by the tests as they were before the run, in a sandbox; else only the exit code says so


class Toolbox:
    def __init__(self, backend: Backend, files: Files, test_command: str, may_change_tests: bool = False) -> None:
        self.backend = backend
        self.copy = RepositoryCopy(files)
        self.test_words = words_of(test_command)
        self.may_change_tests = may_change_tests
        self.old_tests: OldTests | None = None
        self.unproved = "the tests were not looked at yet"  # why the tests prove nothing; "" if they do

    def learn_tests(self) -> None:
        """Runs the tests before anything is changed, so that they can judge changes later.

        Sets `unproved` to the reason why no quality can be logged, '' if one can.
        """
        command = pytest_command(self.test_words)
        if self.may_change_tests:
            self.unproved = "--may-change-tests lets the models change the tests that judge them"
        elif command is None:
            self.unproved = f"{self.test_words[0]} is not pytest, and an exit code can be had without passing tests"
        else:
            found = OldTests(self.backend, self.copy.begun_with, command, LIMITS)
            self.unproved = found.problem
            self.old_tests = None if found.problem else found
        if not self.unproved and isinstance(self.backend, Host):
            self.unproved = "commands of the models run without a sandbox, and could have changed what judges them"

    def call(self, block: Block) -> str:
        """Does what a block says and returns the message for the model.

        One that begins with 'Error' says why it failed.
        """
        try:
            return self.perform(block)
        except (ToolError, SandboxError) as error:
            return f"Error: {error}"

    def perform(self, block: Block) -> str:
        files = self.copy
        if not block.closed and block.tool in ("edit", "write"):
            raise ToolError(
                f"the block {block.tool} {block.path} is not closed, so it may be cut off: write it again, and shorter"
            )
        match block.tool:
            case "list":
                return files.listed()
            case "read":
                path, start, end = lines_named(block)
                return files.read(path, start, end)
            case "search":
                return matches(self.backend, files.files, block.body.strip("\n") or block.argument)
            case "edit":
                return self.edit(block)
            case "write":
                if not block.path:
                    raise ToolError(f"name the file behind the word write:\n{HELP['write']}")
                return files.write(block.path, block.content)
            case "delete":
                return self.delete(block.path)
            case "run":
                return describe_result(self.run(("sh", "-c", block.body or block.argument)))
            case "test":
                return self.test().text
            case _:
                return ""

    def edit(self, block: Block) -> str:
        """Makes all replacements of an `edit` block and returns the message for the model.

        If one fails, none is made.
        """
        before, said = self.copy.files, []
        try:
            for old, new in hunks_of(block):
                if self.copy.text(block.path).count(old) != 1:  # at the end of a file without a last newline
                    old, new = old.rstrip("\n"), new.rstrip("\n")
                said.append(self.copy.edit(block.path, old, new))
        except ToolError:
            self.copy.files = before
            raise
        return "; ".join(said)

    def delete(self, path: str) -> str:
        self.copy.text(path)
        self.copy.check_editable(path)
        self.copy.files = {name: content for name, content in self.copy.files.items() if name != path}
        return f"removed {path}"

    def run(self, argv: tuple[str, ...]) -> Result:
        """Runs a command on a copy of the files; files that it writes are not kept."""
        return self.backend.run(self.copy.files, Command(argv=argv), LIMITS)

    def test(self) -> CheckResult:
        """Runs the test command on the files as they are and, if it succeeds, the old tests; returns their result."""
        result = self.run(self.test_words)
        if result.ended_by == "broken":
            return CheckResult(None, f"The tests could not be run. {describe_result(result)}")
        if result.code == NOT_FOUND:
            return CheckResult(
                None,
                f"The tests could not be run: is there a program {self.test_words[0]!r}? {describe_result(result)}",
            )
        none = result.code == NO_TESTS and pytest_command(self.test_words) is not None
        if none and self.old_tests is None:
            return CheckResult(None, "There are no tests yet.")
        if result.succeeded or none:
            return self.test_as_before(f"The tests passed. {describe_result(result)}")
        return CheckResult(False, f"The tests failed. {describe_result(result)}", not self.unproved)

    def test_as_before(self, passed: str) -> CheckResult:
        if self.old_tests is None:
            return CheckResult(True, passed)
        found = self.old_tests.result_of(self.copy.files)
        if found.broken:
            return CheckResult(None, f"The tests could not be run. {found.reason}")
        if found.reason:
            return CheckResult(False, f"The tests failed. {found.reason}", not self.unproved)
        return CheckResult(True, passed, not self.unproved)


def describe_result(result: Result) -> str:
    how = f"exit code {result.code}" if result.ended_by == "exit" else f"ended by {result.ended_by}"
    said = b"\n".join(part.strip(b"\n") for part in (result.out, result.err) if part.strip())
    return f"({how})\n{shortened(said.decode(errors='replace'), MOST_OUTPUT)}".rstrip()


def words_of(command: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise ToolError(f"--test {command!r} cannot be read ({error}): quote it as for a shell") from error
    if not words:
        raise ToolError("--test names no command: write, for example, --test 'python -m pytest -q'")
    return words
