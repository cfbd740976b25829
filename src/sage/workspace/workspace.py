"""Files that an agent works on: shown as text, and changed only where the agent may."""

from __future__ import annotations

from difflib import get_close_matches

from sage.grading.grading import limits_of, may_change
from sage.grading.task import Task
from sage.sandbox import Files, Limits, SandboxError
from sage.sandbox.contract import checked_files

MOST_SHOWN = 12_000  # characters of a result
MOST_WRITTEN = 400_000  # bytes of a file


class ToolError(ValueError):
    """A call that is refused; the message tells the agent why, with the fix."""


class Workspace:
    """A copy of files that an agent reads and changes; `begun_with` has the files as they were given."""

    def __init__(self, files: Files, limits: Limits) -> None:
        self.begun_with = dict(files)
        self.files = dict(files)
        self.limits = limits  # of the sandbox that will take them

    def why_not_changed(self, path: str) -> str:
        """Returns the reason why a file must stay as it is; '' if it may be changed or made."""
        return ""

    def listing(self) -> list[dict[str, object]]:
        return [
            {"path": path, "lines": content.count(b"\n"), "editable": not self.why_not_changed(path)}
            for path, content in sorted(self.files.items())
        ]

    def listed(self) -> str:
        lines = (f"{'*' if one['editable'] else ' '} {one['path']} ({one['lines']} lines)" for one in self.listing())
        return shortened("\n".join(["Files, with a star those that you may change:", *lines]))

    def text(self, path: str) -> str:
        if path not in self.files:
            close = get_close_matches(path, self.files, n=3, cutoff=0.4) or sorted(self.files)[:3]
            raise ToolError(f"there is no file {path!r}: list_files names all, for example {', '.join(close)}")
        try:
            return self.files[path].decode()
        except UnicodeDecodeError:
            raise ToolError(f"{path} is not text in UTF-8, so it cannot be shown or edited") from None

    def read(self, path: str, start: int = 1, end: int | None = None) -> str:
        lines = self.text(path).split("\n")
        if lines[-1] == "":
            lines.pop()
        last = min(len(lines), end or len(lines))
        if start > max(last, 1):
            raise ToolError(f"there are no lines {start} to {last} in {path}: it has {len(lines)}")
        shown: list[str] = []
        room = MOST_SHOWN
        for number in range(start, last + 1):
            line = shortened(f"{number}\t{lines[number - 1]}")
            room -= len(line) + 1
            if room < 0 and shown:
                shown.append(f"({path} goes on to line {len(lines)}: read on with start={number})")
                break
            shown.append(line)
        return "\n".join(shown) or f"{path} is empty"

    def edit(self, path: str, old: str, new: str) -> str:
        self.check_editable(path)
        text = self.text(path)
        number = text.count(old)
        if number != 1:
            seen = "does not occur" if not number else f"occurs {number} times"
            fix = "add lines around it" if number else "read the file, and copy the text without the numbers of lines"
            raise ToolError(f"the old text {seen} in {path}, and must occur once: {fix}")
        if old == new:
            raise ToolError("old and new are the same text: nothing would change")
        place = text.index(old)
        self.put(path, text[:place] + new + text[place + len(old) :])
        first = text.count("\n", 0, place) + 1
        return f"edited {path}, from line {first}"

    def write(self, path: str, content: str) -> str:
        self.check_editable(path)
        known = "wrote" if path in self.files else "made"
        self.put(path, content)
        return f"{known} {path} ({content.count(chr(10))} lines)"

    def revert(self, path: str | None = None) -> str:
        if path is None:
            self.files = dict(self.begun_with)
            return "all files are as at the beginning"
        if path not in self.files and path not in self.begun_with:
            raise ToolError(f"there is no file {path!r} to bring back")
        if path in self.begun_with:
            self.files[path] = self.begun_with[path]
            return f"{path} is as at the beginning"
        del self.files[path]
        return f"{path} was not there at the beginning, and is removed"

    def check_editable(self, path: str) -> None:
        if reason := self.why_not_changed(path):
            raise ToolError(f"{path!r} must stay as it is: {reason}")

    def put(self, path: str, content: str) -> None:
        """Stores the content of a file; raises ToolError if a sandbox would not take the file."""
        try:
            data = content.encode()
        except UnicodeEncodeError:
            raise ToolError("the text has surrogates, which no file can have: write whole characters") from None
        if len(data) > MOST_WRITTEN:
            raise ToolError(f"the file would have {len(data):,} bytes, and may have {MOST_WRITTEN:,}: make it smaller")
        if not path.isprintable():
            raise ToolError(f"the path {path!r} must have printable characters only")
        files = self.files | {path: data}
        try:
            checked_files(files, self.limits)
        except SandboxError as error:
            raise ToolError(str(error)) from error
        self.files = files


class TaskWorkspace(Workspace):
    """The files of a task, of which an agent may change those that a repair may change."""

    def __init__(self, task: Task) -> None:
        super().__init__(task.files, limits_of(task))
        self.task = task

    def why_not_changed(self, path: str) -> str:
        if may_change(self.task, path):
            return ""
        roots = ", ".join(self.task.editable)
        return f"a repair may change files of {roots}, and add Python files there, but no tests and no conftest.py"


def shortened(text: str, most: int = MOST_SHOWN) -> str:
    """Returns the text, without its middle if it has more than `most` characters."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n... {len(text) - 2 * half:,} characters are left out ...\n{text[-half:]}"
