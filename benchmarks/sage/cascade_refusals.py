"""Which logs a proof should refuse: rules compared on the same logs; a part of cascades.py.

Of the dearest model alone, which the logs hardly try: how many logs a rule lets through, and the coverage of these. Of the other
cascades, whose logs suffice: the share that a rule refuses, for the value of one, and for gains, which ask about two.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from cascade_logs import INCUMBENT, TARGETS, DrawnLog, LadderWorld
from cascade_worlds import VERIFIERS, load, read

from rl_base.evaluation import (
    Diagnostics,
    Estimate,
    diagnose_episodes,
    interval,
    paired_difference,
    sequential_doubly_robust,
)
from sage.files import write_json
from sage.rl.cascades.simulated_verifier import SimulatedVerifier

HARD = "dearest alone"
CELLS = ((VERIFIERS[0], 0.3, TARGETS), (VERIFIERS[0], 0.4, (INCUMBENT, HARD)))


class Weights(NamedTuple):
    """Of the cascades that a report is about."""

    measured: tuple[Diagnostics, ...]
    expected: tuple[Diagnostics, ...]  # with the moments of weights that were not drawn

    @property
    def too_skewed(self) -> bool:
        return any(found.refusal for found in self.measured)

    @property
    def p_value(self) -> float:
        return min(found.mean_weight_p_value for found in self.measured)

    @property
    def size(self) -> float:
        return min(found.effective_sample_size for found in self.measured)


RULES: dict[str, Callable[[Weights], bool]] = {
    "weights as measured": lambda weights: weights.too_skewed,
    "and p < .001 for a mean weight of 1": lambda weights: weights.too_skewed or weights.p_value < 0.001,
    "and p < .01 for a mean weight of 1": lambda weights: weights.too_skewed or weights.p_value < 0.01,
    "and an effective size below 100": lambda weights: weights.too_skewed or weights.size < 100,
    "weights in expectation": lambda weights: any(found.refusal for found in weights.expected),
}


def weights_of(drawn: DrawnLog, name: str) -> Weights:
    taken = drawn.taken(name)
    return Weights((diagnose_episodes(drawn.log, taken),), (diagnose_episodes(drawn.log, taken, drawn.moments(name)),))


def estimate_of(drawn: DrawnLog, name: str) -> Estimate:
    return sequential_doubly_robust(drawn.log, drawn.taken(name), *drawn.values(name))


def holds(estimate: Estimate, truth: float) -> bool:
    found = interval(estimate)
    return found.low <= truth <= found.high


def refusal_cell(world: LadderWorld, draws: int) -> dict:
    refused: dict = {rule: {"value": [], "gain": []} for rule in RULES}
    covered: dict = {rule: {"value": [], "gain": []} for rule in RULES}
    for draw in range(draws):
        drawn = world.draw(draw)
        weights = {name: weights_of(drawn, name) for name in world.cascades}
        asked = {("value", name): weights[name] for name in weights} | {
            ("gain", name): Weights(*(a + b for a, b in zip(weights[name], weights[INCUMBENT], strict=True)))
            for name in weights
            if name != INCUMBENT
        }
        kept = {(rule, *about): not refuse(found) for rule, refuse in RULES.items() for about, found in asked.items()}
        right: dict[str, bool] = {}
        if any(lets for (_, _, name), lets in kept.items() if name == HARD):
            ours, theirs = estimate_of(drawn, HARD), estimate_of(drawn, INCUMBENT)
            right = {
                "value": holds(ours, world.truth[HARD]),
                "gain": holds(paired_difference(ours, theirs), world.truth[HARD] - world.truth[INCUMBENT]),
            }
        for (rule, kind, name), lets in kept.items():
            if name != HARD:
                refused[rule][kind].append(not lets)
            elif lets:
                covered[rule][kind].append(right[kind])
    return {
        rule: {
            kind: {
                "let_through": len(covered[rule][kind]),
                "coverage": float(np.mean(covered[rule][kind])) if covered[rule][kind] else None,
                "others_refused": float(np.mean(refused[rule][kind])) if refused[rule][kind] else None,
            }
            for kind in ("value", "gain")
        }
        for rule in RULES
    }


def refusals(folder: Path, out: Path, draws: int) -> None:
    for (true_positive, false_positive, rho), exploration, names in CELLS:
        path = out / f"refusals_{true_positive:g}_{false_positive:g}_{rho:g}_{exploration:g}.json"
        if not path.is_file():
            verifier = SimulatedVerifier(true_positive, false_positive, rho)
            found = refusal_cell(LadderWorld.of(load(folder), verifier, exploration, names), draws)
            head = {"verifier": [true_positive, false_positive, rho], "exploration": exploration, "draws": draws}
            write_json(path, head | {"rules": found})
        for rule, row in read(path)["rules"].items():
            print(path.stem, rule, row, flush=True)
