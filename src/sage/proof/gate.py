"""The gate: a policy is promoted only if bounds show that it meets the objective, compared with the static table."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

import numpy as np

from sage.dollars import in_usd
from sage.evidence.missingness import GONE
from sage.proof.evaluation import LEVEL, NOT_EVIDENCE, ONE_LOOK, OfflineEvaluation
from sage.proof.gate_record import GateRecord
from sage.proof.tenants import resting_on_one, tell

PROMOTE, BAD_INPUT, REFUSE = 0, 2, 3  # exit codes
WHOLE_LOG = "export the whole log, with the decisions that have no outcome, and judge on that"


@dataclass(frozen=True)
class GateVerdict:
    """The gate's decision, with the sentence that explains it."""

    promote: bool
    reason: str

    @property
    def exit_code(self) -> int:
        return PROMOTE if self.promote else REFUSE


def decide(found: OfflineEvaluation, *, allow_synthetic: bool = False, looks: int | None = None) -> GateVerdict:
    """Returns the verdict: promotion if one-sided 97.5 % bounds of the paired differences meet the objective.

    For weights the lower bound of the reward must be above zero; for a limit there is one bound each of quality and
    cost. Whatever cannot be shown is refused. `looks` is the number of looks at this policy, this one included: an
    interval for one look is refused at the second.
    """
    verdict = judge_evaluation(found, allow_synthetic, looks)
    return replace(verdict, reason=f"{verdict.reason}; rows {found.selection}") if found.selection else verdict


def judge_evaluation(found: OfflineEvaluation, allow_synthetic: bool, looks: int | None) -> GateVerdict:
    """Returns the verdict of `decide`, without the remark on the selection of rows."""
    report = found.report
    if not found.evidence and not allow_synthetic:
        return GateVerdict(
            False, f"the log is {NOT_EVIDENCE}; to prove on them all the same, give `sage prove` --allow-synthetic"
        )
    if report.refusal is not None:
        return GateVerdict(False, f"the log cannot answer: {report.refusal}")
    if found.acting_share == 0:
        return GateVerdict(
            False,
            f"{found.policy} never decides differently from the incumbent above the floor of {found.floor:g} (first choices "
            f"differ in {found.differing_share:.1%} of rows): there is nothing to promote",
        )
    if found.method == ONE_LOOK and looks is not None and looks > 1:
        return GateVerdict(
            False,
            f"this is look {looks} at {found.policy} {found.policy_version}, and the fixed-n interval holds for one: judge it "
            "with --interval anytime, which may be asked every day",
        )
    if found.missing.gone:
        return GateVerdict(False, f"rows are not in the log: {found.missing.gone}; {WHOLE_LOG}")
    if found.completeness.absent and not found.completeness.bounded:
        return GateVerdict(
            False,
            f"{found.completeness}, and nobody knows how many attempts they had, so there is no worst case; judge those that began "
            "later, which `sage log export --cascades --since` writes",
        )
    for policy, weights in report.diagnostics.items():
        if weights.unsupported_mass:
            return GateVerdict(
                False,
                f"{weights.unsupported_mass:.1%} of what the {policy} chooses are models that this log could not have chosen in "
                "those rows: explore them (exploration in models.yaml), or learn the policy from this log",
            )
        if weights.mean_weight_p_value < GONE:
            return GateVerdict(
                False,
                f"rows are not in the log, or its probabilities are wrong: the mean weight of the {policy} is "
                f"{weights.mean_weight:.3f} +- {weights.mean_weight_error:.3f}, not 1; {WHOLE_LOG}",
            )
    verdict = judge_limit(found) if found.objective.constrained else judge_reward(found)
    if found.tenants:
        verdict = judge_tenants(found, verdict)
    if verdict.promote and found.trend is not None and found.trend.fell:
        verdict = GateVerdict(
            False,
            f"older and newer rows disagree: {found.trend}; judge the newer rows alone, which `sage log export --since` writes; "
            f"on all rows: {verdict.reason}",
        )
    label = "" if found.evidence else f"SYNTHETIC, no evidence ({NOT_EVIDENCE}): "
    remarks = [text for text in (str(found.completeness), cost_change(found)) if text]
    return replace(verdict, reason=f"{label}{'; '.join([verdict.reason, *remarks])}")


def judge_tenants(found: OfflineEvaluation, verdict: GateVerdict) -> GateVerdict:
    """Returns the verdict with each tenant's estimate added; a promotion that rests on one tenant becomes a refusal."""
    told = f"by tenant: {tell(found.tenants)}"
    if verdict.promote and (alone := resting_on_one(found.tenants, found.objective)):
        return GateVerdict(
            False,
            f"the gain rests on one tenant: {alone}, and the policy would serve all; {told}; check that tenant's reports (--source), "
            f"log more of the others, or judge for one tenant with --tenant; {verdict.reason}",
        )
    return replace(verdict, reason=f"{verdict.reason}; {told}")


