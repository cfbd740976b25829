"""Upstreams and a log, opened for programs that call models themselves, one call at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import aiohttp

from sage.orchestrator.models_file import ModelsFile
from sage.serve.places import Places
from sage.serve.state import ServingState, open_state, start_local_models
from sage.upstream.metrics import Metrics
from sage.upstream.upstreams import new_session


@contextmanager
def open_upstreams(places: Places, table: ModelsFile) -> Iterator[tuple[ServingState, asyncio.Runner]]:
    """With the loop that they are used from; local models run until the end."""
    with ExitStack() as opened:
        local = start_local_models(table, opened)
        loop = opened.enter_context(asyncio.Runner())

        async def begin() -> aiohttp.ClientSession:
            return new_session()

        session = loop.run(begin())
        opened.callback(lambda: loop.run(session.close()))
        state = open_state(places, session, Metrics(), local)
        opened.callback(lambda: loop.run(state.logbook.close()))
        yield state, loop
