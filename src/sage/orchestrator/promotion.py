"""The learned policy in charge: that of the checkpoint, the one promoted before it, or none.

The gate's record decides. A policy that the process has loaded and the gate has promoted goes on while the file in its
place is not judged yet, is refused or cannot be read. It ends when the record refuses it, is gone or cannot be read.
The environment names the checkpoint. Where it says nothing, the one that `sage promote` installed beside the log serves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from sage.evidence.objective import DEFAULT, Objective
from sage.files import sha256_of
from sage.orchestrator.bandit_tier import try_out
from sage.orchestrator.cascade_rules import CascadeRule
from sage.orchestrator.guard import POLICY_FAILURES
from sage.orchestrator.installed_policies import CASCADES, DECISIONS, InstalledPolicies, InstalledPoliciesError
from sage.policies.cascades.cascade_policy import CascadePolicy
from sage.policies.policy import RoutingPolicy
from sage.proof.gate_record import GateRecord, GateRecordError, records_of, unjudged
from sage.settings import CASCADE, CHECKPOINT, FORCE, POLICY, Settings, SettingsError

SYNTHETIC = "it was promoted on SYNTHETIC rows, which are no evidence"
P = TypeVar("P", RoutingPolicy, CascadePolicy)


class Promoted(NamedTuple, Generic[P]):
    """A policy in memory, and the verdict that let it serve."""

    policy: P
    record: GateRecord


class Served(NamedTuple, Generic[P]):
    """The learned policy that serves, or why none does."""

    policy: P | None = None
    problem: str = ""  # why none serves, though one was asked for
    forced: str = ""  # why the gate would not let it serve, where SAGE_RL_FORCE=1 or --allow-synthetic does
    note: str = ""  # why the one in memory serves, and not the one in the file
    promoted: Promoted[P] | None = None  # the last one that the gate let serve, whether or not it serves now

    def told(self, otherwise: str) -> str:
        """Says who is in charge; empty if no learned policy was asked for. `otherwise` decides where none serves."""
        if self.policy is None:
            return f"{self.problem}; {otherwise}" if self.problem else ""
        named = f"{self.policy.name} {self.policy.version}"
        if self.note:
            return f"{named} goes on, which the gate has promoted: {self.note}"
        return f"{named} serves: {self.forced}" if self.forced else f"{named} serves, promoted by the gate"


class Checkpoint(NamedTuple, Generic[P]):
    """A checkpoint that is to serve: how it is loaded and tried, and what its verdict must be about."""

    path: Path
    kind: str  # for people
    load: Callable[[Path], P]
    check: Callable[[P], None]  # raises if the policy cannot serve these models
    floor: float
    objective: Objective
    forced: bool = False
    allow_synthetic: bool = False

    def served(self, before: Promoted[P] | None) -> Served[P]:
        """Decides who serves; `before` is what this process had loaded and was promoted."""
        policy, sha256, problem = self.read()
        try:
            records = records_of(self.path)
        except GateRecordError as error:
            records, problem = None, problem or str(error)
        if records is not None and not problem:
            problem = self.why_not(records, sha256)
        if policy is not None and records is not None and not problem:
            record = records[sha256]
            forced = SYNTHETIC if record.data_source == "synthetic" else ""
            return Served(policy, forced=forced, promoted=Promoted(policy, record))
        if policy is not None and self.forced:
            return Served(policy, forced=f"{FORCE}=1 lets it serve although {problem}", promoted=before)
        if before is not None and records is not None and self.goes_on(before, records):
            return Served(before.policy, note=problem, promoted=before)
        return Served(problem=problem, promoted=before)

    def read(self) -> tuple[P | None, str, str]:
        """Returns the policy, the sha256 of its file, and what is wrong with it; no sha256 if the file changed meanwhile."""
        found = self.sha256()
        try:
            policy = self.load(self.path)
            self.check(policy)
        except (*POLICY_FAILURES, OSError) as error:
            text = str(error)
            told = text if str(self.path) in text else f"{self.path}: {text}"
            return None, "", f"the {self.kind} cannot serve: {told}"
        return policy, found if found == self.sha256() else "", ""

    def sha256(self) -> str:
        with suppress(OSError):  # loading it says what is wrong
            return sha256_of(self.path)
        return ""

    def why_not(self, records: Mapping[str, GateRecord], sha256: str) -> str:
        if sha256 not in records:
            return unjudged(self.path, records)
        return self.refusal(records[sha256])

    def refusal(self, record: GateRecord) -> str:
        return record.why_not(self.path, self.floor, self.objective, allow_synthetic=self.allow_synthetic)

    def goes_on(self, before: Promoted[P], records: Mapping[str, GateRecord]) -> bool:
        """Tells whether the policy in memory may serve: no verdict refuses it, and it can serve this table."""
        verdict = records.get(before.record.checkpoint_sha256, before.record)
        if self.refusal(verdict):
            return False
        try:
            self.check(before.policy)
        except POLICY_FAILURES:
            return False
        return True


class PolicyKind(NamedTuple, Generic[P]):
    """A kind of learned policy, for single decisions or for cascades: what names its checkpoint, and what that has to pass."""

    label: str  # for people
    named: Callable[[Settings], Path | str]  # the checkpoint, or why there is none; '' where none is asked for
    load: Callable[[Path], P]
    check: Callable[[P], None]  # raises if the policy cannot serve these models
    floor: float
    slot: str  # of the policies beside the log
    problem: str = ""  # why the table can have none
    tells_settings: bool = True  # whether it says what is wrong with the settings, which both kinds share


def served_policy(
    environment: Mapping[str, str] | None,
    kind: PolicyKind[P],
    objective: Objective = DEFAULT,
    before: Promoted[P] | None = None,
    db: Path | None = None,
) -> Served[P]:
    """Returns the learned policy of a kind that the environment asks for, if the gate has promoted it; else why none serves.

    `before` is the one that this process has loaded and the gate has promoted, which may go on. Where the environment
    says nothing, the policy serves that was promoted beside the log `db`.
    """
    try:
        settings = Settings.read(environment)
    except SettingsError as error:
        return Served(problem=str(error) if kind.tells_settings else "")
    if db is not None and not settings.decides:
        found = installed_policy(InstalledPolicies(db), kind, objective, before, forced=settings.forced)
        if found is not None:
            return found
    named = kind.named(settings) if settings.policy_on else ""
    if isinstance(named, str):
        return Served(problem=named)
    if kind.problem:
        return Served(problem=f"{CASCADE} is set, but {kind.problem}", promoted=before)
    checkpoint = Checkpoint(named, kind.label, kind.load, kind.check, kind.floor, objective, settings.forced)
    return checkpoint.served(before)


def installed_policy(
    policies: InstalledPolicies, kind: PolicyKind[P], objective: Objective, before: Promoted[P] | None, *, forced: bool
) -> Served[P] | None:
    """Returns the policy that `sage promote` installed, or why it cannot serve; None if there is none.

    After a rollback the policy that served before does not go on, whatever is wrong with the one that is to serve.
    """
    try:
        installed = policies.slot(kind.slot).serving
    except InstalledPoliciesError as error:
        return Served(problem=str(error))
    if installed is None:
        return None
    if kind.problem:
        return Served(problem=f"{installed.name} was promoted, but {kind.problem}")
    path, synthetic = policies.checkpoint(installed), installed.allow_synthetic
    checkpoint = Checkpoint(path, kind.label, kind.load, kind.check, kind.floor, objective, forced, synthetic)
    same = before is not None and before.record.checkpoint_sha256 == installed.checkpoint_sha256
    return checkpoint.served(before if same else None)


def single_decision_kind(models: tuple[str, ...], floor: float) -> PolicyKind[RoutingPolicy]:
    """Returns the kind that chooses among models for single calls, where it is at least as sure as the floor."""

    def named(settings: Settings) -> Path | str:
        if settings.checkpoint is not None or settings.cascade is not None:
            return settings.checkpoint or ""
        return f"{POLICY} is on but {CHECKPOINT} names no file: set it to a checkpoint, or promote one"

    def load(path: Path) -> RoutingPolicy:
        from sage.policies.checkpoint import load_policy

        return load_policy(path)

    return PolicyKind("checkpoint", named, load, lambda policy: try_out(policy, models), floor, DECISIONS)


def cascade_kind(rules: Mapping[str, CascadeRule]) -> PolicyKind[CascadePolicy]:
    """Returns the kind that takes the steps of cascades; it has no confidence, and so no floor."""

    def load(path: Path) -> CascadePolicy:
        from sage.policies.checkpoint import load_cascade

        return load_cascade(path)

    def check(policy: CascadePolicy) -> None:
        from sage.policies.cascades.learned_cascade import LearnedCascade

        assert isinstance(policy, LearnedCascade)
        strangers = [rule.ladder for rule in rules.values() if not set(rule.ladder) & set(policy.models)]
        if strangers:
            raise ValueError(f"it knows none of {', '.join(strangers[0])}: train it on a log of these models")

    problem = "" if rules else "models.yaml has no section cascade: add one"
    return PolicyKind("cascade", lambda s: s.cascade or "", load, check, 0.0, CASCADES, problem, tells_settings=False)
