"""Values of every wrong kind, for arguments of public functions, and who answers them."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import rl_training

HERE = str(Path(rl_training.__file__).parent)
WRONG: dict[str, object] = {
    "nothing": None,
    "text": "x",
    "no text": "",
    "bytes": b"x",
    "negative": -1,
    "zero": 0,
    "half": 0.5,
    "two": 2,
    "huge": 10**9,
    "beyond 64 bits": 10**30,
    "nan": math.nan,
    "infinite": math.inf,
    "true": True,
    "complex": 1j,
    "no list": [],
    "list": [1],
    "negatives": [-1],
    "huge list": [10**9],
    "fractions": [0.5],
    "one truth value": [True],
    "texts": ["a"],
    "ragged": [[1], [1, 2]],
    "mapping": {},
    "array": np.zeros((2, 2)),
    "number of numpy": np.float32(math.nan),
    "date": np.datetime64("2020"),
    "tensor": torch.tensor(1),
    "object": object(),
    "function": lambda: None,
}


def raw_tracebacks(call: Callable[[object], object], values: dict[str, object] = WRONG) -> list[str]:
    """Returns the errors that were not raised by a sentence of the package: neither a result nor a ValueError of its own."""
    found = []
    for kind, value in values.items():
        try:
            call(value)
        except (ValueError, TypeError, AttributeError, ArithmeticError, LookupError, RuntimeError) as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            if not isinstance(error, ValueError) or not last.filename.startswith(HERE):
                found.append(f"{kind}: {type(error).__name__}: {error} ({last.filename}:{last.lineno})")
    return found
