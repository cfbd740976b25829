"""Learns a policy from the real log, asks the gate, and checks the gate on logs drawn from the recorded matrix.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/sage/real_log_verdict.py --log build/real_log/sage.db    # results/real_log/

Two questions are put to one log, each as a user would: `train-dr` on .6 of the tasks, the gate on the others, one look.

- better: is there a policy that is better than the small coder model everywhere (reward_v1: quality, with some weight on time)?
- cheaper: is there one that costs less than the best model everywhere, at most POINTS points (of 100) worse?

The matrix has the outcome of every model on every task, so the gain of each policy on the gate's own tasks is known exactly. The same
is done with DRAWS logs that are drawn from the matrix as the real one was written: same number of decisions, static table and
exploration. A promotion is false if the policy's gain is not above zero, or if it is more than POINTS worse or not cheaper.
`candidates` asks the gate about policies that nobody learned: every category gets another model with probability CHANGED, every
second draw a policy that is truly not better.
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path
from typing import NamedTuple

import numpy as np
from local_analysis import open_matrix
from real_log import EXPLORATION, STATIC

from sage.evidence.export_dataset import export
from sage.evidence.logged_rewards import bandit_log
from sage.evidence.objective import DEFAULT, Objective, points_worse
from sage.evidence.routing_data import RoutingData
from sage.evidence.table_rewards import table_rewards
from sage.files import replacing, write_json
from sage.log.decision_log import DecisionLog
from sage.orchestrator.models_file import GuardLimits
from sage.outcomes.table import OutcomeTable
from sage.policies.cells import Cells
from sage.policies.learned_policy import LearnedPolicy, was_seen
from sage.policies.policy import Contexts
from sage.policies.serving import GuardRules, serving_distribution
from sage.proof.evaluation import ONE_LOOK, compare, evaluate_offline
from sage.proof.gate import decide
from sage.rl.doubly_robust_learner import learn_doubly_robust
from sage.rl.logging_policies import Exploring, PreferenceOrder
from sage.rl.replay import replay

OUT = Path(__file__).parent / "results" / "real_log" / "verdict.json"
DRAWS, CHANGED, POINTS, TRAIN = 200, 0.3, 2.0, 0.6
FLOOR = GuardLimits().confidence_floor


class Question(NamedTuple):
    static: str
    objective: Objective


QUESTIONS = {
    "better": Question(STATIC, DEFAULT),
    "cheaper": Question("qwen2.5-coder-1.5b", points_worse(POINTS)),
}


class World(NamedTuple):
    """The recorded matrix, with all that every draw needs."""

    table: OutcomeTable
    contexts: Contexts
    reward: np.ndarray  # [tasks, models]


def chances(policy: LearnedPolicy, static: str, world: World) -> np.ndarray:
    """[tasks, models] as the policy serves: where it is not sure, the static table answers."""
    guard, everyone = GuardRules(FLOOR, PreferenceOrder((static,))), np.ones(world.table.score.shape, bool)
    return serving_distribution(policy, guard, world.contexts, world.table.models, everyone).probabilities


def truth(policy: LearnedPolicy, static: str, world: World) -> dict[str, float]:
    """The policy's gain over the static model on tasks that it was not learned from, by the matrix."""
    unseen = ~was_seen(world.table.task_id, policy.training.task_hashes)
    difference = chances(policy, static, world)
    difference[:, world.table.models.index(static)] -= 1.0
    amounts = {"reward": world.reward, "quality": world.table.score, "cost_usd": world.table.cost_usd}
    return {name: float((difference * values).sum(axis=1)[unseen].mean()) for name, values in amounts.items()}


def holds(question: Question, gain: dict[str, float]) -> bool:
    """Whether a promotion is right."""
    if question.objective.constrained:
        return gain["quality"] >= -question.objective.margin and gain["cost_usd"] < 0
    return gain["reward"] > 0


