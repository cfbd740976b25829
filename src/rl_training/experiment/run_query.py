"""Conditions on runs, such as `algorithm=ppo and score>400`: parsed from text, and asked of a run's values."""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import NamedTuple

Values = Mapping[str, object]
Condition = Callable[[Values], bool]

TOKEN = re.compile(r"""\s*(?:(\(|\)|<=|>=|!=|==|=|<|>|~)|"([^"]*)"|'([^']*)'|([^\s()<>=!~"']+))""")
COMPARISONS: dict[str, Callable[[object, object], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,  # pyrefly: ignore  (only asked of two numbers or two texts)
    "<=": operator.le,  # pyrefly: ignore
    ">": operator.gt,  # pyrefly: ignore
    ">=": operator.ge,  # pyrefly: ignore
    "~": lambda value, text: str(text).lower() in str(value).lower(),
}
WORDS = {"true": True, "false": False, "none": None, "null": None}
MOST_DEPTH = 50
FORM = "write conditions such as algorithm=ppo and score>400, with = != < <= > >= ~, and, or, not, ( )"


class Token(NamedTuple):
    """A part of a condition's text: an operator or parenthesis, or a word, which quotes keep from being a keyword."""

    text: str
    kind: str  # symbol, word or quoted


class Query(NamedTuple):
    """A parsed condition, with the names of the fields that it asks for."""

    holds: Condition
    fields: tuple[str, ...]


def parse_query(text: str) -> Query:
    """Parses a condition; raises ValueError, which shows where it stops making sense and what the grammar is."""
    parser = Parser(text, split_query(text))
    holds = parser.either()
    if parser.tokens:
        raise parser.unexpected("and or or")
    return Query(holds, tuple(dict.fromkeys(parser.fields)))


def split_query(text: str) -> list[Token]:
    """Splits a condition into its tokens; raises ValueError for a quote that does not end."""
    tokens, matches = list[Token](), list(TOKEN.finditer(text))
    end = 0
    for match in matches:
        if match.start() != end:
            break
        symbol, double, single, word = match.groups()
        quoted = double if double is not None else single
        tokens.append(
            Token(symbol, "symbol")
            if symbol
            else Token(quoted, "quoted")
            if quoted is not None
            else Token(word, "word")
        )
        end = match.end()
    if text[end:].strip():
        raise ValueError(f"--where {text!r}: {text[end:].strip()!r} cannot be read: {FORM}")
    return tokens


class Parser:
    """A recursive-descent parser of conditions: `or` binds weakest, then `and`, then `not`."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text, self.tokens, self.fields, self.depth = text, tokens, list[str](), 0

    def either(self) -> Condition:
        parts = self.joined("or", self.both)
        return lambda values: any(part(values) for part in parts)

    def both(self) -> Condition:
        parts = self.joined("and", self.one)
        return lambda values: all(part(values) for part in parts)

    def one(self) -> Condition:
        if self.depth > MOST_DEPTH:
            raise ValueError(f"--where nests more than {MOST_DEPTH} parentheses and nots: leave some out")
        if self.take("not"):
            inner = self.nested(self.one)
            return lambda values: not inner(values)
        if self.take("("):
            inner = self.nested(self.either)
            if not self.take(")"):
                raise self.unexpected("a closing parenthesis")
            return inner
        return self.comparison()

    def joined(self, word: str, parse: Callable[[], Condition]) -> list[Condition]:
        return [parse(), *(parse() for _ in iter(lambda: self.take(word), False))]

    def nested(self, parse: Callable[[], Condition]) -> Condition:
        self.depth += 1
        inner = parse()
        self.depth -= 1
        return inner

    def comparison(self) -> Condition:
        field = self.next_word("the name of a field")
        if not self.tokens or self.tokens[0].text not in COMPARISONS or self.tokens[0].kind != "symbol":
            raise self.unexpected(f"a comparison after {field.text!r}")
        sign = self.tokens.pop(0).text
        wanted = as_value(self.next_word(f"a value after {field.text}{sign}"))
        self.fields.append(field.text)
        return lambda values: compare(field.text, sign, values.get(field.text), wanted)

    def next_word(self, expected: str) -> Token:
        if not self.tokens or self.tokens[0].kind == "symbol":
            raise self.unexpected(expected)
        return self.tokens.pop(0)

    def take(self, text: str) -> bool:
        """Removes the next token and returns True if it is this keyword or parenthesis; quoted words are neither."""
        found = bool(self.tokens) and self.tokens[0].text.lower() == text and self.tokens[0].kind != "quoted"
        if found:
            self.tokens.pop(0)
        return found

    def unexpected(self, expected: str) -> ValueError:
        found = repr(self.tokens[0].text) if self.tokens else "the end"
        return ValueError(f"--where {self.text!r}: expected {expected}, found {found}: {FORM}")


def as_value(token: Token) -> object:
    """Returns a word as the number, truth value or None that it writes, else as text; quoted words are text."""
    if token.kind == "quoted":
        return token.text
    if token.text.lower() in WORDS:
        return WORDS[token.text.lower()]
    try:
        return float(token.text.replace("_", ""))
    except ValueError:
        return token.text


def compare(field: str, sign: str, value: object, wanted: object) -> bool:
    """Compares a run's value of a field with that of a condition: numbers as numbers, all else as text.

    An unknown value, None, equals only `none` and is neither smaller nor larger than anything. Raises ValueError if the
    order of a number and a text is asked for, which is a mistyped number: `not score>4OO` would choose every run.
    """
    if value is None or wanted is None or isinstance(value, bool) or isinstance(wanted, bool):
        return sign in COMPARISONS and {"=": value == wanted, "==": value == wanted, "!=": value != wanted}.get(
            sign, False
        )
    if isinstance(value, Real) and isinstance(wanted, Real):
        return COMPARISONS[sign](value, wanted)
    if isinstance(value, Real) and sign not in ("=", "==", "!=", "~"):
        raise ValueError(
            f"--where: {field}{sign}{wanted}: {field} is a number, so give one, such as {field}{sign}{value:g}"
        )
    return COMPARISONS[sign](str(value), as_text(wanted))


def as_text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def check_fields(asked: Sequence[str], known: Sequence[str], source: str) -> None:
    """Raises ValueError if a field is not known; the message names `source`, the field and the nearest known one."""
    for field in asked:
        if field not in known:
            close = difflib.get_close_matches(field, known, n=1, cutoff=0.5)
            advice = f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(known[:20])}, or a setting"
            raise ValueError(f"{source}: no run has a field {field!r}: {advice}")
