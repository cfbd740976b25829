"""`sage sim train` and `sage sim bench`: a policy for software tasks, and how good it is."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from sage.cli.parser import accept
from sage.cli.sim_model_commands import add_models_option
from sage.cli.sim_task_commands import progress_bar

if TYPE_CHECKING:
    from sage.sim.comparison import Contest


def add_train(train: argparse.ArgumentParser) -> None:
    train.add_argument(
        "--tasks",
        type=Path,
        help="tables of `sage sim compile`, or a manifest, which is compiled first; default: those that come with the package",
    )
    train.add_argument("--out", type=Path, required=True, help="folder of the run")
    train.add_argument("--steps", type=int, help="of the environment; 1,000,000 if not given")
    train.add_argument("--seed", type=int, default=0, help="of what is left to chance (0)")
    add_models_option(train)
    train.add_argument("--workers", type=int, default=2, help="sandboxes at a time, if tasks have to be compiled")
    train.add_argument(
        "--set", nargs="*", default=[], dest="settings", metavar="SECTION.FIELD=VALUE", help="e.g. training.device=cuda"
    )
    train.set_defaults(func=train_policy)


def add_bench(bench: argparse.ArgumentParser) -> None:
    bench.add_argument(
        "--checkpoint", type=Path, nargs="*", default=[], help="folders of `sage sim train`, one for each seed"
    )
    bench.add_argument(
        "--tasks",
        type=Path,
        help="tables of `sage sim compile`; default: those of the first checkpoint, or of the package",
    )
    models = bench.add_argument(
        "--fitted-models",
        type=Path,
        metavar="FILE",
        help="a file of `sage sim fit-models`, or `invented`; default: what the first checkpoint learned with",
    )
    accept(bench, models, "--models")
    bench.add_argument(
        "--correlation",
        type=float,
        nargs="*",
        help="of two answers of a model to one task: scores are shown for each (0 0.5 0.9)",
    )
    splits = bench.add_argument(
        "--split", nargs="+", default=["test_pkg", "test_op"], help="of the tasks (test_pkg test_op)"
    )
    accept(bench, splits, "--splits")
    bench.add_argument("--out", type=Path, help="write the results here as JSON")
    bench.add_argument(
        "--run-pack-dir", type=Path, metavar="DIR", help="write results and a manifest that `sage bench verify` checks"
    )
    bench.set_defaults(func=bench_policies)


def train_policy(arguments: argparse.Namespace) -> int:
    from sage.sim.environment.compiling import compile_manifest
    from sage.sim.environment.packed import SHIPPED
    from sage.sim.training import TABLES, train

    tables = arguments.tasks or SHIPPED
    if tables.suffix != ".npz":
        tables = arguments.out / TABLES
        if not tables.exists():
            with progress_bar("compile") as show:
                compiled = compile_manifest(
                    arguments.tasks,
                    tables,
                    workers=arguments.workers,
                    progress=lambda done, total: show(done, total, "tasks"),
                )
            print(compiled)
    agent = train(
        tables,
        arguments.out,
        models=arguments.fitted_models,
        steps=arguments.steps,
        seed=arguments.seed,
        settings=arguments.settings,
    )
    agent.close()
    print(
        f"{arguments.out}: trained for {agent.progress.env_steps:,} steps; `sage sim bench --checkpoint {arguments.out}` judges it"
    )
    return 0


def bench_policies(arguments: argparse.Namespace) -> int:
    from sage.sim.comparison import CORRELATIONS, Contest

    given = arguments.correlation
    contest = Contest.between(
        arguments.checkpoint,
        tables=arguments.tasks,
        models=arguments.fitted_models,
        splits=tuple(arguments.split),
        correlations=CORRELATIONS if given is None else tuple(given),
    )
    return run_contest(contest, arguments.out, arguments.run_pack_dir)


def run_contest(contest: Contest, out: Path | None, pack: Path | None) -> int:
    from sage.benchmarks.simulator_pack import write_simulator_pack
    from sage.files import write_json
    from sage.sim.comparison import format_comparison

    found = contest.run()
    if pack:
        write_simulator_pack(pack, contest, found)
    if out:
        write_json(out, found.as_json())
    print(format_comparison(found))
    return 0
