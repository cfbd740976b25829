"""Parts about language models on this machine, and the log of decisions that they served live."""

from __future__ import annotations

from pathlib import Path

import local_tables
from result_tables import read, table

from report.parts import Part, Source, paragraphs, prose, spread

LOCAL, REAL_LOG = "local_matrix/analysis.json", "real_log/verdict.json"

MATRIX_RUN = "benchmarks/sage/local_matrix.py"

MATRIX = Source(LOCAL, f"{MATRIX_RUN} run && {MATRIX_RUN} store && benchmarks/sage/local_analysis.py")


def costs_of_good_cascades(analysis: dict) -> list[float]:
    """Of learned cascades that are at least as good as the best single model, over that model's cost."""
    best = analysis["models"]["all"][analysis["learned"]["by category"]["best_single"]]
    return [row["cpu_s"] / best["cpu_s"] for row in analysis["learned"].values() if row["quality"] >= best["quality"]]


def local_headline(results: Path) -> str:
    costs = costs_of_good_cascades(read(results / LOCAL))
    if not costs:
        return "On three language models that run on one machine, no learned cascade is as good as the best of them."
    return prose(f"""
        On three language models that run on one machine, learned cascades are not below the best of them at
        {spread(costs, 2)} of its processor time.
    """)


def local(results: Path) -> str:
    found = read(results / LOCAL)
    return paragraphs(
        prose("""
            Three small models answered tasks with exact verifiers, greedily, with one thread each ([local
            models](../../docs/sage/local_models.md)). Right answers and processor seconds per task:
        """),
        local_tables.category_table(found, table),
        prose("""
            A ladder asks the next model if the verifier rejects an answer. Learned cascades choose the first model and when
            to stop, from other tasks only:
        """),
        local_tables.cascade_table(found, table),
        "![Quality and processor time of models, ladders and learned cascades](report/local_models.svg)",
        "Without a verdict on the answer, one model per task:",
        local_tables.routing_table(found, table),
    )


def real_log(results: Path) -> str:
    return paragraphs(
        prose("""
            Policies were learned from decisions that `sage serve` made live and put before the gate. The matrix of outcomes
            tells what is true.
        """),
        local_tables.verdict_table(read(results / REAL_LOG), table),
    )


PARTS = (
    Part("Real models on one machine", (MATRIX,), local, local_headline),
    Part(
        "A real log",
        (Source(REAL_LOG, "benchmarks/sage/real_log.py && benchmarks/sage/real_log_verdict.py"),),
        real_log,
    ),
)
