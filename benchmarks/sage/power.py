"""How often the gate proves a gain of 1 to 2 points, by what predicts rewards and by where exploration goes, at equal cost.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/sage/power.py --data DIR

Worlds, static tables (`random`) and logs are those of gate.py: 20,000 decisions, .3 of exploration, the fixed-n interval. Rewards are
predicted by cell means (as the gate did), or with the earlier decisions of the task, too (`task evidence`, as it does). Parts:

- any: candidates as in gate.py (a category gets any other model of the pool with probability .3). `even`: all models are
  explored, as in gate.py. `trial`: exploration goes to the candidate where it differs from the static table, and nowhere else
  (`sage lab plausible --checkpoint`), at most half of these decisions. `everything known`: the interval if every model's outcome
  of every decision were known; what is left is the spread between tasks, which no exploration reduces.
- plausible: the first 2,000 decisions explore evenly, and from them comes what is plausible (`sage lab plausible`, 3 models). The
  candidate takes plausible models only, as a policy learned from a log would, and is judged on later decisions about other draws
  of tasks: 20,000 that go on exploring evenly; 18,000 that explore plausible models only; 18,000 in which the static table
  always answers and a plausible model answers besides, in the shadow.
- checks: as any, with candidates of all gains, every second one better: power over all of these, coverage and false promotion.

The cost of a scheme is the number of calls that only exploration makes: answers of another model than the static table's, and
answers in the shadow. It is the same for all, or less: .3 (k - 1) / k a decision with k models, the first 2,000 decisions
counted. Beside it stand what a decision loses in reward and spends in dollars against the static table.

Wanted, in part any: by a trial with task evidence 1.5 times the power of even exploration with cell means on livecodebench and
swebench, 1.3 times on llmrouter. One file per table and part in results/power; those that are there are not computed again. Exits
with 1 if a wish is not met.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from gate import CHANGED, EPSILON, ROWS, World, draw_pair, load
from pools import FILES, load_pool

from rl_base.evaluation import BanditLog, Interval, diagnose_bandit, interval
from rl_base.evaluation.estimate import ratio_estimate
from sage.evidence.logged_rewards import predict_rewards, pseudo_rewards
from sage.evidence.task_evidence import agree, gain_estimate
from sage.files import write_json
from sage.proof.evaluation import FEWEST_TASKS, LEVEL
from sage.rl.find_plausible import MOST, plausible_mask
from sage.rl.replay import draw

OUT = Path(__file__).parent / "results" / "power"
FIRST = 2_000
GAINS = (0.01, 0.02)
PARTS = ("any", "plausible", "checks")
WANTED = {"livecodebench": 1.5, "swebench": 1.5, "llmrouter": 1.3}
TRIES = 300


class Question(NamedTuple):
    """A static table, a candidate, and the decisions about which they are compared."""

    static: np.ndarray  # [categories]
    candidate: np.ndarray
    gain: float
    task: np.ndarray  # [n]
    cluster: np.ndarray  # [n]


def draw_tasks(world: World, rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    num_tasks = len(world.reward)
    cluster = rng.integers(num_tasks, size=rows)
    return rng.integers(num_tasks, size=num_tasks)[cluster], cluster


def evenly(world: World, static: np.ndarray, task: np.ndarray) -> np.ndarray:
    """[n, models] probabilities of even exploration."""
    probabilities = np.full((len(task), world.reward.shape[1]), EPSILON / world.reward.shape[1])
    probabilities[np.arange(len(task)), static[world.category[task]]] += 1 - EPSILON
    return probabilities


def among(world: World, static: np.ndarray, task: np.ndarray, kept: np.ndarray, rate: float) -> np.ndarray:
    """[n, models] a mean `rate` of other models than the static table's, the kept ones of the category."""
    category, size = world.category[task], world.reward.shape[1]
    others = kept[category] & (np.arange(size) != static[category][:, None])
    number = others.sum(axis=1)
    share = min(rate / max((number > 0).mean(), 1e-9), 0.9)
    probabilities = np.where(others, share / np.maximum(number, 1)[:, None], 0.0)
    probabilities[np.arange(len(task)), static[category]] = 1 - probabilities.sum(axis=1)
    return probabilities


def logged(
    world: World, asked: Question, probabilities: np.ndarray, rng: np.random.Generator, *, shadow: bool = False
) -> BanditLog:
    rows, usual = np.arange(len(probabilities)), asked.static[world.category[asked.task[: len(probabilities)]]]
    task, action = asked.task[: len(rows)], draw(probabilities, rng)
    return BanditLog(
        actions=action,
        rewards=world.reward[task, action],
        propensities=probabilities,
        features=world.category[task][:, None],
        clusters=asked.cluster[: len(rows)],
        reward_range=world.bounds,
        known_actions=usual if shadow else None,
        known_rewards=world.reward[task, usual] if shadow else None,
    )


