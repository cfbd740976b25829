"""Statistics over runs as rliable computes them, written down for `tests/base/evaluation/test_over_seeds_golden.py`.

python3 -m venv build/rliable && build/rliable/bin/pip install rliable==1.2.0 "pandas<3"
build/rliable/bin/python benchmarks/peers/rliable_golden.py

Writes tests/golden/rliable.json (or --out). Scores are synthetic: drawn here with a fixed seed, some of them rounded so
that there are ties. Intervals are left out, because rliable draws its resamples in another order.
"""

import argparse
import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
from rliable import library, metrics

GOLDEN = Path(__file__).parent.parent.parent / "tests" / "golden" / "rliable.json"
SHAPES = ((1, 1), (2, 1), (3, 1), (5, 1), (8, 1), (10, 3), (13, 2))  # runs, tasks
METHODS = ("ppo", "dqn", "sac")
TARGET = 300.0  # of the optimality gap


def draw_scores(rng: np.random.Generator, runs: int, tasks: int) -> dict[str, np.ndarray]:
    scores = {name: rng.normal(200 + 60 * place, 90, size=(runs, tasks)) for place, name in enumerate(METHODS)}
    return scores | {"sac": np.round(scores["sac"], -2), "dqn": np.minimum(scores["dqn"], 250.0)}


def describe(scores: dict[str, np.ndarray]) -> dict:
    thresholds = np.linspace(0, 400, 9)
    profiles, _ = library.create_performance_profile(scores, thresholds, reps=2)
    return {
        "scores": {name: matrix.T.tolist() for name, matrix in scores.items()},  # [tasks][runs]
        "thresholds": thresholds.tolist(),
        "iqm": {name: float(metrics.aggregate_iqm(matrix)) for name, matrix in scores.items()},
        "mean": {name: float(metrics.aggregate_mean(matrix)) for name, matrix in scores.items()},
        "optimality_gap": {
            name: float(metrics.aggregate_optimality_gap(matrix, TARGET)) for name, matrix in scores.items()
        },
        "profile": {name: profile.tolist() for name, profile in profiles.items()},
        "improvement": {
            f"{a}>{b}": float(metrics.probability_of_improvement(scores[a], scores[b]))
            for a in METHODS
            for b in METHODS
            if a != b
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=GOLDEN)
    rng = np.random.default_rng(20261119)
    cases = [describe(draw_scores(rng, runs, tasks)) for runs, tasks in SHAPES]
    versions = {name: version(name) for name in ("rliable", "numpy", "scipy", "arch")}
    record = {"versions": versions, "target": TARGET, "cases": cases}
    parser.parse_args().out.write_text(json.dumps(record) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
