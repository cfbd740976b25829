"""What shadow answers add to a proof: power, coverage and width with a second model asked in .1 of the requests.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/sage/shadow.py --data DIR --tables llmrouter

Worlds, static tables, candidates (gains of 1 to 2 points), decisions and the gate's answers are those of power.py, part `any`, with
task evidence. The schemes, each without shadows and with them:

- even: .3 of exploration over all models; the shadow is any other model than the one that answered.
- trial: exploration of the candidate where it differs from the static table; the shadow is the other one of the two.
- alone: the static table always answers, so that without shadows nothing can be proved; the shadow is the candidate's model.

Extra calls are answers of another model than the static table's, plus shadow calls. One file per table in results/shadow; those
that are there are not computed again.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from gate import ROWS, World, draw_pair, load
from pools import FILES
from power import GAINS, Question, answers, draw_tasks, evenly, everything_known, logged, summary, trial

from rl_base.evaluation import BanditLog
from sage.files import write_json
from sage.rl.replay import draw

OUT = Path(__file__).parent / "results" / "shadow"
SHARE = 0.1


def with_shadows(
    world: World, asked: Question, log: BanditLog, some: np.ndarray, rng: np.random.Generator
) -> BanditLog:
    """A second model of those that `some` [n, models] allows, other than the drawn one, in a share of the rows."""
    rows, number = np.arange(len(log.actions)), some.sum(axis=1, keepdims=True)
    allowed = some & (number > 1)
    others = np.maximum(number - allowed, 1)  # [n, models] how many are left, by the model that answers
    # The chance of model a: the sum over other answers m of p(m) / (models left without m).
    inverse = log.propensities / others
    chance = SHARE * np.where(allowed, inverse.sum(axis=1, keepdims=True) - inverse, 0.0)
    left = allowed.copy()
    left[rows, log.actions] = False
    given = SHARE * left / np.maximum(left.sum(axis=1, keepdims=True), 1)
    none = 1 - given.sum(axis=1, keepdims=True)
    action = draw(np.concatenate([none, given], axis=1), rng) - 1
    rewards = np.where(action >= 0, world.reward[asked.task, np.maximum(action, 0)], 0.0)
    return replace(log, beside_actions=action, beside_rewards=rewards, seen=log.propensities + chance)


def ask(world: World, seed: tuple[int, ...]) -> dict[str, dict[str, float]]:
    rng = np.random.default_rng(seed)
    while True:
        static, candidate = draw_pair(world, rng, "random")
        gain = world.value(candidate) - world.value(static)
        if GAINS[0] < gain <= GAINS[1]:
            break
    asked = Question(static, candidate, gain, *draw_tasks(world, rng, ROWS))
    category, one_hot = world.category[asked.task], np.eye(world.reward.shape[1], dtype=bool)
    two = one_hot[static[category]] | one_hot[candidate[category]]
    schemes = {
        "even": (evenly(world, static, asked.task), np.ones_like(two)),
        "trial": (trial(world, asked), two),
        "alone": (one_hot[static[category]].astype(float), two),
    }
    found = {"everything known": everything_known(world, asked)}
    for name, (probabilities, some) in schemes.items():
        log = logged(world, asked, probabilities, rng)
        calls = float((log.actions != static[category]).mean())
        if name != "alone":
            found[name] = answers(world, asked, log)["task evidence"] | {"extra_calls": calls}
        besides = with_shadows(world, asked, log, some, rng)
        assert besides.beside_actions is not None
        calls += float((besides.beside_actions >= 0).mean())
        found[f"{name}, shadow"] = answers(world, asked, besides)["task evidence"] | {"extra_calls": calls}
    return found


def run(name: str, folder: Path, draws: int) -> dict:
    started, world = time.process_time(), load(name, folder, everyone=False)
    rows = [ask(world, (33, list(FILES).index(name), d)) for d in range(draws)]
    return {
        "table": name,
        "tasks": len(world.reward),
        "pool": world.reward.shape[1],
        "draws": draws,
        "shadow": SHARE,
        "gains_of_1_to_2_points": summary(rows),
        "cpu_seconds": round(time.process_time() - started, 1),
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="folder of the outcome packs")
    parser.add_argument("--draws", type=int, default=200, help="per table")
    parser.add_argument("--tables", nargs="+", choices=FILES, default=list(FILES))
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the results")
    arguments = parser.parse_args()
    for name in arguments.tables:
        path = arguments.out / f"{name}.json"
        if not path.exists():
            write_json(path, run(name, arguments.data, arguments.draws))
        for scheme, found in json.loads(path.read_text())["gains_of_1_to_2_points"].items():
            print(name, scheme, found, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
