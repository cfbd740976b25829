"""`sage bench`, `sage bench verify` and `sage report`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add_commands(commands: argparse._SubParsersAction) -> None:
    bench = commands.add_parser("bench", help="compare routing policies over outcome tables; no model is called")
    bench.add_argument("action", nargs="?", choices=("run", "verify"), default="run")
    bench.add_argument("directory", nargs="?", type=Path, metavar="DIR", help="verify: the run pack to recompute")
    bench.add_argument("--out", type=Path, help="write the results here as JSON")
    bench.add_argument("--suite", type=Path, help="a YAML file; default: the bundled synthetic one")
    bench.add_argument("--compare-policy", action="store_true", help="the learned policy against the static table only")
    bench.add_argument("--ablations", action="store_true", help="what each part of the method is worth, one at a time")
    bench.add_argument(
        "--checkpoint",
        type=Path,
        help="compare: this policy; a folder of `sage sim train`: in the simulator; default: a category table learned on train",
    )
    bench.add_argument(
        "--run-pack-dir", type=Path, metavar="DIR", help="write results and a manifest that `verify` checks"
    )
    bench.add_argument(
        "--live", action="store_true", help="compare: real models answer every task twice, policy off and on"
    )
    bench.add_argument(
        "--models", type=Path, default=Path("models.yaml"), help="live: the table (default: models.yaml)"
    )
    bench.add_argument("--db", type=Path, default=Path("sage.db"), help="live: the log (default: sage.db)")
    bench.add_argument("--tasks", type=int, default=100, metavar="N", help="live: tasks to ask (default: 100)")
    bench.add_argument("--seed", type=int, default=0, help="live: of the tasks (default: 0)")
    bench.set_defaults(func=run_bench)

    report = commands.add_parser(
        "report", help="cost and quality, by model and compared with always one model, as one HTML page"
    )
    report.add_argument("--out", required=True, type=Path)
    report.add_argument("--db", default="sage.db", help="the decision log (sage.db)")
    report.add_argument("--data-source", help="default: the strongest that the log holds")
    report.add_argument("--against", metavar="MODEL", help="the model to compare routing with (default: every one)")
    report.add_argument("--evaluation", type=Path, help="what `sage rl eval-offline` wrote, to be shown")
    report.set_defaults(func=write_report)


def run_bench(arguments: argparse.Namespace) -> int:
    from sage.benchmarks.run_pack import verify, write_pack
    from sage.benchmarks.runner import format_results, run_suite
    from sage.files import write_json

    if arguments.action == "verify":
        if arguments.directory is None:
            raise ValueError("give the run pack: sage bench verify DIR")
        differences = verify(arguments.directory)
        for difference in differences:
            print(difference)
        print(
            f"{arguments.directory}: "
            + ("does not hold" if differences else "recomputed, and every number is the same")
        )
        return 1 if differences else 0
    if arguments.directory is not None:
        raise ValueError(
            f"{arguments.directory}: a folder is for `sage bench verify DIR`; to write one use --run-pack-dir"
        )
    if arguments.checkpoint is not None and not arguments.compare_policy:
        raise ValueError("--checkpoint is for --compare-policy")
    if arguments.live:
        return compare_live(arguments)
    if arguments.compare_policy and arguments.ablations:
        raise ValueError("--compare-policy and --ablations are two different tables: ask for one")
    if arguments.checkpoint is not None and arguments.checkpoint.is_dir():
        return compare_in_simulator(arguments)
    kind = "compare_policy" if arguments.compare_policy else "ablations" if arguments.ablations else "baselines"
    results = run_suite(arguments.suite, kind=kind, checkpoint=arguments.checkpoint)
    if arguments.run_pack_dir:
        write_pack(arguments.run_pack_dir, results, arguments.suite, arguments.checkpoint)
    if arguments.out:
        write_json(arguments.out, results)
    print(format_results(results))
    return 0


def compare_live(arguments: argparse.Namespace) -> int:
    """The policy against the static table, on answers of real models."""
    from importlib.util import find_spec

    if (
        not arguments.compare_policy
        or arguments.checkpoint is None
        or arguments.ablations
        or arguments.suite is not None
    ):
        raise ValueError("--live is for `sage bench --compare-policy --live --checkpoint POLICY`, on its own tasks")
    if find_spec("aiohttp") is None:
        raise ValueError("--live needs aiohttp: pip install 'rl-training[serve]'")
    from sage.benchmarks.live import LiveSuite, format_live, run_live
    from sage.benchmarks.live_pack import write_live_pack
    from sage.files import write_json

    names = ("models", "db", "checkpoint", "tasks", "seed")
    suite = LiveSuite(**{name: getattr(arguments, name) for name in names})
    results, pairs = run_live(suite, lambda done: print(f"\r{done} of {suite.tasks} tasks", end="", file=sys.stderr))
    print(file=sys.stderr)
    if arguments.run_pack_dir:
        write_live_pack(arguments.run_pack_dir, suite, results, pairs)
    if arguments.out:
        write_json(arguments.out, results)
    print(format_live(results))
    return 0


def compare_in_simulator(arguments: argparse.Namespace) -> int:
    """A policy of `sage sim train` against routers, on tasks that it has not seen."""
    from sage.cli.sim_training_commands import run_contest
    from sage.sim.comparison import Contest

    if arguments.suite is not None:
        raise ValueError(f"--suite is for policies that route: {arguments.checkpoint} plays the simulator's tasks")
    return run_contest(Contest.between([arguments.checkpoint], heuristics=False), arguments.out, arguments.run_pack_dir)


def write_report(arguments: argparse.Namespace) -> int:
    from sage.report.report import write_report

    names = ("data_source", "against", "evaluation")
    write_report(arguments.out, arguments.db, **{name: getattr(arguments, name) for name in names})
    print(arguments.out)
    return 0
