"""The gate's verdict, in a file beside the checkpoint: only a policy that was promoted serves.

It guards against mistakes (another file, another floor, a refusal that nobody read), not against forgery.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from sage.files import read_text, write_json
from sage.rl.objective import DEFAULT, Objective

GATE = "judge it with `sage rl gate --data FILE --checkpoint {checkpoint}`"


@dataclass(frozen=True, kw_only=True)
class GateRecord:
    """What was judged, on what, how strictly, when, and the verdict."""

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

    def write(self, checkpoint: Path) -> Path:
        """Beside the checkpoint, complete or not at all; the newest verdict counts."""
        path = record_path(checkpoint)
        write_json(path, asdict(self))
        return path


def record_path(checkpoint: Path) -> Path:
    return checkpoint.with_name(f"{checkpoint.name}.gate.json")


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def why_not_promoted(checkpoint: Path, floor: float, objective: Objective = DEFAULT) -> str:
    """Why the gate does not let this checkpoint serve above this floor for this objective; empty if it does."""
    path, fix = record_path(checkpoint), GATE.format(checkpoint=checkpoint)
    if not path.is_file():
        return f"{checkpoint} has no gate record ({path.name}): {fix}"
    try:
        record, found = GateRecord(**json.loads(read_text(path))), sha256_of(checkpoint)
    except (OSError, TypeError, ValueError) as error:
        return f"{path} cannot be read ({error}): {fix}"
    if record.checkpoint_sha256 != found:
        return f"{path} is about another file than {checkpoint}, which has changed since {record.date}: {fix}"
    if record.promote is not True:
        return f"the gate refused {checkpoint} on {record.date}: {record.reason}"
    if record.data_source == "synthetic":
        return f"the gate judged {checkpoint} on synthetic rows, which are no evidence: {fix} on rows of real outcomes"
    if record.floor != floor:
        return f"the gate judged {checkpoint} with a confidence floor of {record.floor}, and the table has {floor:g}: {fix}"
    if record.objective != objective.name:
        return (
            f"the gate judged {checkpoint} for the objective {record.objective!r}, and the table has {objective.name!r}: "
            f"train for it, then {fix}"
        )
    return ""
