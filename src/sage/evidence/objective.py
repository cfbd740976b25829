"""The objective of a policy: one reward of quality, cost and latency, or a limit on quality or cost."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from sage.evidence.reward import REWARD_V1, RewardWeights

POINT = 0.01  # of quality
QUALITY = RewardWeights(version="quality", cost=0.0, latency=0.0, retries=0.0, timed_out=0.0)


@dataclass(frozen=True, kw_only=True)
class Objective:
    """Weights of a reward, or a limit on the loss of quality or on cost.

    Under a limit on the loss of quality the lowest cost is wanted, under a limit on cost the best quality.
    """

    weights: RewardWeights = REWARD_V1  # quality alone where there is a limit
    max_points_worse: float | None = None  # in quality than the static table, in hundredths of the whole range
    max_usd_per_task: float | None = None  # mean cost of all decisions of a task

    @property
    def constrained(self) -> bool:
        """Returns True if the objective has a limit."""
        return self.max_points_worse is not None or self.max_usd_per_task is not None

    @property
    def margin(self) -> float:
        """Returns the loss of quality that is allowed, as a share of the whole range."""
        return 0.0 if self.max_points_worse is None else self.max_points_worse * POINT

    @property
    def name(self) -> str:
        """Returns a text that identifies the objective: equal objectives have equal names."""
        if self.max_points_worse is not None:
            return f"at most {self.max_points_worse} points worse in quality, as cheap as possible"
        if self.max_usd_per_task is not None:
            return f"best quality at no more than {self.max_usd_per_task} USD per task"
        return self.weights.version


DEFAULT = Objective()


def points_worse(points: float) -> Objective:
    """Returns the objective of the lowest cost with a quality at most this many hundredths below the static table's."""
    return Objective(weights=QUALITY, max_points_worse=float(points))


def usd_per_task(usd: float) -> Objective:
    """Returns the objective of the best quality at no more than this mean cost of a task."""
    return Objective(weights=QUALITY, max_usd_per_task=float(usd))


def weighted(**given: float) -> Objective:
    """Returns an objective of reward_v1 with other weights or scales; its version names those that differ."""
    values: dict = {**given}
    weights = replace(REWARD_V1, **values)
    names = [field.name for field in fields(weights) if field.name != "version"]
    changed = [f"{n}={getattr(weights, n)!r}" for n in names if getattr(weights, n) != getattr(REWARD_V1, n)]
    version = f"{REWARD_V1.version} with {', '.join(changed)}" if changed else REWARD_V1.version
    return Objective(weights=replace(weights, version=version))
