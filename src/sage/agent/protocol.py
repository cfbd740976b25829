"""Tool calls in plain text: a fenced block whose first word is the tool, read with patience for small models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from sage.workspace.workspace import ToolError

OLD, BETWEEN, NEW = "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"
FENCE = re.compile(r"^[ ]{0,3}(?P<ticks>`{3,}|~{3,})[ \t]*(?P<info>[^`\n]*)$")
RANGE = re.compile(r"^(?P<path>.+?)[ :](?P<start>\d+)(?:\s*(?:-|:|,|to)\s*(?P<end>\d+))?$")
HUNK = re.compile(r"^<{5,9}[^\n]*\n(.*?)^={5,9}[ \t]*\n(.*?)^>{5,9}[^\n]*$", re.DOTALL | re.MULTILINE)
ALIASES = {
    "read_file": "read",
    "cat": "read",
    "open": "read",
    "grep": "search",
    "find": "search",
    "list_files": "list",
    "ls": "list",
    "write_file": "write",
    "create": "write",
    "replace": "edit",
    "run_tests": "test",
    "tests": "test",
    "finish": "done",
    "submit": "done",
}
HELP = {  # each tool with a block, as models are shown it; small models copy what stands behind a block
    "list": "To see all files:\n```list\n```",
    "read": "To see a file, or the lines that you name:\n```read path/to/file.py 10-60\n```",
    "search": "To find lines of all files:\n```search\nregular expression\n```",
    "edit": "To replace lines that occur exactly once in a file (several such parts may follow one another):\n"
    f"```edit path/to/file.py\n{OLD}\nlines as they are in the file\n{BETWEEN}\nlines that take their place\n{NEW}\n```",
    "write": "To make a file, or to replace all of it:\n```write path/to/file.py\nthe whole content\n```",
    "delete": "To remove a file:\n```delete path/to/file.py\n```",
    "run": "To run a shell command on a copy of the files, which keeps no file that it writes:\n```run\npython -c 'print(1)'\n```",
    "test": "To run the tests of the project:\n```test\n```",
    "plan": "To hand in the plan, a line for the coder and, only if tests are wanted, one for the test engineer:\n"
    "```plan\ncoder: what to change, and in which files\n```",
    "done": "To end your work:\n```done\none sentence about what you did\n```",
    "approve": "If the change does what was asked:\n```approve\n```",
    "reject": "If it does not:\n```reject\nwhat is wrong, in a few sentences\n```",
}


@dataclass(frozen=True)
class Block:
    """A tool call: the tool, the words behind its name, and the lines below."""

    tool: str
    argument: str = ""
    body: str = ""
    closed: bool = True  # the fence was

    @property
    def path(self) -> str:
        """Returns the path: the argument, or the first line below it if the model put the path there."""
        return cleaned(self.argument or self.body.strip().split("\n")[0])

    @property
    def content(self) -> str:
        """Returns the lines below the path."""
        return self.body if self.argument else self.body.partition("\n")[2]


def blocks_of(text: str, tools: tuple[str, ...]) -> list[Block]:
    """Returns the tool calls of an answer, in order.

    Raises ToolError, whose message tells the model how to write one, if there is none.
    """
    found: list[Block] = []
    others: list[str] = []
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        fence = FENCE.match(lines[at].rstrip("\r"))
        at += 1
        if fence is None:
            continue
        first = at
        while at < len(lines) and not closes(lines[at], fence["ticks"]):
            at += 1
        body, closed = "\n".join(lines[first:at]), at < len(lines)
        at += 1
        word, _, argument = fence["info"].strip().partition(" ")
        name = word.strip(":").lower()
        name = ALIASES.get(name, name)
        if name in tools:
            found.append(Block(name, argument.strip(), f"{body}\n" if body else "", closed))
        else:
            others.append(word)
    if not found:
        raise ToolError(no_call(others, tools))
    return found


def closes(line: str, ticks: str) -> bool:
    bare = line.strip()
    return len(bare) >= len(ticks) and not bare.strip(ticks[0])


def no_call(others: list[str], tools: tuple[str, ...]) -> str:
    """Returns the message for a model that called no tool; `others` are the first words of its blocks."""
    named = [word for word in others if word]
    close = get_close_matches(named[0].lower(), tools, n=1) if named else []
    if close:
        seen = f"there is no tool {named[0]!r}, did you mean {close[0]!r}?"
    elif named:
        seen = f"a block {named[0]!r} calls no tool"
    else:
        seen = "your answer calls no tool"
    return (
        f"{seen} The word behind the three backticks must be one of {', '.join(tools)}. For example:\n{HELP[tools[0]]}"
    )


def cleaned(path: str) -> str:
    """Returns a path without the quotes and words that models put around it."""
    path = re.sub(r"^(?:path|file)\s*[=:]\s*", "", path.strip()).strip("\"'`<> ")
    return path.removeprefix("./")


def lines_named(block: Block) -> tuple[str, int, int | None]:
    """Returns path, first line and last line of a `read`; the last is None if the file is read to its end."""
    named = RANGE.match(block.path)
    if named is None:
        return block.path, 1, None
    start = max(int(named["start"]), 1)
    return cleaned(named["path"].removesuffix(" lines")), start, int(named["end"]) if named["end"] else None


def hunks_of(block: Block) -> Sequence[tuple[str, str]]:
    """Returns the pairs of old and new text of an `edit`, whole lines each; raises ToolError if there are none."""
    found = HUNK.findall(block.body)
    if not found or not all(old.strip() for old, _ in found):
        raise ToolError(f"the edit of {block.path!r} must have its texts between marks:\n{HELP['edit']}")
    return found
