"""Whether sage's claims hold, read from results files and compared with thresholds; exits with 1 if one does not.

.venv/bin/python scripts/check_claims.py                        # the committed results
.venv/bin/python scripts/check_claims.py --results DIR          # files of DIR first: what was measured just now
.venv/bin/python scripts/check_claims.py --write                # the table of docs/verification_matrix.md anew

A claim is one number of one file and what it must be. Where DIR lacks a file, the committed one counts, and is named so.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMITTED = ROOT / "benchmarks" / "sage" / "results"
MATRIX = ROOT / "docs" / "verification_matrix.md"
COMMANDS = {  # of a results file, or a folder of them; DATA: the folder of the outcome packs
    "gate.json": "benchmarks/sage/gate.py --data DATA",
    "looks": "benchmarks/sage/looks.py --data DATA",
    "missing_outcomes": "benchmarks/sage/missing_outcomes.py --data DATA",
    "power": "benchmarks/sage/power.py --data DATA",
    "plan": "benchmarks/sage/plan.py --data DATA",
    "objectives": "benchmarks/sage/objectives.py --data DATA",
    "learn_from_log.json": "benchmarks/sage/learn_from_log.py --data DATA",
    "routing.json": "benchmarks/sage/routing.py --data DATA",
    "cascades": "benchmarks/sage/cascades.py --data DATA",
    "online_bandits.json": "benchmarks/sage/online_bandits.py --data DATA",
    "decision_overhead.json": "benchmarks/sage/decision_overhead.py",
    "log_throughput.json": "benchmarks/sage/log_throughput.py",
    "demo/gate_dr.json": "scripts/demo_sage.sh",
    "demo/offline_eval_dr.json": "scripts/demo_sage.sh",
    "demo/refused.json": "scripts/demo_sage.sh",
    "demo/seconds.json": "scripts/demo_sage.sh",
}


@dataclass(frozen=True)
class Claim:
    sentence: str
    file: str
    value: Callable[[dict], float]
    rule: str  # '<=' or '>='
    must: float
    goal: float | None = None

    def met(self, value: float, threshold: float) -> bool:
        return value <= threshold if self.rule == "<=" else value >= threshold


def at_random(results: dict) -> list[dict]:
    """The gate's results with a static table drawn at random: the setting that the check is on."""
    return [row for row in results["results"] if row["setting"] == "random" and "draws" in row]


def at_one_look(results: dict) -> list[dict]:
    """Of every table and setting of `objectives`."""
    return [cell["t"] for part in measured(results, "gate") for cell in part.values()]


def measured(results: dict, part: str) -> list[dict]:
    """Of every table and setting of `looks`."""
    return [row[part] for row in results["results"] if part in row]


def power_won(results: dict, table: str, over: str = "even, cell means") -> float:
    """By a trial with task evidence, as a multiple of another scheme's, for gains of 1 to 2 points at equal cost or less."""
    found = next(x for x in results["results"] if (x["table"], x["part"]) == (table, "any"))["gains_of_1_to_2_points"]
    return found["trial, task evidence"]["promoted"] / found[over]["promoted"]


def power_kept(row: dict, of_whom: str, share: float) -> float:
    """The share of the power that the gate had before gaps were part of the proof, at fixed n."""
    found = next(s for s in row["scenarios"] if (s["of_whom"], s["which"], s["share"]) == (of_whom, "any", share))
    return found["power_fixed_n"] / row["today"]["power"]


def cascades_of(results: dict, rate: list[float], learner: str, rho: float | None = None) -> list[dict]:
    """At a budget of .35 of the best single model's cost, over all repositories left out, of every log."""
    cells = [cell for cell in results["results"] if "pooled" in cell and cell["verifier"][:2] == rate]
    return [cell["pooled"][learner]["budget 0.35"] for cell in cells if rho is None or cell["verifier"][2] == rho]


def cascade_rows(results: dict) -> list[dict]:
    """Of every verifier, log, learner and rule for the price."""
    cells = [cell for cell in results["results"] if "pooled" in cell]
    return [row for cell in cells for n in ("learned", "learned_wide") for row in cell["pooled"][n].values()]


