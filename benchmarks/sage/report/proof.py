"""Parts about the proof: false promotion and power of the gate, looking often, and how often intervals are right."""

from __future__ import annotations

from pathlib import Path

from promotion_tables import coverage_table, gate_table, known_table, looks_table, missing_table
from result_tables import ROOT, folder, read

from report.parts import Part, Source, gate_rows, measured, paragraphs, percent, prose, spread

KNOWN = Source("ope_coverage.json", "benchmarks/ope_coverage.py", ROOT / "benchmarks" / "results")


def gate_headline(results: Path) -> str:
    rows = gate_rows(results)
    everything = rows + gate_rows(results, "best")
    false, naive = ([row[key] for row in everything] for key in ("false_promotion", "naive_false_promotion"))
    return prose(f"""
        Over {len(rows)} tables of recorded outcomes the gate promotes at most {percent(max(false))} of the candidates that
        are not better; comparing means of matching rows promotes {percent(min(naive), 0)} to {percent(max(naive), 0)} of
        them. Of the better ones, the gate promotes {spread([100 * row["power"] for row in rows], 0)} % where the static
        table is drawn at random.
    """)


def gate(results: Path) -> str:
    found = read(results / "gate.json")
    rows, best = gate_rows(results), gate_rows(results, "best")
    protocol = found["protocol"]
    return paragraphs(
        prose(f"""
            A draw is a static table, a candidate that differs from it in some categories, and a log of {protocol["rows"]:,}
            decisions with {protocol["epsilon"]:g} of exploration. The truth is the mean reward over the whole outcome
            table. Half of the candidates are truly better.
        """),
        gate_table(found),
        "![False promotion of the gate and of the naive rule, by table](report/false_promotion.svg)",
        prose(f"""
            With a random static table the gate promotes {spread([row["power"] for row in rows])} of the better candidates.
            With the best single model as the static table, gains are small (median
            {spread([row["median_gain_of_better"] for row in best])}), and it promotes
            {spread([row["power"] for row in best])} of them. Power grows with the gain:
        """),
        "![Share of better candidates that are promoted, by their true gain](report/power_by_gain.svg)",
    )


def looks_headline(results: Path) -> str:
    often = [row["looks"]["not_better"] for row in folder(results / "looks") if "looks" in row]
    return prose(f"""
        At 20 looks the fixed-n interval promotes up to {percent(max(x["fixed"] for x in often))} of the candidates that are
        not better in at least one look, the anytime interval up to {percent(max(x["anytime"] for x in often))}.
    """)


def looks(results: Path) -> str:
    return paragraphs(
        prose(f"""
            A team looks at a growing log more than once. {looks_headline(results)} The anytime interval is the default of
            `sage prove`.
        """),
        looks_table(folder(results / "looks")),
    )


def missing(results: Path) -> str:
    return paragraphs(
        prose("""
            Outcomes that nobody reported count as the worst for the candidate and the best for the static table, so gaps
            cannot promote. They cost power.
        """),
        missing_table(folder(results / "missing_outcomes")),
    )


def coverage_headline(results: Path) -> str:
    rows = gate_rows(results) + gate_rows(results, "best")
    return prose(f"""
        Its intervals, nominally 95 %, contain the true difference in
        {spread([100 * row["coverage"] for row in rows], 1)} % of logs.
    """)


def coverage(results: Path) -> str:
    return paragraphs(
        "Coverage is the share of logs whose interval contains the true difference. On recorded outcomes:",
        coverage_table(read(results / "gate.json")),
        "![Coverage of the nominal 95 % interval on recorded outcomes](report/coverage.svg)",
        prose("""
            In simulated worlds whose truth is known exactly
            ([ope_coverage.json](../../benchmarks/results/ope_coverage.json)), doubly robust estimates with both intervals:
        """),
        known_table(read(ROOT / "benchmarks" / "results" / KNOWN.name)),
    )


GATE = measured("gate.json")
PARTS = (
    Part("False promotion and power of the gate", (GATE,), gate, gate_headline),
    Part("Looking often", (measured("looks"),), looks),
    Part("Outcomes that are missing", (measured("missing_outcomes"),), missing),
    Part("Coverage of the intervals", (GATE, KNOWN), coverage, coverage_headline),
)
