"""Writes the tables of docs/sage and its report from the result files; with --check, exits with 1 if a page does not match them.

.venv/bin/python benchmarks/sage/render_docs.py [--check]
"""

from __future__ import annotations

import re
import sys

import cascade_tables
import exploration_tables
import local_tables
import objective_tables
import promotion_tables
import serve_tables
import sim_tables
from report.page import pages as report_pages
from result_tables import DOCS, RESULTS, ROOT, folder, read, table

REAL_LOG = "real_log/verdict.json"


def filled(page: str, parts: dict[str, str]) -> str:
    for name, text in parts.items():
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        page = marked.sub(lambda found, text=text: f"{found[1]}{text}\n{found[2]}", page)
    return page


def main() -> int:
    gate, learned = read("gate.json"), read("learn_from_log.json")
    coverage = read(ROOT / "benchmarks" / "results" / "ope_coverage.json")
    objectives = folder("objectives")
    sim_models = read("sim_models.json")
    local = read("local_matrix/analysis.json")
    verdict = read(REAL_LOG) if (RESULTS / REAL_LOG).exists() else None
    parts = {
        "from_log_to_promotion.md": {
            "gate": promotion_tables.gate_table(gate),
            "learned": promotion_tables.learned_table(learned),
            "confidence": promotion_tables.confidence_table(learned),
            "looks": promotion_tables.looks_table(folder("looks")),
            "missing": promotion_tables.missing_table(folder("missing_outcomes")),
        },
        "objectives.md": {
            "objectives": objective_tables.objectives_table(objectives),
            "cheaper": objective_tables.cheaper_table(objectives),
            "looked": objective_tables.looked_table(objectives),
            "saved": objective_tables.saved_table(objectives),
        },
        "exploration.md": {
            "any": exploration_tables.power_table(folder("power"), "any"),
            "shadow": exploration_tables.shadow_table(folder("shadow")),
            "plausible": exploration_tables.power_table(folder("power"), "plausible"),
            "plan": exploration_tables.plan_table(folder("plan")),
        },
        "learned_cascades.md": {
            "cascades": cascade_tables.cascades_table(folder("cascades")),
            "cascade coverage": cascade_tables.cascade_coverage_table(folder("cascades")),
            "refusals": cascade_tables.refusals_table(folder("cascades")),
            "line by chance": cascade_tables.line_table(folder("cascades")),
        },
        "sim.md": {
            "ppo": sim_tables.sim_table(),
            "models": sim_tables.models_table(sim_models),
            "levels": sim_tables.levels_table(sim_models),
        },
        "local_models.md": {
            "categories": local_tables.category_table(local, table),
            "ladders": local_tables.cascade_table(local, table),
            "routing": local_tables.routing_table(local, table),
            "real log": local_tables.verdict_table(verdict, table),
        },
        "serve.md": {
            "latency": serve_tables.latency_table(read("serve_latency.json")["runs"]),
            "conformance": serve_tables.conformance_table(read("serve_conformance.json")),
        },
        "estimators.md": {
            "known": promotion_tables.known_table(coverage),
            "real": promotion_tables.coverage_table(gate),
        },
    }
    pages = {DOCS / name: filled((DOCS / name).read_text(), texts) for name, texts in parts.items()}
    pages |= report_pages()
    if "--check" in sys.argv[1:]:
        stale = [path.name for path, page in pages.items() if not path.exists() or path.read_text() != page]
        print("\n".join(f"{name} does not match the results: run without --check" for name in stale) or "pages match")
        return int(bool(stale))
    for path, page in pages.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
