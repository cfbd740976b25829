"""Which code is usual in a program: counts, probabilities and gains that are known."""

from __future__ import annotations

from collections import Counter

import pytest

from sage.sim.environment.naturalness import UNSEEN, Language, tokens_of
from sage.sim.tasks.mutations import Edit


def replacing(source: bytes, old: bytes, new: str) -> Edit:
    start = source.rindex(old)
    line = source[:start].count(b"\n") + 1
    return Edit(
        operator="",
        start=start,
        end=start + len(old),
        original=old.decode(),
        replacement=new,
        line=line,
        column=0,
        function="",
    )


def test_tokens_leave_comments_out_and_take_strings_for_one() -> None:
    source = b"a != \"b c\"  # why\n\n    # alone\n    x **= 2.5  # '\n'''long\ntext'''"
    offsets, tokens = tokens_of(source)
    assert tokens == [b"a", b"!=", b"''", b"\n", b"x", b"**=", b"2.5", b"\n", b"''"]
    assert [source[at : at + 1] for at in offsets[:3]] == [b"a", b"!", b'"']


def test_probabilities_are_those_of_witten_and_bell() -> None:
    language = Language({"a.py": b"x y x y x z", "notes.txt": b"x x x x"})
    nothing: Counter = Counter()
    unseen = 1 / (3 + UNSEEN)
    alone = (2 + 3 * unseen) / (6 + 3)
    assert language.probability([b"y"], nothing, nothing) == pytest.approx(alone)
    assert language.probability([b"x", b"y"], nothing, nothing) == pytest.approx((2 + 2 * alone) / (3 + 2))
    assert language.probability([b"new", b"y"], nothing, nothing) == pytest.approx(alone)
    less = Counter({(b"x", b"y"): 1, (b"y",): 1})
    fewer = Counter({(b"x",): 1, (): 1})
    alone = (1 + 3 * unseen) / (5 + 3)
    assert language.probability([b"x", b"y"], less, fewer) == pytest.approx((1 + 2 * alone) / (2 + 2))


def test_an_edit_gains_that_makes_a_line_like_others() -> None:
    source = b"".join(b"if not item%d:\n    return low\n" % i for i in range(9)) + b"if item9:\n    return low\n"
    language = Language({"a.py": source})
    right = language.gain("a.py", replacing(source, b"item9", "not item9"))
    wrong = language.gain("a.py", replacing(source, b"return low", "return high"))
    assert 0 < right <= 1
    assert -1 <= wrong < 0
    assert language.gain("a.py", replacing(source, b"low", "low")) == 0
