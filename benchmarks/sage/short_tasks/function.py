"""Templates of Python functions to write: a text in variants, and our solution, which gives expected values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

Variant = Mapping[str, object]
NUM_CASES = 6  # drawn for the tests of one function, besides the fixed ones


@dataclass(frozen=True, kw_only=True)
class Function:
    """A template of a function; `name` and `text` may use a variant's fields.

    The solution gets the arguments, then the fields by name.
    """

    name: str
    parameters: str
    text: str  # continues "a Python function `...` that"
    solution: Callable[..., object]
    draw: Callable[[Random], tuple]  # the arguments of one call
    fixed: tuple[tuple, ...] = ()  # arguments of calls that are always tested
    variants: tuple[Variant, ...] = ({},)

    def prompt(self, variant: Variant) -> str:
        """Returns the prompt that asks a model for this variant."""
        called = f"{self.name.format(**variant)}({self.parameters})"
        return (
            f"Write a Python function `{called}` that {self.text.format(**variant)} "
            "Answer with the code only, in one Python code block."
        )

    def tests(self, variant: Variant, random: Random) -> str:
        """Returns the text of a test file for this variant; no two of its calls are the same."""
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
    """Returns one variant per position in the columns, which must have equal lengths."""
    return tuple(dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))


def integers(low: int, high: int, *, least: int = 0, most: int = 9) -> Callable[[Random], tuple[list[int]]]:
    """Returns a function that draws a list of numbers, as the only argument of a call."""
    return lambda random: ([random.randint(low, high) for _ in range(random.randint(least, most))],)


def number(low: int, high: int) -> Callable[[Random], tuple[int]]:
    """Returns a function that draws one number, as the only argument of a call."""
    return lambda random: (random.randint(low, high),)


def letters(alphabet: str, *, least: int = 0, most: int = 12) -> Callable[[Random], tuple[str]]:
    """Returns a function that draws a text from the alphabet, as the only argument of a call."""
    return lambda random: ("".join(random.choices(alphabet, k=random.randint(least, most))),)