def judge(data: RoutingData, question: Question, world: World) -> dict:
    """Learns, asks the gate, and says what is true."""
    static = PreferenceOrder((question.static,))
    train, _ = data.split_by_task(TRAIN, 0)
    policy = learn_doubly_robust(train, static=static, objective=question.objective)
    found = evaluate_offline(data, policy, static=static, objective=question.objective, floor=FLOOR, method=ONE_LOOK)
    verdict = decide(found)
    gain = truth(policy, question.static, world)
    return {
        "promoted": verdict.promote,
        "reason": verdict.reason,
        "rows": found.num_rows,
        "tasks": found.num_tasks,
        "acting_share": found.acting_share,
        "true_gain": gain,
        "promotion_would_be_right": holds(question, gain),
    }


def drawn_log(world: World, decisions: int, seed: int) -> RoutingData:
    behaviour = Exploring(PreferenceOrder((STATIC,)), EXPLORATION)
    return replay(world.table, behaviour, decisions, seed=seed, contexts=world.contexts)


def draws(world: World, decisions: int, count: int) -> dict:
    """How the same procedure ends on logs whose truth is known."""
    found: dict[str, list[dict]] = {name: [] for name in QUESTIONS}
    for seed in range(count):
        data = drawn_log(world, decisions, seed)
        for name, question in QUESTIONS.items():
            found[name].append(judge(data, question, world))
    return {name: tally(rows) for name, rows in found.items()}


def tally(rows: list[dict]) -> dict:
    promoted = [row for row in rows if row["promoted"]]
    return {
        "draws": len(rows),
        "promoted": len(promoted),
        "falsely_promoted": sum(not row["promotion_would_be_right"] for row in promoted),
        "right_to_promote": sum(row["promotion_would_be_right"] for row in rows),
        **{
            f"mean_true_{name}": float(np.mean([row["true_gain"][name] for row in rows]))
            for name in ("reward", "quality", "cost_usd")
        },
    }


def candidates(world: World, decisions: int, count: int) -> dict:
    """Policies that nobody learned, every second of them truly not better than the static table."""
    names, category = np.unique(world.table.category, return_inverse=True)
    static = world.table.models.index(STATIC)
    promoted = {True: [], False: []}
    for seed in range(count):
        rng, better = np.random.default_rng((1, seed)), seed % 2 == 0
        while True:
            other = (static + rng.integers(1, len(world.table.models), len(names))) % len(world.table.models)
            choice = np.where(rng.random(len(names)) < CHANGED, other, static)
            gain = (world.reward[np.arange(len(category)), choice[category]] - world.reward[:, static]).mean()
            if (choice != static).any() and (gain > 0) == better:
                break
        data = drawn_log(world, decisions, 10_000 + seed)
        of_row = choice[np.searchsorted(names, data.contexts.category)]
        models = np.array([data.models.index(model) for model in world.table.models])
        candidate, usual = (np.eye(len(models))[models[k]] for k in (of_row, np.full(len(of_row), static)))
        log = bandit_log(data, Cells.of(data.contexts), DEFAULT.weights)
        report, _ = compare(log, candidate, usual, observed=data.observed, method=ONE_LOOK)
        promoted[better].append(report.interval is not None and report.interval.low > 0)
    return {
        "better": len(promoted[True]),
        "better_promoted": int(sum(promoted[True])),
        "not_better": len(promoted[False]),
        "not_better_promoted": int(sum(promoted[False])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    table = open_matrix()
    world = World(table, table.contexts(), table_rewards(table))
    rows = options.log.with_name("rows.jsonl")
    exported = export(DecisionLog.open(options.log), rows, data_source="real")
    data = RoutingData.read(rows, gaps=True)
    with replacing(options.out.with_name("rows.jsonl.gz")) as path:
        path.write_bytes(gzip.compress(rows.read_bytes(), mtime=0))
    shares = {model: float((data.action == k).mean()) for k, model in enumerate(data.models)}
    result = {
        "decisions": len(data),
        "with_outcome": exported.rows,
        "tasks": len(np.unique(data.contexts.task_id)),
        "shares": shares,
        "mean_quality": {
            model: float(np.nanmean(data.quality[data.action == k])) for k, model in enumerate(data.models)
        },
        "real": {name: judge(data, question, world) for name, question in QUESTIONS.items()},
        "drawn": draws(world, len(data), options.draws),
        "candidates": candidates(world, len(data), options.draws),
    }
    write_json(options.out, result)
    for name in ("real", "drawn", "candidates"):
        print(name, result[name])


if __name__ == "__main__":
    main()
