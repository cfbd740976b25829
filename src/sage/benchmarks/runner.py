"""Runs a suite: every baseline on held-out tasks of a table, or the learned policy against the static table."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sage.benchmarks.baselines import Baseline, Task, all_baselines, best_single, oracle, static
from sage.benchmarks.cascades import cascade_row, serve
from sage.benchmarks.suite import Suite, read_suite
from sage.evidence.mixing_line import MixingLine
from sage.evidence.objective import DEFAULT
from sage.evidence.table_rewards import table_rewards, table_weights
from sage.orchestrator.models_file import GuardLimits
from sage.outcomes.table import OutcomeTable
from sage.policies.cascades.learned_cascade import LearnedCascade
from sage.policies.checkpoint import load_any
from sage.policies.learned_policy import LearnedPolicy, was_seen
from sage.policies.policy import select_rows
from sage.policies.serving import GuardRules, serving_distribution
from sage.proof.cascade_evaluation import price_of
from sage.rl.cascades.simulated_verifier import SimulatedVerifier
from sage.rl.category_table import table_from_outcomes
from sage.rl.logging_policies import PreferenceOrder

FLOOR = GuardLimits().confidence_floor
NORMAL_95 = 1.959964
VERIFIERS = (SimulatedVerifier(0.95, 0.10), SimulatedVerifier(0.80, 0.30))  # a project's tests at best, and a judge
KINDS = ("baselines", "compare_policy")
COLUMNS = (("quality", 7, 4), ("cost_usd", 8, 5), ("reward", 7, 4), ("gap_closed", 10, 3), ("over_mixing_line", 9, 4))


class Served(NamedTuple):
    """Means over the held-out tasks."""

    quality: float
    cost_usd: float
    reward: float


class BenchError(ValueError):
    """A comparison that would prove nothing: the sentence says why."""


def run_suite(
    path: Path | None,
    *,
    kind: str = "baselines",
    checkpoint: Path | None = None,
    table_path: str | None = None,
) -> dict:
    """The results of a suite, ready for JSON; the same file gives the same numbers. `table_path`: where it is by now.

    `kind`: every baseline, or 'compare_policy' for the learned policy against the static table.
    """
    head, tasks = open_suite(path, kind, table_path)
    if kind == "compare_policy":
        return head | {"comparison": compare(tasks, checkpoint)}
    rows = {name: measure(tasks, choose) for name, choose in all_baselines(tasks[0].train.models).items()}
    return head | {"baselines": rows | cascade_rows(tasks)}


def open_suite(path: Path | None, kind: str, table_path: str | None = None) -> tuple[dict, list[Task]]:
    """Returns the facts that all results of a suite begin with, and its splits."""
    suite, _ = read_suite(path)
    table = suite.open_table(table_path)
    head: dict = {
        "suite": asdict(suite) | {"seeds": list(suite.seeds), "models": list(suite.models)},
        "table": table.description() | {"sha256": table.sha256, "tasks": len(table)},
        "data_source": table.data_source,
        "evidence": table.data_source != "synthetic",
        "kind": kind,
    }
    return head, [split(table, suite, seed) for seed in suite.seeds]


def split(table: OutcomeTable, suite: Suite, seed: int) -> Task:
    train, held_out = table.split(by=suite.held_out_by, fraction=suite.train_fraction, seed=seed)
    held_out = held_out.select(np.flatnonzero(held_out.ran.any(axis=1)))
    return Task(train, held_out, train.contexts(), held_out.contexts(), suite.static, seed)


def measure(tasks: list[Task], choose: Baseline) -> dict:
    """Returns the means over splits of a baseline's quality, cost and reward on held-out tasks."""

    def served(task: Task) -> Served:
        probabilities = choose(task)
        parts = (task.held_out.score, task.held_out.cost_usd, table_rewards(task.held_out))
        return Served(*(float(expected(probabilities, part).mean()) for part in parts))

    return summarize(tasks, [served(task) for task in tasks])


