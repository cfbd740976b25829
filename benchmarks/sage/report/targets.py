"""Every target that is missed, or not measured, by name."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from result_tables import ROOT, read, table
from sim_tables import sampled_scores

from report.learning import doubly_robust
from report.local import LOCAL, REAL_LOG, costs_of_good_cascades
from report.parts import paragraphs, prose
from report.serving import LATENCY
from rl_training.evaluation import iqm

sys.path.append(str(ROOT / "scripts"))
from check_claims import read as read_claims
from sage_claims import CLAIMS
from sage_misses import MISSES
from sage_numbers import Claim


@dataclass(frozen=True)
class Target:
    """A number with up to three thresholds, of which the first must be reached."""

    sentence: str
    source: str
    value: Callable[[Path], float]
    rule: str
    thresholds: dict[str, float]

    def reached(self, value: float, threshold: float) -> bool:
        return value <= threshold if self.rule == "<=" else value >= threshold

    def row(self, results: Path) -> list[str]:
        wanted = ", ".join(f"{name} {self.rule} {threshold:g}" for name, threshold in self.thresholds.items())
        if not (results / self.source).exists():
            return [self.sentence, wanted, "not measured", "unknown"]
        value = self.value(results / self.source)
        missed = [name for name, threshold in self.thresholds.items() if not self.reached(value, threshold)]
        shown = f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
        return [self.sentence, wanted, shown, ", ".join(missed) or "none"]


def levels(must: float, target: float, goal: float) -> dict[str, float]:
    return {"must": must, "target": target, "goal": goal}


def best_run(path: Path, value: Callable[[dict], float], best: Callable[..., float] = min) -> float:
    """Of all runs in the file, as the machine is shared and load only makes runs slower."""
    return best(value(run) for run in read(path)["runs"])


def answered_with_two_workers(run: dict) -> float:
    return run["loaded"]["sage, 2 workers"]["requests_per_s"]


TARGETS = (
    Target(
        "learned from a log with .1 of exploration: share of the gain with all outcomes known, best table",
        "learn_from_log.json",
        lambda f: max(row["share_of_full_information_gain"] or 0.0 for row in doubly_robust(f.parent)),
        ">=",
        {"goal": 0.9},
    ),
    Target(
        "proxy: latency added to a call, p50, ms",
        LATENCY,
        lambda f: best_run(f, lambda r: r["whole"]["sage"]["added_ms"]["p50"]),
        "<=",
        levels(2, 1, 0.6),
    ),
    Target(
        "proxy: the same, p99",
        LATENCY,
        lambda f: best_run(f, lambda r: r["whole"]["sage"]["added_ms"]["p99"]),
        "<=",
        levels(6, 3, 1.5),
    ),
    Target(
        "proxy: added to the first byte of a stream, p50, ms",
        LATENCY,
        lambda f: best_run(f, lambda r: r["stream"]["sage"]["added_first_byte_ms"]["p50"]),
        "<=",
        levels(2.5, 1.2, 0.7),
    ),
    Target(
        "proxy: CPU per request, ms",
        LATENCY,
        lambda f: best_run(f, lambda r: r["whole"]["sage"]["cpu_ms_per_request"]),
        "<=",
        levels(2, 1, 0.5),
    ),
    Target(
        "proxy: requests a second, two workers, all logged",
        LATENCY,
        lambda f: best_run(f, answered_with_two_workers, max),
        ">=",
        levels(500, 1200, 2500),
    ),
    Target(
        "budgets: overrun, worst scenario",
        "tenant_budgets.json",
        lambda f: max(row["overrun"] for row in read(f)["scenarios"].values()),
        "<=",
        levels(0.01, 0.004, 0.002),
    ),
    Target(
        "local models: cost of a cascade not below the best single model, over that model's",
        LOCAL,
        lambda f: min(costs_of_good_cascades(read(f)), default=math.inf),
        "<=",
        levels(1, 0.8, 0.65),
    ),
    Target("local models: tasks that all models answered", LOCAL, lambda f: read(f)["tasks"], ">=", {"must": 1000}),
    Target("real log: live decisions", REAL_LOG, lambda f: read(f)["decisions"], ">=", {"must": 3000, "target": 10000}),
    Target(
        "simulator: score of PPO on unseen tasks",
        "sim_ppo",
        lambda f: iqm([row["normalised"] for row in sampled_scores("main", f)]),
        ">=",
        {"target": 0.7},
    ),
)


SCOPE = """
- Unless a part says "real log", logs are drawn from recorded outcomes. They have no drift, no users who react, and no
  gaps but those that were made.
- The verifiers of the cascades on SWE-bench are simulated from recorded outcomes. Those of the local models are exact,
  which verifiers of real work are not.
- Latency and throughput were measured on two cores that other programs shared. The files name the load.
- There is no canary and no ramp: a policy serves all calls or none.
"""


def missed_musts(results: Path) -> str:
    """Returns a sentence and a list of the claims whose must is missed."""
    return paragraphs(
        prose("""
            These claims are missed. They are checked together with those that hold ([verification
            matrix](../verification_matrix.md)); the appendix says what is known of the causes:
        """),
        "\n".join(f"- {missed_line(claim, results)}" for claim in MISSES),
    )


def missed_line(claim: Claim, results: Path) -> str:
    sentence, threshold, shown, _ = claim_row(claim, claim.must, "must", results)
    return f"{sentence}: {shown} ({threshold})"


def misses(results: Path) -> str:
    """Returns tables of all claims and targets that miss a must or a goal, with what is known of the cause."""
    known = [claim_row(claim, claim.must, "must", results) for claim in MISSES]
    goals = [claim_row(claim, claim.goal, "goal", results) for claim in CLAIMS if misses_goal(claim, results)]
    rows = [row for row in (target.row(results) for target in TARGETS) if row[-1] != "none"]
    return paragraphs(
        "### Claims that are missed",
        "These are checked together with the claims that hold ([verification matrix](../../docs/verification_matrix.md)):",
        table(["wanted", "threshold", "measured", "what is known"], known + goals),
        "### Targets of learning, serving, local models and the simulator",
        prose(f"""
            {len(TARGETS) - len(rows)} of {len(TARGETS)} numbers reach all their thresholds. These do not, or were not
            measured; of files with several runs the best one counts:
        """),
        table(["wanted", "thresholds", "measured", "missed"], rows),
    )


def measured(claim: Claim, results: Path) -> float | None:
    place = results / claim.file
    return claim.value(read_claims(place)) if place.exists() else None


def misses_goal(claim: Claim, results: Path) -> bool:
    found = measured(claim, results)
    return claim.goal is not None and found is not None and not claim.met(found, claim.goal)


def claim_row(claim: Claim, threshold: float | None, level: str, results: Path) -> list[str]:
    found = measured(claim, results)
    shown = "not measured" if found is None else f"{found:.4g}"
    return [claim.sentence, f"{level} {claim.rule} {threshold:g}", shown, claim.missed or "The must holds."]
