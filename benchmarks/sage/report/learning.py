"""Parts about what is learned: policies from logs, bandits, cascades, and what matters for a learned policy."""

from __future__ import annotations

from pathlib import Path

from cascade_tables import cascade_coverage_table, cascades_table, line_table, refusals_table
from promotion_tables import confidence_table, learned_table
from result_tables import folder, numbers, read, table

from report.parts import Part, Source, measured, paragraphs, prose, spread

GOOD_VERIFIER = [0.95, 0.1]
BUDGET = "budget 0.35"


def doubly_robust(results: Path) -> list[dict]:
    return [row["learners"]["dr"] for row in read(results / "learn_from_log.json")["results"]]


def logs_headline(results: Path) -> str:
    rows = doubly_robust(results)
    return prose(f"""
        A policy learned from a log with 10 % of exploration is not worse than the table that wrote the log, on other
        tasks, in {spread([100 * row["not_worse"] for row in rows], 0)} % of trials, by table.
    """)


def logs(results: Path) -> str:
    found = read(results / "learn_from_log.json")
    rows = doubly_robust(results)
    return paragraphs(
        learned_table(found),
        "![Mean gain of policies that were learned from a log, on other tasks](report/learned_gain.svg)",
        prose(f"""
            The learner `dr` is not worse on held-out tasks in {spread([100 * row["not_worse"] for row in rows], 0)} % of trials,
            all tables together. A check counts only on tables with at least 300 held-out tasks.
        """),
        confidence_table(found),
    )


def bandits(results: Path) -> str:
    found = read(results / "online_bandits.json")
    lines = [
        [name, f"{row['rounds']:,}", str(row["models"])]
        + [f"{row['regret_per_round'][kind]['mean']:.4f}" for kind in ("ucb1", "contextual")]
        + [f"{row['share_of_ucb1']:.2f}", f"{row['orders_in_which_contextual_is_lower']} of {found['orders']}"]
        for name, row in found["tables"].items()
    ]
    head = [
        "table",
        "rounds",
        "models",
        "regret per round: UCB1",
        "contextual bandit",
        "ratio",
        "orders in which it is lower",
    ]
    return f"Regret is against the best model of every role and category in hindsight.\n\n{table(head, lines)}"


def at_budget(results: Path, verifier: list[float]) -> list[dict]:
    cells = [cell for cell in folder(results / "cascades") if "pooled" in cell and cell["verifier"][:2] == verifier]
    return [cell["pooled"]["learned"][BUDGET] for cell in cells]


def cascades_headline(results: Path) -> str:
    rows = at_budget(results, GOOD_VERIFIER)
    return prose(f"""
        A learned cascade with a verifier of 95 % true and 10 % false acceptance, on repositories left out, has
        {spread([100 * row["quality"] for row in rows], 1)} % of the quality of the best single model at
        {spread([row["cost"] for row in rows], 2)} of its cost.
    """)


def cascades(results: Path) -> str:
    cells = folder(results / "cascades")
    return paragraphs(
        prose("""
            Cascades were learned from logged ladders on SWE-bench and judged on repositories that were left out, over all
            of them together. Quality and cost are relative to the best single model; the mixing line is what choosing at
            random between two single models reaches at that cost. The verifier is simulated from recorded outcomes: its two
            numbers are the share of right and of wrong answers that it accepts, rho is how strongly its errors agree within
            a task.
        """),
        cascades_table(cells),
        "![Quality and cost of learned cascades relative to the best single model](report/cascades.svg)",
        prose("""
            How far chance alone takes a repository below the mixing line: the best cascades for all tasks, and tasks dealt
            at random to repositories of the sizes that there are. "Needed" is how many points above the line a cascade has
            to be, over all tasks, to be at most half a point below it in 95 % of such repositories; "below" is how often it
            is lower than that, and "below if on the line" how often it would be if it were exactly on the line.
        """),
        line_table(cells),
        prose("""
            The proof of a cascade, on 3,000 logs per cell whose truth is known. A gain is the difference from the ladder that
            wrote the log; trajectory IS is trajectory importance sampling:
        """),
        cascade_coverage_table(cells),
        prose("""
            The gate refuses a log whose weights are too skewed in expectation, over all steps that the log could have taken.
            Other rules on the same logs, with the 95/10 verifier; "others refused" is the share of logs that are refused
            though they suffice, of the value of another cascade and of the gain of one over the ladder:
        """),
        refusals_table(cells),
    )


def ablations(results: Path) -> str:
    texts = [
        prose("""
            Each row changes one factor of a policy that is learned from a log of 10 % exploration. Difference is the change
            in quality against the static table; its interval is of the first split. Bold rows are as shipped.
        """),
        "![Change in quality by factor, on LLMRouter](report/ablations.svg)",
    ]
    for path in sorted((results / "ablations").glob("*.json")):
        found = read(path)
        lines = [
            [
                row["factor"],
                f"**{row['level']}**" if row["as_shipped"] else row["level"],
                *numbers(row, "quality", "relative_cost"),
                f"{row['difference']:+.3f}",
                " to ".join(f"{x:+.3f}" for x in row["interval_of_first_split"]),
            ]
            for row in found["ablations"]
        ]
        head = ["factor", "level", "quality", "cost over the static table's", "difference", "interval"]
        split = found["suite"]["held_out_by"]
        texts.append(
            paragraphs(
                prose(f"""
                    **{path.stem.replace("_", " ")}** ({found["table"]["tasks"]:,} tasks, held out by {split}):
                """),
                table(head, lines),
            )
        )
    return "\n\n".join(texts)


PARTS = (
    Part("Learning from logs", (measured("learn_from_log.json"),), logs, logs_headline),
    Part("Learning online", (measured("online_bandits.json"),), bandits),
    Part("Verified cascades", (measured("cascades"),), cascades, cascades_headline),
)
ABLATIONS = Part("Ablations", (Source("ablations", "benchmarks/sage/ablations.py --data DATA"),), ablations)
