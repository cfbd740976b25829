"""A Python function to write: what it does, in variants, with a solution of ours that gives the expected values of its tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

Variant = Mapping[str, object]
NUM_CASES = 6  # drawn for the tests of one function, besides the fixed ones


@dataclass(frozen=True, kw_only=True)
class Function:
    """`name` and `text` may use the fields of a variant; the solution gets the arguments, then the fields by name."""

    name: str
    parameters: str
    text: str  # continues "a Python function `...` that"
    solution: Callable[..., object]
    draw: Callable[[Random], tuple]  # the arguments of one call
    fixed: tuple[tuple, ...] = ()  # arguments of calls that are always tested
    variants: tuple[Variant, ...] = ({},)

    def prompt(self, variant: Variant) -> str:
        called = f"{self.name.format(**variant)}({self.parameters})"
        return (
            f"Write a Python function `{called}` that {self.text.format(**variant)} "
            "Answer with the code only, in one Python code block."
        )

    def tests(self, variant: Variant, random: Random) -> str:
        """The text of a test file; the calls differ from one another."""
        name = self.name.format(**variant)
        calls = {repr(arguments): arguments for arguments in self.fixed}
        while len(calls) < len(self.fixed) + NUM_CASES:
            arguments = self.draw(random)
            calls[repr(arguments)] = arguments
        lines = [f"from answer import {name}"]
        for number, (written, arguments) in enumerate(calls.items(), start=1):
            # Written out before the solution runs, which may change a list that it is given.
            call = f"{name}({written[1:-1].rstrip(',')})"
            lines.append(f"\n\ndef test_{number}():\n    assert {call} == {self.solution(*arguments, **variant)!r}")
        return "\n".join(lines) + "\n"


def variants(**columns: tuple) -> tuple[Variant, ...]:
    """One variant per place in the columns."""
    return tuple(dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))


def integers(low: int, high: int, *, least: int = 0, most: int = 9) -> Callable[[Random], tuple[list[int]]]:
    """Draws one list of numbers as the only argument."""
    return lambda random: ([random.randint(low, high) for _ in range(random.randint(least, most))],)


def number(low: int, high: int) -> Callable[[Random], tuple[int]]:
    return lambda random: (random.randint(low, high),)


def letters(alphabet: str, *, least: int = 0, most: int = 12) -> Callable[[Random], tuple[str]]:
    """Draws one text as the only argument."""
    return lambda random: ("".join(random.choices(alphabet, k=random.randint(least, most))),)
