"""The group `sage log`, and its commands `erase` and `digest`."""

from __future__ import annotations

import argparse
import json
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from sage.cli.parser import Parser, accept, add_actions
from sage.cli.values import open_log, seconds
from sage.log.compaction import Records, count, digest, erase

COMMANDS = {
    "export": ("export_command.add_export", "write decisions with their outcomes to a JSONL file"),
    "outcome": ("route_commands.add_outcome", "report the outcome of a decision"),
    "erase": ("log_commands.add_erase", "erase decisions with their outcomes; keeps the log's digest"),
    "digest": ("log_commands.add_digest", "a hash of all records, the same before and after an erasure"),
    "import": ("import_commands.add_import", "make an outcome table of a published pack or a CSV file"),
    "info": ("import_commands.add_info", "what is in an outcome table"),
    "route": ("route_commands.add_route", "choose a model for one call, and log the choice"),
    "explain": (
        "explain_command.add_explain",
        "make a logged decision again, and say what other policies would have done",
    ),
}


def add_log(log: Parser) -> None:
    log.description = "The log of decisions and outcomes, and the outcome tables that are replayed into it."
    add_actions(log, COMMANDS)


def add_erase(erases: argparse.ArgumentParser) -> None:
    accept(erases, erases.add_argument("--task-id", metavar="ID", help="of this task"), "--task")
    erases.add_argument("--tenant", help="of this tenant")
    erases.add_argument("--before", type=seconds, metavar="T", help="made before this time: 2026-01-31, or seconds")
    erases.add_argument("--yes", action="store_true", help="do it; without this, only count")
    common(erases)
    erases.set_defaults(func=erase_records)


def add_digest(digests: argparse.ArgumentParser) -> None:
    digests.add_argument("--decisions", type=int, metavar="N", help="up to this number (default: all)")
    digests.add_argument("--outcomes", type=int, metavar="N", help="up to this number (default: all)")
    common(digests)
    digests.set_defaults(func=show_digest)


def common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--db", type=Path, default=Path("sage.db"), help="the log (default: sage.db)")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def erase_records(options: argparse.Namespace) -> int:
    wanted = {"task": options.task_id, "tenant": options.tenant, "before": options.before}
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