def answers(world: World, asked: Question, log: BanditLog) -> dict[str, dict[str, float]]:
    """What the gate says with cell means, and with task evidence."""
    assert log.features is not None
    category, one_hot = log.features[:, 0].astype(np.int64), np.eye(world.reward.shape[1])
    policies = one_hot[asked.candidate[category]], one_hot[asked.static[category]]
    observed = np.ones(len(category), bool)
    tasks = len(np.unique(log.cluster_index[(policies[0] != policies[1]).any(axis=1)]))
    refused = tasks < FEWEST_TASKS or any(diagnose_bandit(log, policy).refusal for policy in policies)
    plain, informed = predict_rewards(log), predict_rewards(log, earlier_rows=True)
    trusted = agree(log, *policies, observed, plain, informed)  # as `predict_for_proof` asks
    predicted = {"cell means": plain, "task evidence": informed if trusted else plain}
    return {
        name: verdict(interval(gain_estimate(log, *policies, table), level=LEVEL), asked.gain, refused)
        for name, table in predicted.items()
    }


def verdict(found: Interval, gain: float, refused: bool) -> dict[str, float]:
    low, high = found.low, found.high
    return {
        "promoted": not refused and low > 0,
        "half_width": (high - low) / 2,
        "covered": low <= gain <= high,
        "refused": refused,
    }


def everything_known(world: World, asked: Question) -> dict[str, float]:
    category = world.category[asked.task]
    gain = world.reward[asked.task, asked.candidate[category]] - world.reward[asked.task, asked.static[category]]
    cluster = np.unique(asked.cluster, return_inverse=True)[1]
    return verdict(interval(ratio_estimate("", gain, np.ones(len(gain)), cluster), level=LEVEL), asked.gain, False)


def ask_any(
    world: World, seed: tuple[int, ...], least: float, most: float, cost: np.ndarray | None
) -> dict[str, dict[str, float]]:
    rng = np.random.default_rng(seed)
    while True:
        static, candidate = draw_pair(world, rng, "random")
        gain = world.value(candidate) - world.value(static)
        if least < gain <= most:
            break
    asked = Question(static, candidate, gain, *draw_tasks(world, rng, ROWS))
    found = {"everything known": everything_known(world, asked)}
    schemes = {"even": evenly(world, static, asked.task), "trial": trial(world, asked)}
    for name, probabilities in schemes.items():
        log = logged(world, asked, probabilities, rng)
        paid = costs(world, static, log, cost, shadow=False)
        found |= {f"{name}, {how}": said | paid for how, said in answers(world, asked, log).items()}
    return found


def trial(world: World, asked: Question) -> np.ndarray:
    """[n, models] a trial of the candidate where it differs from the static table: at most half of these decisions."""
    category = world.category[asked.task]
    differs = (asked.candidate != asked.static)[category]
    share = min(EPSILON * (1 - 1 / world.reward.shape[1]) / differs.mean(), 0.5)
    probabilities = np.eye(world.reward.shape[1])[asked.static[category]]
    rows = np.flatnonzero(differs)
    probabilities[rows, asked.candidate[category][rows]] = share
    probabilities[rows, asked.static[category][rows]] = 1 - share
    return probabilities


def ask_plausible(
    world: World, seed: tuple[int, ...], least: float, most: float, cost: np.ndarray | None
) -> dict[str, dict[str, float]]:
    rng = np.random.default_rng(seed)
    static, candidate, kept, first_log = draw_plausible(world, rng, least, most)
    asked = Question(static, candidate, world.value(candidate) - world.value(static), *draw_tasks(world, rng, ROWS))
    rate = EPSILON * (1 - 1 / world.reward.shape[1])
    narrow = among(world, static, asked.task[: ROWS - FIRST], kept, rate)
    found = {"everything known": everything_known(world, asked)}
    spent = costs(world, static, first_log, cost, shadow=False)
    schemes = {
        "even": (evenly(world, static, asked.task), False),
        "plausible": (narrow, False),
        "shadow": (narrow, True),
    }
    for name, (probabilities, shadow) in schemes.items():
        log = logged(world, asked, probabilities, rng, shadow=shadow)
        paid = costs(world, static, log, cost, shadow=shadow)
        if name != "even":  # which the first decisions are a part of
            paid = {key: ((ROWS - FIRST) * paid[key] + FIRST * spent[key]) / ROWS for key in paid}
        found |= {f"{name}, {how}": said | paid for how, said in answers(world, asked, log).items()}
    return found