def read(path: Path) -> dict:
    if path.is_dir():
        return {"results": [read(file) for file in sorted(path.glob("*.json"))]}
    return json.loads(path.read_text(encoding="utf-8"))


def second_best(values: list[float]) -> float:
    return sorted(values)[-2]


def worst_harm(results: dict) -> float:
    types = results["task_types"]
    return max(types["worst_harm"], -types["held_out_types_split_group"]["gain"])


def checked_learners(results: dict) -> list[dict]:
    """Of the tables with enough held-out tasks to tell; SWE-bench has too few."""
    return [row["learners"]["dr"] for row in results["results"] if row["checked"]]


def acting_shares(results: dict) -> list[float]:
    """The largest of each table."""
    tables = {row["table"] for row in results["results"] if row["checked"]}
    rows = results["results"]
    return [max(row["learners"]["dr"]["acting_share"] for row in rows if row["table"] == name) for name in tables]


CLAIMS = (
    Claim(
        "gate: draws of candidate and log, least of any table",
        "gate.json",
        lambda r: min(x["draws"] for x in at_random(r)),
        ">=",
        1000,
    ),
    Claim(
        "gate: false promotion, worst table",
        "gate.json",
        lambda r: max(x["false_promotion"] for x in at_random(r)),
        "<=",
        0.05,
        0.01,
    ),
    Claim(
        "gate: power, second best table",
        "gate.json",
        lambda r: second_best([x["power"] for x in at_random(r)]),
        ">=",
        0.35,
        0.60,
    ),
    Claim(
        "gate: the naive rule's false promotion is at least this, best table",
        "gate.json",
        lambda r: min(x["naive_false_promotion"] for x in at_random(r)),
        ">=",
        0.30,
    ),
    Claim(
        "interval coverage (nominal .95), least of any table and setting",
        "gate.json",
        lambda r: min(x["coverage"] for x in r["results"] if "draws" in x),
        ">=",
        0.935,
    ),
    Claim(
        "interval coverage, most of any table and setting",
        "gate.json",
        lambda r: max(x["coverage"] for x in r["results"] if "draws" in x),
        "<=",
        0.965,
    ),
    Claim(
        "gate, 20 looks: false promotion, worst table and setting",
        "looks",
        lambda r: max(x["not_better"]["anytime"] for x in measured(r, "looks")),
        "<=",
        0.05,
    ),
    Claim(
        "gate, one look at fixed n: false promotion, worst table and setting, small ones too",
        "looks",
        lambda r: max(x["false_promotion"] for x in measured(r, "once")),
        "<=",
        0.015,
    ),
    Claim(
        "gate, one look at fixed n: coverage in 3,000 logs, least of any table and setting, small ones too",
        "looks",
        lambda r: min(x["covered"] for x in measured(r, "once")),
        ">=",
        0.93,
    ),
    Claim(
        "gate, one look at fixed n: coverage, most of any",
        "looks",
        lambda r: max(x["covered"] for x in measured(r, "once")),
        "<=",
        0.97,
    ),
    Claim(
        "power by a trial, gains of 1 to 2 points, fixed n: times that of even exploration with cell means, llmrouter",
        "power",
        lambda r: power_won(r, "llmrouter"),
        ">=",
        1.3,
    ),
    Claim("the same, livecodebench", "power", lambda r: power_won(r, "livecodebench"), ">=", 1.5),
    Claim("the same, swebench", "power", lambda r: power_won(r, "swebench"), ">=", 1.5),
    Claim(
        "plan: predicted half width over the simulated one, farthest from 1",
        "plan",
        lambda r: max(
            abs(e["predicted_half_width"] / e["half_width"] - 1)
            for x in r["results"]
            for e in x["exploration"].values()
        ),
        "<=",
        0.1,
    ),
    Claim(
        "plan: predicted power, farthest from the simulated one of any table and share of exploration",
        "plan",
        lambda r: max(abs(e["predicted_power"] - e["power"]) for x in r["results"] for e in x["exploration"].values()),
        "<=",
        0.1,
    ),
    Claim(
        "gate, outcomes missing in 30 ways: worse candidates promoted",
        "missing_outcomes",
        lambda r: sum(s["worse_promoted"] for x in r["results"] for s in x["scenarios"]),
        "<=",
        0,
    ),
    Claim(
        "gate, nothing missing: share of the former power for gains above 2 points, fixed n, worst table",
        "missing_outcomes",
        lambda r: min(power_kept(x, "nobody", 0.0) for x in r["results"]),
        ">=",
        0.8,
    ),
    Claim(
        "gate, 1 % missing at random: share of the former power for gains above 2 points, fixed n, worst table",
        "missing_outcomes",
        lambda r: min(power_kept(x, "everybody", 0.01) for x in r["results"]),
        ">=",
        0.5,
    ),
    Claim(
        "14 task types: share of the gap closed on held-out tasks",
        "routing.json",
        lambda r: r["task_types"]["held_out_tasks"]["gap_closed"],
        ">=",
        0.20,
        0.40,
    ),
    Claim(
        "objectives, one look at fixed n: promoted though more than 1 point worse or dearer, worst table and setting",
        "objectives",
        lambda r: max(x["false_promotion"] for x in at_one_look(r)),
        "<=",
        0.05,
        0.015,
    ),
    Claim(
        "objectives, one look at fixed n: promoted though over budget or not better, worst table and setting",
        "objectives",
        lambda r: max(x["false_promotion_budget"] for x in at_one_look(r)),
        "<=",
        0.05,
        0.015,
    ),
    Claim(
        "objectives: coverage of the interval of cost, least of any table and setting",
        "objectives",
        lambda r: min(x["cost_covered"] for x in at_one_look(r)),
        ">=",
        0.93,
    ),
    Claim(
        "objectives: a cheaper model exactly at the margin, promoted, worst table",
        "objectives",
        lambda r: max(x["t"]["promoted_by_slack_in_points"]["0"] for x in measured(r, "cheaper") if "t" in x),
        "<=",
        0.05,
    ),
    Claim("14 task types: harm on a held-out type, worst", "routing.json", worst_harm, "<=", 0.02, 0.0),
    Claim(
        "MMLU pair, text policies as served: cost at 95 % of the strong model's quality, cross-fitted",
        "routing.json",
        lambda r: r["pairs"]["mmlu"]["cost_at_95_percent"],
        "<=",
        0.38,
    ),
    Claim(
        "GSM8K pair, text policies as served: the same, mean of five splits",
        "routing.json",
        lambda r: r["pairs"]["gsm8k"]["cost_at_95_percent"],
        "<=",
        0.65,
        0.50,
    ),
    Claim(
        "SWE-bench, repositories left out: over the mixing line, worst repository and budget",
        "routing.json",
        lambda r: r["repositories"]["worst"],
        ">=",
        -0.005,
    ),
    Claim(
        "cascade learned from a log, 95/10 verifier, independent errors, repositories left out: quality over the best single's",
        "cascades",
        lambda r: min(x["quality"] for x in cascades_of(r, [0.95, 0.1], "learned", 0.0)),
        ">=",
        1.0,
        1.02,
    ),
    Claim(
        "the same: cost over the best single model's",
        "cascades",
        lambda r: max(x["cost"] for x in cascades_of(r, [0.95, 0.1], "learned", 0.0)),
        "<=",
        0.40,
        0.30,
    ),
    Claim(
        "cascades learned from logs, 95/10 and 80/30, rho up to .5: over the mixing line, all repositories together, least",
        "cascades",
        lambda r: min(x["over_line"] for x in cascade_rows(r)),
        ">=",
        -0.005,
    ),
    Claim(
        "learned from a log of epsilon .1: trials",
        "learn_from_log.json",
        lambda r: min(x["trials"] for x in r["results"]),
        ">=",
        50,
    ),
    Claim(
        "learned from a log of epsilon .1: share of trials not worse than static over all tasks, worst checked table",
        "learn_from_log.json",
        lambda r: min(x["not_worse_over_all_tasks"] for x in checked_learners(r)),
        ">=",
        0.95,
    ),
    Claim(
        "learned from a log of epsilon .1: share of decisions above the floor, second best table",
        "learn_from_log.json",
        lambda r: second_best(acting_shares(r)),
        ">=",
        0.05,
    ),
    Claim("online: orders per table", "online_bandits.json", lambda r: r["orders"], ">=", 20),
    Claim(
        "online: tables on which the contextual bandit's regret is below UCB1's",
        "online_bandits.json",
        lambda r: len(r["contextual_is_lower_on"]),
        ">=",
        2,
    ),
    Claim(
        "online: tables on which the contextual bandit's regret is at most half of UCB1's",
        "online_bandits.json",
        lambda r: len(r["at_most_half_on"]),
        ">=",
        3,
    ),
    Claim(
        "decision overhead with a learned policy, worst run at normal priority: p99, ms",
        "decision_overhead.json",
        lambda r: r["worst_learned_p99_ms_at_normal_priority"],
        "<=",
        10.0,
        1.0,
    ),
    Claim(
        "log: decisions a second from 4 processes",
        "log_throughput.json",
        lambda r: r["decisions_per_second"],
        ">=",
        2000,
    ),
    Claim(
        "log: decisions lost when a process is killed", "log_throughput.json", lambda r: r["lost"] + r["twice"], "<=", 0
    ),
    Claim(
        "demo (synthetic): lower bound of the promoted policy's gain",
        "demo/gate_dr.json",
        lambda r: r["report"]["interval"]["low"] if r["promote"] else -1.0,
        ">=",
        1e-9,
    ),
    Claim(
        "demo (synthetic): share of decisions that the policy takes above the floor",
        "demo/offline_eval_dr.json",
        lambda r: r["acting_share"],
        ">=",
        0.05,
    ),
    Claim(
        "demo (synthetic): the gate's exit code without --allow-synthetic (3: refused)",
        "demo/refused.json",
        lambda r: r["exit_code"],
        ">=",
        3,
    ),
    Claim("demo: seconds", "demo/seconds.json", lambda r: r["seconds"], "<=", 120.0),
)


