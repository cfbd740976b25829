"""`sage serve`."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack, closing
from pathlib import Path

from sage.log.database import DatabaseError, Identity, WrongFileError
from sage.log.decision_log import DecisionLog

NEEDS = ("starlette", "uvicorn", "httptools", "aiohttp")


def add_serve(serve: argparse.ArgumentParser) -> None:
    serve.add_argument("--models", type=Path, default=Path("models.yaml"), help="the table (default: models.yaml)")
    serve.add_argument("--db", type=Path, default=Path("sage.db"), help="the log (default: sage.db)")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen at (default: 127.0.0.1)")
    serve.add_argument("--port", type=int, default=8484, help="(default: 8484)")
    serve.add_argument("--workers", type=int, default=1, help="processes that share the port (default: 1)")
    serve.add_argument(
        "--keys", type=Path, metavar="FILE", help="of `sage keys` (default: sage-keys.json if it is there)"
    )
    serve.set_defaults(func=serve_command)


def opened_log(db: Path) -> Identity | None:
    """Opens or starts the log for all workers, which then refuse another file in its place."""
    with closing(DecisionLog(db)) as log:
        try:
            log.file.open()
        except WrongFileError:
            raise
        except DatabaseError:  # of the disk, which workers warn about
            return None
        return log.file.identity


def serve_command(options: argparse.Namespace) -> int:
    from importlib.util import find_spec

    missing = [name for name in NEEDS if find_spec(name) is None]
    if missing:
        raise ValueError(f"sage serve needs {', '.join(missing)}: pip install 'sage-routing[serve]'")
    if options.workers < 1:
        raise ValueError(f"--workers {options.workers} must be 1 or more")
    from sage.orchestrator.models_file import ModelsFile
    from sage.serve.access.access import Access
    from sage.serve.model_names import told_names
    from sage.serve.places import Places
    from sage.serve.server import Options, listen, serve_here, serve_with_workers
    from sage.serve.state import check_upstreams, offers, read_targets, start_local_models

    with ExitStack() as running:
        table = ModelsFile.read(options.models)
        check_upstreams(table)
        Access.open(options.host, options.keys)  # says now what is wrong
        listening = running.enter_context(listen(options.host, options.port))
        local = start_local_models(table, running)
        targets = read_targets(table, local)
        host, port = listening.getsockname()[:2]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        print(f"sage serves {url} ({offers(targets)})")
        print(f"  {told_names(table)}")
        print(f"  for clients: OPENAI_BASE_URL={url}/v1, ANTHROPIC_BASE_URL={url}", flush=True)
        given = Options(Places(options.models, options.db, opened_log(options.db)), options.host, options.keys, local)
        if options.workers == 1:
            serve_here(given, listening)
        else:
            serve_with_workers(given, listening, options.workers)
    print("stopped", file=sys.stderr)
    return 0
