"""How well criteria that need no environment rank checkpoints: Spearman's correlation with the true return.

OMP_NUM_THREADS=1 python benchmarks/model_selection.py    # adds what benchmarks/results/model_selection.json lacks
python benchmarks/model_selection.py --render             # writes the table of benchmarks/off_policy_evaluation.md from that file

Candidates are checkpoints of two methods, two seeds and four lengths for each task, trained from one dataset; criteria see
another dataset of the same recipe. Clones, which have no critics, are ranked by fitted Q evaluation alone.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

import rl_training
from rl_base.evaluation.over_seeds import percentiles
from rl_base.evaluation.ranking import spearman
from rl_training import Dataset, make_data
from rl_training.evaluation import rank
from rl_training.evaluation.model_selection import Ranking
from rl_training.experiment.run_directory import write_atomically

RESULT = Path(__file__).parent / "results" / "model_selection.json"
PAGE = Path(__file__).parent / "off_policy_evaluation.md"
BEGIN, END = "<!-- model selection -->", "<!-- end of model selection -->"
LENGTHS = (100, 500, 2_000, 8_000)  # updates
SEEDS = (0, 1)
EPISODES = 50  # of the true return
SMALL = {"net_arch": [64, 64], "batch_size": 128, "threads": 1, "compile": False}
OFFLINE = SMALL | {"learning_rate": 1e-3}
TASKS = {
    "CartPole-v1": {
        "policies": ["random=0.4", "ppo/cartpole@8000=0.4", "ppo/cartpole@15000=0.2"],
        "methods": {
            "DiscreteCQL": OFFLINE | {"target_update_interval": 200},
            "DQN": OFFLINE | {"target_update_interval": 200},
        },
    },
    "Pendulum-v1": {
        "policies": ["random=0.4", "sac/pendulum@2000=0.3", "sac/pendulum@4000=0.3"],
        "methods": {"TD3BC": OFFLINE, "SAC": OFFLINE},
    },
}
CRITERIA = ("fitted_q", "initial_value", "soft_opc", "td_error")


def checkpoints(env: str, method: str, settings: dict, data: Dataset, folder: Path) -> Iterator[Path]:
    """Saved agents of every seed and length; longer runs go on from shorter ones."""
    for seed in SEEDS:
        agent = getattr(rl_training, method)(env, dataset=data, seed=seed, **settings)
        taken = 0
        for length in LENGTHS:
            agent.learn(total_updates=length - taken, progress=False)
            taken = length
            path = folder / f"{method}-seed{seed}-{length}"
            agent.save(path)
            yield path
        agent.close()


def measure(env: str, recipe: dict, folder: Path) -> dict:
    train, held_out = (make_data(env, recipe["policies"], 20_000, seed=seed) for seed in (0, 1))
    paths = [
        path
        for method, settings in recipe["methods"].items()
        for path in checkpoints(env, method, settings, train, folder)
    ]
    clones = list(islice(checkpoints(env, "BC", SMALL, train, folder), len(LENGTHS)))
    truth = {}
    for path in (*paths, *clones):
        agent = rl_training.load(path)
        truth[path.name] = agent.evaluate(EPISODES, deterministic=True, seed=7).mean
        agent.close()
    rows = {}
    for criterion in CRITERIA:
        begun = time.perf_counter()
        candidates = [*paths, *clones] if criterion == "fitted_q" else paths
        ranking = rank(candidates, held_out, criterion=criterion, deterministic=True)
        own = [name for name in names_of(ranking) if not name.startswith("BC-")]
        rows[criterion] = describe(ranking, own, truth) | {"seconds": round(time.perf_counter() - begun, 1)}
        if criterion == "fitted_q":
            rows["fitted_q with clones"] = describe(ranking, names_of(ranking), truth)
        print(env, criterion, {key: value for key, value in rows[criterion].items() if key != "ranking"}, flush=True)
    returns = {"mean": float(held_out.returns.mean()), "episodes": len(held_out.returns)}
    return {"data": returns | {"policies": recipe["policies"]}, "criteria": rows}


def names_of(ranking: Ranking) -> list[str]:
    return [Path(path).name for path in ranking.paths]


def describe(ranking: Ranking, names: list[str], truth: dict[str, float]) -> dict:
    """Numbers of a ranking, or of some of its candidates; the interval is over checkpoints."""
    estimates = dict(zip(names_of(ranking), ranking.estimates, strict=True))
    returns, places = np.array([truth[name] for name in names]), -np.arange(len(names), dtype=float)
    draws = np.random.default_rng(0).integers(len(names), size=(2_000, len(names)))
    drawn = [found for rows in draws if (found := spearman(places[rows], returns[rows])) is not None]
    return {
        "candidates": len(names),
        "rank_correlation": spearman(places, returns),
        "interval": percentiles(drawn, 0.95),
        "regret": float(returns.max() - returns[0]),
        "return_of_first": float(returns[0]),
        "best_of_first_three": float(returns[:3].max()),
        "best_return": float(returns.max()),
        "mean_return": float(returns.mean()),
        "decided": ranking.decided,
        "as_good": len(ranking.as_good),
        "ranking": [[name, estimates[name], truth[name]] for name in names],
    }


def render() -> None:
    found, page = json.loads(RESULT.read_text()), PAGE.read_text()
    lines = [
        "| task | criterion | checkpoints | rank correlation | first: its return | best of the first three | best | mean |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for env, task in found.items():
        for name, row in task["criteria"].items():
            low, high = row["interval"]
            numbers = (row[key] for key in ("return_of_first", "best_of_first_three", "best_return", "mean_return"))
            lines.append(
                f"| {env} | {name} | {row['candidates']} | {row['rank_correlation']:.2f} ({low:.2f} to {high:.2f}) | "
                + " | ".join(f"{number:.0f}" for number in numbers)
                + " |"
            )
    before, rest = page.split(BEGIN)
    PAGE.write_text(before + BEGIN + "\n" + "\n".join(lines) + "\n" + END + rest.split(END)[1])


def main() -> None:
    if "--render" in sys.argv[1:]:
        render()
        return
    found = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    for env, recipe in TASKS.items():
        if env in found:
            continue
        with tempfile.TemporaryDirectory() as folder:
            found[env] = measure(env, recipe, Path(folder))
        write_atomically(RESULT, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
