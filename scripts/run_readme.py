"""Runs the commands and Python blocks of the README one after the other in an empty folder, as a new user would.

.venv/bin/python scripts/run_readme.py [FOLDER]    # default: a temporary folder; exit code 1 at the first block that fails
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
INTERPRETERS = {"bash": ["bash", "-euo", "pipefail", "-c"], "python": [sys.executable, "-c"]}


class Block(NamedTuple):
    """A block of code that a page shows, and the line of the page on which it begins."""

    language: str
    code: str
    line: int


def blocks(page: Path) -> list[Block]:
    """The blocks of a page that are meant to be run, in order; those without a language are not."""
    text = page.read_text()
    found = re.finditer(r"^```(bash|python)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [Block(match[1], match[2], text.count("\n", 0, match.start()) + 2) for match in found]


def run(page: Path, folder: Path) -> bool:
    """Runs every block in the folder, each in a process of its own; True if none failed."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    for language, code, line in blocks(page):
        began = time.monotonic()
        done = subprocess.run(
            [*INTERPRETERS[language], code],
            cwd=folder,
            env=os.environ | {"PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        where = f"{page.name}:{line} ({language}, {time.monotonic() - began:.0f} s)"
        if done.returncode:
            print(f"FAILED {where}, exit code {done.returncode}\n{code}\n{done.stdout}")
            return False
        print(f"ok {where}", flush=True)
    return True


def main() -> int:
    if len(sys.argv) > 1:
        folder = Path(sys.argv[1])
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            print(f"{folder} is not empty: name a new folder", file=sys.stderr)
            return 2
        return int(not run(ROOT / "README.md", folder))
    with tempfile.TemporaryDirectory() as temporary:
        return int(not run(ROOT / "README.md", Path(temporary)))


if __name__ == "__main__":
    sys.exit(main())
