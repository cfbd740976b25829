"""Short questions of ten kinds, each with one right answer; easy and hard ones are mixed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import NamedTuple

ONLY = "Answer with the {} only."


class Question(NamedTuple):
    prompt: str
    verifier: str
    expected: object
    max_tokens: int = 32


FIRST = ("Anna", "Bilal", "Chen", "Dora", "Emeka", "Farah", "Goran", "Hana", "Ivan", "Julia", "Kofi", "Lena", "Marco")
LAST = ("Adler", "Brook", "Castro", "Duarte", "Evans", "Fischer", "Garcia", "Hughes", "Ito", "Jensen", "Kaya", "Lopez")
HOSTS = ("example.com", "mail.example.org", "north-lab.net", "acme.io", "uni.example.edu", "post.co.uk")
CITIES = ("Lisbon", "Oslo", "Kyoto", "Lima", "Accra", "Turin", "Quito", "Hanoi", "Cairo", "Perth")
WORDS = ("strawberry", "mississippi", "committee", "banana", "assessment", "bookkeeper", "parallel", "necessary")
WORDS += ("tomorrow", "accommodation", "little", "coffee", "possession", "giraffe", "balloon", "address", "success")
WORDS += ("engineering", "referee", "occurrence", "millennium", "pineapple", "cocoon", "raccoon", "pepper", "level")
FRUITS = ("apple", "banana", "cherry", "date", "fig", "grape", "kiwi", "lemon", "mango", "orange", "pear", "plum")
GOOD = ("is wonderful", "works perfectly", "is a joy to use", "exceeded all my hopes", "is the best I ever bought")
GOOD += ("was delicious", "made my whole family happy", "is beautifully made", "never lets me down", "is superb")
BAD = ("is terrible", "broke after one day", "is a complete waste of money", "ruined our evening", "is awful")
BAD += ("was disgusting", "made me furious", "is badly made", "failed every single time", "is the worst I ever bought")
THINGS = ("This phone", "The soup", "The hotel room", "My new bicycle", "The concert", "That film", "The laptop")
THINGS += ("The customer service", "This book", "The cake", "The train ride", "This jacket")
MORE_GOOD = ("I recommend it to everyone.", "I would buy it again at once.", "Ten out of ten.", "I love it.")
MORE_BAD = ("I want my money back.", "Stay away from it.", "Never again.", "I hate it.")
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September")
MONTHS += ("October", "November", "December")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
UNITS = (
    ("kilometres", "metres", 1000),
    ("metres", "centimetres", 100),
    ("kilograms", "grams", 1000),
    ("hours", "minutes", 60),
    ("minutes", "seconds", 60),
    ("days", "hours", 24),
    ("weeks", "days", 7),
    ("litres", "millilitres", 1000),
    ("feet", "inches", 12),
    ("yards", "feet", 3),
    ("dozens", "pieces", 12),
    ("gibibytes", "mebibytes", 1024),
)


def addition(random: Random) -> Question:
    high = random.choice((99, 99, 999, 9999))
    terms = [random.randint(high // 10, high) for _ in range(random.choice((2, 2, 3)))]
    return Question(f"What is {' + '.join(map(str, terms))}? {ONLY.format('number')}", "number", sum(terms))


def multiplication(random: Random) -> Question:
    low, high = random.choice(((2, 9), (10, 30), (10, 99), (100, 999)))
    x, y = random.randint(low, high), random.randint(2, 12 if high > 99 else min(high, 99))
    return Question(f"What is {x} * {y}? {ONLY.format('number')}", "number", x * y)


def email(random: Random) -> Question:
    first, last = random.choice(FIRST), random.choice(LAST)
    form = random.choice(("{f}.{l}", "{f}{n}", "{i}_{l}", "{l}-{f}+{n}"))
    name = form.format(f=first.lower(), l=last.lower(), i=first[0].lower(), n=random.randint(2, 99))
    address = f"{name}@{random.choice(HOSTS)}"
    text = random.choice(
        (
            f"Dear {first}, please write to {address} until Friday, or call 555-{random.randint(1000, 9999)}.",
            f"{first} {last} ({address}) has joined the team in {random.choice(CITIES)}.",
            f"Our handle is @{last.lower()}{random.randint(1, 99)}; mail goes to <{address}>, not to the office.",
            f"Visit www.{last.lower()}.example.com. Questions? {address}, Monday to Friday.",
        )
    )
    return Question(
        f"Extract the e-mail address from this text.\n\n{text}\n\n{ONLY.format('address')}", "text", address
    )


def date(random: Random) -> Question:
    day = dt.date(random.randint(1950, 2035), 1, 1) + dt.timedelta(days=random.randint(0, 364))
    month = MONTHS[day.month - 1]
    ending = {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10 if day.day not in (11, 12, 13) else 0, "th")
    written = random.choice(
        (
            f"{day.day} {month} {day.year}",
            f"{month} {day.day}, {day.year}",
            f"{day.day:02}.{day.month:02}.{day.year} (day.month.year)",
            f"{day.month}/{day.day}/{day.year} (month/day/year)",
            f"the {day.day}{ending} of {month} {day.year}",
            f"{WEEKDAYS[day.weekday()]}, {month[:3]} {day.day} {day.year}",
        )
    )
    return Question(
        f"Write this date in ISO 8601 form (YYYY-MM-DD): {written}. {ONLY.format('date')}", "text", day.isoformat()
    )


def sentiment(random: Random) -> Question:
    good = random.random() < 0.5
    first, second = random.sample(GOOD if good else BAD, 2)
    text = f"{random.choice(THINGS)} {first}. It {second}. {random.choice(MORE_GOOD if good else MORE_BAD)}"
    return Question(
        f"Is this review positive or negative?\n\n{text}\n\nAnswer with one word: positive or negative.",
        "word",
        "positive" if good else "negative",
    )


def letters(random: Random) -> Question:
    word = random.choice(WORDS)
    letter = random.choice(sorted(set(word)))
    return Question(
        f"How many times does the letter '{letter}' occur in the word '{word}'? {ONLY.format('number')}",
        "number",
        word.count(letter),
    )


def conversion(random: Random) -> Question:
    big, small, factor = random.choice(UNITS)
    amount = random.randint(2, random.choice((9, 60, 250)))
    if random.random() < 0.5:
        return Question(f"How many {small} are {amount} {big}? {ONLY.format('number')}", "number", amount * factor)
    return Question(f"How many {big} are {amount * factor} {small}? {ONLY.format('number')}", "number", amount)


def sorting(random: Random) -> Question:
    size = random.randint(3, 8)
    if random.random() < 0.5:
        items, rule, backwards = random.sample(FRUITS, size), "alphabetical order", False
        ordered = sorted(items)
    else:
        backwards = random.random() < 0.5
        numbers = random.sample(range(1, random.choice((50, 500))), size)
        items, ordered = ([str(n) for n in part] for part in (numbers, sorted(numbers, reverse=backwards)))
        rule = "descending order" if backwards else "ascending order"
    return Question(
        f"Sort this list in {rule}: {', '.join(items)}. Answer with the items only, separated by commas.",
        "list",
        ordered,
        64,
    )


def json_record(random: Random) -> Question:
    name, age, city = f"{random.choice(FIRST)} {random.choice(LAST)}", random.randint(18, 90), random.choice(CITIES)
    form = random.choice(("person", "order", "booking"))
    if form == "person":
        text = f"{name}, who is {age} years old, moved to {city} last spring."
        record: dict[str, object] = {"name": name, "age": age, "city": city}
    elif form == "order":
        fruit, amount = random.choice(FRUITS), random.randint(2, 40)
        paid = random.random() < 0.5
        text = f"{name} ordered {amount} boxes of {fruit} and has {'already' if paid else 'not yet'} paid."
        record = {"customer": name, "item": fruit, "boxes": amount, "paid": paid}
    else:
        guests, nights = random.randint(1, 6), random.randint(2, 14)
        text = f"Room for {guests} {'guest' if guests == 1 else 'guests'} in {city}, {nights} nights, booked by {name}."
        record = {"city": city, "guests": guests, "nights": nights, "name": name}
    keys = ", ".join(f"{key} ({KINDS[type(value)]})" for key, value in record.items())
    return Question(
        f"Extract a JSON object with the keys {keys} from this text.\n\n{text}\n\n{ONLY.format('JSON object')}",
        "json",
        record,
        96,
    )


def comparison(random: Random) -> Question:
    names = random.sample(FIRST, random.choice((3, 3, 4)))
    facts = [f"{older} is older than {younger}." for older, younger in pairwise(names)]
    random.shuffle(facts)
    which, answer = random.choice((("oldest", names[0]), ("youngest", names[-1])))
    return Question(f"{' '.join(facts)} Who is the {which}? {ONLY.format('name')}", "word", answer)


KINDS: dict[type, str] = {str: "string", int: "integer", bool: "boolean"}
QUESTIONS: dict[str, Callable[[Random], Question]] = {
    "addition": addition,
    "multiplication": multiplication,
    "email": email,
    "date": date,
    "sentiment": sentiment,
    "letters": letters,
    "conversion": conversion,
    "sorting": sorting,
    "json": json_record,
    "comparison": comparison,
}
