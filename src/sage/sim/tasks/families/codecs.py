"""Encodings and their inverses: runs, bases, differences, escapes and checks."""

from __future__ import annotations

import random

CHOICES = {"ALPHABET": ("0123456789abcdef", "ABCDEFGHJKMNPQRSTUVWXYZ", "01234567"), "LONGEST": (5, 9)}
ALPHABET = "0123456789abcdef"
LONGEST = 9


def run_lengths(text: str) -> str:
    """Letters with the number of times they follow each other, at most LONGEST, if more than once."""
    coded, place = "", 0
    while place < len(text):
        count = 1
        while place + count < len(text) and text[place + count] == text[place] and count < LONGEST:
            count += 1
        coded += (str(count) if count > 1 else "") + text[place]
        place += count
    return coded


def run_lengths__folding(text: str) -> str:
    """Letters with the number of times they follow each other, at most LONGEST, if more than once."""
    runs: list[list] = []
    for letter in text:
        if runs and runs[-1][1] == letter and runs[-1][0] < LONGEST:
            runs[-1][0] += 1
        else:
            runs.append([1, letter])
    return "".join(letter if count == 1 else f"{count}{letter}" for count, letter in runs)


def expand_runs(coded: str) -> str:
    """The text of `run_lengths`."""
    text, count = "", 0
    for letter in coded:
        if letter.isdigit():
            count = count * 10 + int(letter)
        else:
            text += letter * (count or 1)
            count = 0
    if count:
        raise ValueError("a number without a letter")
    return text


def to_base(number: int) -> str:
    """A number in the digits of ALPHABET."""
    if number < 0:
        return "-" + to_base(-number)
    digits = ""
    while number >= len(ALPHABET):
        number, digit = divmod(number, len(ALPHABET))
        digits = ALPHABET[digit] + digits
    return ALPHABET[number] + digits


def from_base(text: str) -> int:
    """The number of `to_base`."""
    sign = 1
    if text.startswith("-"):
        sign, text = -1, text[1:]
    if not text:
        raise ValueError("no digits")
    number = 0
    for letter in text:
        digit = ALPHABET.find(letter)
        if digit < 0:
            raise ValueError(f"{letter!r} is not a digit")
        number = number * len(ALPHABET) + digit
    return sign * number


def varint(number: int) -> list[int]:
    """A number in bytes of seven bits, the lowest first; all but the last have 128 added."""
    if number < 0:
        raise ValueError("a negative number")
    parts = []
    while number > 127:
        parts.append(number % 128 + 128)
        number //= 128
    return [*parts, number]


def read_varints(parts: list[int]) -> list[int]:
    """All numbers of bytes that were written one after the other."""
    numbers, value, shift = [], 0, 0
    for part in parts:
        value += (part & 127) << shift
        if part & 128:
            shift += 7
        else:
            numbers.append(value)
            value = shift = 0
    if shift:
        raise ValueError("the last number is not complete")
    return numbers


def differences(numbers: list[int]) -> list[int]:
    """The first number, then each minus the one before."""
    coded, before = [], 0
    for number in numbers:
        coded.append(number - before)
        before = number
    return coded


def sums(coded: list[int]) -> list[int]:
    """The numbers of `differences`."""
    numbers: list[int] = []
    for change in coded:
        numbers.append((numbers[-1] if numbers else 0) + change)
    return numbers


def escape(fields: list[str]) -> str:
    """Fields with commas between them; commas and backslashes in a field get a backslash."""
    safe = [field.replace("\\", "\\\\").replace(",", "\\,") for field in fields]
    return ",".join(safe)


def unescape(line: str) -> list[str]:
    """The fields of `escape`."""
    fields, field, place = [], "", 0
    while place < len(line):
        letter = line[place]
        if letter == "\\" and place + 1 < len(line):
            place += 1
            field += line[place]
        elif letter == ",":
            fields.append(field)
            field = ""
        else:
            field += letter
        place += 1
    return [*fields, field]


def check_digit(digits: str) -> int:
    """The digit that makes the weighted sum a multiple of ten; every second digit from the right counts twice."""
    total = 0
    for place, letter in enumerate(reversed(digits)):
        value = int(letter)
        if place % 2 == 0:
            value *= 2
            if value > 9:
                value -= 9
        total += value
    return -total % 10


def arguments_run_lengths(rng: random.Random) -> tuple:
    return ("".join(rng.choice("abc") * rng.choice([1, 1, 2, 3, 11]) for _ in range(rng.randint(0, 5))),)


def arguments_expand_runs(rng: random.Random) -> tuple:
    return (run_lengths(*arguments_run_lengths(rng)) + ("7" if rng.random() < 0.1 else ""),)


def arguments_to_base(rng: random.Random) -> tuple:
    return (rng.choice([0, 1, 7, 8, 15, 16, 22, 23, 255, 256, rng.randint(-5000, 5000)]),)


def arguments_from_base(rng: random.Random) -> tuple:
    return (to_base(rng.randint(-5000, 5000)) + rng.choice(["", "", "", "?", ALPHABET[0]]),)


def arguments_varint(rng: random.Random) -> tuple:
    return (rng.choice([-1, 0, 127, 128, 255, 16383, 16384, rng.randint(0, 10**6)]),)


def arguments_read_varints(rng: random.Random) -> tuple:
    parts = [part for _ in range(rng.randint(0, 3)) for part in varint(rng.choice([0, 5, 127, 128, 300, 20000]))]
    return (parts[:-1] if parts and rng.random() < 0.15 else parts,)


def arguments_differences(rng: random.Random) -> tuple:
    return (rng.choices(range(-9, 30), k=rng.randint(0, 5)),)


def arguments_sums(rng: random.Random) -> tuple:
    return arguments_differences(rng)


def arguments_escape(rng: random.Random) -> tuple:
    return ([rng.choice(["", "a", "b,c", "d\\", "\\,", "e f"]) for _ in range(rng.randint(1, 4))],)


def arguments_unescape(rng: random.Random) -> tuple:
    return (escape(*arguments_escape(rng)),)


def arguments_check_digit(rng: random.Random) -> tuple:
    return ("".join(rng.choices("0123456789", k=rng.randint(1, 9))),)
