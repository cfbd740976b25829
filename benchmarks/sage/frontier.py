"""The picture of quality over cost on sage's first page: real outcomes of LLMRouter's pack, replayed choices.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/sage/frontier.py [--data DIR]

With --data, 40,000 decisions are replayed over the pack (30 % explore around the best single model), and the frontier is
estimated as `sage lab frontier` does it, and stored; without, the picture is drawn from what is stored.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pools import FILES

from sage.files import write_json, write_text
from sage.outcomes.importers import import_table
from sage.proof.frontier import cost_quality_frontier
from sage.report.frontier_page import render_svg
from sage.rl.logging_policies import Exploring
from sage.rl.replay import best_first, replay

RESULT = Path(__file__).parent / "results" / "frontier.json"
PICTURE = Path(__file__).parents[2] / "docs" / "sage" / "frontier.svg"
PACK, ROWS, SHARE = "llmrouter", 40_000, 0.3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of the published outcome packs")
    arguments = parser.parse_args()
    if arguments.data is not None:
        write_json(RESULT, measured(arguments.data))
    found = json.loads(RESULT.read_text(encoding="utf-8"))
    write_text(PICTURE, render_svg(found) + "\n")
    print(f"{PICTURE}: {found['num_rows']:,} {found['data_source']} rows of {found['num_tasks']:,} tasks of {PACK}")


def measured(data: Path) -> dict:
    table = import_table(PACK, data / FILES[PACK])
    static = best_first(table)
    rows = replay(table, Exploring(static, SHARE), ROWS)
    return cost_quality_frontier(rows, static=static).to_json() | {"table": PACK, "licence": table.licence}


if __name__ == "__main__":
    main()
