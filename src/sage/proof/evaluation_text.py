"""An evaluation as lines of text: the gain, quality and cost apart, and every reason to doubt them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from sage.dollars import in_usd
from sage.proof.tenants import tell

if TYPE_CHECKING:
    from sage.evidence.quality_and_cost import Amount
    from sage.proof.evaluation import OfflineEvaluation


def summary_of(found: OfflineEvaluation) -> str:
    """Returns the lines that `sage prove` prints."""
    subject = (
        f"{found.policy} {found.policy_version} minus {found.incumbent} {found.incumbent_version}, "
        f"{found.reward_version}, {found.data_source} data: {found.num_rows:,} rows kept out of training "
        f"({found.left_out_rows:,} left out) of {found.basis}"
    )
    acting = (
        f"the policy decides in {found.acting_share:.1%} of rows (floor {found.floor:g}; first choices differ in "
        f"{found.differing_share:.1%})"
    )
    note = [] if found.evidence else [f"no evidence: {found.to_json()['note']}"]
    return "\n".join([subject, str(found.report), *parts_of(found), acting, *remarks(found), *note])


def remarks(found: OfflineEvaluation) -> Iterator[str]:
    """Yields a line for everything that the plain estimate does not show."""
    if found.shadow_rows:
        cost = in_usd(found.shadow_usd or 0.0)
        yield f"outcomes of shadows count in {found.shadow_rows:,} rows; they cost {cost} USD"
    if found.missing.rows:
        yield f"missing outcomes: {found.missing.told}, taken to be like the others of their model and cell"
    if (worst := found.missing.worst_case) is not None:
        yield f"whatever they were, the gain lies between {worst.low:+.4f} and {worst.high:+.4f}"
    if found.missing.gone:
        yield f"warning: rows are not in the log: {found.missing.gone}"
    if found.plan is not None:
        yield f"{found.plan.told(found.num_rows)}: the intervals of all planned looks hold together"
    if found.power is not None:
        yield str(found.power)
    if (ahead := found.next_tasks) is not None:
        yield (
            f"over as many other tasks like these the mean gain will lie between {ahead.low:+.4f} and {ahead.high:+.4f}; tasks of "
            "another time may differ more"
        )
    if found.trend is not None:
        yield str(found.trend)
    if found.tenants:
        yield f"by tenant: {tell(found.tenants)}"
    if found.selection:
        yield f"rows {found.selection}"
    if found.wanted_share < 1:
        yield f"outcomes were drawn to be reported in {found.wanted_share:.1%} of rows; others count nowhere"
    if str(found.completeness):
        yield str(found.completeness)


def parts_of(found: OfflineEvaluation) -> list[str]:
    """Returns quality and cost apart; the intervals hold whatever is missing."""
    if (parts := found.parts) is None:
        return []
    lines = [f"quality per decision: {amount(parts.quality, '{:+.4f}'.format)}"]
    if parts.cost_usd is not None and parts.usd_per_task is not None:
        ratio = parts.cost_ratio
        times = "" if ratio is None else f"; times the incumbent's: {amount(ratio, '{:.3g}'.format)}"
        lines.append(f"cost per decision, USD: {amount(parts.cost_usd, partial(in_usd, sign='+'))}{times}")
        usual = in_usd(parts.incumbent_usd_per_task or 0.0)
        lines.append(f"cost per task, USD: {amount(parts.usd_per_task, in_usd)}; the incumbent's {usual}")
    return [f"objective: {found.objective.name}", *lines]


def amount(part: Amount, show: Callable[[float], str]) -> str:
    missing = f", {part.missing:,} missing" if part.missing else ""
    return f"{show(part.value)} ({show(part.low)} to {show(part.high)}{missing})"
