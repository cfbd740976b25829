"""The site of the documentation shows formulas as formulas; building it takes tools that tests do without."""

import runpy
from pathlib import Path

import pytest

FORMULA = runpy.run_path(str(Path(__file__).parent.parent / "scripts" / "build_docs.py"))["FORMULA"]


@pytest.mark.parametrize(
    ("text", "formulas"),
    [
        ("the rate $\\tau$ of", ["\\tau"]),
        ("at the fractions $\\tau_i = (i -\n\\tfrac12)/N$, and $N$ of them", ["\\tau_i = (i -\n\\tfrac12)/N", "N"]),
        ("$$a =\n  b$$", ["a =\n  b"]),
        ("it costs 5$ a day.\n\nAnother costs 6$ a day.", []),
    ],
)
def test_a_formula_may_go_on_in_the_next_line_but_not_in_the_next_paragraph(text: str, formulas: list[str]) -> None:
    assert [shown or inline for shown, inline in FORMULA.findall(text)] == formulas
