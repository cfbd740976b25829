"""Verifiers of Python source that never run it: the compiler's, a linter's and a type checker's.

Each is another program with a time limit, in an empty folder, so that no answer can hang or crash the process that
routes. None of them executes the source: `compile` only translates, ruff and pyrefly only read, and mypy would load
plugins from a configuration file, of which none is read. ruff gets `--isolated`, mypy an empty `--config-file`,
pyrefly a file of its own.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from sage.verifiers.verifier import Answer, Opinion, VerifierError

FENCED = re.compile(
    r"^```[ \t]*([^\s`]*)[^\n`]*\n(.*?)(?:^```|\Z)", re.DOTALL | re.MULTILINE
)  # language, and what is inside
LANGUAGES = ("python", "py", "python3")
PYTHON = "python"
FILE = "answer.py"
MOST_BYTES = 1_000_000
TIME_LIMIT_S = 20.0
COMPILE = f"compile(open({FILE!r}, encoding='utf-8').read(), 'answer', 'exec', dont_inherit=True)"
REJECTED = 1  # the exit code of all these programs for source with mistakes
PYREFLY = 'ignore-missing-imports = ["*"]\nskip-interpreter-query = true\n'
CHECKERS = {
    "pyrefly": ("check", "--config", "pyrefly.toml"),
    "mypy": ("--config-file=", "--no-site-packages", "--ignore-missing-imports"),
}


def python_source(text: str) -> str:
    """Returns an answer's fenced Python blocks, else its blocks without a language, else all of it.

    The end of the last fence may be missing.
    """
    fenced = FENCED.findall(text)
    blocks = [inside for language, inside in fenced if language.lower() in LANGUAGES]
    blocks = blocks or [inside for language, inside in fenced if not language]
    return "\n".join(blocks) if blocks else text


class SourceCheck:
    """Verifier by a program that reads the source: exit code 0 means passed, 1 failed, anything else unknown."""

    def __init__(self, tool: str, arguments: list[str], time_limit_s: object) -> None:
        if isinstance(time_limit_s, bool) or not isinstance(time_limit_s, int | float) or not time_limit_s > 0:
            raise VerifierError(f"time_limit_s={time_limit_s!r} must be a number of seconds above 0")
        self.tool = tool
        self.arguments = arguments
        self.time_limit_s = time_limit_s

    def verify(self, answer: Answer) -> Opinion:
        source = python_source(answer.text).encode("utf-8", "replace")
        program = found(self.tool)
        if program is None:
            return Opinion("unknown", f"{self.tool} is not installed")
        if len(source) > MOST_BYTES:
            return Opinion("unknown", f"more than {MOST_BYTES:,} bytes")
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / FILE).write_bytes(source)
            (Path(folder) / "pyrefly.toml").write_text(PYREFLY, encoding="utf-8")
            try:
                done = subprocess.run(
                    [program, *self.arguments],
                    stdin=subprocess.DEVNULL,
                    cwd=folder,
                    capture_output=True,
                    timeout=self.time_limit_s,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return Opinion("unknown", f"{self.tool} took more than {self.time_limit_s:g} s")
        if done.returncode in (0, REJECTED):
            return Opinion("failed" if done.returncode else "passed", self.tool)
        return Opinion("unknown", f"{self.tool} ended with code {done.returncode}")


class Syntax(SourceCheck):
    """Verifier that passes source which this Python can compile; it is not run."""

    def __init__(self, time_limit_s: float = TIME_LIMIT_S) -> None:
        super().__init__(PYTHON, ["-I", "-S", "-W", "ignore", "-c", COMPILE], time_limit_s)


class Lint(SourceCheck):
    """Verifier that passes source in which ruff finds nothing against the rules `select`.

    By default, syntax and names.
    """

    def __init__(self, select: object = None, time_limit_s: float = TIME_LIMIT_S) -> None:
        rules = ["E9", "F"] if select is None else select
        if not isinstance(rules, list) or not rules or not all(re.fullmatch(r"[A-Z]+\d*", str(rule)) for rule in rules):
            raise VerifierError(f"lint.select={select!r} must be a list of rules of ruff, such as [E9, F]")
        chosen = f"--select={','.join(map(str, rules))}"
        super().__init__("ruff", ["check", "--isolated", "--no-cache", "--quiet", chosen, FILE], time_limit_s)


class Types(SourceCheck):
    """Verifier that passes source in which a type checker finds no error; imports that it cannot find are none."""

    def __init__(self, tool: object = "pyrefly", time_limit_s: float = TIME_LIMIT_S) -> None:
        if tool not in CHECKERS:
            raise VerifierError(f"types.tool={tool!r} must be one of {', '.join(CHECKERS)}")
        super().__init__(str(tool), [*CHECKERS[str(tool)], FILE], time_limit_s)


def found(tool: str) -> str | None:
    """Returns the path of a program beside this Python or on PATH; None if it is not installed."""
    if tool == PYTHON:
        return sys.executable or None
    return shutil.which(tool, path=str(Path(sys.executable).parent)) or shutil.which(tool)
