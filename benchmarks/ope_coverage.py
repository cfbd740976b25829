"""How often the intervals of off-policy evaluation contain the truth, and how often a useless candidate is promoted.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/ope_coverage.py

Draws 2,000 logs of every cell from bandits and an MDP whose values are known exactly, and writes
benchmarks/results/ope_coverage.json (or --out); `--render` only writes the tables of benchmarks/off_policy_evaluation.md from
that file, `--check` compares them. It exits with 1 if a check fails:

- asymptotic intervals (t, bootstrap): an exact binomial test of .95 at 1 %, where a log is not refused;
- asymptotic intervals that are widened by a bias bound may cover more: the same test, one-sided;
- Holm's correction is over all these tests, in all cells;
- conservative ones (Bernstein): coverage of at least .95;
- a candidate without gain is promoted ("one-sided 97.5 % lower bound above zero") in at most .05 + 2 standard errors.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from ope_worlds import CELLS, CONSERVATIVE, WIDENED, Cell

from rl_training.evaluation import interval

OUT = Path(__file__).parent / "results" / "ope_coverage.json"
PAGE = Path(__file__).parent / "off_policy_evaluation.md"
MARKERS = re.compile(r"(<!-- coverage -->).*?(<!-- end of coverage -->)", re.DOTALL)
LEVEL, TEST_LEVEL, PROMOTION_LIMIT = 0.95, 0.01, 0.05
BOOTSTRAP_RESAMPLES = 999


def binomial_p_value(hits: int, trials: int, chance: float, *, only_below: bool = False) -> float:
    """Exact: the probability of everything that is at most as likely as what was seen, or only of so few hits."""
    counts = range(trials + 1)
    logs = [math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1) for k in counts]
    mass = [math.exp(c + k * math.log(chance) + (trials - k) * math.log1p(-chance)) for k, c in enumerate(logs)]
    seen = mass[: hits + 1] if only_below else [m for m in mass if m <= mass[hits] * (1 + 1e-7)]
    return min(1.0, math.fsum(seen))


def holm(p_values: list[float]) -> list[float]:
    """Adjusted p-values: below the test's level is rejected."""
    order = np.argsort(p_values)
    steps = np.arange(len(p_values), 0, -1) * np.array(p_values)[order]
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return adjusted.tolist()


def run_cell(cell: Cell, index: int, replications: int, seed: int) -> dict:
    """All replications of a cell."""
    truth, started = cell.truth(), time.process_time()
    hits: dict[str, int] = {}
    kinds: dict[str, str] = {}
    widths: dict[str, float] = {}
    candidates = cell.candidates()
    promotions = dict.fromkeys(candidates, 0)
    refused, sizes = 0, []
    for replication in range(replications):
        result = cell.run(np.random.default_rng([seed, index, replication]), candidates)
        sizes.append(result.diagnostics.effective_sample_size)
        for name, promoted in result.promotions.items():
            promotions[name] += promoted
        if result.diagnostics.refusal:
            refused += 1
            continue
        for name, (kind, estimate, method) in result.found.items():
            found = interval(estimate, method=method, level=LEVEL, resamples=BOOTSTRAP_RESAMPLES, seed=replication)
            kinds[name] = kind
            hits[name] = hits.get(name, 0) + (found.low <= truth <= found.high)
            widths[name] = widths.get(name, 0.0) + found.high - found.low
    answered = replications - refused
    return {
        "cell": cell.name,
        "settings": {key: value for key, value in vars(cell).items() if key != "name"},
        "seed": [seed, index, "replication"],
        "truth": truth,
        "replications": replications,
        "refused": refused,
        "median_effective_sample_size": float(np.median(sizes)),
        "cpu_seconds": round(time.process_time() - started, 1),
        "intervals": [
            {
                "interval": name,
                "kind": kinds[name],
                "answered": answered,
                "covered": count,
                "coverage": count / answered,
                "mean_width": widths[name] / answered,
            }
            for name, count in hits.items()
        ],
        "promotions": [
            {
                "candidate": name,
                "true_gain": cell.value(candidates[name]) - truth,
                "promoted": count,
                "rate": count / replications,
            }
            for name, count in promotions.items()
        ],
    }


