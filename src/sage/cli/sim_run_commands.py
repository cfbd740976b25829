"""`sage sim run`: a policy on many tasks, graded, in a file that a killed run goes on with."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sage.cli.parser import accept
from sage.cli.sim_model_commands import add_models_option
from sage.cli.sim_task_commands import add_sandbox_options, progress_bar
from sage.policies.notation import REPAIRING, policy_help

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sage.sim.line_file import LineFile
    from sage.sim.policies import Named

FOLDER = Path("memory/sim")


def add_run(run: argparse.ArgumentParser) -> None:
    run.add_argument("--tasks", type=Path, help="a manifest; the one that comes with the package if not given")
    run.add_argument("--policy", default="oracle", help=f"{policy_help(REPAIRING)} (oracle)")
    run.add_argument("--out", type=Path, help=f"JSONL, a line per finished task ({FOLDER}/run-POLICY.jsonl)")
    run.add_argument("--split", help="only tasks of this split; all if not given")
    run.add_argument("--limit", type=int, help="how many tasks; all if not given")
    deadline = run.add_argument("--deadline-s", type=float, default=600.0, help="that a task may take (600)")
    accept(run, deadline, "--deadline")
    run.add_argument("--seed", type=int, default=0, help="of what is left to chance (0)")
    add_models_option(run)
    run.add_argument("--transcripts", type=Path, help="a folder for what an agent did, a file for each task")
    add_sandbox_options(run)
    run.add_argument("--json", action="store_true", help="print the report for programs")
    run.set_defaults(func=run_tasks)


def run_tasks(arguments: argparse.Namespace) -> int:
    import json

    from sage.sandbox.pool import open_backends
    from sage.settings import cache_folder
    from sage.sim import policies
    from sage.sim.line_file import LineFile, held
    from sage.sim.parallel_runner import ParallelRun
    from sage.sim.run_report import report_lines, report_of
    from sage.sim.tasks.manifest import Manifest
    from sage.sim.tasks.rebuilding import Rebuilder
    from sage.sim.tasks.sources import Sources

    manifest = Manifest.open(arguments.tasks) if arguments.tasks else Manifest.shipped()
    rows = chosen_rows(manifest.rows, arguments)
    policy = policies.named(
        arguments.policy, arguments.seed, models=arguments.fitted_models, transcripts=arguments.transcripts
    )
    path = arguments.out or FOLDER / f"run-{file_name(arguments.policy)}.jsonl"
    with held(path):
        settings = settings_of(arguments, rows, policy)
        out = LineFile(path, settings)
        with progress_bar("run") as show, open_backends(arguments.workers, arguments.sandbox) as backends:
            run = ParallelRun(
                rows=rows,
                materialise=Rebuilder(Sources(cache_folder()), manifest.suites).materialise,
                solve=policy.solve,
                backends=backends,
                out=out,
                deadline_s=arguments.deadline_s,
                progress=lambda done, total, solved: show(done, total, f"{solved} solved"),
            )
            try:
                run.run()
            except KeyboardInterrupt:
                print(how_to_go_on(out, rows), file=sys.stderr)
                raise
        report = report_of(out.lines, run.left_open)
    if arguments.json:
        print(json.dumps({"out": str(path), "settings": settings, "report": report}))
    else:
        print(f"{path}: policy {arguments.policy}" + level_of(policy))
        print("\n".join(report_lines(report)))
    if run.left_open:
        print(how_to_go_on(out, rows), file=sys.stderr)
    return 1 if run.left_open else 0


def chosen_rows(rows: Sequence[Mapping], arguments: argparse.Namespace) -> list[Mapping]:
    if arguments.limit is not None and arguments.limit < 1:
        raise ValueError(f"--limit {arguments.limit} must be at least 1")
    if not arguments.deadline_s > 0:
        raise ValueError(f"--deadline-s {arguments.deadline_s} must be more than 0 seconds")
    splits = sorted({row["split"] for row in rows})
    if arguments.split is not None and arguments.split not in splits:
        raise ValueError(f"--split {arguments.split}: the tasks are of {', '.join(splits)}")
    return [row for row in rows if arguments.split in (None, row["split"])][: arguments.limit]


def file_name(policy: str) -> str:
    """Returns a policy as part of a file name: a checkpoint's own name, or a command's letters and digits."""
    from sage.sim.policies import COMMAND

    if not policy.startswith(COMMAND):
        return Path(policy).name
    return re.sub(r"\W+", "-", policy.removeprefix(COMMAND)).strip("-")[:80]


def settings_of(arguments: argparse.Namespace, rows: Sequence[Mapping], policy: Named) -> dict:
    """Returns the settings that the lines of a run depend on."""
    import hashlib

    ids = "\n".join(f"{row['id']} {row['files_sha256']}" for row in rows)
    return {
        "format": 1,
        "policy": arguments.policy,
        **policy.facts,
        "tasks": len(rows),
        "tasks_sha256": hashlib.sha256(ids.encode()).hexdigest(),
        "split": arguments.split,
        "sandbox": arguments.sandbox,
        "deadline_s": arguments.deadline_s,
    }


def level_of(policy: Named) -> str:
    models = policy.facts.get("models")
    return f"; models are simulated, level: {models['level']}" if isinstance(models, dict) else ""


def how_to_go_on(out: LineFile, rows: Sequence[Mapping]) -> str:
    return f"{len(out.lines)} of {len(rows)} tasks are in {out.path}: start the same command again to go on with the others"
