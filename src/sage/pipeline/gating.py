"""The gate: promotes or refuses a checkpoint, and writes the verdict that routers ask for beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sage.files import sha256_of, write_json
from sage.pipeline.evaluating import Question
from sage.pipeline.inputs import LogLike
from sage.proof.evaluation import OfflineEvaluation
from sage.proof.gate import GateVerdict, decide, record_of, why_no_record
from sage.proof.gate_record import GateRecord, record_path


@dataclass(frozen=True)
class GateResult(GateVerdict):
    """A verdict with its evaluation, and the record that lets routers serve the checkpoint."""

    report: OfflineEvaluation
    verdict: GateRecord  # as a record has it, also where none was written
    looks: int | None  # at this policy, this one included; None where no log counts them
    record: Path | None  # None: nothing was written, and what serves stays
    no_record: str = ""  # why nothing was written

    def to_json(self) -> dict:
        """Returns plain values, as `sage prove --json` prints them."""
        return {
            "promote": self.promote,
            "reason": self.reason,
            "record": None if self.record is None else str(self.record),
            "looks": self.looks,
            "verdict": asdict(self.verdict),
            "report": self.report.to_json(),
        }

    def __str__(self) -> str:
        text = f"{'promote' if self.promote else 'refuse'}: {self.reason}"
        return f"{text}\nno gate record was written: {self.no_record}" if self.no_record else text


def gate(
    log: LogLike,
    checkpoint: str | Path,
    *,
    models: str | Path | None = None,
    floor: float | None = None,
    interval: str = "anytime",
    seed: int = 0,
    sources: str | Sequence[str] = (),
    tenants: str | Sequence[str] = (),
    db: str | Path | None = None,
    final_rows: int | None = None,
    allow_synthetic: bool = False,
    out: str | Path | None = None,
) -> GateResult:
    """Decides whether a checkpoint may serve, counts the look, and writes the record beside the checkpoint.

    Synthetic rows, and a second look with the interval for one, give a verdict without a record. Input that cannot be
    judged is a `ValueError`, and no record is written.

    The arguments up to `final_rows` are those of `evaluate`.

    Args:
        allow_synthetic: judges synthetic rows, too; the verdict says so, and there is still no record.
        out: a file for verdict and report as JSON; None writes none.
    """
    question = Question.of(
        models=models,
        floor=floor,
        interval=interval,
        seed=seed,
        sources=sources,
        tenants=tenants,
        db=db,
        final_rows=final_rows,
    )
    checkpoint = Path(checkpoint)
    sha256 = sha256_of(checkpoint) if checkpoint.is_file() else ""
    found, looks = question.look(log, checkpoint)
    if sha256_of(checkpoint) != sha256:
        raise ValueError(f"{checkpoint} changed while it was judged: judge it again")
    decided = decide(found, allow_synthetic=allow_synthetic, looks=looks)
    no_record = why_no_record(found, looks)
    judged = record_of(sha256, found, decided)
    verdict = GateResult(
        promote=decided.promote,
        reason=decided.reason,
        report=found,
        verdict=judged,
        looks=looks,
        record=None if no_record else record_path(checkpoint),
        no_record=no_record,
    )
    if out is not None:
        write_json(Path(out), verdict.to_json())  # before the record: where it fails, nothing was judged
    if not no_record:
        judged.write(checkpoint)
    return verdict
