"""How far the proof of a cascade can be trusted; a part of cascades.py.

The whole table is the population. A log has 1,000 tasks, drawn with replacement, and 2,000 episodes, whose
tasks are drawn from these; intervals are by task. The share of drawn logs whose 95 % interval holds the exact value,
where the evaluation does not refuse, for sequential doubly robust estimates and for trajectory importance sampling, and
the ratio of their mean widths: of a cascade's reward (quality less .15 per dollar), and of its difference to the ladder
that wrote the log, which is what the gate asks for.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from cascade_worlds import VERIFIERS, load, read, stopping

from rl_training.evaluation import (
    Report,
    compare_episodes,
    cross_fit_values,
    diagnose_episodes,
    evaluate_episodes,
    ratio_moments,
)
from sage.benchmarks.cascades import choose_pool, expected_of
from sage.files import write_json
from sage.outcomes.table import OutcomeTable
from sage.policy import Contexts
from sage.rl.cascade_data import CascadeData
from sage.rl.cascade_evaluation import target_of
from sage.rl.cascade_ladder import ExploringCascade, LadderCascade
from sage.rl.cascade_learning import episode_log, fit_histories, mean_costs, state_features
from sage.rl.cascade_policy import CascadePolicy
from sage.rl.cascade_replay import SimulatedVerifier, replay_cascade
from sage.rl.cells import Cells

PRICE = 0.15
LOG_EPISODES, LOG_TASKS = 2_000, 1_000
fit = partial(cross_fit_values, fit=fit_histories)
TARGETS = ("ladder", "cheap optimal stopping", "cheapest alone", "dearest alone")  # of which the first is the incumbent
# With .4 the log hardly suffices for the dearest model alone: where refusals that depend on luck would show in the coverage.
CELLS = ((VERIFIERS[0], 0.3, TARGETS), (VERIFIERS[-1], 0.3, TARGETS), (VERIFIERS[0], 0.4, ("ladder", "dearest alone")))


def targets_of(table: OutcomeTable, ladder: tuple[str, ...], verifier: SimulatedVerifier) -> dict[str, CascadePolicy]:
    cascades = (
        LadderCascade(ladder),
        stopping(table, verifier, 2 * PRICE),
        LadderCascade(ladder[:1]),
        LadderCascade(ladder[-1:]),
    )
    return dict(zip(TARGETS, cascades, strict=True))


def coverage_cell(
    table: OutcomeTable, verifier: SimulatedVerifier, exploration: float, draws: int, names: tuple[str, ...]
) -> dict:
    ladder = choose_pool(table, SimulatedVerifier(verifier.true_positive, verifier.false_positive), 2 * PRICE, size=3)
    pool = table.with_models(tuple(sorted(ladder)))
    targets, truth = {name: it for name, it in targets_of(pool, ladder, verifier).items() if name in names}, {}
    for name, policy in targets.items():
        found = expected_of(pool, policy, verifier)
        truth[name] = float((found.quality - PRICE * found.cost).mean())
    rows: dict[str, list] = {f"{kind} of {name}": [] for name in targets for kind in ("value", "gain")}
    logger, contexts = ExploringCascade(LadderCascade(ladder), exploration), pool.contexts()
    for draw in range(draws):
        data = drawn_log(pool, contexts, logger, verifier, draw)
        log, features = episode_log(data, PRICE), state_features(data, Cells.of(data.contexts), mean_costs(data))
        taken, values, moments = {}, {}, {}
        for name, policy in targets.items():
            target = target_of(data, policy)
            taken[name] = target[np.arange(len(target)), data.action]
            moments[name] = ratio_moments(target, data.propensity)
            refused = diagnose_episodes(log, taken[name], moments[name]).refusal
            values[name] = None if refused else fit(log, features, data.action, target, seed=draw)
        for name in targets:
            report = evaluate_episodes(log, taken[name], values=values[name], moments=moments[name])
            rows[f"value of {name}"].append(judge(report, truth[name]))
            if name != "ladder":
                of_both, drawable = ((of[name], of["ladder"]) for of in (values, moments))
                pair = None if None in of_both else of_both
                report = compare_episodes(log, taken[name], taken["ladder"], values=pair, moments=drawable)
                rows[f"gain of {name}"].append(judge(report, truth[name] - truth["ladder"]))
    return {name: summary(found) for name, found in rows.items() if found}


def drawn_log(
    pool: OutcomeTable, contexts: Contexts, logger: CascadePolicy, verifier: SimulatedVerifier, draw: int
) -> CascadeData:
    """Every drawn task is a task of its own, whichever row of the table it is."""
    rng = np.random.default_rng((1, draw))
    tasks = rng.integers(len(pool), size=LOG_TASKS)
    number = rng.integers(LOG_TASKS, size=LOG_EPISODES)
    data = replay_cascade(
        pool, logger, LOG_EPISODES, verifier=verifier, seed=draw, contexts=contexts, rows=tasks[number]
    )
    return replace(data, contexts=data.contexts._replace(task_id=np.array([f"task {k}" for k in number])))


def judge(report: Report, truth: float) -> dict:
    found = {
        "refused": report.refusal is not None,
        "size": min(d.effective_sample_size for d in report.diagnostics.values()),
    }
    for row in report.rows:
        if row.estimator in ("sequential DR", "trajectory IS"):
            found[row.estimator] = row.low <= truth <= row.high
            found[f"{row.estimator} width"] = (row.high - row.low) / 2
    return found


def summary(rows: list[dict]) -> dict:
    kept = [row for row in rows if not row["refused"]]
    told = {
        "draws": len(rows),
        "refused": float(np.mean([row["refused"] for row in rows])),
        "effective_sample_size": float(np.mean([row["size"] for row in rows])),
    }
    if not kept:
        return told
    widths = {
        name: float(np.mean([row[f"{name} width"] for row in kept])) for name in ("sequential DR", "trajectory IS")
    }
    return told | {
        "coverage": float(np.mean([row["sequential DR"] for row in kept])),
        "coverage_trajectory": float(np.mean([row["trajectory IS"] for row in kept])),
        "half_width": widths["sequential DR"],
        "half_width_trajectory": widths["trajectory IS"],
        "width_ratio": widths["sequential DR"] / widths["trajectory IS"],
    }


def coverage(folder: Path, out: Path, draws: int) -> list[dict]:
    cells = []
    for (true_positive, false_positive, rho), exploration, names in CELLS:
        path = out / f"coverage_{true_positive:g}_{false_positive:g}_{rho:g}_{exploration:g}.json"
        if not path.is_file():
            verifier = SimulatedVerifier(true_positive, false_positive, rho)
            found = coverage_cell(load(folder), verifier, exploration, draws, names)
            head = {"verifier": [true_positive, false_positive, rho], "exploration": exploration}
            write_json(path, head | {"targets": found})
        cells.append(read(path))
        for name, row in cells[-1]["targets"].items():
            shown = [
                f"{k} {row[k]:.3f}" for k in ("refused", "coverage", "coverage_trajectory", "width_ratio") if k in row
            ]
            print(path.stem, name, *shown, flush=True)
    return cells
