"""How far the proof of a cascade can be trusted; a part of cascades.py.

The share of drawn logs (cascade_logs.py) whose 95 % interval, by task, holds the exact value, where the evaluation does not refuse,
for sequential doubly robust estimates and for trajectory importance sampling, and the ratio of their mean widths: of a
cascade's reward, and of its difference to the ladder that wrote the log, which is what the gate asks for.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from cascade_logs import INCUMBENT, TARGETS, LadderWorld
from cascade_worlds import VERIFIERS, load, read

from rl_base.evaluation import Report, compare_episodes, diagnose_episodes, evaluate_episodes
from sage.files import write_json
from sage.rl.cascades.simulated_verifier import SimulatedVerifier

# With .4 the log hardly suffices for the dearest model alone: where refusals that depend on luck would show in the coverage.
CELLS = ((VERIFIERS[0], 0.3, TARGETS), (VERIFIERS[-1], 0.3, TARGETS), (VERIFIERS[0], 0.4, (INCUMBENT, "dearest alone")))


def coverage_cell(world: LadderWorld, draws: int) -> dict:
    names, truth = list(world.cascades), world.truth
    rows: dict[str, list] = {f"{kind} of {name}": [] for name in names for kind in ("value", "gain")}
    for draw in range(draws):
        drawn = world.draw(draw)
        log, values = drawn.log, {}
        taken, moments = ({name: of(name) for name in names} for of in (drawn.taken, drawn.moments))
        for name in names:
            refused = diagnose_episodes(log, taken[name], moments[name]).refusal
            values[name] = None if refused else drawn.values(name)
            report = evaluate_episodes(log, taken[name], values=values[name], moments=moments[name])
            rows[f"value of {name}"].append(judge(report, truth[name]))
            if name != INCUMBENT:
                of_both, drawable = ((of[name], of[INCUMBENT]) for of in (values, moments))
                pair = None if None in of_both else of_both
                report = compare_episodes(log, taken[name], taken[INCUMBENT], values=pair, moments=drawable)
                rows[f"gain of {name}"].append(judge(report, truth[name] - truth[INCUMBENT]))
    return {name: summary(found) for name, found in rows.items() if found}


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
            found = coverage_cell(LadderWorld.of(load(folder), verifier, exploration, names), draws)
            head = {"verifier": [true_positive, false_positive, rho], "exploration": exploration}
            write_json(path, head | {"targets": found})
        cells.append(read(path))
        for name, row in cells[-1]["targets"].items():
            shown = [
                f"{k} {row[k]:.3f}" for k in ("refused", "coverage", "coverage_trajectory", "width_ratio") if k in row
            ]
            print(path.stem, name, *shown, flush=True)
    return cells
