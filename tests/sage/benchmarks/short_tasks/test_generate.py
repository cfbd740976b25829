"""The task set is the same for everybody, and its tests mean what they say."""

from __future__ import annotations

import ast
from collections import Counter

from short_tasks.generate import CATEGORIES, FUNCTIONS, PYTHON, QUESTIONS_EACH, fingerprint, generate

SEED_0 = "aeb1406b81badd624666e30f9d076c98a634b24aee8221f6168f7e3408d414a6"  # recorded outcomes are of these bytes


def test_the_same_seed_gives_the_same_bytes_and_another_gives_others() -> None:
    assert fingerprint(generate(0)) == SEED_0
    first, second = ({task.prompt for task in generate(seed) if task.category != PYTHON} for seed in (0, 1))
    assert len(first & second) < len(first) / 2


def test_there_are_a_thousand_different_tasks_in_eleven_categories() -> None:
    tasks = generate(0)
    assert len({task.id for task in tasks}) == len({task.prompt for task in tasks}) == len(tasks) == 1030
    counts = Counter(task.category for task in tasks)
    assert counts == dict.fromkeys(CATEGORIES, QUESTIONS_EACH) | {PYTHON: 250}
    assert len({function.text for function, _ in FUNCTIONS}) >= 80


def test_every_function_is_called_by_its_name_in_several_different_tests() -> None:
    for task in generate(0, questions_each=1):
        if task.category == PYTHON:
            tree = ast.parse(str(task.expected))
            name = task.prompt.split("`")[1].split("(")[0]
            asserted = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Assert)]
            assert len(set(asserted)) == len(asserted) >= 6
            assert all(line.startswith(f"assert {name}(") for line in asserted), task.prompt


def test_no_function_is_passed_by_a_constant() -> None:
    """Tests that all expect the same value would accept an answer that does nothing."""
    for task in generate(0, questions_each=1):
        if task.category == PYTHON:
            expected = {line.split(" == ", 1)[1] for line in str(task.expected).splitlines() if " == " in line}
            assert len(expected) > 1, task.prompt
