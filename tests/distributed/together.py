"""Processes as torchrun starts them, but forked from one that has imported torch already."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

from tests.forked import CONTEXT, LIMIT

Work = Callable[[Path], None]


def run_together(work: Work, folder: Path, codes: list[int]) -> None:
    """Calls `work` of a folder in as many processes as there are exit codes to expect, to their end."""
    number = len(codes)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [CONTEXT.Process(target=enter, args=(work, folder, port, rank, number)) for rank in range(number)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(LIMIT)
    found = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
    assert found == codes


def enter(work: Work, folder: Path, port: int, rank: int, number: int) -> None:
    told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": number, "LOCAL_WORLD_SIZE": number}
    os.environ |= {name: str(value) for name, value in told.items()}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    work(folder)
