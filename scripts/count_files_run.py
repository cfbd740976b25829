"""Counts what one reads to follow a run: the files in which a function runs, and their lines of code.

`loop` is PPO on CartPole while `Trainer.run` trains it, eagerly on the CPU, in all folders but `envs/`. The others are whole
runs, counted in the folders that start a run and write its files (`config`, `experiment`, `api`, `distributed`): PPO from
its constructor to its result, SAC that learns from a dataset and then from its own steps, with a run directory, and a run
that is resumed. A line of code is not blank and not a comment or docstring.

Usage: python scripts/count_files_run.py [loop | ppo | sac | resume] [--files]
"""

from __future__ import annotations

import argparse
import ast
import inspect
import io
import sys
import tempfile
import tokenize
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import rl_training
from rl_training import PPO, SAC, Agent, make_data
from rl_training.api.training import build_run

ROOT = Path(rl_training.__file__).parent
LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
UPPER = ("config", "experiment", "api", "distributed")
SMALL = {"n_steps": 16, "n_envs": 2, "batch_size": 16, "compile": False}


def loop(folder: Path) -> Callable[[], object]:
    trainer = build_run(PPO("CartPole-v1", **SMALL)).trainer
    return lambda: trainer.run(64)


def ppo(folder: Path) -> Callable[[], object]:
    return lambda: PPO("CartPole-v1", **SMALL).learn(64, progress=False)


def sac(folder: Path) -> Callable[[], object]:
    file, settings = folder / "steps.npz", {"batch_size": 16, "learning_starts": 16, "compile": False}
    make_data("Pendulum-v1", ["random"], 400).save(file)

    def run() -> None:
        agent = SAC("Pendulum-v1", dataset=file, run_dir=folder / "run", **settings)
        agent.learn(32, total_updates=8, progress=False)

    return run


def resume(folder: Path) -> Callable[[], object]:
    PPO("CartPole-v1", run_dir=folder, total_timesteps=64, **SMALL).learn(stop_at=32, progress=False)
    return lambda: Agent.resume(folder).learn(progress=False)


RUNS = {"loop": loop, "ppo": ppo, "sac": sac, "resume": resume}


def files_that_run(name: str) -> list[Path]:
    """Returns the files in which a function is called during a run; what imports run is not counted."""
    called: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # no module and no class body
            called.add(frame.f_code.co_filename)

    with tempfile.TemporaryDirectory() as folder:
        run = RUNS[name](Path(folder))
        sys.setprofile(note)
        try:
            run()
        finally:
            sys.setprofile(None)
    paths = sorted(Path(name) for name in called if Path(name).is_relative_to(ROOT))
    folders = {path: path.relative_to(ROOT).parts[0] for path in paths}
    return [path for path in paths if (folders[path] != "envs" if name == "loop" else folders[path] in UPPER)]


def lines_of_code(text: str) -> int:
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in LAYOUT
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Counts what one reads to follow a run.")
    parser.add_argument("run", nargs="?", choices=list(RUNS), default="loop")
    parser.add_argument("--files", action="store_true", help="also list the files")
    options = parser.parse_args()
    sizes = {path: lines_of_code(path.read_text()) for path in files_that_run(options.run)}
    for path, size in sizes.items() if options.files else ():
        print(f"{size:5} {path.relative_to(ROOT).as_posix()}")
    print(f"{len(sizes)} files, {sum(sizes.values()):,} lines of code")


if __name__ == "__main__":
    main()
