"""`sage lab frontier`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from sage.cli.train_commands import ROWS, add_common
from sage.cli.values import selection_of
from sage.files import write_json, write_text

SUFFIXES = (".html", ".svg", ".json")


def add_frontier(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", required=True, type=Path, help=ROWS.format(""))
    parser.add_argument("--out", type=Path, help="a page (.html), a picture (.svg) or the numbers (.json)")
    add_common(parser)
    parser.set_defaults(func=run_frontier)


def run_frontier(arguments: argparse.Namespace) -> int:
    from rl_base.evaluation.report import table as aligned
    from sage.pipeline.inputs import find_models_file, objective_of, read_decisions, static_of
    from sage.proof.frontier import cost_quality_frontier
    from sage.report.frontier_page import HEAD, cells, render_page, render_svg

    out = arguments.out
    if out is not None and out.suffix not in SUFFIXES:
        raise ValueError(f"out={str(out)!r} must end with {', '.join(SUFFIXES)}: the suffix says what is written")
    chosen = read_decisions(arguments.data, selection_of(arguments))
    data = chosen.rows
    found = find_models_file(arguments.models, data.models)
    frontier = cost_quality_frontier(data, static=static_of(found), objective=objective_of(found), seed=arguments.seed)
    values = frontier.to_json()
    if out is not None and out.suffix == ".json":
        write_json(out, values)
    elif out is not None:
        write_text(out, render_page(values) if out.suffix == ".html" else render_svg(values) + "\n")
    if arguments.json:
        print(json.dumps(values))
        return 0
    points = (values["static"], *values["objectives"], *values["models"], *values["curve"])
    print("\n".join(aligned([HEAD, *map(cells, points)])))
    print(f"{values['num_rows']:,} {values['data_source']} rows of {values['num_tasks']:,} tasks", end="")
    print(f", {values['left_out_rows']:,} left out without quality or cost" if values["left_out_rows"] else "")
    if chosen.selection:
        print(f"rows {chosen.selection}")
    print(f"no evidence: {values['note']}" if not frontier.evidence else "only `sage prove` proves")
    if out is not None:
        print(f"wrote {out}")
    return 0
