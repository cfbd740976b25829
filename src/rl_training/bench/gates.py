"""Verdicts on cells, by the gate or by the published result, and the differences that their seeds can show."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from rl_training.bench.baselines import BASELINES, FLOORS, Baseline, Floor
from rl_training.bench.learning_cells import LEARNING
from rl_training.bench.records import Record, environment_of, mean_training_return, scores_of
from rl_training.evaluation import bootstrap_interval, iqm

ONE_PERCENT = 2.33  # standard errors
EVALUATED = 10  # episodes of an evaluation
POWER = 1.96 + 0.8416  # two-sided 5 %, power 80 %


@dataclass(frozen=True)
class Verdict:
    """The results of a benchmark cell's seeds, the score they must reach (gate) and a published result, if any."""

    cell: str
    seeds: int
    mean: float
    std: float
    iqm: float
    interval: tuple[float, float]  # 95 %, of the IQM
    gate: float | None
    rule: float | None  # not worse than the published mean by more than chance: this at least
    measured: float | None  # what the rule looks at: our mean of the same kind of return
    at_floor: int  # seeds that learned nothing

    @property
    def met(self) -> bool | None:
        """True if the mean score reaches the gate (without one: the rule from the published result); None without both.

        Every seed must also have learned something.
        """
        if self.gate is not None:
            return self.mean >= self.gate and not self.at_floor
        if self.rule is not None and self.measured is not None:
            return self.measured >= self.rule and not self.at_floor
        return None


def judge(cell: str, records: list[Record]) -> Verdict:
    """Returns the verdict on all stored runs of a benchmark cell, at least one; `records` are their dicts."""
    scores = scores_of(records)
    baseline = BASELINES.get(cell)
    rule = measured = None
    if baseline is not None:
        rule = threshold(baseline, len(scores))
        measured = mean_training_return(records) if baseline.of == "training" else statistics.fmean(scores)
    floor = FLOORS.get(environment_of(records[0]))
    nothing = -math.inf if floor is None else reached_blindly(floor)
    return Verdict(
        cell=cell,
        seeds=len(scores),
        mean=statistics.fmean(scores),
        std=statistics.stdev(scores) if len(scores) > 1 else math.nan,
        iqm=iqm(scores),
        interval=bootstrap_interval(scores),
        gate=LEARNING[cell].gate if cell in LEARNING else None,
        rule=rule,
        measured=measured,
        at_floor=sum(score <= nothing for score in scores) if cell in LEARNING else 0,
    )


def threshold(baseline: Baseline, seeds: int) -> float:
    return baseline.mean - ONE_PERCENT * baseline.std * math.sqrt(1 / baseline.seeds + 1 / seeds)


def reached_blindly(floor: Floor) -> float:
    """Returns the score that 99 of 100 evaluations of a policy that ignores observations stay below.

    An evaluation is the mean return of 10 episodes.
    """
    return floor.mean + ONE_PERCENT * floor.std / math.sqrt(EVALUATED)


def normalised(cell: str, records: list[Record]) -> list[float] | None:
    """Returns one score per run on a scale with the floor at 0 and the published mean (else the gate) at 1.

    None if one end is missing. If the published mean is of training episodes, the runs' training returns are taken,
    otherwise their scores.
    """
    baseline, floor = BASELINES.get(cell), FLOORS.get(environment_of(records[0]))
    one = baseline.mean if baseline else LEARNING[cell].gate if cell in LEARNING else None
    if floor is None or one is None:
        return None
    of_training = baseline is not None and baseline.of == "training"
    runs = [record["training_return_last_100"] for record in records] if of_training else scores_of(records)
    return [(run - floor.mean) / (one - floor.mean) for run in runs]


def detectable(seeds: int) -> float:
    """Returns the difference of two methods, in standard deviations, that so many seeds each find 4 times out of 5.

    The test is two-sided, at 5 %.
    """
    return POWER * math.sqrt(2 / seeds)


def power_note(seeds: int, cells: int) -> str:
    """Returns sentences on the differences that so many seeds and cells can show."""
    return (
        f"With {seeds} seeds each, a difference of {detectable(seeds):.1f} standard deviations between two methods is "
        f"found 4 times out of 5 (two-sided, 5 %); smaller ones need more seeds: 7 for 1.5, 16 for 1. Of {cells} cells "
        f"judged at 1 %, about {cells / 100:.1f} miss by chance: run one that misses once more with fresh seeds, and "
        "keep both results."
    )
