"""The files that a server works on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sage.log.database import Identity


@dataclass(frozen=True)
class Places:
    """The paths of models.yaml and of the log."""

    models: Path
    db: Path
    identity: Identity | None = None  # of the log, where one was opened before
