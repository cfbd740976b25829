"""What the gate does when outcomes are missing: which models', which outcomes, how many, on real outcome tables.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/sage/missing_outcomes.py --data DIR

Logs, static tables (`random`) and candidates are drawn as in gate.py. From each log outcomes are taken away in 30 ways:

- of whom: the models that the candidate newly chooses (in the rows where it does), those that it gives up (in the same
  rows), or everybody;
- which: failures (rewards in the lower half of their range), successes, or any, which is missing at random;
- how many: 1, 5 or 20 % of these rows; if there are fewer of the kind, all of them;
- and: nothing missing, .2 % of everything at random, and every failure of the newly chosen models.

Half of the draws have a candidate that is truly worse (a gain of at most 0), half one whose true gain is above 2 points. "Today"
is the rule before gaps were part of the proof: the fixed-n lower bound of the whole log is above zero. Wanted: no worse candidate is
promoted in any scenario by the gate as it is by default (the anytime interval), and none by the fixed-n interval that it would
not promote on the whole log, which errs in up to 2.5 % of draws by design; of today's power, at fixed n, at least 80 % with nothing
missing and half with 1 % of everything missing at random. Exits with 1 if not. One file per table in
results/missing_outcomes; tables that are there are not computed again.
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
from gate import load
from pools import FILES
from quick_gate import Log, check, draw, judge

from sage.files import write_json

OUT = Path(__file__).parent / "results" / "missing_outcomes"
TWO_POINTS = 0.02
SHARES = (0.01, 0.05, 0.2)
SCENARIOS = (
    ("nobody", "any", 0.0),
    ("everybody", "any", 0.002),
    ("new models", "failures", 1.0),
    *product(("new models", "old models", "everybody"), ("failures", "successes", "any"), SHARES),
)


def taken_away(log: Log, who: str, which: str, share: float, seed: tuple[int, ...]) -> np.ndarray:
    """bool [n]: the outcomes that are left."""
    rng = np.random.default_rng(seed)
    policy = {"new models": log.candidate, "old models": log.static}.get(who)
    everywhere = np.ones(len(log.action), bool)
    of_whom = everywhere if policy is None else (log.candidate != log.static) & (log.action == policy)
    kind = everywhere
    if which != "any":
        middle = sum(log.bounds) / 2  # of what a reward can be
        kind = log.reward < middle if which == "failures" else log.reward >= middle
    wanted = np.flatnonzero(of_whom & kind)
    number = min(round(share * of_whom.sum()), len(wanted))
    observed = everywhere.copy()
    observed[rng.permutation(wanted)[:number]] = False
    return observed


def run(kind: str, folder: Path, draws: int) -> dict:
    world, index, started = load(kind, folder, everyone=False), list(FILES).index(kind), time.process_time()
    today = {"worse": 0, "better": 0}
    promoted = [dict.fromkeys(product(("worse", "better"), ("t", "anytime")), 0) for _ in SCENARIOS]
    by_gaps = [0] * len(SCENARIOS)
    missing = np.zeros(len(SCENARIOS))
    for number in range(draws):
        for name, least, most in (("worse", -1.0, 0.0), ("better", TWO_POINTS, 1.0)):
            log = draw(world, (21, index, number, name == "better"), least, most)
            complete = judge(log)
            whole = not complete.refused and complete.low() > 0
            today[name] += whole
            for s, scenario in enumerate(SCENARIOS):
                observed = taken_away(log, *scenario, (index, number, s))
                if number == 0 and s % 10 < 3:
                    check(log, observed)
                found = judge(log, observed)
                for method in ("t", "anytime"):
                    promoted[s][name, method] += found.promoted(method)
                by_gaps[s] += name == "worse" and found.promoted() and not whole
                missing[s] += (~observed).mean() / (2 * draws)
    rows = [
        {
            "of_whom": who,
            "which": which,
            "share": share,
            "missing_of_all": round(float(missing[s]), 5),
            "worse_promoted": promoted[s]["worse", "anytime"],
            "worse_promoted_fixed_n": promoted[s]["worse", "t"],
            "of_them_not_on_the_whole_log": by_gaps[s],
            "power": promoted[s]["better", "anytime"] / draws,
            "power_fixed_n": promoted[s]["better", "t"] / draws,
        }
        for s, (who, which, share) in enumerate(SCENARIOS)
    ]
    return {
        "table": kind,
        "draws_worse": draws,
        "draws_better": draws,
        "today": {"worse_promoted": today["worse"], "power": today["better"] / draws},
        "scenarios": rows,
        "cpu_seconds": round(time.process_time() - started, 1),
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
    }


def failures(result: dict) -> list[str]:
    found = []
    for row in result["scenarios"]:
        name = f"{result['table']}, {row['share']:.1%} of {row['which']} of {row['of_whom']}"
        unwanted = ("worse_promoted", "of_them_not_on_the_whole_log")
        found += [f"{name}: {key} {row[key]} of {result['draws_worse']}" for key in unwanted if row[key]]
        wanted = {("nobody", "any", 0.0): 0.8, ("everybody", "any", 0.01): 0.5}
        least = wanted.get((row["of_whom"], row["which"], row["share"]), 0.0) * result["today"]["power"]
        if row["power_fixed_n"] < least:
            found.append(f"{name}: power {row['power_fixed_n']:.3f}, below {least:.3f}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="folder of the outcome packs")
    parser.add_argument("--draws", type=int, default=100, help="worse and as many better candidates per table")
    parser.add_argument("--tables", nargs="+", choices=FILES, default=list(FILES))
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the results")
    arguments = parser.parse_args()
    failed = []
    for kind in arguments.tables:
        path = arguments.out / f"{kind}.json"
        if not path.exists():
            write_json(path, run(kind, arguments.data, arguments.draws))
        result = json.loads(path.read_text())
        print(kind, "today", result["today"], flush=True)
        for row in result["scenarios"]:
            print("  ", *row.values(), flush=True)
        failed += failures(result)
    print("\n".join(failed) or "all checks hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
