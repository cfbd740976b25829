"""Templates of Python functions on lists and dictionaries that a model is asked to write."""

from __future__ import annotations

from itertools import accumulate, combinations
from random import Random

from short_tasks.function import Function, integers, variants
from short_tasks.list_solutions import (
    Matrix,
    best_sum,
    flat,
    longest_run,
    merged,
    spiral,
    turned,
)


def matrix(random: Random, rows: int, columns: int) -> Matrix:
    return [[random.randint(0, 9) for _ in range(columns)] for _ in range(rows)]


def any_matrix(random: Random) -> tuple[Matrix]:
    return (matrix(random, random.randint(1, 4), random.randint(1, 4)),)


def intervals(random: Random) -> tuple[Matrix]:
    starts = [random.randint(0, 30) for _ in range(random.randint(1, 5))]
    return ([[start, start + random.randint(1, 8)] for start in starts],)


def nested(random: Random, depth: int = 3) -> list:
    return [
        nested(random, depth - 1) if depth and random.random() < 0.4 else random.randint(0, 9)
        for _ in range(random.randint(0, 3))
    ]


def small_dictionary(random: Random) -> dict[str, int]:
    return {key: random.randint(0, 9) for key in random.sample("abcde", random.randint(0, 4))}


def merge_sorted(*, descending: bool) -> Function:
    order = "descending" if descending else "ascending"
    return Function(
        name="merge_sorted",
        parameters="a, b",
        text=f"merges two lists that are sorted in {order} order into one list in the same order.",
        solution=lambda a, b: sorted(a + b, reverse=descending),
        draw=lambda random: tuple(sorted(integers(0, 9)(random)[0], reverse=descending) for _ in range(2)),
        fixed=(([], []),),
    )


MERGES = {"sum": lambda x, y: x + y, "larger": max, "smaller": min}

