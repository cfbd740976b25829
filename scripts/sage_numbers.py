"""A claim about sage, and how it reads its number from a results file or from a folder of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

FORMER = {  # `train-dr` with a random static table, when it judged every model by itself
    "llmrouter": {"acting_share": 0.329, "mean_gain": 0.0560},
    "routellm": {"acting_share": 0.277, "mean_gain": 0.0450},
}


@dataclass(frozen=True)
class Claim:
    sentence: str
    file: str
    value: Callable[[dict], float]
    rule: str  # '<=' or '>='
    must: float
    goal: float | None = None
    missed: str = ""  # why it is known not to hold

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


def second_best(values: list[float]) -> float:
    return sorted(values)[-2]


def best_single(analysis: dict) -> dict:
    """Quality and cost of the best of the three local models."""
    return analysis["models"]["all"][analysis["learned"]["by text"]["best_single"]]


def worst_harm(results: dict) -> float:
    types = results["task_types"]
    return max(types["worst_harm"], -types["held_out_types_split_group"]["gain"])


def checked_learners(results: dict) -> list[dict]:
    """Of the tables with enough held-out tasks to tell; SWE-bench has too few."""
    return [row["learners"]["dr"] for row in results["results"] if row["checked"]]


def kept(results: dict, what: str) -> list[float]:
    """Over what it was before all candidates were judged together, of the tables that the former learner acted on."""
    rows = {row["table"]: row["learners"]["dr"] for row in results["results"] if row["setting"] == "random"}
    return [rows[name][what] / former[what] for name, former in FORMER.items()]


def rights(results: dict, *, drawn: bool) -> list[float]:
    """Of every table and setting with at least 10 choices at .9 or more, and of 300 or more tasks."""
    rows = [
        row for row in results["results"] if row["tasks"] >= 300 and row["table"].startswith(("drawn", "made")) == drawn
    ]
    cells = [row[setting] for row in rows for setting in ("random", "best")]
    return [cell["right"] for cell in cells if cell["sure"] >= 10]


def proofs(results: dict) -> list[dict]:
    """Of every verifier, exploration and target of the coverage of cascades of which a log was not refused."""
    cells = [row for part in results["results"] for row in part.get("targets", {}).values()]
    return [row for row in cells if row["refused"] < 1]


def acting_shares(results: dict) -> list[float]:
    """The largest of each table."""
    tables = {row["table"] for row in results["results"] if row["checked"]}
    rows = results["results"]
    return [max(row["learners"]["dr"]["acting_share"] for row in rows if row["table"] == name) for name in tables]
