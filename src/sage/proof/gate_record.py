"""Records of the gate's verdicts in a file beside the checkpoint; only a promoted policy serves.

They guard against mistakes (another file, another floor, an unread refusal), not against forgery.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from sage.evidence.objective import DEFAULT, Objective
from sage.files import read_text, sha256_of, write_json

GATE = "prove it with `sage prove {checkpoint}`"
RECORD = ".gate.json"  # after the checkpoint's name
EARLIER = "earlier"  # verdicts on other files that were at this place
MOST_EARLIER = 20


class GateRecordError(ValueError):
    """A gate record that is missing or cannot be read; the message says which, and how to make one."""


@dataclass(frozen=True, kw_only=True)
class GateRecord:
    """The gate's verdict on one checkpoint, with its data, its settings and its date."""

    checkpoint_sha256: str
    policy: str
    policy_version: str
    promote: bool
    reason: str
    data_source: str
    data_sha256: str
    level: float
    method: str  # of the interval: for every look, or for one
    floor: float  # the confidence below which the static table decided
    date: str  # ISO, UTC
    objective: str = DEFAULT.name  # that of records from before there were others
    cost_usd: dict[str, float] | None = None  # the policy's less the incumbent's, per decision; None: not known
    cost_ratio: dict[str, float] | None = None  # the policy's over the incumbent's

    def write(self, checkpoint: Path) -> Path:
        """Adds the verdict to the file beside the checkpoint, complete or not at all, and returns the file's path.

        The newest verdict on each of the latest checkpoints at this path is kept, so that a policy which a retrained
        file is to replace still has its own.
        """
        try:
            others = records_of(checkpoint)
        except GateRecordError:  # no file, or one of which nothing can be kept
            others = {}
        others.pop(self.checkpoint_sha256, None)
        earlier = [asdict(record) for record in list(others.values())[-MOST_EARLIER:]]
        path = record_path(checkpoint)
        write_json(path, asdict(self) | {EARLIER: earlier})
        return path

    def why_not(self, checkpoint: Path, floor: float, objective: Objective, *, allow_synthetic: bool = False) -> str:
        """Returns why this verdict does not let the checkpoint serve above this floor for this objective, or ''."""
        fix = GATE.format(checkpoint=checkpoint)
        if self.promote is not True:
            return f"the gate refused {checkpoint} on {self.date}: {self.reason}"
        if self.data_source == "synthetic" and not allow_synthetic:
            return (
                f"the gate judged {checkpoint} on synthetic rows, which are no evidence: {fix} on rows of real outcomes"
            )
        if self.floor != floor:
            return f"the gate judged {checkpoint} with a confidence floor of {self.floor}, and the table has {floor:g}: {fix}"
        if self.objective != objective.name:
            return (
                f"the gate judged {checkpoint} for the objective {self.objective!r}, and the table has {objective.name!r}: "
                f"train for it, then {fix}"
            )
        return ""


def record_path(checkpoint: Path) -> Path:
    return checkpoint.with_name(checkpoint.name + RECORD)


def records_of(checkpoint: Path) -> dict[str, GateRecord]:
    """Returns the verdicts beside a checkpoint, newest last, by the sha256 of the file that each is about.

    Raises GateRecordError if the file of records is missing or cannot be read.
    """
    path, fix = record_path(checkpoint), GATE.format(checkpoint=checkpoint)
    if not path.is_file():
        raise GateRecordError(f"{checkpoint} has no gate record ({path.name}): {fix}")
    try:
        newest = json.loads(read_text(path))
        earlier = newest.pop(EARLIER, [])
        return {record.checkpoint_sha256: record for record in (GateRecord(**values) for values in (*earlier, newest))}
    except (OSError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise GateRecordError(f"{path} cannot be read ({error}): {fix}") from error


def unjudged(checkpoint: Path, records: Mapping[str, GateRecord]) -> str:
    """Returns the sentence that none of the verdicts is about the checkpoint's present content."""
    date, fix = list(records.values())[-1].date, GATE.format(checkpoint=checkpoint)
    return f"{record_path(checkpoint)} is about another file than {checkpoint}, which has changed since {date}: {fix}"


def why_not_promoted(checkpoint: Path, floor: float, objective: Objective = DEFAULT) -> str:
    """Returns why the gate does not let a checkpoint serve above this floor for this objective; '' if it does.

    A missing record or file is a reason, too; no error is raised.
    """
    try:
        records, found = records_of(checkpoint), sha256_of(checkpoint)
    except GateRecordError as error:
        return str(error)
    except OSError as error:
        return f"{checkpoint} cannot be read ({error}): {GATE.format(checkpoint=checkpoint)}"
    return records[found].why_not(checkpoint, floor, objective) if found in records else unjudged(checkpoint, records)