def draw_plausible(
    world: World, rng: np.random.Generator, least: float, most: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, BanditLog]:
    """A static table, a candidate of models that an early log finds plausible, these models, and the log."""
    num_categories, size = world.share.shape
    while True:
        static = rng.integers(size, size=num_categories)
        early = Question(static, static, 0.0, *draw_tasks(world, rng, FIRST))
        log = logged(world, early, evenly(world, static, early.task), rng)
        category = world.category[early.task]
        values = pseudo_rewards(log, predict_rewards(log))
        kept = plausible_mask(values, category, num_categories, static[category], early.cluster, MOST)
        kept[np.arange(num_categories), static] = True  # also of a category that did not come
        for _ in range(TRIES):
            other = (rng.random(kept.shape) * (kept & (np.arange(size) != static[:, None]))).argmax(axis=1)
            changed = (rng.random(num_categories) < CHANGED) & (kept.sum(axis=1) > 1)
            candidate = np.where(changed, other, static)
            if changed.any() and least < world.value(candidate) - world.value(static) <= most:
                return static, candidate, kept, log


def costs(
    world: World, static: np.ndarray, log: BanditLog, cost: np.ndarray | None, *, shadow: bool
) -> dict[str, float]:
    """Per decision, against the static table: calls that only exploration makes, reward lost; dollars where they are known."""
    assert log.features is not None
    category = log.features[:, 0].astype(np.int64)
    usual = static[category]
    other = log.actions != usual
    mean = world.share / np.bincount(world.category)[:, None] * len(world.reward)
    lost = np.where(other, mean[category, usual] - mean[category, log.actions], 0.0)
    found = {"extra_calls": float(other.mean()), "reward_lost": 0.0 if shadow else float(lost.mean())}
    if cost is not None:
        instead = 0.0 if shadow else cost[category, usual]
        found["dollars"] = float(np.where(other, cost[category, log.actions] - instead, 0.0).mean())
    return found


def mean_costs(name: str, folder: Path, world: World) -> np.ndarray | None:
    """[categories, models] dollars a call, where a table has them."""
    dollars = load_pool(name, folder).cost_usd
    if np.isnan(dollars).any():
        return None
    count = np.bincount(world.category)
    return np.stack([np.bincount(world.category, column) / count for column in dollars.T], axis=1)


def run(name: str, part: str, folder: Path, draws: int) -> dict:
    started, world, index = time.process_time(), load(name, folder, everyone=False), list(FILES).index(name)
    cost = mean_costs(name, folder, world)

    def asked(seed: tuple[int, ...], least: float, most: float) -> dict[str, dict[str, float]]:
        if part != "plausible":
            return ask_any(world, seed, least, most, cost)
        return ask_plausible(world, seed, least, most, cost)

    if part == "checks":
        rows = [asked((32, index, d), *((-1.0, 0.0) if d % 2 else (0.0, 1.0))) for d in range(draws)]
        found = {"all_gains": summary(rows), "better": summary(rows[0::2]), "worse": summary(rows[1::2])}
    else:
        found = {"gains_of_1_to_2_points": summary([asked((31, index, d), *GAINS) for d in range(draws)])}
    head = {"table": name, "part": part, "tasks": len(world.reward), "pool": world.reward.shape[1]}
    return head | {
        "draws": draws,
        **found,
        "cpu_seconds": round(time.process_time() - started, 1),
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
    }


def summary(rows: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    return {
        scheme: {key: round(float(np.mean([row[scheme][key] for row in rows])), 5) for key in rows[0][scheme]}
        for scheme in rows[0]
    }


def failures(result: dict) -> list[str]:
    name = result["table"]
    if result["part"] != "any" or name not in WANTED:
        return []
    found = result["gains_of_1_to_2_points"]
    schemes = ("even, cell means", "trial, task evidence", "everything known")
    before, after, most = (found[key]["promoted"] for key in schemes)
    if after >= WANTED[name] * before:
        return []
    ceiling = f"with every outcome known it would be {most / before:.2f} times"
    return [f"{name}: power {after:.3f} is {after / before:.2f} times {before:.3f}, not {WANTED[name]}; {ceiling}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="folder of the outcome packs")
    parser.add_argument("--draws", type=int, default=500, help="per table and part")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--tables", nargs="+", choices=FILES, default=list(FILES))
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the results")
    arguments = parser.parse_args()
    failed = []
    for part in arguments.parts:
        for name in arguments.tables:
            path = arguments.out / f"{name}-{part}.json"
            if not path.exists():
                write_json(path, run(name, part, arguments.data, arguments.draws))
            result = json.loads(path.read_text())
            for scheme, found in result["all_gains" if part == "checks" else "gains_of_1_to_2_points"].items():
                print(name, part, scheme, found, flush=True)
            failed += failures(result)
    print("\n".join(failed) or "all wishes are met")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
