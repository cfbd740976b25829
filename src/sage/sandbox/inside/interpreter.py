"""Python commands in an interpreter that has loaded their imports already, instead of in a new one."""

from __future__ import annotations

import atexit
import contextlib
import os
import random
import runpy
import sys
import threading
import traceback
from typing import NoReturn

from . import AT_START
from .command import execute
from .request import ENVIRONMENT, WORK, Request

PACKAGE = __name__.rpartition(".")[0]
OWN = [PACKAGE, *(f"{PACKAGE}.{name.removesuffix('.py')}" for name in os.listdir(os.path.dirname(__file__)))]


def execute_or_interpret(request: Request) -> NoReturn:
    """Runs a plain Python command in this very interpreter, and any other as a program; never returns.

    Everything that such a command usually imports is loaded here already.
    """
    form = python_form(request)
    if form is None:
        execute(request)
    interpret(*form, request.env)


def python_form(request: Request) -> tuple[str, list[str], bool] | None:
    """Returns (option, its words, whether the work folder is importable) of a command that this interpreter can run.

    The option is '-m', '-c' or, for a script, ''. None stands for all other commands.
    """
    if request.argv[0] != "python" or any(name.startswith("PYTHON") for name in request.env):
        return None
    words = request.argv[1:]
    isolated = bool(words) and words[0] in ("-I", "-P")
    words = words[isolated:]
    if len(words) >= 2 and words[0] in ("-m", "-c"):
        return words[0], words[1:], not isolated
    if words and not words[0].startswith("-"):
        return "", words, not isolated
    return None


def interpret(option: str, words: list[str], importable: bool, env: dict[str, str]) -> NoReturn:
    """Does what `python OPTION WORDS` does, and exits with the same code."""
    os.environ.clear()
    os.environ.update(ENVIRONMENT | env)
    sys.stdin = sys.__stdin__ = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(
        2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
    )
    random.seed()
    sys.path[0] = "" if option else os.path.dirname(os.path.join(WORK, words[0]))
    if importable:
        forget_shadowed(sys.path[0] or WORK)
    else:
        del sys.path[0]
    for own in OWN:
        sys.modules.pop(own, None)
    sys.argv = list(words)
    code = 0
    try:
        if option == "-m":
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        elif option == "-c":
            sys.argv[0] = "-c"
            exec(compile(words[0], "<string>", "exec"), main_module())
        else:
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as error:
        code = exit_code(error)
    except BaseException:
        traceback.print_exc()
        code = 1
    finish(code)


def main_module() -> dict:
    module = type(sys)("__main__")
    sys.modules["__main__"] = module
    return module.__dict__


def forget_shadowed(folder: str) -> None:
    """Forgets loaded modules whose names occur in the folder: a new interpreter would import the folder's files."""
    with contextlib.suppress(OSError):
        names = {name.partition(".")[0] for name in os.listdir(folder)} - AT_START
        if not any(name in sys.modules for name in names):
            return  # walking through all modules would copy most pages of the zygote
        for loaded in [name for name in sys.modules if name.partition(".")[0] in names]:
            del sys.modules[loaded]


def exit_code(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)
    return 1


def finish(code: int) -> NoReturn:
    try:
        threading._shutdown()  # pyrefly: ignore (what Python itself calls)
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
        code = code or 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)
