"""The gain by tenant: since a policy serves all tenants, its gain must not depend on a single one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rl_base.evaluation.missing import difference, fill_missing
from sage.evidence.logged_rewards import bandit_log, predict_rewards
from sage.evidence.objective import QUALITY, Objective
from sage.evidence.quality_and_cost import cost_part, fill_with_predictions, per_task
from sage.evidence.routing_data import RoutingData
from sage.evidence.task_evidence import gain_estimate
from sage.policies.cells import Cells

MOST_TOLD = 5  # tenants in a sentence


class PointEstimate(NamedTuple):
    """Estimates without intervals, candidate minus incumbent, per decision or episode."""

    gain: float  # in reward; under an objective with a limit, in quality
    cost_usd: float | None = None  # both under an objective with a limit alone
    usd_per_task: float | None = None  # of the candidate

    def meets(self, objective: Objective) -> bool:
        """Returns True if the estimate meets the objective: a gain above 0, or quality and cost within its limits."""
        if not objective.constrained or self.cost_usd is None or self.usd_per_task is None:
            return self.gain > 0
        if objective.max_usd_per_task is None:
            return self.gain > -objective.margin and self.cost_usd < 0
        return self.gain > 0 and self.usd_per_task <= objective.max_usd_per_task

    def __str__(self) -> str:
        cost = "" if self.cost_usd is None else f" and {self.cost_usd:+.6f} USD"
        return f"{self.gain:+.4f}{cost}"


@dataclass(frozen=True, kw_only=True)
class TenantGain:
    """The gain on one tenant's rows alone, and on all rows without them."""

    rows: int
    tasks: int
    differing: int  # rows in which the policies differ
    alone: PointEstimate | None  # None where all rows are of one task
    without: (
        PointEstimate | None
    )  # None where the policies do not differ in other tenants' rows, or these are of one task


def by_tenant(
    tenant: np.ndarray | None, task: np.ndarray, differ: np.ndarray, estimate: Callable[[np.ndarray], PointEstimate]
) -> dict[str, TenantGain]:
    """Returns the gain of each tenant; empty if there are fewer than two.

    `estimate` gets a mask of rows and learns from these alone, so that one tenant's reports never stand in for missing
    outcomes of others. `differ` [n] marks the rows in which the policies differ.
    """
    names = [] if tenant is None else np.unique(tenant).tolist()
    if len(names) < 2:
        return {}

    def point(rows: np.ndarray) -> PointEstimate | None:
        return estimate(rows) if len(np.unique(task[rows])) > 1 else None

    found = {}
    for name in names:
        own = tenant == name
        found[name] = TenantGain(
            rows=int(own.sum()),
            tasks=len(np.unique(task[own])),
            differing=int(differ[own].sum()),
            alone=point(own),
            without=point(~own) if differ[~own].any() else None,
        )
    return found


def estimate_rows(
    data: RoutingData, candidate: np.ndarray, incumbent: np.ndarray, objective: Objective, seed: int = 0
) -> PointEstimate:
    """Returns the doubly robust estimate for policies with probabilities [n, models]; it predicts missing outcomes."""
    cells, observed = Cells.of(data.contexts), data.observed
    log = bandit_log(data, cells, QUALITY if objective.constrained else objective.weights, shadows=True)
    predictions = predict_rewards(log, seed, observed)
    gain = gain_estimate(fill_missing(log, ~observed, predictions), candidate, incumbent, predictions).value
    cost = cost_part(data, cells, seed, shadows=True) if objective.constrained else None
    if cost is None:
        return PointEstimate(gain)
    filled = fill_with_predictions(cost)
    own = difference(filled, candidate, None, cost.predictions)
    dearer = difference(filled, candidate, incumbent, cost.predictions).value
    return PointEstimate(gain, dearer, per_task(own, cost.log).value)


def resting_on_one(tenants: dict[str, TenantGain], objective: Objective) -> str:
    """Returns a text about the tenants without whom the estimate misses the objective; '' if there are none."""
    needed = {name: found for name, found in tenants.items() if found.without and not found.without.meets(objective)}
    if not needed:
        return ""
    some = [
        f"without {tenant_label(name)} ({t.rows:,} rows) it is {t.without}"
        for name, t in list(needed.items())[:MOST_TOLD]
    ]
    more = f", and {len(needed) - MOST_TOLD} more" if len(needed) > MOST_TOLD else ""
    return f"{'; '.join(some)}{more}"


def tell(tenants: dict[str, TenantGain]) -> str:
    """Returns a text with the estimate of each tenant, at most five of them, those with the most rows."""
    most = sorted(tenants.items(), key=lambda item: -item[1].rows)
    texts = [
        f"{tenant_label(name)} {'unknown' if t.alone is None else t.alone} ({t.rows:,} rows)"
        for name, t in most[:MOST_TOLD]
    ]
    rest = [t.alone.gain for _, t in most[MOST_TOLD:] if t.alone is not None]
    if rest:
        texts.append(f"{len(most) - MOST_TOLD} others between {min(rest):+.4f} and {max(rest):+.4f}")
    return ", ".join(texts)


def tenant_label(tenant: str) -> str:
    return tenant or "no tenant"
