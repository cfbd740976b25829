"""Promotion and rollback: a proved checkpoint is installed beside the log, where routers and servers find it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from sage.files import read_text, sha256_of
from sage.orchestrator.installed_policies import (
    CASCADES,
    DECISIONS,
    WITHOUT,
    InstalledPolicies,
    InstalledPolicy,
    now,
)
from sage.orchestrator.models_file import ModelsFile
from sage.orchestrator.promotion import cascade_kind, single_decision_kind
from sage.orchestrator.static_table import StaticTable
from sage.pipeline.choices import DATABASE, MODELS_FILE, PROOF
from sage.policies.cascades.learned_cascade import LearnedCascade
from sage.policies.checkpoint import load_any
from sage.policies.learned_policy import LearnedPolicy
from sage.proof.gate_record import GateRecord, GateRecordError, records_of
from sage.settings import Settings

NO_LOG = "{}: there is no such log: give the one that the server writes with --db"
OTHER_TABLE = (
    "the proof is about a gain over {}, and the table of {} is {} now, with other models, rules or exploration: "
    "prove it again to know the gain over that one"
)
ENVIRONMENT_DECIDES = "SAGE_RL_POLICY is set, so the environment says what serves: unset it to follow promotions"


class PromotionError(ValueError):
    """A checkpoint that may not be promoted; the message says why, and what to do."""


@dataclass(frozen=True, kw_only=True)
class Promotion:
    """A promoted policy, and the place that it was installed at."""

    installed: InstalledPolicy
    of: str  # decisions or cascades
    file: Path  # the installed copy
    reason: str  # of the verdict
    note: str = ""  # why something else serves all the same, or what the proof is not about

    def to_json(self) -> dict:
        """Returns plain values, as `sage promote --json` prints them."""
        return {"of": self.of, "file": str(self.file), "reason": self.reason, "note": self.note} | asdict(
            self.installed
        )

    def __str__(self) -> str:
        lines = [
            f"promoted: {self.installed.name} serves {self.of} from now on",
            f"  installed as {self.file}; running servers follow within a second",
            f"  proof: {self.reason}",
            "  go back with `sage rollback`",
        ]
        return "\n".join(lines + [f"  note: {self.note}"] * bool(self.note))


@dataclass(frozen=True, kw_only=True)
class Rollback:
    """The policy that serves again, or None for the static table."""

    of: str
    serving: InstalledPolicy | None
    note: str = ""

    def to_json(self) -> dict:
        """Returns plain values, as `sage rollback --json` prints them."""
        serving = None if self.serving is None else asdict(self.serving)
        return {"of": self.of, "serving": serving, "note": self.note}

    def __str__(self) -> str:
        serves = WITHOUT[self.of] if self.serving is None else f"{self.serving.name} serves {self.of} again"
        text = f"rolled back: {serves} from now on; running servers follow within a second"
        return text + (f"\n  note: {self.note}" if self.note else "")


def promote(
    checkpoint: str | Path,
    *,
    db: str | Path = DATABASE,
    models: str | Path = MODELS_FILE,
    proof: str | Path | None = None,
    allow_synthetic: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Promotion:
    """Lets a checkpoint serve that has a passing proof: copies it beside the log, where routers and servers find it.

    The proof must be about this file, by its sha256, and about the floor and the objective that models.yaml has now.
    Raises PromotionError otherwise, and what serves stays.

    Args:
        checkpoint: a policy or a cascade that `train` wrote.
        db: the log that the servers write.
        models: the models.yaml that they serve.
        proof: what `gate(..., out=...)` or `sage prove` wrote; None takes the gate record beside the checkpoint, else
            CHECKPOINT.proof.json.
        allow_synthetic: lets a policy serve whose proof is about synthetic rows; every decision of it says so.
        environment: variables that may say what serves; None takes those of the process.
    """
    checkpoint, db, table = Path(checkpoint), Path(db), ModelsFile.read(models)
    if not db.is_file():
        raise PromotionError(NO_LOG.format(db))
    policy = load_any(checkpoint)
    sha256 = sha256_of(checkpoint)
    found = proof_of(checkpoint, sha256, None if proof is None else Path(proof))
    record = found.record
    of, floor = check_servable(policy, table, checkpoint)
    if record.promote and record.data_source == "synthetic" and not allow_synthetic:
        raise PromotionError(
            f"{checkpoint} was proved on synthetic rows, which are no evidence: prove it on rows of real outcomes, or "
            "try it all the same with --allow-synthetic"
        )
    if refusal := record.why_not(checkpoint, floor, table.objective, allow_synthetic=allow_synthetic):
        raise PromotionError(refusal)
    policies = InstalledPolicies(db)
    installed = InstalledPolicy(
        checkpoint_sha256=sha256,
        policy=policy.name,
        policy_version=policy.version,
        since=now(),
        promoted_from=str(checkpoint),
        allow_synthetic=record.data_source == "synthetic",
        proof=found.numbers,
    )
    policies.install(of, checkpoint, record, installed)
    notes = [ENVIRONMENT_DECIDES] if Settings.read(environment).decides else []
    proved, present = found.numbers.get("incumbent", ""), StaticTable.from_file(table)
    if proved.startswith(f"{present.name} ") and proved != f"{present.name} {present.version}":
        notes.append(OTHER_TABLE.format(proved, models, f"{present.name} {present.version}"))
    return Promotion(
        installed=installed,
        of=of,
        file=policies.checkpoint(installed),
        reason=record.reason,
        note="; ".join(notes),
    )


def check_servable(policy: LearnedPolicy | LearnedCascade, table: ModelsFile, checkpoint: Path) -> tuple[str, float]:
    """Returns what the policy would decide, and its confidence floor; raises if it cannot serve with this table."""
    if isinstance(policy, LearnedCascade):
        steps = cascade_kind(table.cascade)
        if steps.problem:
            raise PromotionError(f"{checkpoint} cannot serve: {steps.problem}")
        steps.check(policy)
        return CASCADES, steps.floor
    single = single_decision_kind(tuple(table.models), table.guard.confidence_floor)
    single.check(policy)
    return DECISIONS, single.floor


def rollback(
    *,
    db: str | Path = DATABASE,
    of: str = DECISIONS,
    to_table: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Rollback:
    """Lets the policy serve that was promoted before the present one, or the static table if there was none.

    Args:
        db: the log that the servers write.
        of: "decisions" or "cascades".
        to_table: lets the static table decide (for cascades: the ladders), whatever was promoted before.
        environment: variables that may say what serves; None takes those of the process.
    """
    if of not in (DECISIONS, CASCADES):
        raise PromotionError(f"of={of!r} must be {DECISIONS} or {CASCADES}")
    policies = InstalledPolicies(Path(db))
    if not Path(db).is_file() and not policies.folder.is_dir():
        raise PromotionError(NO_LOG.format(db))
    slot = policies.roll_back(of, to_table=to_table)
    return Rollback(of=of, serving=slot.serving, note=ENVIRONMENT_DECIDES if Settings.read(environment).decides else "")


@dataclass(frozen=True)
class Proof:
    """A verdict on a checkpoint, with the numbers of its evaluation as far as they are known."""

    record: GateRecord
    numbers: dict


def proof_of(checkpoint: Path, sha256: str, given: Path | None) -> Proof:
    """Returns the verdict on this very file: that of the gate record, else that of the proof; PromotionError if neither is."""
    beside = checkpoint.with_name(checkpoint.name + PROOF)
    if given is not None and not given.is_file():
        raise PromotionError(f"{given}: there is no such proof: make it with `sage prove {checkpoint} --out {given}`")
    wanted = given or beside
    written = read_proof(wanted) if wanted.is_file() or given is not None else None
    if written is not None and written.record.checkpoint_sha256 != sha256:
        if given is not None:
            raise PromotionError(
                f"{given} is about another file than {checkpoint}: prove it with `sage prove {checkpoint}`"
            )
        written = None
    try:
        record = records_of(checkpoint).get(sha256)
    except GateRecordError:
        record = None
    if record is None and written is None:
        raise PromotionError(f"{checkpoint} has no proof: prove it with `sage prove {checkpoint}`")
    if record is None:
        assert written is not None
        return written
    return Proof(record, written.numbers if written is not None and written.record == record else {})


def read_proof(path: Path) -> Proof:
    """Reads what `sage prove` wrote; raises a PromotionError if it cannot be read."""
    try:
        values = json.loads(read_text(path))
        record, report = GateRecord(**values["verdict"]), values["report"]
        parts = report.get("parts") or {}
        numbers = {
            "gain": {"value": report["value"], **(report["interval"] or {})},
            "quality": parts.get("quality"),
            "cost_usd": parts.get("cost_usd"),
            "rows": report["num_rows"],
            "tasks": report["num_tasks"],
            "acting_share": report["acting_share"],
            "incumbent": f"{report['incumbent']} {report['incumbent_version']}",
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise PromotionError(f"{path} is no proof of `sage prove` ({error}): prove the checkpoint again") from error
    return Proof(record, numbers)
