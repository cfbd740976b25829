"""Whether `sage lab plan` foretells the gate's power and interval, on real outcome tables.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/sage/plan.py --data DIR

Static tables and candidates are those of gate.py, with gains of 1 to 4 points. For each the planner measures one log of 20,000
decisions of that static table with .3 of exploration, and says the power and the half width of the fixed-n interval, knowing the
candidate's gain and share of decisions. Then the gate is asked on another log, about another draw of tasks, with .1 or .3 of
exploration.

Wanted: the mean predicted power within .08 of the share that was promoted, and the mean predicted half width within 10 % of that
of the gate, for every table and share. Exits with 1 if not. One file per table in results/plan; those that are there are not
computed again.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
import time
from pathlib import Path

import numpy as np
from gate import ROWS, World, draw_pair, load
from pools import FILES
from power import Question, answers, draw_tasks, logged

from rl_base.evaluation import BanditLog
from rl_base.evaluation.within_cluster import variance_components
from sage.evidence.logged_rewards import fit_cell_means
from sage.files import write_json
from sage.proof.plan import LogVariances, Scheme, power_at, quantile, row_variance, rows_before

OUT = Path(__file__).parent / "results" / "plan"
SHARES, MEASURED, GAINS = (0.1, 0.3), 0.3, (0.01, 0.04)
POWER_LIMIT, WIDTH_LIMIT = 0.08, 0.1


def explored(world: World, static: np.ndarray, task: np.ndarray, share: float) -> np.ndarray:
    probabilities = np.full((len(task), world.reward.shape[1]), share / world.reward.shape[1])
    probabilities[np.arange(len(task)), static[world.category[task]]] += 1 - share
    return probabilities


def measured(log: BanditLog) -> LogVariances:
    """As `sage.proof.plan.measure_log`, of a log without a file."""
    assert log.features is not None
    num_models = log.propensities.shape[1]
    predicted = fit_cell_means(log.features, log.actions, log.rewards, num_models)(log.features)
    sizes = np.bincount(log.cluster_index)
    return LogVariances(
        components=variance_components(log.rewards - log.taken(predicted), log.actions, log.cluster_index, num_models),
        rows_per_task=float((sizes**2).sum() / sizes.sum()),
        earlier_rows=rows_before(log.cluster_index),
        rows_a_day=None,
    )


def ask(world: World, seed: tuple[int, ...], share: float) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    gain = 0.0
    while not GAINS[0] < gain <= GAINS[1]:
        static, candidate = draw_pair(world, rng, "random")
        gain = world.value(candidate) - world.value(static)
    before, asked = (Question(static, candidate, gain, *draw_tasks(world, rng, ROWS)) for _ in range(2))
    found = measured(logged(world, before, explored(world, static, before.task, MEASURED), rng))
    said = answers(world, asked, logged(world, asked, explored(world, static, asked.task, share), rng))["task evidence"]
    scheme = Scheme(exploration=share, models=world.reward.shape[1], reward_lost=0.0, usd_spent=None)
    acting = float((candidate != static)[world.category].mean())
    variance = row_variance(found, scheme, gain=gain, acting=acting)
    error = math.sqrt(variance / ROWS)
    return {
        "power": said["promoted"],
        "predicted_power": power_at(ROWS, variance, gain),
        "half_width": said["half_width"],
        "predicted_half_width": quantile(error, "t") * error,
    }


def run(name: str, folder: Path, draws: int) -> dict:
    started, world, index = time.process_time(), load(name, folder, everyone=False), list(FILES).index(name)
    shares = {}
    for share in SHARES:
        rows = [ask(world, (41, index, d), share) for d in range(draws)]
        shares[str(share)] = {key: round(float(np.mean([row[key] for row in rows])), 5) for key in rows[0]}
    return {
        "table": name,
        "draws": draws,
        "exploration": shares,
        "cpu_seconds": round(time.process_time() - started, 1),
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
    }


def failures(result: dict) -> list[str]:
    found = []
    for share, said in result["exploration"].items():
        place = f"{result['table']}, exploration {share}"
        if abs(said["predicted_power"] - said["power"]) > POWER_LIMIT:
            found.append(f"{place}: predicted power {said['predicted_power']:.3f}, simulated {said['power']:.3f}")
        if abs(said["predicted_half_width"] / said["half_width"] - 1) > WIDTH_LIMIT:
            found.append(
                f"{place}: predicted half width {said['predicted_half_width']:.4f}, simulated {said['half_width']:.4f}"
            )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="folder of the outcome packs")
    parser.add_argument("--draws", type=int, default=150, help="per table and share of exploration")
    parser.add_argument("--tables", nargs="+", choices=FILES, default=list(FILES))
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the results")
    arguments = parser.parse_args()
    failed = []
    for name in arguments.tables:
        path = arguments.out / f"{name}.json"
        if not path.exists():
            write_json(path, run(name, arguments.data, arguments.draws))
        result = json.loads(path.read_text())
        for share, said in result["exploration"].items():
            print(name, share, said, flush=True)
        failed += failures(result)
    print("\n".join(failed) or "all predictions hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