def check(cells: list[dict]) -> list[str]:
    """Adds the verdicts to the rows; gives a sentence per failure."""
    rows = [(cell["cell"], row) for cell in cells for row in cell["intervals"]]
    tested = [row for _, row in rows if row["kind"] != CONSERVATIVE]
    p_values = [
        binomial_p_value(row["covered"], row["answered"], LEVEL, only_below=row["kind"] == WIDENED) for row in tested
    ]
    for row, p_value, adjusted in zip(tested, p_values, holm(p_values), strict=True):
        row |= {"p_value": p_value, "holm_p_value": adjusted, "passed": adjusted >= TEST_LEVEL}
    for _, row in rows:
        if row["kind"] == CONSERVATIVE:
            row["passed"] = row["coverage"] >= LEVEL
    failures = [f"{name}: {row['interval']} covers {row['coverage']:.4f}" for name, row in rows if not row["passed"]]
    for cell in cells:
        for row in (row for row in cell["promotions"] if abs(row["true_gain"]) < 1e-12):
            limit = PROMOTION_LIMIT + 2 * math.sqrt(PROMOTION_LIMIT * (1 - PROMOTION_LIMIT) / cell["replications"])
            row["passed"] = row["rate"] <= limit
            if not row["passed"]:
                failures.append(f"{cell['cell']}: a candidate without gain is promoted in {row['rate']:.4f}")
    return failures


def run_all(cells: tuple[Cell, ...], replications: int, seed: int, say: Callable[[str], None] = print) -> dict:
    results = []
    for index, cell in enumerate(CELLS):
        if cell not in cells:
            continue
        results.append(run_cell(cell, index, replications, seed))
        done = results[-1]
        covered = "  ".join(f"{row['interval']} {row['coverage']:.3f}" for row in done["intervals"])
        rates = "  ".join(f"{row['candidate']} {row['rate']:.3f}" for row in done["promotions"])
        size = f"effective size {done['median_effective_sample_size']:.0f}"
        say(f"{cell.name} ({done['cpu_seconds']} s, {size}, refused {done['refused']}): {covered} | promoted: {rates}")
    failures = check(results)
    return {
        "command": "OMP_NUM_THREADS=1 .venv/bin/python " + " ".join(["benchmarks/ope_coverage.py", *sys.argv[1:]]),
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
        "level": LEVEL,
        "bootstrap_resamples": BOOTSTRAP_RESAMPLES,
        "failures": failures,
        "cells": results,
    }


def tables(results: dict) -> str:
    """The measured numbers in Markdown, one table per kind of cell."""
    parts = []
    for sequential in (False, True):
        cells = [c for c in results["cells"] if ("num_episodes" in c["settings"]) == sequential]
        columns = list(dict.fromkeys(row["interval"] for cell in cells for row in cell["intervals"]))
        lines = [["cell", "effective sample size", "refused", *columns], ["---"] * (3 + len(columns))]
        for cell in cells:
            coverage = {row["interval"]: f"{row['coverage']:.3f}" for row in cell["intervals"]}
            head = [cell["cell"], f"{cell['median_effective_sample_size']:.0f}", f"{cell['refused']:,}"]
            lines.append([*head, *(coverage.get(column, "-") for column in columns)])
        parts.append(lines)
    lines = [["promoted", "candidate without gain", "candidate with gain", "its gain"], ["---"] * 4]
    for cell in results["cells"]:
        useless, useful = cell["promotions"]
        lines.append([cell["cell"], f"{useless['rate']:.4f}", f"{useful['rate']:.3f}", f"{useful['true_gain']:.3f}"])
    return "\n\n".join("\n".join(f"| {' | '.join(line)} |" for line in part) for part in [*parts, lines])


def rendered(results: dict) -> str:
    """The page with the tables of these results."""
    return MARKERS.sub(lambda found: f"{found[1]}\n{tables(results)}\n{found[2]}", PAGE.read_text())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cells", nargs="*", choices=[cell.name for cell in CELLS], help="default: all")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--render", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.check:
        return int(rendered(json.loads(options.out.read_text())) != PAGE.read_text())
    if options.render:
        PAGE.write_text(rendered(json.loads(options.out.read_text())))
        return 0
    chosen = tuple(cell for cell in CELLS if not options.cells or cell.name in options.cells)
    results = run_all(chosen, options.replications, options.seed)
    options.out.write_text(json.dumps(results, indent=1) + "\n")
    print("\n".join(results["failures"]) or "all checks passed")
    return int(bool(results["failures"]))


if __name__ == "__main__":
    sys.exit(main())
