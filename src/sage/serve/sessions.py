"""Ids of a request's session and task, and the model whose cache holds a session's prompt."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple

from sage.orchestrator.guard import Hold
from sage.orchestrator.upstream_settings import ServeSettings

SESSION_HEADERS = ("x-session-id", "session-id", "thread-id", "x-claude-code-session-id", "x-session-affinity")
TASK_HEADER = "x-sage-task-id"
MOST_SESSIONS = 10_000
LONGEST_ID = 200  # characters


class Ids(NamedTuple):
    """Ids of a request's session and task; '' if the client names none."""

    session: str
    task: str


def ids_of(headers: Mapping[str, str], body: Mapping[str, object]) -> Ids:
    """Returns the ids from headers that coding agents send, or from `prompt_cache_key`; a session is one task unless
    the client names the task."""
    cache_key = body.get("prompt_cache_key")
    given = (*(headers.get(name, "") for name in SESSION_HEADERS), cache_key if isinstance(cache_key, str) else "")
    session = next((text for text in given if text), "")[:LONGEST_ID]
    return Ids(session, headers.get(TASK_HEADER, "")[:LONGEST_ID] or session)


class SessionModel(NamedTuple):
    """The model that last answered a session."""

    model: str
    tokens: int  # that its cache can have
    drawn_by: str  # the id of the decision that drew the model; later ones may have followed it


class Sessions:
    """The model that last answered each session, for `cache_s` seconds, as long as its provider keeps the prompt."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.held: OrderedDict[tuple[str, ...], tuple[SessionModel, float]] = OrderedDict()  # and until when

    def hold(self, key: tuple[str, ...], tokens: float, settings: ServeSettings) -> Hold | None:
        """Returns the model that the session should keep, and the part of `tokens` that its cache can have; None if
        nobody answered the session lately."""
        held, until = self.held.get(key, (None, 0.0))
        if held is None or self.clock() >= until:
            return None
        return Hold(
            model=held.model,
            cached_tokens=min(held.tokens, tokens),
            gain_usd=settings.affinity_usd,
            follows=held.drawn_by,
        )

    def answered(self, key: tuple[str, ...], held: SessionModel, settings: ServeSettings) -> None:
        """Notes the model that answered a session; its cache can have the whole prompt."""
        self.held[key] = held, self.clock() + settings.cache_s
        self.held.move_to_end(key)
        if len(self.held) > MOST_SESSIONS:
            self.held.popitem(last=False)
