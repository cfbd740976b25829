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
from report.page import pages as report_pages
from result_tables import DOCS, RESULTS, ROOT, folder, read, table

REAL_LOG = "real_log/verdict.json"


def filled(page: str, parts: dict[str, str]) -> str:
    for name, text in parts.items():
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        page = marked.sub(lambda found, text=text: f"{found[1]}{text}\n{found[2]}", page)
    return page


def promotion() -> dict[str, str]:
    learned = read("learn_from_log.json")
    return {
        "gate": promotion_tables.gate_table(read("gate.json")),
        "learned": promotion_tables.learned_table(learned),
        "confidence": promotion_tables.confidence_table(learned),
        "looks": promotion_tables.looks_table(folder("looks")),
        "missing": promotion_tables.missing_table(folder("missing_outcomes")),
    }


def objectives() -> dict[str, str]:
    found = folder("objectives")
    return {
        "objectives": objective_tables.objectives_table(found),
        "cheaper": objective_tables.cheaper_table(found),
        "looked": objective_tables.looked_table(found),
        "saved": objective_tables.saved_table(found),
    }


def exploration() -> dict[str, str]:
    power = folder("power")
    return {
        "any": exploration_tables.power_table(power, "any"),
        "shadow": exploration_tables.shadow_table(folder("shadow")),
        "plausible": exploration_tables.power_table(power, "plausible"),
        "plan": exploration_tables.plan_table(folder("plan")),
    }


def learned_cascades() -> dict[str, str]:
    found = folder("cascades")
    return {
        "cascades": cascade_tables.cascades_table(found),
        "cascade coverage": cascade_tables.cascade_coverage_table(found),
        "refusals": cascade_tables.refusals_table(found),
        "line by chance": cascade_tables.line_table(found),
    }


def local_models() -> dict[str, str]:
    found = read("local_matrix/analysis.json")
    verdict = read(REAL_LOG) if (RESULTS / REAL_LOG).exists() else None
    return {
        "categories": local_tables.category_table(found, table),
        "ladders": local_tables.cascade_table(found, table),
        "routing": local_tables.routing_table(found, table),
        "real log": local_tables.verdict_table(verdict, table),
    }


def serve() -> dict[str, str]:
    return {
        "latency": serve_tables.latency_table(read("serve_latency.json")["runs"]),
        "conformance": serve_tables.conformance_table(read("serve_conformance.json")),
        "clients": serve_tables.clients_table(read("serve_clients.json")),
    }


def estimators() -> dict[str, str]:
    coverage = read(ROOT / "benchmarks" / "results" / "ope_coverage.json")
    return {
        "known": promotion_tables.known_table(coverage),
        "real": promotion_tables.coverage_table(read("gate.json")),
    }


PAGES = {  # of docs/sage, with their tables by name
    "prove.md": promotion,
    "objectives.md": objectives,
    "exploration.md": exploration,
    "learned_cascades.md": learned_cascades,
    "local_models.md": local_models,
    "serve.md": serve,
    "estimators.md": estimators,
}


def main() -> int:
    pages = {DOCS / name: filled((DOCS / name).read_text(), tables()) for name, tables in PAGES.items()}
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