LIST_FUNCTIONS = (
    Function(
        name="sum_of_multiples_of_{k}",
        parameters="numbers",
        text="returns the sum of the numbers of a list that are divisible by {k}.",
        solution=lambda numbers, k: sum(n for n in numbers if n % k == 0),
        draw=integers(-20, 40),
        fixed=(([],),),
        variants=variants(k=(2, 3, 4, 5, 7)),
    ),
    Function(
        name="{nth}_{which}",
        parameters="numbers",
        text=(
            "returns the {nth} {which} of the different numbers of a list (equal numbers count once), or "
            "None if there is none."
        ),
        solution=lambda numbers, nth, which: dict(
            zip(("first", "second", "third", "fourth"), sorted(set(numbers), reverse=which == "largest"), strict=False)
        ).get(nth),
        draw=integers(0, 9),
        fixed=(([],), ([5, 5, 5],)),
        variants=variants(
            nth=("second", "third", "fourth", "second", "third"), which=("largest",) * 3 + ("smallest",) * 2
        ),
    ),
    Function(
        name="rotate_{direction}",
        parameters="items",
        text=(
            "returns a list with the items moved {k} places to the {direction}; items that fall out at "
            "one end come back in at the other, and lists shorter than {k} work as well."
        ),
        solution=lambda items, k, direction: (
            [items[(i + (k if direction == "left" else -k)) % len(items)] for i in range(len(items))]
        ),
        draw=integers(0, 9),
        fixed=(([],), ([1, 2],)),
        variants=variants(k=(1, 2, 3, 1, 2, 4), direction=("left",) * 3 + ("right",) * 3),
    ),
    Function(
        name="running_{what}",
        parameters="numbers",
        text="returns a list whose i-th element is the {what} of the first i + 1 numbers of the given list.",
        solution=lambda numbers, what: list(
            accumulate(numbers, {"sum": lambda x, y: x + y, "maximum": max, "minimum": min}[what])
        ),
        draw=integers(-9, 9),
        fixed=(([],),),
        variants=variants(what=("sum", "maximum", "minimum")),
    ),
    Function(
        name="chunks_of_{k}",
        parameters="items",
        text="cuts a list into lists of {k} items, {rest}.",
        solution=lambda items, k, rest: [
            items[i : i + k] for i in range(0, len(items), k) if not rest.startswith("leaving") or i + k <= len(items)
        ],
        draw=integers(0, 9),
        fixed=(([],), ([1, 2, 3, 4, 5, 6],)),
        variants=variants(
            k=(2, 3, 5, 2, 3, 4),
            rest=("the last of which may be shorter",) * 3 + ("leaving out a shorter rest at the end",) * 3,
        ),
    ),
    Function(
        name="unique_by_{which}",
        parameters="items",
        text=(
            "returns the list without repetitions: of equal items, only the {which} one stays, and the "
            "order is otherwise the same."
        ),
        solution=lambda items, which: (
            list(dict.fromkeys(items)) if which == "first" else list(dict.fromkeys(items[::-1]))[::-1]
        ),
        draw=integers(0, 4),
        fixed=(([],), ([1, 2, 1],)),
        variants=variants(which=("first", "last")),
    ),
    Function(
        name="flatten",
        parameters="items",
        text="returns a list of numbers and nested lists with {what}.",
        solution=lambda items, what: flat(items, 1 if "one level" in what else float("inf")),
        draw=lambda random: (nested(random),),
        fixed=(([],), ([1, [2, [3, [4]]]],)),
        variants=variants(
            what=("all nesting removed", "one level of nesting removed ([1, [2, [3]]] gives [1, 2, [3]])")
        ),
    ),
    Function(
        name="turned",
        parameters="rows",
        text="returns a matrix, given as a non-empty list of rows, {what}.",
        solution=turned,
        draw=any_matrix,
        fixed=(([[1, 2], [3, 4]],),),
        variants=variants(
            what=(
                "with rows and columns exchanged",
                "turned clockwise by 90 degrees",
                "turned counterclockwise by 90 degrees",
            )
        ),
    ),
    Function(
        name="spiral",
        parameters="rows",
        text=(
            "returns the numbers of a matrix, given as a list of rows, in the order of a clockwise spiral "
            "from the top left corner inwards."
        ),
        solution=spiral,
        draw=any_matrix,
        fixed=(([],), ([[1, 2, 3], [4, 5, 6], [7, 8, 9]],)),
    ),
    Function(
        name="merge_intervals",
        parameters="intervals",
        text=(
            "merges all intervals [low, high] of a list that overlap or touch, and returns the merged "
            "intervals as a sorted list of lists."
        ),
        solution=merged,
        draw=intervals,
        fixed=(([],), ([[1, 3], [3, 5]],)),
    ),
    merge_sorted(descending=False),
    merge_sorted(descending=True),
    Function(
        name="count_pairs",
        parameters="numbers",
        text=(
            "returns in how many ways two numbers at different places i < j of a list can be chosen so "
            "that their sum is {total}."
        ),
        solution=lambda numbers, total: sum(x + y == total for x, y in combinations(numbers, 2)),
        draw=integers(0, 10),
        fixed=(([],), ([5, 5, 5],)),
        variants=variants(total=(10, 7, 12, 9, 15)),
    ),
    Function(
        name="group_by_remainder",
        parameters="numbers",
        text=(
            "returns a dictionary from the remainder of a division by {k} to the list of the numbers with "
            "that remainder, in their order; remainders that do not occur are left out."
        ),
        solution=lambda numbers, k: {
            r: [n for n in numbers if n % k == r] for r in dict.fromkeys(n % k for n in numbers)
        },
        draw=integers(0, 30),
        fixed=(([],),),
        variants=variants(k=(2, 3, 4, 5)),
    ),
    Function(
        name="window_{what}",
        parameters="numbers",
        text=(
            "returns the list of the {what} of every {k} consecutive numbers; a list with fewer than {k} "
            "numbers gives an empty list."
        ),
        solution=lambda numbers, k, what: [
            {"sums": sum, "maxima": max, "minima": min}[what](numbers[i : i + k]) for i in range(len(numbers) - k + 1)
        ],
        draw=integers(-9, 9),
        fixed=(([],), ([1, 2, 3],)),
        variants=variants(k=(2, 3, 4, 3, 2, 3), what=("sums", "sums", "sums", "maxima", "minima", "minima")),
    ),
    Function(
        name="longest_run",
        parameters="numbers",
        text=(
            "returns the length of the longest stretch of consecutive elements of a list in which {rule}; "
            "0 for an empty list."
        ),
        solution=longest_run,
        draw=integers(0, 3, most=12),
        fixed=(([],), ([1, 2, 3],)),
        variants=variants(rule=("all are equal", "every element is larger than the one before")),
    ),
    Function(
        name="split_at_{pivot}",
        parameters="numbers",
        text=(
            "returns a tuple of three lists with the numbers smaller than {pivot}, equal to {pivot} and "
            "larger than {pivot}, each in the original order."
        ),
        solution=lambda numbers, pivot: (
            [n for n in numbers if n < pivot],
            [n for n in numbers if n == pivot],
            [n for n in numbers if n > pivot],
        ),
        draw=integers(-8, 12),
        fixed=(([],),),
        variants=variants(pivot=(0, 1, 3, 5, 7)),
    ),
    Function(
        name="best_stretch",
        parameters="numbers",
        text="returns the largest sum of a non-empty stretch of consecutive numbers of a non-empty list.",
        solution=best_sum,
        draw=integers(-9, 9, least=1),
        fixed=(([-3],), ([-2, 1, -3, 4, -1, 2, 1, -5, 4],)),
    ),
    Function(
        name="merge_counts",
        parameters="a, b",
        text=(
            "merges two dictionaries from strings to numbers; for a key of both, the value is the {what} "
            "of the two values."
        ),
        solution=lambda a, b, what: {
            k: MERGES[what.split()[0]](a[k], b[k]) if k in a and k in b else (a | b)[k] for k in a | b
        },
        draw=lambda random: (small_dictionary(random), small_dictionary(random)),
        fixed=(({}, {}),),
        variants=variants(what=("sum", "larger one", "smaller one")),
    ),
    Function(
        name="invert",
        parameters="mapping",
        text="turns a dictionary into one from every value to the sorted list of the keys that have it.",
        solution=lambda mapping: {v: sorted(k for k in mapping if mapping[k] == v) for v in mapping.values()},
        draw=lambda random: ({key: random.randint(0, 2) for key in random.sample("abcdef", random.randint(1, 5))},),
        fixed=(({},),),
    ),
    Function(
        name="sort_words",
        parameters="words",
        text="returns a list of different lower-case words sorted by {order}.",
        solution=lambda words, order: sorted(
            words,
            key=lambda w: {
                "length, sh": (len(w), w),
                "length, lo": (-len(w), w),
                "their last": (w[-1], w),
                "the number": (sum(c in "aeiou" for c in w), w),
            }[order[:10]],
        ),
        draw=lambda random: (
            random.sample(
                ("bee", "ant", "horse", "cat", "owl", "mouse", "eel", "ibis", "asp", "yak"), random.randint(1, 7)
            ),
        ),
        fixed=(([],),),
        variants=variants(
            order=(
                "length, shortest first, and words of the same length alphabetically",
                "length, longest first, and words of the same length alphabetically",
                "their last letter, and words with the same last letter alphabetically",
                "the number of their vowels (a, e, i, o, u), fewest first, and otherwise alphabetically",
            )
        ),
    ),
)
