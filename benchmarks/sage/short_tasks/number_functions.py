"""Templates of Python functions on whole numbers that a model is asked to write."""

from __future__ import annotations

import math
from collections.abc import Iterator

from short_tasks.function import Function, integers, number, variants

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
ROMAN = {1000: "M", 900: "CM", 500: "D", 400: "CD", 100: "C", 90: "XC", 50: "L", 40: "XL", 10: "X", 9: "IX", 5: "V"}
ROMAN |= {4: "IV", 1: "I"}


def digits_of(n: int, base: int = 10) -> list[int]:
    found = []
    while n:
        n, digit = divmod(n, base)
        found.append(digit)
    return found[::-1] or [0]


def is_prime(n: int) -> bool:
    return n > 1 and all(n % divisor for divisor in range(2, math.isqrt(n) + 1))


def collatz(n: int) -> Iterator[int]:
    yield n
    while n != 1:
        n = 3 * n + 1 if n % 2 else n // 2
        yield n


def recurrence(n: int, a: int, b: int, c: int, d: int) -> int:
    for _ in range(n):
        a, b = b, c * b + d * a
    return a


def fewest_coins(amount: int, coins: list[int]) -> int:
    best: list[float] = [0] + [math.inf] * amount
    for value in range(1, amount + 1):
        best[value] = min((best[value - coin] + 1 for coin in coins if coin <= value), default=math.inf)
    return -1 if math.isinf(best[amount]) else int(best[amount])


