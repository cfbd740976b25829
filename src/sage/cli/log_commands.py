"""`sage log erase` and `sage log digest`."""

from __future__ import annotations

import argparse
import json
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from sage.cli.values import open_log, seconds
from sage.log.compaction import Records, count, digest, erase


def add_commands(commands: argparse._SubParsersAction) -> None:
    log = commands.add_parser("log", help="erase records of the log; its digest")
    actions = log.add_subparsers(dest="action", required=True, metavar="ACTION")

    erases = actions.add_parser("erase", help="erase decisions with their outcomes; keeps the log's digest")
    erases.add_argument("--task", metavar="ID", help="of this task")
    erases.add_argument("--tenant", help="of this tenant")
    erases.add_argument("--before", type=seconds, metavar="T", help="made before this time: 2026-01-31, or seconds")
    erases.add_argument("--yes", action="store_true", help="do it; without this, only count")
    common(erases)
    erases.set_defaults(func=erase_records)

    digests = actions.add_parser("digest", help="a hash of all records, the same before and after an erasure")
    digests.add_argument("--decisions", type=int, metavar="N", help="up to this number (default: all)")
    digests.add_argument("--outcomes", type=int, metavar="N", help="up to this number (default: all)")
    common(digests)
    digests.set_defaults(func=show_digest)


def common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--db", type=Path, default=Path("sage.db"), help="the log (default: sage.db)")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def erase_records(options: argparse.Namespace) -> int:
    wanted = {"task": options.task, "tenant": options.tenant, "before": options.before}
    with closing(open_log(options.db)) as log:
        if not options.yes:
            found = count(log, **wanted)
            hint = "--yes erases them" if any(found) else "there is nothing to erase"
            told = json.dumps(found._asdict() | {"done": False}) if options.json else f"{found}; {hint}"
            print(told)
            return 0
        done = erase(log, **wanted)
    if options.json:
        print(json.dumps(done.records._asdict() | {"complete": done.complete, "done": True}))
        return 0
    print(f"erased {done.records}{'; their hashes stay' if any(done.records) else ''}")
    if not done.complete:
        print("another process reads the log, whose files still hold old pages: run this again once it is done")
    return 0


def show_digest(options: argparse.Namespace) -> int:
    with closing(open_log(options.db)) as log:
        found = digest(log, options.decisions, options.outcomes)
    text = f"{found.sha256}  {Records(found.decisions, found.outcomes)}"
    print(json.dumps(asdict(found)) if options.json else text)
    return 0
