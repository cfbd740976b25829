"""`sage promote`, `sage rollback` and `sage status`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from sage.pipeline.choices import DATABASE, MODELS_FILE, PROOF


def add_promote(promote: argparse.ArgumentParser) -> None:
    promote.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="a policy that `sage prove` has promoted")
    add_places(promote)
    promote.add_argument(
        "--proof", type=Path, help=f"of this very file (default: its gate record, else CHECKPOINT{PROOF})"
    )
    promote.add_argument(
        "--allow-synthetic", action="store_true", help="take a proof on synthetic rows; every decision says so"
    )
    promote.set_defaults(func=run_promote)


def add_rollback(rollback: argparse.ArgumentParser) -> None:
    add_log(rollback)
    rollback.add_argument("--cascades", action="store_true", help="of cascades, not of single decisions")
    rollback.add_argument("--to-table", action="store_true", help="to models.yaml, whatever was promoted before")
    rollback.set_defaults(func=run_rollback)


def add_status(status: argparse.ArgumentParser) -> None:
    add_places(status)
    status.set_defaults(func=run_status)


def add_places(parser: argparse.ArgumentParser) -> None:
    add_log(parser)
    parser.add_argument("--models", type=Path, default=MODELS_FILE, help=f"the table (default: {MODELS_FILE})")


def add_log(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--db", type=Path, default=DATABASE, help=f"the log (default: {DATABASE})")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run_promote(options: argparse.Namespace) -> int:
    from sage.pipeline.promoting import promote

    names = ("db", "models", "proof", "allow_synthetic")
    done = promote(options.checkpoint, **{name: getattr(options, name) for name in names})
    print(json.dumps(done.to_json()) if options.json else done)
    return 0


def run_rollback(options: argparse.Namespace) -> int:
    from sage.orchestrator.installed_policies import CASCADES, DECISIONS
    from sage.pipeline.promoting import rollback

    done = rollback(db=options.db, of=CASCADES if options.cascades else DECISIONS, to_table=options.to_table)
    print(json.dumps(done.to_json()) if options.json else done)
    return 0


def run_status(options: argparse.Namespace) -> int:
    from sage.pipeline.status import status

    found = status(db=options.db, models=options.models)
    print(json.dumps(found.to_json()) if options.json else found)
    return 0