def summarize(tasks: list[Task], served: list[Served]) -> dict:
    """Means over splits, with the standard deviation between them."""
    gap_closed, over_line = [], []
    for task, found in zip(tasks, served, strict=True):
        single = expected(best_single(task), task.held_out.score).mean()
        gap = expected(oracle(task), task.held_out.score).mean() - single
        gap_closed.append((found.quality - single) / gap if gap > 0 else np.nan)
        over_line.append(found.quality - line_quality(task, found.cost_usd))
    summary: dict[str, float | None] = {
        name: number(np.mean([getattr(found, name) for found in served])) for name in Served._fields
    }
    summary |= {"gap_closed": number(np.mean(gap_closed)), "over_mixing_line": number(np.mean(over_line))}
    deviation = np.std([found.quality for found in served], ddof=1) if len(tasks) > 1 else np.nan
    return summary | {"quality_deviation_between_splits": number(deviation)}


def cascade_rows(tasks: list[Task]) -> dict:
    """The best cascades by train, behind a simulated verifier; none for tables without costs or with gaps."""
    rows, price = {}, price_of(DEFAULT)
    for verifier in VERIFIERS:
        policies = [cascade_row(task.train, verifier, price) for task in tasks]
        served = [as_served(p, task, verifier) for p, task in zip(policies, tasks, strict=True) if p is not None]
        if len(served) == len(tasks):
            rows[f"cascade, {verifier.name.partition(' rho')[0]} verifier"] = summarize(tasks, served)
    return rows


def as_served(policy: LearnedCascade, task: Task, verifier: SimulatedVerifier) -> Served:
    found = serve(policy, task.held_out, verifier)
    return Served(
        *(float(part.mean()) for part in (found.quality, found.cost, found.quality - policy.price * found.cost))
    )


def line_quality(task: Task, cost: float) -> float:
    """Returns the held-out quality of the mixture of models that costs `cost`; NaN where costs or runs are missing."""
    held_out = task.held_out
    if np.isnan(held_out.cost_usd).any() or np.isnan(task.train.cost_usd).any() or not held_out.ran.all():
        return float("nan")
    corners = MixingLine.of(task.train.score, task.train.cost_usd).models
    order = corners[np.argsort(held_out.cost_usd[:, corners].mean(axis=0))]
    return float(np.interp(cost, held_out.cost_usd[:, order].mean(axis=0), held_out.score[:, order].mean(axis=0)))


def compare(tasks: list[Task], checkpoint: Path | None) -> dict:
    """The learned policy, which leaves rows below its floor to the static table, against that table alone.

    All outcomes of the held-out tasks are known, so the difference is measured, not estimated; its interval is over the
    tasks of the first split (splits share tasks and would make it too narrow). Tasks that a given policy was learned
    from are left out.
    """
    given = None if checkpoint is None else load_any(checkpoint)
    tasks = tasks if given is None else [without_seen(task, given) for task in tasks]
    if isinstance(given, LearnedCascade):
        return compare_cascade(tasks, given)
    differences, rows = [], []
    for task in tasks:
        policy = given or table_from_outcomes(
            task.train_contexts, task.train.models, table_rewards(task.train), incumbent=task.static
        )
        guard, held_out, base = GuardRules(FLOOR, PreferenceOrder((task.static,))), task.held_out, static(task)
        asked = (task.held_out_contexts, held_out.models, held_out.ran)
        guarded = serving_distribution(policy, guard, *asked).probabilities
        difference = expected(guarded, table_rewards(held_out)) - expected(base, table_rewards(held_out))
        differences.append(difference)
        rows.append(
            {
                "seed": task.seed,
                "policy_version": policy.version,
                "reward_difference": number(difference.mean()),
                "quality": number(expected(guarded, held_out.score).mean()),
                "quality_static": number(expected(base, held_out.score).mean()),
                "cost_usd": number(expected(guarded, held_out.cost_usd).mean()),
                "cost_usd_static": number(expected(base, held_out.cost_usd).mean()),
                "share_acting": float((guarded != base).any(axis=1).mean()),
                "held_out_tasks": len(difference),
            }
        )
    return comparison(
        differences,
        policy=given.name if given else "category_table",
        against=f"always {tasks[0].static}",
        floor=FLOOR,
        estimand="mean reward of the guarded policy minus the static table's, on held-out tasks",
        reward_version=table_weights(tasks[0].train).version,
        splits=rows,
    )


