"""`sage sim train` and `sage sim bench`: a policy for software tasks, and how good it is."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sage.sim.comparison import Comparison


def add_commands(actions: argparse._SubParsersAction) -> None:
    train = actions.add_parser("train", help="PPO on compiled tasks; a folder that has a run goes on")
    train.add_argument(
        "--tasks",
        type=Path,
        help="tables of `sage sim compile`, or a manifest, which is compiled first; default: those that come with the package",
    )
    train.add_argument("--out", type=Path, required=True, help="folder of the run")
    train.add_argument("--steps", type=int, help="of the environment; 1,000,000 if not given")
    train.add_argument("--seed", type=int, default=0)
    train.add_argument("--workers", type=int, default=2, help="sandboxes at a time, if tasks have to be compiled")
    train.add_argument(
        "--set", nargs="*", default=[], dest="settings", metavar="SECTION.FIELD=VALUE", help="e.g. training.device=cuda"
    )
    train.set_defaults(func=train_policy)
    bench = actions.add_parser(
        "bench", help="policies on unseen packages and operators, between chance and full knowledge"
    )
    bench.add_argument(
        "--checkpoint", type=Path, nargs="*", default=[], help="folders of `sage sim train`, one for each seed"
    )
    bench.add_argument(
        "--tasks",
        type=Path,
        help="tables of `sage sim compile`; default: those of the first checkpoint, or of the package",
    )
    bench.add_argument("--splits", nargs="+", default=["test_pkg", "test_op"])
    bench.add_argument("--out", type=Path, help="write the results here as JSON")
    bench.set_defaults(func=bench_policies)


def train_policy(arguments: argparse.Namespace) -> int:
    from sage.cli.sim_environment_commands import compile_manifest
    from sage.sim.environment.packed import SHIPPED
    from sage.sim.training import TABLES, train

    tables = arguments.tasks or SHIPPED
    if tables.suffix != ".npz":
        tables = arguments.out / TABLES
        if not tables.exists():
            compile_manifest(arguments.tasks, tables, workers=arguments.workers)
    agent = train(tables, arguments.out, steps=arguments.steps, seed=arguments.seed, settings=arguments.settings)
    agent.close()
    print(
        f"{arguments.out}: trained for {agent.progress.env_steps:,} steps; `sage sim bench --checkpoint {arguments.out}` judges it"
    )
    return 0


def bench_policies(arguments: argparse.Namespace) -> int:
    from sage.files import write_json
    from sage.sim.comparison import compare

    found = compare(arguments.checkpoint, arguments.tasks, tuple(arguments.splits))
    if arguments.out:
        write_json(arguments.out, found.as_json())
    print("\n".join(lines(found)))
    return 0


def lines(found: Comparison) -> list[str]:
    told = [
        f"{found.tasks} tasks of {', '.join(found.splits)}; chance gets {found.random:.1f}, full knowledge {found.full_knowledge:.1f}"
    ]
    told.append(f"{'policy':<44}{'normalised':>11}{'solved':>9}{'return':>9}")
    for name, score in found.rows.items():
        told.append(f"{name:<44}{score.normalised:>11.3f}{score.solved:>9.1%}{score.episode_return:>9.1f}")
    if found.interval is not None:
        low, high = found.interval
        told.append(f"PPO, {found.seeds} seeds: IQM {found.iqm:.3f} ({low:.3f} to {high:.3f})")
    told.append(f"What models answer is simulated ({found.level}); what trials do was executed.")
    return told
