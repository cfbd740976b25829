"""The commands of `rl-training bench`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from rl_training.bench import learning, speed
from rl_training.bench.peer_environments import parse_peers, parse_pythons
from rl_training.bench.summary import summarise, write_summary


def bench(options: argparse.Namespace) -> int:
    return {"speed": measure_speed, "learn": measure_learning, "report": report}[options.action](options)


def say(text: str) -> None:
    print(text, flush=True)


def measure_speed(options: argparse.Namespace) -> int:
    cells = speed.choose_cells(options.suite, options.cells)
    peers, given = parse_peers(options.peers), parse_pythons(options.peer_python)
    out, limit = Path(options.out), options.peer_timeout
    speed.run(cells, peers, repeats=options.repeats, out=out, given=given, limit=limit, say=say)
    say(f"wrote {out / speed.FILE} and speed.md")
    return 0


def measure_learning(options: argparse.Namespace) -> int:
    """Trains the benchmark runs that are missing (none with --judge), judges all, and prints the verdicts.

    A cell of the benchmark is a preset with changes. Writes the verdicts to files, too, unless --cells picks some.
    Returns exit code 1 if a cell misses its required score or has no runs, else 0.
    """
    cells, seeds = learning.choose_cells(options.suite, options.cells), learning.parse_seeds(options.seeds)
    peers, given = parse_peers(options.peers, learning.LEARNING_PEERS), parse_pythons(options.peer_python)
    out = Path(options.out)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if not options.judge:
        for name in cells:
            for seed in seeds:
                learning.run_one(name, seed, out / "learning", options.overrides, say)
            for peer in peers:
                learning.run_peer(name, peer, seeds, out / "learning", given, say)
    summary = summarise(out / "learning", cells)
    print(summary.markdown())
    if not options.cells:
        write_summary(summary, out, options.suite)
    missed = [verdict.cell for verdict in summary.verdicts if verdict.met is False]
    left = f"{len(summary.missing)} of {len(cells)} cells have no runs; " if summary.missing else ""
    print(left + (f"gates missed: {', '.join(missed)}" if missed else "no gate is missed"))
    return 0 if summary.passed else 1


def report(options: argparse.Namespace) -> int:
    from rl_training.bench.report import write_report  # imports matplotlib, which no other command should wait for

    write_report(Path(options.results), Path(options.out))
    print(f"wrote {options.out}")
    return 0
