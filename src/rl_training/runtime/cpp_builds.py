"""C++ compilers that run side by side and while Python goes on, where torch would start one at a time and wait for it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from rl_training.runtime.compiler_shortcuts import replacing


class Build:
    """A C++ library in the making, called like its entry function: the first call waits until it is built."""

    def __init__(self, load: Callable[[], Callable]) -> None:
        self.load = load
        self.entry: Callable | None = None

    def wait(self) -> Callable:
        """Returns the entry function of the built library; raises RuntimeError or OSError if building failed."""
        if self.entry is None:
            with compilers().one_more():
                self.entry = self.load()
        return self.entry

    def __call__(self, *arguments: Any) -> Any:
        return (self.entry or self.wait())(*arguments)


@contextmanager
def build_in_background() -> Iterator[list[Build]]:
    """Lets torch return compiled functions before their C++ is built; yields the list to which the builds are added.

    With a torch whose compiler is made in another way, the list stays empty, and torch waits for each build.
    """
    codecache, commands = (import_module(f"torch._inductor.{name}") for name in ("codecache", "cpp_builder"))
    libraries: Any = getattr(codecache, "CppWrapperCodeCache", None)
    usual_flags: Any = getattr(commands, "_get_optimization_cflags", None)
    builds: list[Build] = []

    def load_later(*arguments: Any, **keywords: Any) -> Build:
        def start(work: Callable[[], None]) -> Future:
            return build_threads().submit(attempt, work)

        builds.append(Build(libraries.load_pybinding_async(*arguments, **keywords, submit_fn=start)))
        return builds[-1]

    def flags(*arguments: Any, **keywords: Any) -> tuple[list[str], list[str]]:
        """Returns torch's flags with -O2 in place of -O3: as fast a program, compiled in nine tenths of the time."""
        compiling, linking = usual_flags(*arguments, **keywords)
        return ["O2" if flag == "O3" else flag for flag in compiling], linking

    replaced: list[tuple[Any, str, Any]] = [
        (libraries, "load_pybinding", load_later),
        (codecache, "_worker_compile_cpp", build_library),
        (commands, "_get_optimization_cflags", flags),
    ]
    known = all(hasattr(owner, name) for owner, name, _ in replaced) and hasattr(libraries, "load_pybinding_async")
    with replacing(replaced if known else []):
        yield builds


@cache
def build_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(4, thread_name_prefix="cpp-build")


def attempt(work: Callable[[], None]) -> None:
    """Calls `work` and drops its error: torch keeps that of a thread for ever, and builds again when it loads a library."""
    with suppress(RuntimeError, OSError):
        work()


def build_library(lock_path: str, builders: Sequence[Any]) -> None:
    """Runs torch's `builders` of a library, the last of which links what the others compile side by side.

    Leaves out those whose file exists, and waits first if another process builds the same library.
    """
    *objects, last = builders
    with file_lock(lock_path):
        with ThreadPoolExecutor(max(len(objects), 1)) as pool:
            list(pool.map(build_missing, objects))
        build_missing(last)


def build_missing(builder: Any) -> None:
    """Runs a builder if its file does not exist; libraries with the same kernels share an object file."""
    path = builder.get_target_file_path()
    with file_lock(f"{path}.lock"):
        if not Path(path).exists():
            with compilers().turn():
                builder.build()


def file_lock(path: str) -> Any:
    """Returns a lock between processes, for as long as torch waits for one."""
    limit = getattr(import_module("torch._inductor.codecache"), "LOCK_TIMEOUT", 600)
    return import_module("torch.utils._filelock").FileLock(path, timeout=limit)


class Turns:
    """Turns of threads, of which at most `limit` have one at the same time."""

    def __init__(self, limit: int) -> None:
        self.limit, self.taken, self.changed = limit, 0, threading.Condition()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Waits for a turn and has it in the block."""
        with self.changed:
            self.changed.wait_for(lambda: self.taken < self.limit)
            self.taken += 1
        try:
            yield
        finally:
            self.change(taken=-1)

    @contextmanager
    def one_more(self) -> Iterator[None]:
        """Allows one turn more in the block; those that were begun there go on after it."""
        self.change(limit=1)
        try:
            yield
        finally:
            self.change(limit=-1)

    def change(self, *, limit: int = 0, taken: int = 0) -> None:
        with self.changed:
            self.limit, self.taken = self.limit + limit, self.taken + taken
            self.changed.notify_all()


@cache
def compilers() -> Turns:
    """Returns the turns of C++ compilers: one for every core, but for the one on which Python goes on meanwhile."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Turns(max(cores - 1, 1))


def forget_threads() -> None:
    """Drops what a forked process cannot use: threads that it does not have, and builds that they would end."""
    build_threads.cache_clear()
    compilers.cache_clear()
    if (codecache := sys.modules.get("torch._inductor.codecache")) is not None:
        codecache.CppWrapperCodeCache.cache.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_threads)
