"""The server that listens: one process with an event loop, or several that share a socket."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

import uvicorn

from sage.serve.places import Places
from sage.serve.worker_metrics import retire

if TYPE_CHECKING:
    from sage.serve.app import Application

log = logging.getLogger(__name__)
DRAIN_S = 30  # for answers that are under way when the server is stopped
RESTART_S = 1.0  # between two starts of a worker that ends at once


@dataclass(frozen=True)
class Options:
    """Settings that every worker is started with."""

    places: Places
    host: str
    keys: Path | None = None
    local: Mapping[str, str] | None = None
    metrics_folder: Path | None = None  # shared by several workers


def listen(host: str, port: int) -> socket.socket:
    """Returns a listening socket that workers can share; raises ValueError if the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise ValueError(
            f"cannot listen at {host}:{port} ({error.strerror}): choose another --port or --host"
        ) from error
    listening.listen(2048)
    listening.set_inheritable(True)
    return listening


def serve_here(options: Options, listening: socket.socket) -> None:
    """Serves in this process until a signal stops it."""
    new_server(options).run(sockets=[listening])


def new_server(options: Options) -> uvicorn.Server:
    """Returns the server of this process. A process that only starts workers does not load the application."""
    from sage.orchestrator.models_file import ModelsFile
    from sage.serve.access.access import Access
    from sage.serve.access.guarded_protocol import GuardedProtocol
    from sage.serve.app import Application
    from sage.upstream.secrets import secret_of

    settings = ModelsFile.read(options.places.models).serve
    access = Access.open(options.host, options.keys, at_budget_end=settings.at_budget_end)
    secret = secret_of("serve.webhook_key", variable_name=settings.webhook_key_env, path=settings.webhook_key_file)
    application = Application(
        options.places, access, webhook_secret=secret, local=options.local, metrics_folder=options.metrics_folder
    )
    config = uvicorn.Config(
        application.asgi,
        http=GuardedProtocol,
        lifespan="on",
        ws="none",
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=DRAIN_S,
    )
    return Server(config, application)


class Server(uvicorn.Server):
    """A uvicorn server that stops logging waiting reports of callers and CI once it is told to stop."""

    def __init__(self, config: uvicorn.Config, application: Application) -> None:
        super().__init__(config)
        self.application = application

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.application.feedback.ending = True
        await super().shutdown(sockets)


def serve_with_workers(options: Options, listening: socket.socket, workers: int) -> None:
    """Serves in several processes until a signal stops this one; a worker that dies is started again."""
    with tempfile.TemporaryDirectory(prefix="sage-metrics-") as folder:
        serve_with_metrics(replace(options, metrics_folder=Path(folder)), listening, workers)


def serve_with_metrics(options: Options, listening: socket.socket, workers: int) -> None:
    """Serves in several processes, which share a folder for their metrics."""
    context = multiprocessing.get_context("spawn")
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())

    def start() -> Worker:
        process = context.Process(target=serve_beside, args=(options, listening), daemon=True)
        process.start()
        return Worker(process, monotonic())

    running = [start() for _ in range(workers)]
    while not stopping.wait(0.1):
        for index, (process, began) in enumerate(running):
            if not process.is_alive():
                log.warning(f"worker {process.pid} ended with {process.exitcode}; another one starts")
                assert process.pid is not None
                assert options.metrics_folder is not None
                retire(options.metrics_folder, process.pid)
                stopping.wait(max(began + RESTART_S - monotonic(), 0.0))
                running[index] = start()
    for process, _ in running:
        process.terminate()
    for process, _ in running:
        process.join(DRAIN_S + 5)


class Worker(NamedTuple):
    process: BaseProcess
    began: float


def serve_beside(options: Options, listening: socket.socket) -> None:
    """Serves as one of several workers, and stops when the process that started it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the parent says when it is time
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=follow, daemon=True).start()
    serve_here(options, listening)
