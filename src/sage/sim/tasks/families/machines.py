"""State machines: doors, orders, tables of transitions, and counters that stop."""

from __future__ import annotations

import random

CHOICES = {"TRIES": (2, 3), "STEPS": (6, 9)}
TRIES = 3
STEPS = 9


class Door:
    """A door that opens, closes and locks; it blocks after TRIES wrong codes in a row."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.state = "closed"
        self.wrong = 0

    def open(self) -> str:
        if self.state == "closed":
            self.state = "open"
        return self.state

    def close(self) -> str:
        if self.state == "open":
            self.state = "closed"
        return self.state

    def lock(self) -> str:
        if self.state == "open":
            raise RuntimeError("close it first")
        if self.state == "closed":
            self.state = "locked"
            self.wrong = 0
        return self.state

    def unlock(self, code: int) -> str:
        if self.state != "locked":
            return self.state
        if code == self.code:
            self.state = "closed"
            self.wrong = 0
        else:
            self.wrong += 1
            if self.wrong >= TRIES:
                self.state = "blocked"
        return self.state


class Door__table:  # noqa: N801
    """A door that opens, closes and locks; it blocks after TRIES wrong codes in a row."""

    MOVES = {("closed", "open"): "open", ("open", "close"): "closed", ("closed", "lock"): "locked"}

    def __init__(self, code: int) -> None:
        self.code = code
        self.state = "closed"
        self.left = TRIES

    def move(self, event: str) -> str:
        self.state = self.MOVES.get((self.state, event), self.state)
        return self.state

    def open(self) -> str:
        return self.move("open")

    def close(self) -> str:
        return self.move("close")

    def lock(self) -> str:
        if self.state == "open":
            raise RuntimeError("close it first")
        if self.state == "closed":
            self.left = TRIES
        return self.move("lock")

    def unlock(self, code: int) -> str:
        if self.state == "locked":
            if code == self.code:
                self.state = "closed"
            else:
                self.left -= 1
                self.state = "blocked" if self.left == 0 else "locked"
        return self.state


class Order:
    """An order: items are added, it is paid, sent in parts, and perhaps cancelled."""

    def __init__(self) -> None:
        self.items: dict[str, int] = {}
        self.sent: dict[str, int] = {}
        self.state = "new"

    def add(self, item: str, count: int) -> int:
        if self.state != "new":
            raise RuntimeError("the order is closed")
        if count <= 0:
            raise ValueError("at least one")
        self.items[item] = self.items.get(item, 0) + count
        return sum(self.items.values())

    def pay(self) -> str:
        if self.state == "new" and self.items:
            self.state = "paid"
        return self.state

    def send(self, item: str, count: int) -> str:
        if self.state not in ("paid", "partly sent"):
            raise RuntimeError("it is not paid")
        left = self.items.get(item, 0) - self.sent.get(item, 0)
        self.sent[item] = self.sent.get(item, 0) + min(left, count)
        complete = all(self.sent.get(name, 0) == wanted for name, wanted in self.items.items())
        self.state = "sent" if complete else "partly sent"
        return self.state

    def cancel(self) -> bool:
        if self.state in ("new", "paid"):
            self.state = "cancelled"
            return True
        return False


def accepts(table: dict[str, dict[str, str]], final: list[str], word: str) -> bool:
    """Whether a word leads from state "s" to a final state; a missing transition refuses."""
    state = "s"
    for letter in word:
        if letter not in table.get(state, {}):
            return False
        state = table[state][letter]
    return state in final


def trace(table: dict[str, dict[str, str]], word: str) -> list[str]:
    """The states that a word passes, as far as there are transitions."""
    states = ["s"]
    for letter in word:
        following = table.get(states[-1], {}).get(letter)
        if following is None:
            break
        states.append(following)
    return states


def shortest_word(table: dict[str, dict[str, str]], final: list[str]) -> str | None:
    """The shortest word that is accepted, the first of the alphabet among equals, in at most STEPS letters."""
    waiting = [("", "s")]
    seen = {"s"}
    while waiting:
        word, state = waiting.pop(0)
        if state in final:
            return word
        if len(word) >= STEPS:
            continue
        for letter in sorted(table.get(state, {})):
            following = table[state][letter]
            if following not in seen:
                seen.add(following)
                waiting.append((word + letter, following))
    return None


def run_counter(program: list[str], start: int) -> tuple[int, int]:
    """The value of a counter and the steps taken, at most STEPS; "jN" goes to line N unless the value is 0."""
    value, line, steps = start, 0, 0
    while line < len(program) and steps < STEPS:
        step = program[line]
        steps += 1
        if step == "+":
            value += 1
        elif step == "-":
            value = max(0, value - 1)
        elif step.startswith("j") and value != 0:
            line = int(step[1:])
            continue
        line += 1
    return value, steps


def random_table(rng: random.Random) -> dict[str, dict[str, str]]:
    table: dict[str, dict[str, str]] = {}
    for state in "stuv":
        letters = rng.sample("ab", rng.randint(0, 2)) if state != "s" else ["a", "b"]
        table[state] = {letter: rng.choice("stuv") for letter in sorted(letters)}
    return table


def arguments_Door(rng: random.Random) -> tuple:  # noqa: N802
    moves = [("open",), ("close",), ("lock",), ("lock",), ("unlock", 7), ("unlock", 1), ("unlock", 1), ("unlock", 2)]
    return (7,), rng.choices(moves, k=rng.randint(5, 14))


def arguments_Order(rng: random.Random) -> tuple:  # noqa: N802
    begin = [("add", rng.choice("ab"), rng.randint(0, 3)) for _ in range(rng.randint(1, 3))]
    moves = [("pay",), ("send", "a", 1), ("send", "b", 2), ("send", "a", 3), ("cancel",), ("add", "a", 1)]
    return (), begin + [("pay",)] * (rng.random() < 0.7) + rng.choices(moves, k=rng.randint(2, 6))


def arguments_accepts(rng: random.Random) -> tuple:
    return random_table(rng), sorted(rng.sample("stuv", 2)), "".join(rng.choices("ab", k=rng.randint(0, 5)))


def arguments_trace(rng: random.Random) -> tuple:
    return random_table(rng), "".join(rng.choices("ab", k=rng.randint(0, 6)))


def arguments_shortest_word(rng: random.Random) -> tuple:
    return random_table(rng), [rng.choice("tuv")]


def arguments_run_counter(rng: random.Random) -> tuple:
    return [rng.choice(["+", "-", "-", "j0", "j1", "j2"]) for _ in range(rng.randint(1, 5))], rng.randint(0, 3)
