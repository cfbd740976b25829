"""What a policy is for: one reward of quality, cost and latency, or the best of quality and cost under a limit on the other."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from sage.evidence.reward import REWARD_V1, RewardWeights

POINT = 0.01  # of quality
QUALITY = RewardWeights(version="quality", cost=0.0, latency=0.0, retries=0.0, timed_out=0.0)


@dataclass(frozen=True, kw_only=True)
class Objective:
    """Weights; or a limit on the loss of quality, then as cheap as possible; or a limit on cost, then the best quality."""

    weights: RewardWeights = REWARD_V1  # quality alone where there is a limit
    max_points_worse: float | None = None  # in quality than the static table, in hundredths of the whole range
    max_usd_per_task: float | None = None  # mean cost of all decisions of a task

    @property
    def constrained(self) -> bool:
        return self.max_points_worse is not None or self.max_usd_per_task is not None

    @property
    def margin(self) -> float:
        """The loss of quality that is allowed."""
        return 0.0 if self.max_points_worse is None else self.max_points_worse * POINT

    @property
    def name(self) -> str:
        """Says all of it: two objectives are the same if their names are."""
        if self.max_points_worse is not None:
            return f"at most {self.max_points_worse} points worse in quality, as cheap as possible"
        if self.max_usd_per_task is not None:
            return f"best quality at no more than {self.max_usd_per_task} USD per task"
        return self.weights.version


DEFAULT = Objective()


def points_worse(points: float) -> Objective:
    return Objective(weights=QUALITY, max_points_worse=float(points))


def usd_per_task(usd: float) -> Objective:
    return Objective(weights=QUALITY, max_usd_per_task=float(usd))


def weighted(**given: float) -> Objective:
    """reward_v1 with other weights or scales; its version names those that differ."""
    values: dict = {**given}
    weights = replace(REWARD_V1, **values)
    names = [field.name for field in fields(weights) if field.name != "version"]
    changed = [f"{n}={getattr(weights, n)!r}" for n in names if getattr(weights, n) != getattr(REWARD_V1, n)]
    version = f"{REWARD_V1.version} with {', '.join(changed)}" if changed else REWARD_V1.version
    return Objective(weights=replace(weights, version=version))
