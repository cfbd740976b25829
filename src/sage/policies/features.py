"""The numbers that a policy sees of a request; a change of any feature needs a new VERSION."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from sage.log.records import ROLES, Request
from sage.policies.policy import Contexts

VERSION = 1
NAMES = (
    *(f"role_{role}" for role in ROLES),
    "task_known",
    "log_characters",  # log(1 + n) / 10, as every log here but those of counts
    "log_lines",
    "has_code",
    "has_stack_trace",
    "has_file_path",
    "has_choices",
    "symbol_share",
    "digit_share",
    "category_known",
    "log_past_failures",
    "probe_known",
    "log_probe_calls",
    "probe_cost_known",
    "log_probe_cost",
    "probe_verified_known",
    "probe_verified",
    "task_complexity_score",
)
COLUMN = {name: index for index, name in enumerate(NAMES)}
LOG_SCALE = 10.0
CENTS = 100.0  # a probe costs cents: log(1 + cents) tells them apart

# Bounded repeats and a bounded text: no prompt makes a search take long.
SCANNED = 8_000  # characters
LONG = 20_000  # characters: a task of this length or more is as complex as length can say
# Searched in a text between line breaks; each begins with a literal, which is found many times faster than `^`.
CODE_LINE = re.compile(r"\n[ \t]{0,40}(?:def|class|import|from|return|function|const|let|public|#include|SELECT)\b")
CODE_MARKS = ("```", ";\n", "{\n")
STACK_LINE = re.compile(r"\n[ \t]{1,8}at \S{1,200}\(")
STACK_MARKS = ("Traceback (most recent call last)", "Error: ", "Exception: ", "panic: ")
FILE_PATH = re.compile(
    r"\.(?<=\w\.)(?:py|pyi|js|jsx|ts|tsx|go|rs|java|c|h|cc|cpp|rb|php|cs|sh|sql|toml|ya?ml|json|md)\b"
)
CHOICES = re.compile(r"\n[ \t]{0,8}\(?[B-D][.):]\s")
SYMBOLS = rb"=+*/^<>\{}[]$_|&%#@~;-"
DIGITS = b"0123456789"


def featurize(request: Request) -> np.ndarray:
    """Returns the features of one request, float32 [len(NAMES)], in the order of NAMES."""
    text = request.task[:SCANNED]
    values = dict.fromkeys(NAMES, 0.0)
    values[f"role_{request.role}"] = 1.0
    values["task_known"] = float(bool(text))
    values["log_characters"] = np.log1p(len(request.task)) / LOG_SCALE
    values["log_lines"] = np.log1p(request.task.count("\n") + bool(text)) / LOG_SCALE
    lines = f"\n{text}\n"
    values["has_code"] = float(has_sign(lines, CODE_LINE, CODE_MARKS))
    values["has_stack_trace"] = float(has_sign(lines, STACK_LINE, STACK_MARKS))
    values["has_file_path"] = float(has_sign(lines, FILE_PATH))
    values["has_choices"] = float(has_sign(lines, CHOICES))
    values["symbol_share"] = share(SYMBOLS, text)
    values["digit_share"] = share(DIGITS, text)
    values["category_known"] = float(bool(request.category))
    values["log_past_failures"] = np.log1p(request.past_failures)
    if request.probe_calls is not None:
        values["probe_known"] = 1.0
        values["log_probe_calls"] = np.log1p(request.probe_calls) / LOG_SCALE
    if request.probe_cost_usd is not None:
        values["probe_cost_known"] = 1.0
        values["log_probe_cost"] = np.log1p(request.probe_cost_usd * CENTS) / LOG_SCALE
    if request.probe_verified is not None:
        values["probe_verified_known"] = 1.0
        values["probe_verified"] = float(request.probe_verified)
    values["task_complexity_score"] = complexity(values, request)
    return np.array(list(values.values()), np.float32)


def has_sign(lines: str, pattern: re.Pattern[str], marks: tuple[str, ...] = ()) -> bool:
    """Tells whether the text contains one of the marks or matches the pattern."""
    return any(mark in lines for mark in marks) or pattern.search(lines) is not None


def share(characters: bytes, text: str) -> float:
    """Returns the share of the text's characters that are among `characters` (ASCII); 0 for an empty text."""
    encoded = text.encode(errors="replace")
    return (len(encoded) - len(encoded.translate(None, characters))) / max(len(text), 1)


