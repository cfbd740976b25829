"""What a generation has finished, unit by unit, so that a killed one goes on where it was."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from threading import Lock

from sage.files import write_text
from sage.sim.tasks.making import Made
from sage.sim.tasks.suites import Suite


class JournalError(ValueError):
    """A journal of another generation: the sentence says what to do."""


class Journal:
    """An append-only file of finished units; a last line that a crash cut off is left out."""

    def __init__(self, path: Path, settings: dict) -> None:
        self.path = path
        self.lock = Lock()
        self.made: dict[str, Made] = {}
        lines = [line for line in path.read_text(encoding="utf-8").split("\n")[:-1] if line] if path.exists() else []
        if lines and json.loads(lines[0]) != settings:
            raise JournalError(
                f"{path} belongs to a generation with other settings: remove it, or choose another --out"
            )
        for line in lines[1:]:
            values = json.loads(line)
            self.made[values["unit"]] = Made(
                unit=values["unit"],
                rows=values["rows"],
                suites={name: Suite.of_row(row) for name, row in values["suites"].items()},
                refused=Counter(values["refused"]),
                tried=values["tried"],
                seconds=values["seconds"],
                cpu_s=values["cpu_s"],
                runs=values["runs"],
            )
        self.resumed = len(self.made)
        write_text(path, "".join(f"{line}\n" for line in lines or [json.dumps(settings)]))

    def add(self, made: Made) -> None:
        values = {
            "unit": made.unit,
            "rows": made.rows,
            "suites": {name: suite.as_row() for name, suite in made.suites.items()},
            "refused": made.refused,
            "tried": made.tried,
            "seconds": made.seconds,
            "cpu_s": made.cpu_s,
            "runs": made.runs,
        }
        with self.lock:
            self.made[made.unit] = made
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(values) + "\n")

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
