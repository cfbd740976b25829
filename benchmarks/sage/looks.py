"""False promotion when the gate is asked again and again, and coverage when it is asked once, on real outcome tables.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/sage/looks.py --data DIR

Logs, static tables and candidates are drawn as in gate.py (`random`: a model for every category; `best`: the best single model
everywhere). Small tables are made of the others: the first 100 or 200 tasks of a shuffled table.

- looks: after every 1,000 of 20,000 rows the gate is asked, with the fixed-n interval and with the anytime one, and the first
  promotion counts. Candidates that are not better (a gain of at most 0), and better ones (as drawn; above 2 points);
- once: after 20,000 rows, candidates of which every second is better: does the interval hold the truth, is a candidate that is not
  better promoted?

Wanted: false promotion over 20 looks at most .05 (anytime), at one look at most .015 (fixed n), coverage .93 to .97 (fixed n), each
on every table and setting. Exits with 1 if not. One file per table, setting and part in results/looks; those that are there
are not computed again.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from itertools import product
from pathlib import Path

import numpy as np
from gate import RAREST, ROWS, World, load, share_better
from pools import FILES
from quick_gate import check, draw, judge

from rl_base.evaluation import interval
from sage.files import write_json
from sage.proof.evaluation import LEVEL

OUT = Path(__file__).parent / "results" / "looks"
LOOKS = 20
SMALL = {
    "swebench-100": ("swebench", 100),
    "livecodebench-200": ("livecodebench", 200),
    "llmrouter-200": ("llmrouter", 200),
}
TABLES = (*FILES, *SMALL)
KINDS = {"not_better": (-1.0, 0.0), "better": (0.0, 1.0), "above_two_points": (0.02, 1.0)}


def open_world(name: str, folder: Path) -> World:
    if name not in SMALL:
        return load(name, folder, everyone=False)
    kind, tasks = SMALL[name]
    whole = load(kind, folder, everyone=False)
    chosen = np.random.default_rng(0).permutation(len(whole.reward))[:tasks]
    reward, names_of = whole.reward[chosen], np.unique(whole.category[chosen], return_inverse=True)
    category, count = names_of[1], len(names_of[0])
    share = np.stack([np.bincount(category, column, count) for column in reward.T], axis=1) / tasks
    return World(name, reward, category, share, whole.bounds)


def look_often(world: World, seed: tuple[int, ...], limits: tuple[float, float], setting: str) -> dict[str, bool]:
    """Whether the gate would have promoted at any look, and at the last."""
    log = draw(world, seed, *limits, setting)
    found = [judge(log.first(ROWS * look // LOOKS)) for look in range(1, LOOKS + 1)]
    fixed, anytime = ([one.promoted(method) for one in found] for method in ("t", "anytime"))
    return {"fixed": any(fixed), "anytime": any(anytime), "fixed_once": fixed[-1], "anytime_once": anytime[-1]}


def look_once(world: World, seed: tuple[int, ...], better: bool, setting: str) -> dict[str, float]:
    log = draw(world, seed, *KINDS["better" if better else "not_better"], setting)
    found = judge(log)
    if found.refused:
        return {
            "promoted": False,
            "covered": np.nan,
            "covered_anytime": np.nan,
            "width": np.nan,
            "width_anytime": np.nan,
        }
    fixed, anytime = (interval(found.estimate, method=method, level=LEVEL) for method in ("t", "anytime"))
    return {
        "promoted": found.promoted(),
        "covered": fixed.low <= log.gain <= fixed.high,
        "covered_anytime": anytime.low <= log.gain <= anytime.high,
        "width": (fixed.high - fixed.low) / 2,
        "width_anytime": (anytime.high - anytime.low) / 2,
    }


def run_looks(world: World, number: int, setting: str, draws: int) -> dict:
    found = {}
    for k, (kind, limits) in enumerate(KINDS.items()):
        if kind == "above_two_points" and setting == "best":  # hardly any
            continue
        wanted = draws if kind == "not_better" else draws // 4
        rows = [look_often(world, (22, number, k, d, setting == "best"), limits, setting) for d in range(wanted)]
        found[kind] = {"draws": wanted} | {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    return found


def run_once(world: World, number: int, setting: str, draws: int) -> dict:
    rows = [look_once(world, (23, number, d, setting == "best"), d % 2 == 0, setting) for d in range(draws)]
    column = {name: np.array([row[name] for row in rows], np.float64) for name in rows[0]}
    better = np.arange(draws) % 2 == 0
    return {
        "draws": draws,
        "false_promotion": float(column["promoted"][~better].mean()),
        "power": float(column["promoted"][better].mean()),
        "refused": float(np.isnan(column["width"]).mean()),
    } | {name: round(float(np.nanmean(values)), 5) for name, values in column.items() if name != "promoted"}


def run(world: World, number: int, setting: str, part: str, draws: int) -> dict:
    started, share = time.process_time(), share_better(world, setting)
    head = {"table": world.name, "setting": setting, "tasks": len(world.reward), "pool": world.reward.shape[1]}
    if share < RAREST:
        return head | {"skipped": f"fewer than {RAREST:.0%} of the candidates are better"}
    check(draw(world, (22, number, 0, 0), *KINDS["better"], setting).first(5_000))
    found = (run_looks if part == "looks" else run_once)(world, number, setting, draws)
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    return head | {part: found, "cpu_seconds": round(time.process_time() - started, 1), "versions": versions}


def failures(result: dict) -> list[str]:
    checks = {}
    if "looks" in result:
        checks[f"false promotion over {LOOKS} looks"] = (result["looks"]["not_better"]["anytime"], 0.0, 0.05)
    if "once" in result:
        checks["false promotion at one look"] = (result["once"]["false_promotion"], 0.0, 0.015)
        checks["coverage"] = (result["once"]["covered"], 0.93, 0.97)
    name = f"{result['table']} {result['setting']}"
    return [f"{name}: {what} {value:.4f}" for what, (value, low, high) in checks.items() if not low <= value <= high]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="folder of the outcome packs")
    parser.add_argument("--looks", type=int, default=400, help="candidates that are not better, looked at 20 times")
    parser.add_argument("--once", type=int, default=3_000, help="logs for the coverage at one look")
    parser.add_argument("--parts", nargs="+", choices=("once", "looks"), default=["once", "looks"])
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--settings", nargs="+", choices=("random", "best"), default=["random", "best"])
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the results")
    arguments = parser.parse_args()
    failed = []
    for part, setting, name in product(arguments.parts, arguments.settings, arguments.tables):
        path = arguments.out / f"{name}-{setting}-{part}.json"
        if not path.exists():
            world = open_world(name, arguments.data)
            draws = arguments.looks if part == "looks" else arguments.once
            write_json(path, run(world, TABLES.index(name), setting, part, draws))
        result = json.loads(path.read_text())
        print(name, setting, result.get(part, "skipped"), flush=True)
        failed += failures(result)
    print("\n".join(failed) or "all checks hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