def to_roman(n: int) -> str:
    text = ""
    for value, symbol in ROMAN.items():
        text += symbol * (n // value)
        n %= value
    return text


def until_one_digit(n: int, what: str) -> int:
    steps = 0
    while n > 9:
        n = math.prod(digits_of(n)) if "product" in what else sum(digits_of(n))
        steps += 1
    return steps if "how often" in what else n


def is_special(n: int, kind: str) -> bool:
    return {
        "a perfect square": n == math.isqrt(n) ** 2,
        "a perfect cube": any(k**3 == n for k in range(n + 1)),
        "a power of two": n > 0 and n & (n - 1) == 0,
        "a triangular number (0, 1, 3, 6, 10, ...)": math.isqrt(8 * n + 1) ** 2 == 8 * n + 1,
        "a perfect number (equal to the sum of its divisors that are smaller than it)": n > 0
        and n == sum(d for d in range(1, n) if n % d == 0),
    }[kind]


def josephus(n: int, k: int) -> int:
    people = list(range(1, n + 1))
    place = 0
    while len(people) > 1:
        place = (place + k - 1) % len(people)
        people.pop(place)
    return people[0]


def clock(seconds: int, form: str) -> str:
    minutes, left = divmod(seconds, 60)
    if form.startswith("minutes"):
        return f"{minutes}:{left:02}"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{left:02}" if form.startswith("two") else f"{hours}h {minutes}m {left}s"


NUMBER_FUNCTIONS = (
    Function(
        name="digit_sum_base_{base}",
        parameters="n",
        text="returns the sum of the digits of the non-negative integer n written in base {base}.",
        solution=lambda n, base: sum(digits_of(n, base)),
        draw=number(1, 5000),
        fixed=((0,),),
        variants=variants(base=(2, 3, 5, 8, 10, 16)),
    ),
    Function(
        name="sum_of_multiples",
        parameters="limit",
        text="returns the sum of all positive integers smaller than limit that are divisible by {a} or by {b}.",
        solution=lambda limit, a, b: sum(n for n in range(1, limit) if n % a == 0 or n % b == 0),
        draw=number(5, 300),
        fixed=((1,),),
        variants=variants(a=(3, 2, 4, 5, 6, 7), b=(5, 7, 6, 9, 10, 11)),
    ),
    Function(
        name="count_primes_ending_in_{digit}",
        parameters="low, high",
        text="returns how many prime numbers p with low <= p <= high have {digit} as their last decimal digit.",
        solution=lambda low, high, digit: sum(is_prime(n) and n % 10 == digit for n in range(low, high + 1)),
        draw=lambda random: (random.randint(0, 60), random.randint(61, 200)),
        fixed=((0, 1),),
        variants=variants(digit=(1, 3, 7, 9)),
    ),
    Function(
        name="collatz_{short}",
        parameters="n",
        text=(
            "starts at the positive integer n and, until 1 is reached, halves an even number and replaces "
            "an odd number x by 3 * x + 1, and returns {what}."
        ),
        solution=lambda n, short, what: {
            "steps": len(list(collatz(n))) - 1,
            "peak": max(collatz(n)),
            "odd": sum(x % 2 for x in collatz(n)),
        }[short],
        draw=number(2, 60),
        fixed=((1,),),
        variants=variants(
            short=("steps", "peak", "odd"),
            what=(
                "the number of steps that this takes (0 for n = 1)",
                "the largest number on the way, n included",
                "how many numbers on the way are odd, counting n and the final 1",
            ),
        ),
    ),
    Function(
        name="to_base_{base}",
        parameters="n",
        text=(
            "returns the non-negative integer n as a string in base {base}, with the digits 0-9 and then "
            "lower-case letters, without a prefix."
        ),
        solution=lambda n, base: "".join(DIGITS[digit] for digit in digits_of(n, base)),
        draw=number(1, 3000),
        fixed=((0,),),
        variants=variants(base=(2, 3, 5, 7, 9, 12, 16)),
    ),
    Function(
        name="sequence",
        parameters="n",
        text=(
            "returns f(n) for the sequence with f(0) = {a}, f(1) = {b} and f(n) = {c} * f(n - 1) + {d} * "
            "f(n - 2) for n >= 2."
        ),
        solution=recurrence,
        draw=number(2, 20),
        fixed=((0,), (1,)),
        variants=variants(
            a=(0, 2, 0, 1, 1, 3, 0), b=(1, 1, 1, 1, 3, 0, 2), c=(1, 1, 2, 1, 3, 1, 2), d=(1, 1, 1, 2, -1, 3, -2)
        ),
    ),
    Function(
        name="{name}_of_all",
        parameters="numbers",
        text="returns the {what} of a non-empty list of positive integers.",
        solution=lambda numbers, name, what: (math.gcd if name == "gcd" else math.lcm)(*numbers),
        draw=lambda random: ([random.choice((4, 6, 8, 10, 12, 18, 24)) for _ in range(random.randint(2, 5))],),
        fixed=(([7],),),
        variants=variants(name=("gcd", "lcm"), what=("greatest common divisor", "least common multiple")),
    ),
    Function(
        name="reduce_digits",
        parameters="n",
        text="replaces the non-negative integer n by the {what}.",
        solution=until_one_digit,
        draw=number(10, 9999),
        fixed=((0,), (9,)),
        variants=variants(
            what=(
                "sum of its decimal digits until a single digit is left, and returns that digit",
                "product of its decimal digits until a single digit is left, and returns that digit",
                "product of its decimal digits until a single digit is left, and returns how often it was replaced",
                "sum of its decimal digits until a single digit is left, and returns how often it was replaced",
            )
        ),
    ),
    Function(
        name="clamp",
        parameters="x",
        text="returns x, but {low} if x is smaller than {low} and {high} if x is larger than {high}.",
        solution=lambda x, low, high: min(max(x, low), high),
        draw=number(-150, 150),
        fixed=((0,),),
        variants=variants(low=(0, -10, 5, 1), high=(100, 10, 60, 99)),
    ),
    Function(
        name="nearest_multiple_of_{k}",
        parameters="n",
        text="returns the multiple of {k} that is nearest to the integer n; if two are equally near, the larger one.",
        solution=lambda n, k: (2 * n + k) // (2 * k) * k,
        draw=number(-200, 200),
        fixed=((0,), (-3,)),
        variants=variants(k=(3, 4, 5, 6, 8, 10)),
    ),
    Function(
        name="is_special",
        parameters="n",
        text="returns True if the non-negative integer n is {kind}, and False otherwise.",
        solution=is_special,
        draw=number(0, 140),
        fixed=((0,), (1,), (6,), (27,), (28,), (36,), (64,)),
        variants=variants(
            kind=(
                "a perfect square",
                "a perfect cube",
                "a power of two",
                "a triangular number (0, 1, 3, 6, 10, ...)",
                "a perfect number (equal to the sum of its divisors that are smaller than it)",
            )
        ),
    ),
    Function(
        name="to_roman",
        parameters="n",
        text="returns the integer n, 1 to 3999, as a Roman numeral.",
        solution=to_roman,
        draw=number(1, 3999),
        fixed=((4,), (1994,)),
    ),
    Function(
        name="from_roman",
        parameters="text",
        text="returns the value of a Roman numeral in capital letters.",
        solution=lambda text: next(n for n in range(1, 4000) if to_roman(n) == text),
        draw=lambda random: (to_roman(random.randint(1, 3999)),),
        fixed=(("IV",), ("MCMXCIV",)),
    ),
    Function(
        name="format_seconds",
        parameters="seconds",
        text="returns a number of seconds as a string: {form}.",
        solution=clock,
        draw=number(1, 20000),
        fixed=((0,), (59,), (3600,)),
        variants=variants(
            form=(
                "minutes, a colon and the seconds with two digits, such as '75:03' or '0:59'",
                "two digits each for hours, minutes and seconds with colons between them, such as '01:15:03'",
                "hours, minutes and seconds such as '1h 15m 3s' or '0h 0m 59s'",
            )
        ),
    ),
    Function(
        name="fewest_coins",
        parameters="amount",
        text=(
            "returns the smallest number of coins that make up the non-negative integer amount exactly, "
            "with as many coins as needed of each of the values {coins}, or -1 if that is impossible."
        ),
        solution=fewest_coins,
        draw=number(1, 99),
        fixed=((0,), (6,)),
        variants=variants(coins=([1, 5, 10, 25], [1, 3, 4], [1, 7, 10], [4, 9], [5, 8], [1, 6, 9])),
    ),
    Function(
        name="pascal_row_mod_{k}",
        parameters="n",
        text=(
            "returns row n of Pascal's triangle (row 0 is [1], row 2 is [1, 2, 1]) as a list, every "
            "number taken modulo {k}."
        ),
        solution=lambda n, k: [math.comb(n, place) % k for place in range(n + 1)],
        draw=number(2, 14),
        fixed=((0,), (1,)),
        variants=variants(k=(2, 3, 5, 7, 1000)),
    ),
    Function(
        name="count_aloud",
        parameters="n",
        text=(
            "returns a list of strings for the integers 1 to n: '{x}' for multiples of {a}, '{y}' for "
            "multiples of {b}, '{x}{y}' for multiples of both, and the number itself as a string "
            "otherwise."
        ),
        solution=lambda n, a, b, x, y: [(x * (i % a == 0) + y * (i % b == 0)) or str(i) for i in range(1, n + 1)],
        draw=number(1, 30),
        fixed=((0,), (15,)),
        variants=variants(
            a=(3, 2, 4, 5), b=(5, 7, 6, 3), x=("Fizz", "Tick", "Ping", "Foo"), y=("Buzz", "Tock", "Pong", "Bar")
        ),
    ),
    Function(
        name="last_one_standing",
        parameters="n",
        text=(
            "returns who is left when n people stand in a circle, numbered from 1, and, counting from "
            "person 1, every {which} person leaves until one is left (with n = 5 and every second person "
            "leaving, that is person 3)."
        ),
        solution=lambda n, which: josephus(n, ("first", "second", "third", "fourth", "fifth").index(which) + 1),
        draw=number(2, 30),
        fixed=((1,),),
        variants=variants(which=("second", "third", "fourth", "fifth")),
    ),
    Function(
        name="divisors",
        parameters="n",
        text="returns the sorted list of all positive divisors of the positive integer n that are {kind}.",
        solution=lambda n, kind: [
            d
            for d in range(1, n + 1)
            if n % d == 0 and {"odd": d % 2 == 1, "even": d % 2 == 0, "prime": is_prime(d)}.get(kind, d < n)
        ],
        draw=number(2, 120),
        fixed=((1,), (12,)),
        variants=variants(kind=("odd", "even", "prime", "smaller than n")),
    ),
    Function(
        name="alternating_sum",
        parameters="numbers",
        text=(
            "returns the first number of the list minus the second plus the third minus the fourth and so "
            "on, with every number multiplied by {k}; 0 for an empty list."
        ),
        solution=lambda numbers, k: k * (sum(numbers[::2]) - sum(numbers[1::2])),
        draw=integers(-20, 20),
        fixed=(([],),),
        variants=variants(k=(1, 2, 3, 10)),
    ),
)
