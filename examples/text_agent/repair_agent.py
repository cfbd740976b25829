"""An agent without a model: it asks which lines are suspicious, tries small replacements in them, and keeps what helps.

sage sim run --policy 'command:python examples/text_agent/repair_agent.py' --split test_family

It shows all that an agent has to do: read a line of JSON, write a line of JSON, and stop when the task has ended.
"""

import contextlib
import json
import re
import sys

PAIRS = (  # of words and operators, to be replaced in a line, both ways
    "<= | <, >= | >, == | !=, < | >=, <= | >, < | >, + | -, * | //, and | or, min | max, True | False, is not | is, not in | in, "
    "if not | if, 0 | 1, break | continue"
)
REPLACEMENTS = [pair.split(" | ") for pair in PAIRS.split(", ")]
SUSPECT = re.compile(r"^(\S+):(\d+): .*\(suspicion", re.MULTILINE)
FAILED = re.compile(r"^\d+ of \d+ tests failed: (.*)$", re.MULTILINE)


class EndedError(Exception):
    """The task is over: submitted, given up, or out of budget."""


def call(tool: str, **arguments: object) -> str:
    """Calls a tool and waits for its text."""
    print(json.dumps({"tool": tool, "arguments": arguments}), flush=True)
    return receive()["text"]


def receive() -> dict:
    line = sys.stdin.readline()
    if not line or (message := json.loads(line))["ended"]:
        raise EndedError
    return message


def variants(line: str) -> list[str]:
    """The line with one word or operator replaced, at one place each, and with one number moved by one."""
    found = []
    for pair in REPLACEMENTS:
        for old, new in (pair, pair[::-1]):
            edge = r"\b" if old[0].isalnum() else ""
            pattern = rf"{edge}{re.escape(old)}{edge}" + ("(?!=)" if old in "<>+-*" else "")
            found += [line[: m.start()] + new + line[m.end() :] for m in re.finditer(pattern, line)]
    for match in re.finditer(r"\b\d+\b", line):
        for number in (int(match[0]) + 1, int(match[0]) - 1):
            found.append(line[: match.start()] + str(number) + line[match.end() :])
    return list(dict.fromkeys(found))


def unique(lines: list[str], number: int) -> tuple[int, int]:
    """A range of lines around one whose text occurs once in the file."""
    text, first, last = "\n".join(lines), number, number + 1
    while text.count("\n".join(lines[first:last])) > 1:
        first, last = max(first - 1, 0), min(last + 1, len(lines))
    return first, last


def failing(text: str) -> set[str] | None:
    """The tests that failed; None if they crashed."""
    if match := FAILED.search(text):
        return set(match[1].split(", "))
    return set() if text.startswith(("All ", "The test passed")) else None


def try_line(path: str, lines: list[str], number: int, new: str) -> set[str] | None:
    """Edits one line and runs the tests; what fails then."""
    first, last = unique(lines, number)
    changed = [*lines[first:number], new, *lines[number + 1 : last]]
    call("edit", path=path, old="\n".join(lines[first:last]), new="\n".join(changed))
    return failing(call("run_tests"))


def repair() -> None:
    receive()  # the task, its files and the tools, of which we know what we need
    broken = failing(call("run_tests"))
    suspects = [(path, int(line) - 1) for path, line in SUSPECT.findall(call("localise"))]
    files = {path: call("read_file", path=path) for path in dict.fromkeys(path for path, _ in suspects)}
    sources = {path: [line.partition("\t")[2] for line in text.split("\n")] for path, text in files.items()}
    candidates = [
        (rank + 2 * turn, path, number, new)
        for rank, (path, number) in enumerate(suspects)
        if number < len(sources[path])
        for turn, new in enumerate(variants(sources[path][number]))
    ]
    for _, path, number, new in sorted(candidates, key=lambda one: one[0]):
        before = sources[path][number]
        now = try_line(path, sources[path], number, new)
        if now is not None and not now:
            call("submit")
        sources[path][number] = new
        if now is not None and (broken is None or now < broken):
            broken = now  # it helps: go on from here
            continue
        first, last = unique(sources[path], number)
        text = "\n".join(sources[path][first:last])
        sources[path][number] = before
        call("edit", path=path, old=text, new="\n".join(sources[path][first:last]))
    call("give_up")


if __name__ == "__main__":
    with contextlib.suppress(EndedError):
        repair()
