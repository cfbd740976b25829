"""Entry points of a supervisor: as a zygote's child, or for a single run."""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import os
import socket
import sys
import traceback
from types import ModuleType
from typing import NoReturn

from . import AT_START, frames, kernel
from .command import execute
from .interpreter import execute_or_interpret
from .request import INNER_ID, MOST_FILES, SHARED_MEMORY, TEMPORARY, WORK, request_of
from .supervisor import supervise
from .work_folder import empty

MOST_REQUEST = 2**30  # bytes
SAMPLE = "import pytest\n\n\n@pytest.mark.parametrize('x', [1, 2])\ndef test_it(x, tmp_path, capsys):\n    assert x\n"


def serve(descriptor: int) -> None:
    """Runs the zygote: forks a new sandbox for every request on the socket `descriptor`, until the caller closes it."""
    preload()
    caller = socket.socket(fileno=descriptor)
    caller.sendall(frames.pack({"ready": sys.version}, []))
    gc.freeze()
    while caller.recv(1, socket.MSG_PEEK):  # read by a child: the next one is a copy of this process, and would find it
        child = kernel.fork_into_namespaces(INNER_ID, "mount", "pid", "ipc", "uts")
        if child == 0:
            answer(caller)
        if os.waitpid(child, 0)[1] != 0:
            tell_failure(caller.fileno(), "the supervisor was killed")


def preload() -> None:
    """Imports all modules that a run of pytest imports, so that the forked children have them.

    Exits if pytest fails.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, "\n".join(loaded_by_pytest()).encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        names = file.read().decode().split("\n")
    if os.waitpid(child, 0)[1] != 0:
        sys.exit("pytest does not run in the image")
    for name in names:
        importlib.import_module(name)


def loaded_by_pytest() -> list[str]:
    kernel.enter_namespaces(INNER_ID, "mount")
    for folder in (WORK, TEMPORARY):
        kernel.mount_memory(folder, 1, 100)
    os.chdir(WORK)
    with open("test_sample.py", "w", encoding="utf-8") as file:
        file.write(SAMPLE)
    with contextlib.redirect_stdout(io.StringIO()):
        importlib.import_module("pytest").main(["-q", "-p", "no:cacheprovider", "test_sample.py"])
    return [name for name, module in sys.modules.items() if name not in AT_START and importable(name, module)]


def importable(name: str, module: ModuleType) -> bool:
    """Returns True if another process can import the module by its name."""
    found = getattr(module, "__spec__", None)
    return found is not None and found.name == name and (found.origin or "").startswith(("/usr", "built-in"))


def answer(caller: socket.socket) -> NoReturn:
    """Supervises one run as the first process of new namespaces, sends the answer to the caller, and exits."""
    try:
        kernel.hide_from_others()
        request = request_of(*frames.unpack(frames.exact_reader(caller.recv), MOST_REQUEST))
        for folder in (WORK, TEMPORARY):
            kernel.mount_memory(folder, request.limits["disk_mb"], MOST_FILES)
        kernel.mount_memory(SHARED_MEMORY, 16, 1000)
        kernel.mount_processes("/proc", "subset=pid,hidepid=2")
        caller.sendall(supervise(request, execute_or_interpret, caller.fileno()))
    except BaseException:
        tell_failure(caller.fileno(), traceback.format_exc())
    os._exit(0)


def tell_failure(descriptor: int, text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(descriptor, frames.pack({"failure": text}, []))


def once() -> None:
    """Answers one request from standard input on standard output, in a sandbox that another program made."""
    kernel.hide_from_others()
    kernel.drop_privileges()
    kernel.adopt_orphans()
    answer = os.dup(1)
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 1)
    try:
        header, blobs = frames.unpack(frames.exact_reader(lambda size: os.read(0, size)), MOST_REQUEST)
        frame = supervise(request_of(header, blobs), execute, 0)
        for folder in (WORK, TEMPORARY, SHARED_MEMORY):
            empty(folder)
    except BaseException:
        frame = frames.pack({"failure": traceback.format_exc()}, [])
    view = memoryview(frame)
    while view:
        view = view[os.write(answer, view) :]
