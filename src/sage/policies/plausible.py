"""The file that lists, by role and category, the models among which exploration draws."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from sage.files import read_text, write_json
from sage.policies.policy import Contexts

FORMAT = 1


class PlausibleError(ValueError):
    """A file of plausible models, or a setting for making one, that is unusable; the message names it and the fix."""


@dataclass(frozen=True, kw_only=True)
class PlausibleModels:
    """The models worth exploring in each role and category, with the log and the date that they come from."""

    cells: dict[tuple[str, str], tuple[str, ...]]  # (role, category) -> models
    elsewhere: tuple[str, ...] | None = None  # in pairs that are not listed; None: all that are eligible
    data_sha256: str = ""  # of the log that they were found in
    date: str = ""  # ISO, UTC

    def mask(self, contexts: Contexts, models: tuple[str, ...], eligible: np.ndarray) -> np.ndarray:
        """Returns bool [n, models]: the eligible models that exploration may draw; rows without any do not explore."""
        everywhere = models if self.elsewhere is None else self.elsewhere
        pairs = zip(contexts.role.tolist(), contexts.category.tolist(), strict=True)
        listed = [self.cells.get(pair, everywhere) for pair in pairs]
        return eligible & np.array([[model in names for model in models] for names in listed])

    def describe(self) -> list:
        """Returns the lists as plain values, from which the version of a table that explores with them is computed."""
        cells = [[role, category, list(names)] for (role, category), names in sorted(self.cells.items())]
        return [self.elsewhere, cells]

    def write(self, path: Path) -> None:
        """Writes the lists as JSON to `path`, complete or not at all."""
        cells = [{"role": r, "category": c, "models": list(names)} for (r, c), names in sorted(self.cells.items())]
        head = {"format": FORMAT, "elsewhere": self.elsewhere, "data_sha256": self.data_sha256, "date": self.date}
        write_json(path, head | {"cells": cells})

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads the JSON file that `write` made.

        Raises PlausibleError if it cannot be read, has another format version or lacks a field.
        """
        fix = "make it with `sage lab plausible --data FILE --out FILE`"
        try:
            values = json.loads(read_text(path))
            if values["format"] != FORMAT:
                raise PlausibleError(f"{path} has format {values['format']}, this sage reads {FORMAT}: {fix}")
            cells = {(str(x["role"]), str(x["category"])): tuple(map(str, x["models"])) for x in values["cells"]}
            elsewhere = None if values["elsewhere"] is None else tuple(map(str, values["elsewhere"]))
            return cls(cells=cells, elsewhere=elsewhere, data_sha256=values["data_sha256"], date=values["date"])
        except OSError as error:
            raise PlausibleError(f"{path} cannot be read ({error.strerror}): {fix}") from error
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise PlausibleError(f"{path} is no list of plausible models ({error}): {fix}") from error
