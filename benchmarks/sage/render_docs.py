"""Writes the tables of docs/sage and its report from the result files; with --check, exits with 1 if a page does not match them.

.venv/bin/python benchmarks/sage/render_docs.py [--check]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import promotion_tables
import serve_tables
from report import learning, proof
from report.page import pages as report_pages
from result_tables import DOCS, RESULTS, read


def filled(page: str, parts: dict[str, str]) -> str:
    for name, text in parts.items():
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        page = marked.sub(lambda found, text=text: f"{found[1]}{text}\n{found[2]}", page)
    return page


def clients() -> dict[str, str]:
    return {
        "conformance": serve_tables.conformance_table(read("serve_conformance.json")),
        "clients": serve_tables.clients_table(read("serve_clients.json")),
    }


def listed(*headlines: Callable[[Path], str]) -> str:
    """Returns sentences of the report as a list, or one of them as a paragraph."""
    told = [headline(RESULTS) for headline in headlines]
    return "\n".join(f"- {text}" for text in told) if len(told) > 1 else told[0]


def prove() -> dict[str, str]:
    return {"gate": listed(proof.gate_headline, proof.coverage_headline, proof.looks_headline)}


def learn() -> dict[str, str]:
    return {"learned": listed(learning.logs_headline)}


def learned_cascades() -> dict[str, str]:
    return {"cascades": listed(learning.cascades_headline)}


def estimators() -> dict[str, str]:
    return {"real": promotion_tables.coverage_table(read("gate.json"))}


PAGES = {  # of docs/sage, with their tables by name
    "learn.md": learn,
    "prove.md": prove,
    "learned_cascades.md": learned_cascades,
    "clients.md": clients,
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
