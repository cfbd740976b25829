"""Answers of models, as they come: what is a call, and what a model is told if none is."""

from __future__ import annotations

import pytest

from sage.agent.prompts import TOOLS
from sage.agent.protocol import HELP, Block, blocks_of, hunks_of, lines_named
from sage.workspace.workspace import ToolError

CODER = TOOLS["coder"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("```read a.py\n```", Block("read", "a.py")),
        ("So:\r\n```read_file path=./a.py\n```\nok", Block("read", "path=./a.py")),
        ("``` READ: `a.py`\n```", None),  # a backtick in the info string is no fence
        ("~~~test\n~~~", Block("test")),
        ("```write a.md\n```` \n```", Block("write", "a.md")),  # closed by more backticks than it began with
        ("````write a.md\n```python\nx\n```\n````", Block("write", "a.md", "```python\nx\n```\n")),
        ("```run\npytest -q", Block("run", "", "pytest -q\n", closed=False)),
        ("```Done\nall\n```", Block("done", "", "all\n")),
    ],
)
def test_a_block_is_a_call(text: str, expected: Block | None) -> None:
    if expected is None:
        with pytest.raises(ToolError):
            blocks_of(text, CODER)
    else:
        assert blocks_of(text, CODER)[0] == expected


@pytest.mark.parametrize("role", TOOLS)
def test_what_models_are_shown_can_be_read(role: str) -> None:
    for tool in TOOLS[role]:
        (block,) = blocks_of(HELP[tool], TOOLS[role])
        assert (block.tool, block.closed) == (tool, True)


def test_calls_come_in_order_and_other_blocks_are_no_calls() -> None:
    text = "```python\nx\n```\n```read a.py\n```\nthen\n```test\n```"
    assert [block.tool for block in blocks_of(text, CODER)] == ["read", "test"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("I am done.", "your answer calls no tool"),
        ("```python\nx\n```", "a block 'python' calls no tool"),
        ("```wirte a.py\nx\n```", "did you mean 'write'?"),
        ("", "your answer calls no tool"),
    ],
)
def test_no_call_is_answered_by_how_to_make_one(text: str, sentence: str) -> None:
    with pytest.raises(ToolError, match="must be one of edit, write") as error:
        blocks_of(text, CODER)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("a.py", ("a.py", 1, None)),
        ("a.py 3-9", ("a.py", 3, 9)),
        ("a.py:3", ("a.py", 3, None)),
        ("'./b/a.py' ", ("b/a.py", 1, None)),
        ("a.py lines 3 to 9", ("a.py", 3, 9)),
    ],
)
def test_lines_to_read(words: str, expected: tuple[str, int, int | None]) -> None:
    assert lines_named(Block("read", words)) == expected


def test_an_edit_has_one_or_more_parts() -> None:
    body = "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n\n<<<<<<< ORIGINAL\nc\n=======\n>>>>>>> UPDATED\n"
    assert list(hunks_of(Block("edit", "a.py", body))) == [("a\n", "b\n"), ("c\n", "")]
    for wrong in ("a\nb\n", "<<<<<<< SEARCH\n=======\nb\n>>>>>>> REPLACE\n"):
        with pytest.raises(ToolError, match="must have its texts between marks"):
            hunks_of(Block("edit", "a.py", wrong))


def test_a_path_may_stand_on_the_first_line() -> None:
    (block,) = blocks_of("```write\npath: a.py\nx = 1\n```", CODER)
    assert (block.path, block.content) == ("a.py", "x = 1\n")