def check(claim: Claim, fresh: Path | None) -> tuple[bool | None, str]:
    """Whether it holds (None: there is no result) and a line about it."""
    found = next((f for f in (fresh and fresh / claim.file, COMMITTED / claim.file) if f and f.exists()), None)
    if found is None:
        return None, f"--      {claim.sentence}: no result; run {COMMANDS[claim.file]}"
    value = claim.value(read(found))
    held = claim.met(value, claim.must)
    goal = "" if claim.goal is None else f"; goal {claim.goal:g} {'met' if claim.met(value, claim.goal) else 'not met'}"
    origin = "measured now" if fresh and found.is_relative_to(fresh) else "committed"
    word = "holds" if held else "FAILS"
    return held, f"{word:<7} {claim.sentence}: {value:.4g} (must {claim.rule} {claim.must:g}{goal}; {origin})"


def matrix() -> str:
    lines = ["| claim | must | goal | command | artefact |", "|---|---|---|---|---|"]
    for claim in CLAIMS:
        goal = "" if claim.goal is None else f"{claim.rule} {claim.goal:g}"
        artefact = f"`{claim.file}` of the run"
        if not claim.file.startswith("demo/"):
            artefact = f"[{claim.file}](../benchmarks/sage/results/{claim.file})"
        lines.append(
            f"| {claim.sentence} | {claim.rule} {claim.must:g} | {goal} | `{COMMANDS[claim.file]}` | {artefact} |"
        )
    return "\n".join(lines)


def with_matrix(page: str) -> str:
    marked = re.compile(r"(<!-- claims -->\n).*?(<!-- end of claims -->)", re.DOTALL)
    return marked.sub(lambda found: f"{found[1]}{matrix()}\n{found[2]}", page)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, help="folder of results that were measured just now")
    parser.add_argument("--write", action="store_true", help="renew the table of docs/verification_matrix.md")
    options = parser.parse_args()
    if options.write:
        MATRIX.write_text(with_matrix(MATRIX.read_text(encoding="utf-8")), encoding="utf-8")
        return 0
    answers = [check(claim, options.results) for claim in CLAIMS]
    print("\n".join(line for _, line in answers))
    missing = [held is None for held, _ in answers]
    failed = sum(held is False for held, _ in answers) + (sum(missing) if options.results else 0)
    print(f"{sum(held is True for held, _ in answers)} hold, {failed} fail, {sum(missing)} without a result")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
