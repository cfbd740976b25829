"""All runs of several cells together, on the scale where 0 is the floor and 1 the published mean or the gate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rl_training.evaluation import Profile, iqm, optimality_gap, performance_profile, stratified_interval

THRESHOLDS = [number / 40 for number in range(61)]  # 0 to 1.5


@dataclass(frozen=True)
class Aggregate:
    """The IQM, the optimality gap and the profile of normalised scores over several benchmark tasks (cells).

    They have 95 % intervals, from bootstrap samples in which runs are drawn anew within their cell. A score of 0 is the
    floor, the return of a policy that learns nothing; 1 is a published mean.
    """

    cells: int
    iqm: float
    iqm_interval: tuple[float, float]
    optimality_gap: float  # how far below 1 runs are on average, those above counted as 1
    optimality_gap_interval: tuple[float, float]
    profile: Profile  # share of runs above each normalised score

    @property
    def sentences(self) -> list[str]:
        low, high = self.iqm_interval
        least, most = self.optimality_gap_interval
        middle = (
            f"IQM over the runs of {self.cells} cells, where 0 is the floor and 1 the published mean or the gate: "
            f"{self.iqm:.3f}, 95 % stratified bootstrap interval {low:.3f} to {high:.3f}."
        )
        gap = (
            "Optimality gap, how far below 1 these runs are on average if none counts for more: "
            f"{self.optimality_gap:.3f} ({least:.3f} to {most:.3f})."
        )
        return [middle, gap]


def aggregate(cells: Sequence[Sequence[float]]) -> Aggregate | None:
    """Returns a summary of `cells`, the normalised scores of the runs of each benchmark task; None if it is empty."""
    if not cells:
        return None
    together = [score for scores in cells for score in scores]
    return Aggregate(
        cells=len(cells),
        iqm=iqm(together),
        iqm_interval=stratified_interval(cells),
        optimality_gap=optimality_gap(together),
        optimality_gap_interval=stratified_interval(cells, optimality_gap),
        profile=performance_profile(cells, THRESHOLDS),
    )
