"""`sage sim generate` and `sage sim audit`: make verified tasks, and prove those of a manifest again."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from sage.cli.parser import accept

SANDBOXES = "zygote, bubblewrap, docker or podman"
STARTING = "starting sandboxes"  # the first of which may have to be built


def add_generate(generate: argparse.ArgumentParser) -> None:
    generate.add_argument("--count", type=int, default=1000, help="tasks (1,000)")
    generate.add_argument("--out", type=Path, required=True, help="JSONL; compressed if the name ends in .gz")
    generate.add_argument("--seed", type=int, default=0, help="of what is left to chance (0)")
    generate.add_argument("--sources", default="all", help="all, packages, families, stdlib, or names")
    generate.add_argument("--second", default="", metavar="SANDBOX", help="a kind of sandbox that checks 2 %% again")
    add_sandbox_options(generate)
    generate.add_argument("--json", action="store_true", help="print the header of the manifest")
    generate.set_defaults(func=generate_tasks)


def add_audit(audit: argparse.ArgumentParser) -> None:
    audit.add_argument("--tasks", type=Path, help="a manifest; the one that comes with the package if not given")
    limit = audit.add_argument("--limit", type=int, help="how many tasks, at random; all if not given")
    accept(audit, limit, "--sample")
    add_sandbox_options(audit)
    audit.set_defaults(func=audit_tasks)


def add_sandbox_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workers", type=int, default=2, help="sandboxes at a time")
    parser.add_argument("--sandbox", default="auto", metavar="KIND", help=f"auto, {SANDBOXES} (auto)")
    parser.add_argument("--docker", dest="sandbox", action="store_const", const="docker", help=argparse.SUPPRESS)


def generate_tasks(arguments: argparse.Namespace) -> int:
    import json

    from sage.sandbox.choose import open_backend
    from sage.sandbox.pool import open_backends
    from sage.settings import cache_folder
    from sage.sim.tasks.generate import generate
    from sage.sim.tasks.sources import Sources

    with (
        progress_bar("generate") as show,
        open_backends(arguments.workers, arguments.sandbox) as backends,
        ExitStack() as stack,
    ):
        second = stack.enter_context(closing(open_backend(arguments.second))) if arguments.second else None
        manifest = generate(
            arguments.count,
            seed=arguments.seed,
            backends=backends,
            sources=Sources(cache_folder()),
            journal=arguments.out.with_name(f"{arguments.out.name}.partial"),
            chosen=arguments.sources,
            second=second,
            progress=lambda done, units, tasks: show(done, units, f"{tasks} tasks"),
        )
    manifest.save(arguments.out)
    header = manifest.header
    if arguments.json:
        print(json.dumps(header))
    else:
        print(f"{arguments.out}: {header['tasks']} tasks of {header['shapes']} shapes in {header['wall_s']} s")
        for name in ("splits", "families", "levels", "refused"):
            print(f"{name}: " + ", ".join(f"{key} {value}" for key, value in header[name].items()))
        for source, reason in header["skipped_sources"].items():
            print(f"left out {source}: {reason}")
    return 0 if header["tasks"] >= arguments.count else 1


def audit_tasks(arguments: argparse.Namespace) -> int:
    import json

    from sage.sandbox.pool import open_backends
    from sage.settings import cache_folder
    from sage.sim.tasks.audit import audit
    from sage.sim.tasks.manifest import Manifest
    from sage.sim.tasks.sources import Sources

    manifest = Manifest.open(arguments.tasks) if arguments.tasks else Manifest.shipped()
    with progress_bar("audit") as show, open_backends(arguments.workers, arguments.sandbox) as backends:
        found = audit(
            manifest,
            backends=backends,
            sources=Sources(cache_folder()),
            sample=arguments.limit,
            progress=lambda done, total: show(done, total, ""),
        )
    print(json.dumps(found))
    sound = found["oracle_solved_twice"] == found["tasks"] and not found["noop_solved"] and not found["deletion_solved"]
    return 0 if sound else 1


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int, str], None]]:
    """A bar on standard error, or lines where that is no terminal; the function that moves it takes what is done, the total and a
    remark."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    if not Console(stderr=True).is_terminal:
        print(f"{title}: {STARTING}", file=sys.stderr, flush=True)
        yield ProgressLines(title).show
        return
    remark = TextColumn("{task.fields[remark]}")
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), remark, TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=None, remark=STARTING)
        yield lambda done, total, text: bar.update(task, completed=done, total=total, remark=text)


class ProgressLines:
    """Progress in a file or a pipe: a line at the beginning, at the end, and every few seconds between them."""

    def __init__(self, title: str, every_s: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.title, self.every_s, self.clock = title, every_s, clock
        self.began, self.told_at, self.last = clock(), float("-inf"), ""

    def show(self, done: int, total: int, remark: str) -> None:
        now = self.clock()
        line = f"{self.title}: {done:,} of {total:,}" + (f", {remark}" if remark else "")
        if line == self.last or (done < total and now - self.told_at < self.every_s):
            return
        self.told_at, self.last = now, line
        print(f"{line}, {now - self.began:.0f} s", file=sys.stderr, flush=True)
