"""What the tools of the agent do: files are changed in memory, commands run in a sandbox."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import PurePosixPath

from sage.agent.protocol import HELP, Block, hunks_of, lines_named
from sage.sim.agents.running import matches
from sage.sim.agents.tools import ToolError
from sage.sim.agents.workspace import Workspace, shortened
from sage.sim.sandboxes import Backend, Command, Files, Limits, Result, SandboxError

NO_TESTS = 5  # pytest's exit code
LIMITS = Limits(memory_mb=2048, processes=128, cpu_s=120, wall_s=120.0, disk_mb=512, output_bytes=60_000)
LOOKING = ("list", "read", "search")
CHANGING = ("edit", "write", "delete")
KEPT_OUT = {".git", ".hg", ".svn"}  # what is in them could start programs on the host later
MOST_OUTPUT = 6_000  # characters of a command's output that a model sees


class Copy(Workspace):
    """The repository's files, of which all may be changed but those of its version control."""

    def __init__(self, files: Files) -> None:
        super().__init__(files, LIMITS)

    def why_not_changed(self, path: str) -> str:
        if KEPT_OUT.intersection(part.lower() for part in PurePosixPath(path).parts):
            return "it belongs to the version control"
        return ""


@dataclass(frozen=True)
class Checked:
    """What the tests said: passed, failed, or None where they said nothing."""

    passed: bool | None
    text: str


class Toolbox:
    def __init__(self, backend: Backend, files: Files, test_command: str) -> None:
        self.backend = backend
        self.copy = Copy(files)
        self.test_command = test_command
        self.test_words = words_of(test_command)

    def call(self, block: Block) -> str:
        """What a model is told of a call; what cannot be done is a sentence that begins with Error."""
        try:
            return self.done(block)
        except (ToolError, SandboxError) as error:
            return f"Error: {error}"

    def done(self, block: Block) -> str:
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
                return told(self.run(("sh", "-c", block.body or block.argument)))
            case "test":
                return self.test().text
            case _:
                return ""

    def edit(self, block: Block) -> str:
        """All parts of the block, or none."""
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
        """On a copy of the files: what the command writes is not kept."""
        return self.backend.run(self.copy.files, Command(argv=argv), LIMITS)

    def test(self) -> Checked:
        result = self.run(self.test_words)
        if result.ended_by == "broken":
            return Checked(None, f"The tests could not be run. {told(result)}")
        if result.code == NO_TESTS and "pytest" in self.test_words:
            return Checked(None, "There are no tests yet.")
        said = "The tests passed." if result.succeeded else "The tests failed."
        return Checked(result.succeeded, f"{said} {told(result)}")


def told(result: Result) -> str:
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