def complexity(values: dict[str, float], request: Request) -> float:
    """Returns how hard the task looks, 0 to 1, for triggers written by hand; it is not learned.

    Signs such as length, code or past failures combine as independent chances do.
    """
    length = min(values["log_characters"] * LOG_SCALE / np.log1p(LONG), 1.0)
    signs = (
        0.5 * length,
        0.2 * values["has_code"],
        0.2 * values["has_stack_trace"],
        0.1 * values["has_file_path"],
        1 - 0.6**request.past_failures,
        0.6 * (request.probe_verified is False),
    )
    return float(1 - np.prod([1 - sign for sign in signs]))


def contexts_of(requests: Sequence[Request]) -> Contexts:
    """Returns the contexts that a policy takes, one row per request."""
    features = [featurize(request) for request in requests]
    return Contexts(
        role=np.array([request.role for request in requests], np.str_),
        category=np.array([request.category for request in requests], np.str_),
        features=np.stack(features) if features else np.zeros((0, len(NAMES)), np.float32),
        task_id=np.array([request.task_id for request in requests], np.str_),
        text=np.array([request.task for request in requests], object),
    )


class FeaturesError(ValueError):
    """Rows whose number of features is not that of this VERSION."""


class Columns:
    """Rows of features, read by name as float64 columns."""

    def __init__(self, features: np.ndarray) -> None:
        self.features = features

    def __getitem__(self, name: str) -> np.ndarray:
        if self.features.shape[1] != len(NAMES):
            raise FeaturesError(
                f"rows have {self.features.shape[1]} features, and version {VERSION} has {len(NAMES)}: they were not made by "
                "sage; log and export again"
            )
        return self.features[:, COLUMN[name]].astype(np.float64)


# Name of the trigger language -> its value per row of features; NaN where it is not known.
VARIABLES: dict[str, Callable[[Columns], np.ndarray]] = {
    "task_complexity_score": lambda f: f["task_complexity_score"],
    "task_characters": lambda f: np.rint(np.expm1(f["log_characters"] * LOG_SCALE)),
    "task_lines": lambda f: np.rint(np.expm1(f["log_lines"] * LOG_SCALE)),
    "has_code": lambda f: f["has_code"],
    "has_stack_trace": lambda f: f["has_stack_trace"],
    "has_file_path": lambda f: f["has_file_path"],
    "category_known": lambda f: f["category_known"],
    "past_failures": lambda f: np.rint(np.expm1(f["log_past_failures"])),
    "probe_calls": lambda f: where_known(f["probe_known"], np.rint(np.expm1(f["log_probe_calls"] * LOG_SCALE))),
    "probe_cost_usd": lambda f: where_known(f["probe_cost_known"], np.expm1(f["log_probe_cost"] * LOG_SCALE) / CENTS),
    "probe_verified": lambda f: where_known(f["probe_verified_known"], f["probe_verified"]),
}


def trigger_variable(name: str, features: np.ndarray) -> np.ndarray:
    """Returns float64 [n]: a variable of the trigger language by rows of features; NaN where it is not known.

    Because a log keeps the features, a replayed decision gets the same values as the original one. Raises FeaturesError
    if the rows have another number of features, and KeyError for an unknown name.
    """
    return VARIABLES[name](Columns(features))


def where_known(known: np.ndarray, value: np.ndarray) -> np.ndarray:
    return np.where(known > 0, value, np.nan)
