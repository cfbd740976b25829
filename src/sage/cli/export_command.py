"""`sage log export`."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path

from sage.cli.parser import accept
from sage.cli.values import NO_LOG, add_selection, open_log, say, seconds, selection_of
from sage.log.records import DATA_SOURCES
from sage.pipeline.choices import DATABASE


def add_export(export: argparse.ArgumentParser) -> None:
    out = export.add_argument("--out", required=True, type=Path, help="the file to write")
    accept(export, out, "--output")
    export.add_argument("--db", default=str(DATABASE), help=f"the log (default: {DATABASE})")
    export.add_argument(
        "--data-source", choices=DATA_SOURCES, help="default: real, replay or synthetic, the first with 50 rows"
    )
    export.add_argument("--session", help="only this session's decisions")
    export.add_argument("--since", type=seconds, metavar="T", help="only from this time on: 2026-01-31, or seconds")
    export.add_argument(
        "--until", type=seconds, metavar="T", help="only before this time, because later outcomes may still be missing"
    )
    export.add_argument("--complete", action="store_true", help="an outcome without cost or latency counts as missing")
    export.add_argument(
        "--cascades", action="store_true", help="write cascades, one episode a line, and no single decisions"
    )
    add_selection(export)
    export.add_argument("--json", action="store_true", help="one JSON object")
    export.set_defaults(func=export_log)


def export_log(arguments: argparse.Namespace) -> int:
    from sage.evidence.cascades.cascade_export import export_cascades
    from sage.evidence.export_dataset import export

    wanted = {name: getattr(arguments, name) for name in ("data_source", "session", "since", "until")}
    wanted["selection"] = selection_of(arguments)
    if arguments.cascades and arguments.complete:
        raise ValueError(
            "--complete is for single decisions: of cascades, an attempt without a cost always counts as missing"
        )
    with closing(open_log(arguments.db, NO_LOG)) as log:
        if arguments.cascades:
            written = vars(export_cascades(log, arguments.out, **wanted))
        else:
            written = vars(export(log, arguments.out, **wanted, complete=arguments.complete))
    say(arguments, {"written_to": str(arguments.out)} | written)
    return 0
