"""The process of one local model: `python -m sage.local_models.host_program SETTINGS`, started by `host.py`.

It prints its address on standard output when it can answer, and ends when its standard input does, which happens when
the process that started it closes it or dies in whatever way.
"""

from __future__ import annotations

import json
import os
import sys

import xllamacpp

THREADS = 1  # more would wait for one another on a machine with other work
HTTP_THREADS = 4


def main() -> None:
    settings = json.loads(sys.argv[1])
    params = xllamacpp.CommonParams()  # pyrefly: ignore[missing-attribute]
    params.model.path = settings["file"]
    params.model_alias = {settings["name"]}
    params.hostnames = ["127.0.0.1"]
    params.port = 0  # any that is free
    params.n_ctx = settings["context"]
    params.n_parallel = 1
    params.cpuparams.n_threads = THREADS
    params.cpuparams_batch.n_threads = THREADS
    params.n_threads_http = HTTP_THREADS
    params.ui = False
    params.endpoint_slots = False  # which would show everybody on this machine what others ask
    params.cors_origins, params.cors_credentials = "localhost", False  # pages of other sites may not read answers
    params.offline = True
    params.cache_ram_mib = 0  # conversations of others are not kept in memory
    params.verbosity = -1
    server = xllamacpp.Server(params)  # pyrefly: ignore[missing-attribute]
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()
    os._exit(0)  # without waiting for answers that nobody reads


if __name__ == "__main__":
    main()
