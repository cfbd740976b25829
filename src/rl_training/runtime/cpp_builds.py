"""C++ compilers that run side by side and while Python goes on, where torch would start one at a time and wait for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


class Build:
    """A C++ library in the making, called like its entry function: the first call waits until it is built."""

    def __init__(self, load: Callable[[], Callable]) -> None:
        self.load = load
        self.entry: Callable | None = None

    def wait(self) -> Callable:
        """Returns the entry function of the built library; raises RuntimeError if the C++ compiler failed."""
        if self.entry is None:
            self.entry = self.load()
        return self.entry

    def __call__(self, *arguments: Any) -> Any:
        return (self.entry or self.wait())(*arguments)


@contextmanager
def build_in_background() -> Iterator[list[Build]]:
    """Lets torch return compiled functions before their C++ is built; yields the list to which the builds are added."""
    codecache: Any = import_module("torch._inductor.codecache")
    libraries, in_turns, builds = codecache.CppWrapperCodeCache, codecache._worker_compile_cpp, []

    def load_later(*arguments: Any, **keywords: Any) -> Build:
        load = libraries.load_pybinding_async(*arguments, **keywords, submit_fn=build_threads().submit)
        builds.append(Build(load))
        return builds[-1]

    libraries.load_pybinding, codecache._worker_compile_cpp = load_later, build_library
    try:
        yield builds
    finally:
        del libraries.load_pybinding  # its base class has torch's own
        codecache._worker_compile_cpp = in_turns


@cache
def build_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(4, thread_name_prefix="cpp-build")


def build_library(lock_path: str, builders: Sequence[Any]) -> None:
    """Runs torch's `builders` of a library, the last of which links what the others compile side by side.

    Leaves out those whose file exists, and waits first if another process builds the same library.
    """
    *objects, last = builders
    with import_module("torch.utils._filelock").FileLock(lock_path, timeout=600):
        with ThreadPoolExecutor(max(len(objects), 1)) as pool:
            list(pool.map(build_missing, objects))
        build_missing(last)


def build_missing(builder: Any) -> None:
    if not Path(builder.get_target_file_path()).exists():
        builder.build()
