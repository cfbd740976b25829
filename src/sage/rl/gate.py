"""The gate: a policy is promoted only if the lower bound of its gain over the static table is above zero."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sage.rl.evaluation import LEVEL, NOT_EVIDENCE, OfflineEvaluation
from sage.rl.gate_record import GateRecord, sha256_of

PROMOTE, BAD_INPUT, REFUSE = 0, 2, 3  # exit codes


@dataclass(frozen=True)
class Verdict:
    """The decision, with the sentence that explains it."""

    promote: bool
    reason: str

    @property
    def exit_code(self) -> int:
        return PROMOTE if self.promote else REFUSE


def decide(found: OfflineEvaluation, *, allow_synthetic: bool = False) -> Verdict:
    """Promotes if the one-sided 97.5 % lower bound of the paired difference is above zero; refuses in doubt."""
    report = found.report
    if not found.evidence and not allow_synthetic:
        return Verdict(False, f"the log is {NOT_EVIDENCE}; to try the gate all the same, pass --allow-synthetic")
    if report.refusal is not None:
        return Verdict(False, f"the log cannot answer: {report.refusal}")
    if found.acting_share == 0:
        return Verdict(
            False,
            f"{found.policy} never decides differently from the incumbent above the floor of {found.floor:g} (first choices "
            f"differ in {found.differing_share:.1%} of rows): there is nothing to promote",
        )
    assert report.interval is not None
    assert report.value is not None
    gain = (
        f"expected reward {report.value:+.4f} against {found.incumbent} ({found.incumbent_version}), lower bound "
        f"{report.interval.low:+.4f} at 97.5 %, {found.num_rows:,} rows of {found.num_tasks:,} tasks"
    )
    label = "" if found.evidence else f"SYNTHETIC, no evidence ({NOT_EVIDENCE}): "
    if report.above_zero:
        return Verdict(True, f"{label}{gain}: above zero, the policy decides in {found.acting_share:.1%} of rows")
    return Verdict(False, f"{label}{gain}: not above zero; log more, explore more, or keep the static table")


def record_of(checkpoint: Path, found: OfflineEvaluation, verdict: Verdict) -> GateRecord:
    """What routers look for beside the checkpoint before they let it serve."""
    return GateRecord(
        checkpoint_sha256=sha256_of(checkpoint),
        policy=found.policy,
        policy_version=found.policy_version,
        promote=verdict.promote,
        reason=verdict.reason,
        data_source=found.data_source,
        data_sha256=found.data_sha256,
        level=LEVEL,
        floor=found.floor,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )
