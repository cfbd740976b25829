"""The texts that models get: their duty, the blocks they can write, and the task."""

from __future__ import annotations

from collections.abc import Iterable

from sage.agent.protocol import HELP
from sage.agent.tools import CHANGING, LOOKING
from sage.workspace.workspace import Workspace, shortened

WORKING = (*CHANGING, *LOOKING, "run", "test", "done")
TOOLS = {
    "planner": ("plan", *LOOKING),
    "coder": WORKING,
    "debugger": WORKING,
    "test_engineer": WORKING,
    "reviewer": ("approve", "reject", *LOOKING),
}
DUTIES = {
    "planner": "You plan a change of a software project. Look at the files that matter, then hand in a short plan: what to change in "
    "which files, as a line that begins with 'coder:'. If tests are wanted, add a line that begins with 'test_engineer:'. You change "
    "nothing yourself.",
    "coder": "You change a software project as the plan says: the smallest change that does what is asked, in the style of the code.",
    "debugger": "The tests of a software project fail after a change. Find the cause and repair it. Do not weaken the tests.",
    "test_engineer": "You add tests to a software project, which fail without the change that was made and pass with it.",
    "reviewer": "You review a change of a software project. Approve it if it does what was asked and breaks nothing; else say what is "
    "wrong.",
}
LONGEST_LIST = 6_000  # characters of the list of files
ROOM = 60_000  # characters of files that are shown at the beginning
CHARACTERS_PER_TOKEN = 3  # of code, at least


def system_prompt(role: str) -> str:
    shown = "\n\n".join(HELP[tool] for tool in TOOLS[role])
    return (
        f"{DUTIES[role]}\n\nYou act by writing blocks. A block begins with three backticks and the name of a tool, and ends with "
        "three backticks. If the content has three backticks itself, use four around it. You may write several blocks; they "
        f"are done in order, and you are told what came of them. These are the tools:\n\n{shown}"
    )


def opening(task: str, files: Workspace, shown: Iterable[str], room: int, **sections: str) -> str:
    """Returns the first message: the task, the sections, and as many files of `shown` as `room` characters allow."""
    parts = [f"# Task\n\n{task}"]
    parts += [f"# {name.replace('_', ' ').capitalize()}\n\n{text}" for name, text in sections.items() if text]
    parts.append(shortened(files.listed(), min(LONGEST_LIST, room // 4)))
    left = room - sum(map(len, parts))
    for path in shown:
        text = f"# {path}\n\n{files.text(path)}" if is_text(files.files[path]) else ""
        if text and len(text) <= left:
            parts.append(text)
            left -= len(text)
    return "\n\n".join(parts)


def named_files(files: Workspace, *texts: str) -> list[str]:
    """Returns the files whose names occur in the texts, those with their whole path first, then the smaller ones."""
    words = " ".join(texts)
    found = [path for path in files.files if path in words or (path.rpartition("/")[2] in words and "." in path)]
    return sorted(found, key=lambda path: (path not in words, len(files.files[path])))


def is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def room_of(max_context: int | None, answer_tokens: int) -> int:
    """Returns the number of characters that all messages of a conversation may have.

    `max_context` and `answer_tokens` are in tokens; None means that the model's context is not known.
    """
    return ROOM * 2 if max_context is None else max((max_context - answer_tokens) * CHARACTERS_PER_TOKEN, 2_000)


def fitting(messages: list[dict[str, str]], room: int) -> list[dict[str, str]]:
    """Returns the conversation without its oldest turns if it has more than `room` characters.

    The first two and the last two messages always stay.
    """
    kept = list(messages)
    while sum(len(message["content"]) for message in kept) > room and len(kept) > 4:
        del kept[2:4]  # an answer and what it was told
    return kept