def comparison(differences: list[np.ndarray], **head: object) -> dict:
    """With the mean difference over splits, and the interval over the tasks of the first."""
    first = differences[0]
    half = NORMAL_95 * first.std(ddof=1) / np.sqrt(len(first)) if len(first) > 1 else np.nan
    return head | {
        "difference": number(np.mean([d.mean() for d in differences])),
        "interval_of_first_split": [number(first.mean() - half), number(first.mean() + half)],
    }


def compare_cascade(tasks: list[Task], policy: LearnedCascade) -> dict:
    """The same for a cascade behind a simulated verifier, exactly over all that this may say."""
    differences, rows, verifier = [], [], VERIFIERS[0]
    for task in tasks:
        found, held_out, base = serve(policy, task.held_out, verifier), task.held_out, static(task)
        quality, cost = expected(base, held_out.score), expected(base, held_out.cost_usd)
        differences.append(found.quality - quality - policy.price * (found.cost - cost))
        means = [number(part.mean()) for part in (differences[-1], found.quality, quality, found.cost, cost)]
        names = ("reward_difference", "quality", "quality_static", "cost_usd", "cost_usd_static")
        head = {"seed": task.seed, "policy_version": policy.version}
        rows.append(head | dict(zip(names, means, strict=True)) | {"share_acting": 1.0, "held_out_tasks": len(quality)})
    return comparison(
        differences,
        policy=policy.name,
        against=f"always {tasks[0].static}",
        verifier=verifier.name,
        estimand="mean quality less price times dollars of the cascade minus the static table's, on held-out tasks",
        reward_version=policy.training.reward_version,
        splits=rows,
    )


def without_seen(task: Task, policy: LearnedPolicy | LearnedCascade) -> Task:
    seen = was_seen(task.held_out.task_id, policy.training.task_hashes)
    if seen.all():
        raise BenchError(
            f"{policy.name} {policy.version} was learned from every held-out task of seed {task.seed}: compare it on a table "
            "that it has not seen"
        )
    kept = np.flatnonzero(~seen)
    return task._replace(
        held_out=task.held_out.select(kept), held_out_contexts=select_rows(task.held_out_contexts, kept)
    )


def expected(probabilities: np.ndarray, values: np.ndarray) -> np.ndarray:
    """[n]; NaN only where a model that may be chosen has none."""
    return np.where(probabilities > 0, probabilities * values, 0.0).sum(axis=1)


def number(value: float | np.floating) -> float | None:
    return None if np.isnan(value) else float(value)


def format_results(results: dict) -> str:
    """A table for people."""
    head = title_of(results)
    if results["kind"] == "compare_policy":
        found = results["comparison"]
        low, high = found["interval_of_first_split"]
        acting = np.mean([row["share_acting"] for row in found["splits"]])
        return (
            f"{head}\n{found['policy']} minus {found['against']}: {found['difference']:+.4f} {found['reward_version']} "
            f"(first split: {low:+.4f} to {high:+.4f}), acts on {acting:.0%} of the tasks"
        )
    name_width = max(len(name) for name in results["baselines"])
    lines = [head, f"{'':{name_width}}  quality  cost USD   reward  gap closed  over line"]
    for name, row in results["baselines"].items():
        cells = [
            "-".rjust(width) if row[key] is None else f"{row[key]:{width}.{digits}f}" for key, width, digits in COLUMNS
        ]
        lines.append("  ".join([name.ljust(name_width), *cells]))
    return "\n".join(lines)


def title_of(results: dict) -> str:
    """Returns the line that a table of results begins with: the suite, its tasks, and whether they are evidence."""
    label = "" if results["evidence"] else "  SYNTHETIC: shows how it works, proves nothing"
    return f"{results['suite']['name']}: {results['table']['tasks']} tasks, {results['data_source']}{label}"
