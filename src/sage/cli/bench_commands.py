"""`sage bench` and `sage bench verify`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add_bench(bench: argparse.ArgumentParser) -> None:
    bench.description = "Compares routing policies over outcome tables; no model is called."
    bench.add_argument(
        "action",
        nargs="?",
        choices=("run", "verify"),
        default="run",
        help="verify: recompute a run pack (default: run)",
    )
    bench.add_argument("directory", nargs="?", type=Path, metavar="DIR", help="verify: the run pack to recompute")
    bench.add_argument("--out", type=Path, help="write the results here as JSON")
    bench.add_argument("--suite", type=Path, help="a YAML file; default: the bundled synthetic one")
    bench.add_argument("--compare-policy", action="store_true", help="the learned policy against the static table only")
    bench.add_argument(
        "--checkpoint",
        type=Path,
        help="compare: this policy; a folder of `sage sim train`: in the simulator; default: a category table learned on train",
    )
    bench.add_argument(
        "--run-pack-dir", type=Path, metavar="DIR", help="write results and a manifest that `verify` checks"
    )
    add_former(bench)
    bench.set_defaults(func=run_bench)


def add_former(bench: argparse.ArgumentParser) -> None:
    """Adds the former options of two experiments, now benchmarks/sage/ablations.py and live.py; the help leaves them out."""
    for name in ("--ablations", "--live"):
        bench.add_argument(name, action="store_true", help=argparse.SUPPRESS)
    bench.add_argument("--models", type=Path, default=Path("models.yaml"), help=argparse.SUPPRESS)
    bench.add_argument("--db", type=Path, default=Path("sage.db"), help=argparse.SUPPRESS)
    bench.add_argument("--tasks", type=int, default=100, help=argparse.SUPPRESS)
    bench.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)


def run_bench(arguments: argparse.Namespace) -> int:
    from sage.benchmarks.run_pack import write_pack
    from sage.benchmarks.runner import format_results, run_suite
    from sage.files import write_json

    if arguments.action == "verify":
        return verify_pack(arguments.directory)
    if arguments.directory is not None:
        raise ValueError(
            f"{arguments.directory}: a folder is for `sage bench verify DIR`; to write one use --run-pack-dir"
        )
    if arguments.checkpoint is not None and not arguments.compare_policy:
        raise ValueError("--checkpoint is for --compare-policy")
    if arguments.live or arguments.ablations:
        return run_experiment(arguments)
    if arguments.checkpoint is not None and arguments.checkpoint.is_dir():
        return compare_in_simulator(arguments)
    kind = "compare_policy" if arguments.compare_policy else "baselines"
    results = run_suite(arguments.suite, kind=kind, checkpoint=arguments.checkpoint)
    if arguments.run_pack_dir:
        write_pack(arguments.run_pack_dir, results, arguments.suite, arguments.checkpoint)
    if arguments.out:
        write_json(arguments.out, results)
    print(format_results(results))
    return 0


def verify_pack(folder: Path | None) -> int:
    """A run pack, computed again by the program that made it."""
    from sage.benchmarks.experiments import PROGRAMS, run_program
    from sage.benchmarks.run_pack import format_differences, kind_of, verify

    if folder is None:
        raise ValueError("give the run pack: sage bench verify DIR")
    if (kind := kind_of(folder)) in PROGRAMS:
        return run_program(kind, ["--verify", str(folder)])
    differences = verify(folder)
    print(format_differences(folder, differences))
    return 1 if differences else 0


def run_experiment(arguments: argparse.Namespace) -> int:
    """The program of a checkout that `--ablations` and `--live` stand for."""
    from sage.benchmarks.experiments import program_of, run_program

    if arguments.live and (
        not arguments.compare_policy
        or arguments.checkpoint is None
        or arguments.ablations
        or arguments.suite is not None
    ):
        raise ValueError("--live is for `sage bench --compare-policy --live --checkpoint POLICY`, on its own tasks")
    if arguments.ablations and arguments.compare_policy:
        raise ValueError("--compare-policy and --ablations are two different tables: ask for one")
    kind = "live" if arguments.live else "ablations"
    names = ("checkpoint", "models", "db", "tasks", "seed") if arguments.live else ("suite",)
    given = {name: getattr(arguments, name) for name in (*names, "out", "run_pack_dir")}
    words = [f"--{name.replace('_', '-')}={value}" for name, value in given.items() if value is not None]
    print(f"--{kind} runs {program_of(kind)}, which you can also call yourself", file=sys.stderr)
    return run_program(kind, words)


def compare_in_simulator(arguments: argparse.Namespace) -> int:
    """A policy of `sage sim train` against routers, on tasks that it has not seen."""
    from sage.cli.sim_training_commands import run_contest
    from sage.sim.comparison import Contest

    if arguments.suite is not None:
        raise ValueError(f"--suite is for policies that route: {arguments.checkpoint} plays the simulator's tasks")
    return run_contest(Contest.between([arguments.checkpoint], heuristics=False), arguments.out, arguments.run_pack_dir)
