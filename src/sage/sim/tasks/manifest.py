"""Manifests in files: lines of JSON with recipes and hashes, and no code of others. A header, the suites, then the
tasks."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import as_file
from importlib.resources import files as package_files
from pathlib import Path

from sage.files import FileReadError, replacing
from sage.sim.tasks.suites import Suite

FORMAT = 1
SHIPPED = "sim_tasks.jsonl.gz"


@dataclass(frozen=True)
class Manifest:
    """The tasks of a generation: a header with the report of its making, suites by name, and rows of tasks."""

    header: Mapping
    suites: Mapping[str, Suite]
    rows: Sequence[Mapping]

    def save(self, path: Path) -> None:
        """Writes the whole file or nothing; a name that ends in .gz is compressed."""
        used = {row["suite"] for row in self.rows}
        lines = [json.dumps({"format": FORMAT, **self.header})]
        lines += [json.dumps(self.suites[name].as_row()) for name in sorted(used)]
        lines += [json.dumps(row) for row in self.rows]
        content = ("\n".join(lines) + "\n").encode()
        with replacing(path) as temporary:
            temporary.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)

    @classmethod
    def shipped(cls) -> Manifest:
        """Returns the tasks that come with the package, of pinned archives and families."""
        with as_file(package_files("sage.sim").joinpath("assets", SHIPPED)) as path:
            return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> Manifest:
        """Returns the manifest in a file; raises FileReadError if it is none."""
        content = path.read_bytes()
        try:
            lines = (gzip.decompress(content) if path.suffix == ".gz" else content).decode().splitlines()
            header, *rows = [json.loads(line) for line in lines]
            if header.pop("format") != FORMAT:
                raise ValueError("another format")
            suites = {row["suite"]: Suite.of_row(row) for row in rows if "id" not in row}
        except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise FileReadError(
                f"{path} is not a manifest of tasks ({error}): make one with `sage sim generate`"
            ) from error
        return cls(header, suites, [row for row in rows if "id" in row])
