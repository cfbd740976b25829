"""The task set: the same seed gives the same tasks, byte for byte."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from random import Random

from short_tasks.list_functions import LIST_FUNCTIONS
from short_tasks.number_functions import NUMBER_FUNCTIONS
from short_tasks.puzzle_functions import PUZZLE_FUNCTIONS
from short_tasks.task import ShortTask
from short_tasks.text_functions import TEXT_FUNCTIONS
from short_tasks.text_tasks import QUESTIONS

PYTHON = "python"
CATEGORIES = (*QUESTIONS, PYTHON)
QUESTIONS_EACH = 78  # of a category
FUNCTION_TOKENS = 256  # which all but runaway answers stay below
FUNCTIONS = tuple(
    (function, variant)
    for function in (*NUMBER_FUNCTIONS, *TEXT_FUNCTIONS, *LIST_FUNCTIONS, *PUZZLE_FUNCTIONS)
    for variant in function.variants
)


def generate(seed: int = 0, *, questions_each: int = QUESTIONS_EACH) -> list[ShortTask]:
    """All Python functions and `questions_each` questions of every other category, no two alike.

    Example:
        >>> generate(questions_each=1)[0].prompt
        'What is 2707 + 2597? Answer with the number only.'
    """
    tasks = [task for category in QUESTIONS for task in questions(category, seed, questions_each)]
    return tasks + functions(seed)


def questions(category: str, seed: int, size: int) -> list[ShortTask]:
    random = Random(f"{seed}/{category}")  # a text, whose hash Python fixes
    found = {}
    while len(found) < size:
        question = QUESTIONS[category](random)
        found[question.prompt] = question
    return [
        ShortTask(id=f"{category}-{seed}-{place:04}", category=category, **question._asdict())
        for place, question in enumerate(found.values())
    ]


def functions(seed: int) -> list[ShortTask]:
    random = Random(f"{seed}/{PYTHON}")
    return [
        ShortTask(
            id=f"{PYTHON}-{seed}-{place:04}",
            category=PYTHON,
            prompt=function.prompt(variant),
            verifier="tests",
            expected=function.tests(variant, random),
            max_tokens=FUNCTION_TOKENS,
        )
        for place, (function, variant) in enumerate(FUNCTIONS)
    ]


def fingerprint(tasks: Sequence[ShortTask]) -> str:
    """Returns the sha256 (hex) of everything that the tasks hold."""
    rows = [json.dumps(dataclasses.asdict(task), sort_keys=True) for task in tasks]
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()
