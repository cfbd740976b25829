"""Templates of Python functions on lists that take a small algorithm, which a model is asked to write."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import combinations, groupby, pairwise
from random import Random

from short_tasks.function import Function, integers, variants
from short_tasks.list_functions import matrix
from short_tasks.list_solutions import Matrix, alive_next, increasing_length, trapped


def square(random: Random) -> tuple[Matrix]:
    size = random.randint(1, 4)
    return (matrix(random, size, size),)


PUZZLE_FUNCTIONS = (
    Function(
        name="place_in",
        parameters="numbers, x",
        text=(
            "returns the {which} index at which x can be inserted into a sorted list of numbers so that "
            "it stays sorted."
        ),
        solution=lambda numbers, x, which: (bisect_left if which == "smallest" else bisect_right)(numbers, x),
        draw=lambda random: (sorted(integers(0, 9)(random)[0]), random.randint(0, 9)),
        fixed=(([], 3), ([2, 2, 2], 2)),
        variants=variants(which=("smallest", "largest")),
    ),
    Function(
        name="diagonal_sum",
        parameters="rows",
        text="returns the sum of the numbers on {which} of a square matrix that is given as a list of rows{end}.",
        solution=lambda rows, which, end: (
            sum(
                row[i] * ("both" in which or "left to" in which)
                + row[-1 - i] * ("both" in which or "right to" in which)
                for i, row in enumerate(rows)
            )
            - ("both" in which and len(rows) % 2) * rows[len(rows) // 2][len(rows) // 2]
        ),
        draw=square,
        fixed=(([[7]],), ([[1, 2], [3, 4]],)),
        variants=variants(
            which=(
                "the diagonal from the top left to the bottom right",
                "the diagonal from the top right to the bottom left",
                "both diagonals",
            ),
            end=("", "", ", counting a number that lies on both only once"),
        ),
    ),
    Function(
        name="count_inversions",
        parameters="numbers",
        text="returns the number of pairs of places i < j of a list with numbers[i] > numbers[j]{more}.",
        solution=lambda numbers, more: sum(x > y + (1 if more else 0) for x, y in combinations(numbers, 2)),
        draw=integers(0, 9),
        fixed=(([],), ([3, 2, 1],)),
        variants=variants(more=("", " + 1")),
    ),
    Function(
        name="can_reach_{total}",
        parameters="numbers",
        text=(
            "returns True if some of the positive numbers of a list, each used at most once, add up to "
            "exactly {total}, and False otherwise."
        ),
        solution=lambda numbers, total: any(
            sum(chosen) == total for n in range(len(numbers) + 1) for chosen in combinations(numbers, n)
        ),
        draw=integers(1, 12, most=6),
        fixed=(([],), ([3, 4, 5],)),
        variants=variants(total=(9, 11, 14, 17, 20)),
    ),
    Function(
        name="water",
        parameters="heights",
        text=(
            "returns how many units of rain water are held between bars of width 1 with the given heights "
            "(a list of non-negative integers)."
        ),
        solution=trapped,
        draw=integers(0, 5, least=1),
        fixed=(([],), ([0, 1, 0, 2, 1, 0, 1, 3, 2, 1, 2, 1],)),
    ),
    Function(
        name="multiply",
        parameters="a, b",
        text="returns the product of two matrices that are given as non-empty lists of rows.",
        solution=lambda a, b: [
            [sum(x * y for x, y in zip(row, column, strict=True)) for column in zip(*b, strict=True)] for row in a
        ],
        draw=lambda random: (matrix(random, random.randint(1, 3), 2), matrix(random, 2, random.randint(1, 3))),
        fixed=(([[1, 2], [3, 4]], [[0, 1], [1, 0]]),),
    ),
    Function(
        name="next_generation",
        parameters="cells",
        text=(
            "returns the next state of a row of cells (a list of 0 and 1): a cell becomes 1 if exactly "
            "one of its two neighbours is 1, and 0 otherwise; beyond the ends all cells are 0."
        ),
        solution=alive_next,
        draw=integers(0, 1),
        fixed=(([],), ([1],), ([0, 1, 0],)),
    ),
    Function(
        name="longest_increasing",
        parameters="numbers",
        text=(
            "returns the length of the longest strictly increasing subsequence of a list; its elements "
            "need not be adjacent."
        ),
        solution=increasing_length,
        draw=integers(0, 12),
        fixed=(([],), ([10, 9, 2, 5, 3, 7, 101, 18],)),
    ),
    Function(
        name="compress",
        parameters="numbers",
        text=(
            "turns a sorted list of different integers into a string of ranges separated by commas: [1, "
            "2, 3, 5, 8, 9] gives '1-3,5,8-9'."
        ),
        solution=lambda numbers: ",".join(
            f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0])
            for run in ([n for _, n in g] for _, g in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]))
        ),
        draw=lambda random: (sorted(random.sample(range(1, 20), random.randint(1, 10))),),
        fixed=(([],),),
    ),
    Function(
        name="is_sorted",
        parameters="numbers",
        text=(
            "returns True if the numbers of a list are in {order} order, and False otherwise; lists with "
            "fewer than two numbers are sorted."
        ),
        solution=lambda numbers, order: all(
            {"ascending": x <= y, "strictly ascending": x < y, "descending": x >= y}[order]
            for x, y in pairwise(numbers)
        ),
        draw=lambda random: (sorted(integers(0, 9, most=4)(random)[0], reverse=random.random() < 0.5),),
        fixed=(([],), ([1, 1],), ([1, 3, 2],), ([2, 1],), ([1, 2, 3],)),
        variants=variants(order=("ascending", "strictly ascending", "descending")),
    ),
)
