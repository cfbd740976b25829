"""Calendar dates as (year, month, day), without the standard library."""

from __future__ import annotations

import random

CHOICES = {"FIRST_WEEKDAY": (0, 6), "QUARTER_START": (1, 2, 4)}
FIRST_WEEKDAY = 0  # 0 is Monday
QUARTER_START = 1  # the month in which the first quarter begins
LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def is_leap(year: int) -> bool:
    """Whether a year has 366 days."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def is_leap__branches(year: int) -> bool:
    """Whether a year has 366 days."""
    if year % 400 == 0:
        return True
    if year % 100 == 0:
        return False
    return year % 4 == 0


def month_length(year: int, month: int) -> int:
    """How many days a month has."""
    if not 1 <= month <= 12:
        raise ValueError("a month is from 1 to 12")
    if month == 2 and is_leap(year):
        return 29
    return LENGTHS[month - 1]


def day_number(year: int, month: int, day: int) -> int:
    """Days since 1 January of year 1, which is day 0."""
    if not 1 <= day <= month_length(year, month):
        raise ValueError("there is no such day")
    before = year - 1
    days = before * 365 + before // 4 - before // 100 + before // 400
    for earlier in range(1, month):
        days += month_length(year, earlier)
    return days + day - 1


def date_of(number: int) -> tuple[int, int, int]:
    """The date of a day number."""
    year = number // 366 + 1
    while day_number(year + 1, 1, 1) <= number:
        year += 1
    left = number - day_number(year, 1, 1)
    month = 1
    while left >= month_length(year, month):
        left -= month_length(year, month)
        month += 1
    return year, month, left + 1


def weekday(year: int, month: int, day: int) -> int:
    """The place of a day in its week, which begins with FIRST_WEEKDAY."""
    return (day_number(year, month, day) - FIRST_WEEKDAY) % 7


def add_months(year: int, month: int, day: int, months: int) -> tuple[int, int, int]:
    """The same day of another month, or the last one of it."""
    place = year * 12 + month - 1 + months
    year, month = place // 12, place % 12 + 1
    return year, month, min(day, month_length(year, month))


def add_months__stepping(year: int, month: int, day: int, months: int) -> tuple[int, int, int]:
    """The same day of another month, or the last one of it."""
    step = 1 if months > 0 else -1
    for _ in range(abs(months)):
        month += step
        if month > 12:
            year, month = year + 1, 1
        elif month < 1:
            year, month = year - 1, 12
    return year, month, min(day, month_length(year, month))


def add_workdays(year: int, month: int, day: int, days: int) -> tuple[int, int, int]:
    """The date a number of workdays later; Saturday and Sunday are free."""
    number = day_number(year, month, day)
    while days > 0:
        number += 1
        if number % 7 < 5:
            days -= 1
    return date_of(number)


def quarter(year: int, month: int) -> tuple[int, int]:
    """The business year, named after the year in which it begins, and its quarter from 1."""
    shifted = month - QUARTER_START
    if shifted < 0:
        return year - 1, (shifted + 12) // 3 + 1
    return year, shifted // 3 + 1


def age(born: tuple[int, int, int], on: tuple[int, int, int]) -> int:
    """Whole years; who was born on 29 February has a birthday on 1 March of other years."""
    years = on[0] - born[0]
    if on[1:] < born[1:]:
        years -= 1
    return years


def nth_weekday(year: int, month: int, wanted: int, nth: int) -> int | None:
    """The day of the nth Monday (0) to Sunday (6) of a month; None if it has fewer."""
    first = day_number(year, month, 1) % 7
    day = 1 + (wanted - first) % 7 + 7 * (nth - 1)
    return day if day <= month_length(year, month) else None


def random_date(rng: random.Random) -> tuple[int, int, int]:
    year = rng.choice([1900, 1999, 2000, 2023, 2024, 2100, rng.randint(1, 2400)])
    month = rng.choice([1, 2, 2, 12, rng.randint(1, 12)])
    return year, month, rng.choice([1, month_length(year, month), rng.randint(1, 28)])


def arguments_is_leap(rng: random.Random) -> tuple:
    return (rng.choice([1900, 2000, 2100, 2024, 2023, rng.randint(1, 3000)]),)


def arguments_month_length(rng: random.Random) -> tuple:
    return rng.choice([1900, 2000, 2023, 2024]), rng.choice([0, 2, 2, 4, 12, 13, rng.randint(1, 12)])


def arguments_day_number(rng: random.Random) -> tuple:
    year, month, day = random_date(rng)
    return year, month, day + (rng.random() < 0.1)


def arguments_date_of(rng: random.Random) -> tuple:
    return (day_number(*random_date(rng)),)


def arguments_weekday(rng: random.Random) -> tuple:
    return random_date(rng)


def arguments_add_months(rng: random.Random) -> tuple:
    return *random_date(rng), rng.choice([-25, -12, -1, 0, 1, 11, 12, rng.randint(0, 40)])


def arguments_add_workdays(rng: random.Random) -> tuple:
    return *random_date(rng), rng.randint(0, 12)


def arguments_quarter(rng: random.Random) -> tuple:
    return rng.randint(2000, 2030), rng.randint(1, 12)


def arguments_age(rng: random.Random) -> tuple:
    born = random_date(rng)
    moved = (born[0] + rng.randint(0, 80), *(born[1:] if rng.random() < 0.4 else random_date(rng)[1:]))
    return born, moved


def arguments_nth_weekday(rng: random.Random) -> tuple:
    return rng.randint(1999, 2030), rng.randint(1, 12), rng.randint(0, 6), rng.randint(1, 5)
