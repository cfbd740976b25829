"""Counts what one reads to follow PPO through a run: the files, and their lines of code.

Counted are the files of the package in which a function runs while `Trainer.run` trains PPO on CartPole, eagerly on the
CPU, without those of `envs/`. A line of code is not blank and not a comment or docstring.

Usage: python scripts/count_ppo_files.py [--files]
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
from pathlib import Path
from types import FrameType

import rl_training

ROOT = Path(rl_training.__file__).parent
LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def files_that_run() -> list[Path]:
    """Those in which a function is called during training."""
    trainer = rl_training.PPO("CartPole-v1", n_steps=16, n_envs=2, batch_size=16, compile=False).prepare_trainer()
    called: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            called.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        trainer.run(64)
    finally:
        sys.setprofile(None)
    paths = sorted(Path(name) for name in called if Path(name).is_relative_to(ROOT))
    return [path for path in paths if path.relative_to(ROOT).parts[0] != "envs"]


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
    parser = argparse.ArgumentParser(description="Counts what one reads for all of PPO.")
    parser.add_argument("--files", action="store_true", help="also list the files")
    options = parser.parse_args()
    sizes = {path: lines_of_code(path.read_text()) for path in files_that_run()}
    for path, size in sizes.items() if options.files else ():
        print(f"{size:5} {path.relative_to(ROOT).as_posix()}")
    print(f"{len(sizes)} files, {sum(sizes.values()):,} lines of code")


if __name__ == "__main__":
    main()
