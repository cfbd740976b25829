"""`sage run`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add_run(run: argparse.ArgumentParser) -> None:
    run.add_argument("task", help='what to do, such as "add a --json flag to cli.py and a test"')
    run.add_argument("--repo", type=Path, default=Path(), help="the folder of the project (default: this one)")
    run.add_argument("--models", type=Path, default=Path("models.yaml"), help="the table (default: models.yaml)")
    run.add_argument("--db", type=Path, default=Path("sage.db"), help="the log (default: sage.db)")
    run.add_argument("--test", default="python -m pytest -q", help="what tells whether it works (default: %(default)s)")
    run.add_argument("--budget-usd", type=float, metavar="X", help="that all calls together may cost")
    run.add_argument("--max-steps", type=int, default=40, metavar="N", help="calls of models (default: 40)")
    run.add_argument("--trace", type=Path, metavar="FILE", help="write what happened as lines of JSON")
    result = run.add_mutually_exclusive_group()
    result.add_argument("--apply", action="store_true", help="change the repository if the run succeeds")
    result.add_argument("--patch", type=Path, metavar="FILE", help="write the patch to a file")
    run.add_argument(
        "--unsafe", action="store_true", help="run commands of the models on this machine, not in a sandbox"
    )
    run.add_argument(
        "--may-change-tests",
        action="store_true",
        help="count the tests as the models leave them, not as they were; no quality is logged then",
    )
    run.set_defaults(func=run_command)


def run_command(options: argparse.Namespace) -> int:
    from importlib.util import find_spec

    if find_spec("aiohttp") is None:
        raise ValueError("sage run needs aiohttp: pip install 'sage-routing[serve]'")
    from sage.agent.repository import apply_changes
    from sage.agent.running import Run, execute
    from sage.files import write_text

    names = ("task", "repo", "models", "db", "test", "budget_usd", "max_steps", "trace", "unsafe", "may_change_tests")
    run = Run(**{name: getattr(options, name) for name in names})
    if options.unsafe:
        tell("warning: --unsafe runs commands of the models on this machine, with all your rights")
    found = execute(run, tell)
    if found.patch and options.patch is None:
        print(found.patch, end="", flush=True)
    tell(f"sage run: {found.ended}")
    if not found.changes:
        return 0 if found.succeeded else 1
    if options.patch is not None:
        write_text(options.patch, found.patch)
        tell(f"the patch is in {options.patch}")
    elif options.apply and found.succeeded:
        apply_changes(options.repo, found.begun_with, found.changes)
        tell(f"applied to {options.repo.resolve()}: {', '.join(found.changes)}")
    elif options.apply:
        tell("nothing was applied, as the run did not succeed: the patch is above")
    else:
        tell("nothing was applied: add --apply, or give the patch to `git apply`")
    return 0 if found.succeeded else 1


def tell(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
