"""Journal of a generation: its finished units, so that a killed one goes on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from sage.sim.line_file import LineFile
from sage.sim.tasks.making import Made
from sage.sim.tasks.suites import Suite


class Journal:
    """The finished units of a generation, in a file."""

    def __init__(self, path: Path, settings: dict) -> None:
        self.file = LineFile(path, settings)
        self.made: dict[str, Made] = {}
        for values in self.file.lines:
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

    def add(self, made: Made) -> None:
        self.file.add(
            {
                "unit": made.unit,
                "rows": made.rows,
                "suites": {name: suite.as_row() for name, suite in made.suites.items()},
                "refused": made.refused,
                "tried": made.tried,
                "seconds": made.seconds,
                "cpu_s": made.cpu_s,
                "runs": made.runs,
            }
        )
        self.made[made.unit] = made

    def remove(self) -> None:
        self.file.path.unlink(missing_ok=True)