def judge_reward(found: OfflineEvaluation) -> GateVerdict:
    """Returns promotion if the lower bound of the gain in reward is above zero, whatever the missing outcomes were."""
    report, worst = found.report, found.bound
    assert report.interval is not None
    assert worst is not None
    gain = (
        f"expected reward {report.value:+.4f} against {found.incumbent} ({found.incumbent_version}), lower bound "
        f"{worst.low:+.4f} {basis(found)}"
    )
    unknown = f"{found.missing.rows:,} missing outcomes" if found.missing.rows else ""
    if absent := found.completeness.absent:
        unknown += f"{' and ' if unknown else ''}{absent:,} absent rows"
    if unknown:
        gain += f", whatever the {unknown} were"
    if report.above_zero and worst.low <= 0:
        told = f" ({found.missing.told})" if found.missing.rows else ""
        fix = "report them, time-outs and errors too" if found.missing.rows else WHOLE_LOG
        return GateVerdict(
            False,
            f"the verdict depends on {unknown}{told}: the lower bound is {report.interval.low:+.4f} if they are like the "
            f"others, and {worst.low:+.4f} if they are not; {fix}",
        )
    if worst.low > 0:
        return GateVerdict(True, f"{gain}: above zero, the policy decides in {found.acting_share:.1%} of rows")
    return GateVerdict(False, f"{gain}: not above zero; log more, explore more, or keep the static table")


def judge_limit(found: OfflineEvaluation) -> GateVerdict:
    """Returns promotion if the one-sided 97.5 % bounds of quality and of cost are both where the objective wants them.

    The claim is that both hold. The chance of a false one is at most that of the likelier mistake, so that no
    correction is needed.
    """
    objective, parts = found.objective, found.parts
    assert parts is not None
    quality, cost, task = parts.quality, parts.cost_usd, parts.usd_per_task
    assert cost is not None
    assert task is not None
    needed = {f"quality {quality.value:+.4f}, lower bound {quality.low:+.4f}": (quality.low, -objective.margin)}
    if objective.max_usd_per_task is None:
        told = f"cost {in_usd(cost.value, '+')} USD per decision, upper bound {in_usd(cost.high, '+')}"
        needed[told] = (0.0, cost.high)
    else:
        limit = np.nextafter(objective.max_usd_per_task, np.inf)  # no more than it
        needed[f"cost {in_usd(task.value)} USD per task, upper bound {in_usd(task.high)}"] = (limit, task.high)
    failed = [text for text, (above, below) in needed.items() if not above > below]
    told = f"{'; '.join(needed)}; against {found.incumbent} ({found.incumbent_version}), each {basis(found)}"
    if quality.missing or cost.missing:
        told += f", whatever the {quality.missing:,} missing qualities and {cost.missing:,} missing costs were"
    if not failed:
        return GateVerdict(True, f"{told}: {objective.name}; the policy decides in {found.acting_share:.1%} of rows")
    return GateVerdict(
        False,
        f"{told}: not shown for {' and '.join(text.split()[0] for text in failed)}, and the objective is {objective.name}; "
        "report all outcomes, log more, explore more, or keep the static table",
    )


def cost_change(found: OfflineEvaluation) -> str:
    """Returns a text about the policy's cost compared with the incumbent's."""
    if found.parts is None or (cost := found.parts.cost_usd) is None:
        return "cost unknown, as no row has one"
    text = f"cost {in_usd(cost.value, '+')} USD per decision ({in_usd(cost.low, '+')} to {in_usd(cost.high, '+')}"
    text += f", {cost.missing:,} missing)" if cost.missing else ")"
    if (ratio := found.parts.cost_ratio) is None:
        return text
    return f"{text}, {ratio.value:.3g} times the incumbent's ({ratio.low:.3g} to {ratio.high:.3g})"


def basis(found: OfflineEvaluation) -> str:
    when = "at one look" if found.method == ONE_LOOK else "at every look"
    if found.plan is not None:
        when = f"at {found.plan.told(found.num_rows)}"
    return f"at 97.5 % {when}, {found.num_rows:,} rows of {found.basis}"


def why_no_record(found: OfflineEvaluation, looks: int | None) -> str:
    """Returns why a look changes no gate record; '' if it does."""
    if not found.evidence:
        return "the rows are synthetic"
    if found.method == ONE_LOOK and looks is not None and looks > 1:
        return f"this is look {looks}, and the fixed-n interval holds for one"
    return ""


def record_of(sha256: str, found: OfflineEvaluation, verdict: GateVerdict) -> GateRecord:
    """Returns the record that routers look for beside the checkpoint; `sha256` is that of the judged file."""
    parts: dict = {} if found.parts is None else asdict(found.parts)
    return GateRecord(
        checkpoint_sha256=sha256,
        policy=found.policy,
        policy_version=found.policy_version,
        promote=verdict.promote,
        reason=verdict.reason,
        data_source=found.data_source,
        data_sha256=found.data_sha256,
        level=LEVEL,
        method=found.method,
        floor=found.floor,
        objective=found.objective.name,
        cost_usd=parts.get("cost_usd"),
        cost_ratio=parts.get("cost_ratio"),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )
