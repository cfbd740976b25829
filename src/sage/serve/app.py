"""The application: all routes, and the objects that live as long as it does."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from sage.serve.access.access import Access, Caller, Refusal
from sage.serve.access.descriptors import Descriptors
from sage.serve.endpoint import Endpoint
from sage.serve.exchange import Memory
from sage.serve.feedback.feedback import Feedback
from sage.serve.feedback.shadow_answers import shadow_route
from sage.serve.feedback.signals import Signals
from sage.serve.model_names import names_for
from sage.serve.places import Places
from sage.serve.reloading import Reloader, signature, watched_files
from sage.serve.replies import log_failure
from sage.serve.sessions import Sessions
from sage.serve.state import ServingState, open_state
from sage.serve.worker_metrics import WorkerMetrics
from sage.upstream.dialects import BY_NAME
from sage.upstream.dialects.messages import CountTokens
from sage.upstream.metrics import Metrics
from sage.upstream.secrets import Secret
from sage.upstream.upstreams import new_session

LOOK_EVERY_S = 1.0  # for files that have changed


class Application:
    """`sage serve` in one process; `asgi` is its ASGI application."""

    def __init__(
        self,
        places: Places,
        access: Access,
        *,
        webhook_secret: Secret | None = None,
        local: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        metrics_folder: Path | None = None,
    ) -> None:
        """`metrics_folder` is shared with the other processes of the server; None: there are none."""
        self.places = places
        self.access = access
        self.webhook_secret = webhook_secret
        self.local = local or {}
        self.environment = environment
        self.metrics = Metrics()
        self.shared = None if metrics_folder is None else WorkerMetrics(metrics_folder, self.measured)
        self.memory = Memory(Sessions(), Signals())
        self.state: ServingState | None = None
        self.lost: Counter[str] = Counter()  # records that states before this one could not log
        self.started_at = int(time.time())
        self.feedback = Feedback(lambda: self.current().logbook.router, access, webhook_secret)
        self.descriptors = Descriptors()
        self.asgi = Starlette(routes=list(self.routes()), lifespan=self.lifespan)
        self.asgi.router.redirect_slashes = False  # whose address would be what the header host says

    def routes(self) -> Iterator[Route]:
        dialects = [*BY_NAME.values(), CountTokens()]
        for dialect in dialects:
            path = "/v1" + dialect.path.removeprefix("/v1")
            endpoint = Endpoint(dialect, self.current, self.access, self.memory, self.metrics)
            yield Route(path, endpoint, methods=["POST"], name=path)
        yield from self.feedback.routes()
        yield shadow_route(lambda: self.current().shadows.answers, self.access)
        yield Route("/v1/models", self.models, methods=["GET"])
        yield Route("/v1/models/{name:path}", self.model, methods=["GET"])
        yield Route("/healthz", self.health, methods=["GET"])
        yield Route("/metrics", self.show_metrics, methods=["GET"])
        yield Route("/", self.root, methods=["GET"])

    def current(self) -> ServingState:
        assert self.state is not None
        return self.state

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        async with new_session() as session:
            read = partial(open_state, self.places, session, self.metrics, self.local, self.environment)
            paths = watched_files(self.places.models, self.places.db, self.environment)
            seen = signature(paths)
            self.state = read()
            reloader = Reloader(
                paths,
                self.current,
                read,
                self.replace,
                seen=seen,
                environment=self.environment,
                metrics=self.metrics,
            )
            looks = (reloader.watch(LOOK_EVERY_S), self.descriptors.watch(LOOK_EVERY_S))
            watching = [asyncio.ensure_future(look) for look in looks]
            if self.shared is not None:
                watching.append(asyncio.ensure_future(self.shared.keep_writing()))
            yield
            for look in watching:
                look.cancel()
            await reloader.close()
            await self.current().close()
            if self.shared is not None:
                self.shared.write()

    def replace(self, new: ServingState) -> None:
        """Serves further requests with another state; records that the old one could not log stay counted."""
        self.lost.update(self.current().logbook.router.backlog.counts)
        self.state = new
        self.access.at_budget_end = new.table.serve.at_budget_end

    def admitted(self, request: Request) -> Caller | Response:
        """Returns the caller of a request, or the error response if its key does not allow the request."""
        host = "" if request.client is None else request.client.host
        caller = self.access.admit(request.scope["headers"], host, request.scope["path"])
        return refused(request, caller) if isinstance(caller, Refusal) else caller

    async def models(self, request: Request) -> Response:
        """Returns the list of the caller's models, in a form that OpenAI's and Anthropic's clients understand."""
        caller = self.admitted(request)
        if isinstance(caller, Response):
            return caller
        described = [self.described(name) for name in names_for(self.current().table, caller)]
        first, last = (described[0]["id"], described[-1]["id"]) if described else (None, None)
        return JSONResponse(
            {"object": "list", "data": described, "has_more": False, "first_id": first, "last_id": last}
        )

    async def model(self, request: Request) -> Response:
        """Returns one model of that list; the whole list if the path has no name."""
        name = request.path_params["name"]
        if not name:
            return await self.models(request)
        caller = self.admitted(request)
        if isinstance(caller, Response):
            return caller
        names = names_for(self.current().table, caller)
        if name not in names:
            return refused(request, Refusal(404, "not_found_error", f"there is no such model: {', '.join(names)}"))
        return JSONResponse(self.described(name))

    def described(self, name: str) -> dict[str, object]:
        return {
            "id": name,
            "object": "model",
            "created": self.started_at,
            "owned_by": "sage",
            "type": "model",
            "display_name": name,
            "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.started_at)),
        }

    async def health(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def root(self, request: Request) -> Response:
        return PlainTextResponse("sage\n")

    async def show_metrics(self, request: Request) -> Response:
        caller = self.admitted(request)
        if isinstance(caller, Response):
            return caller
        found = self.measured() if self.shared is None else self.shared.total()
        return PlainTextResponse(found.text(), media_type="text/plain; version=0.0.4")

    def measured(self) -> Metrics:
        """Returns what this process has counted, with its gauges of now."""
        return self.metrics.with_gauges(self.gauges())

    def gauges(self) -> Iterator[tuple[str, float, dict[str, str]]]:
        state = self.current()
        counts = state.logbook.counts()
        yield "sage_unlogged_decisions_total", self.lost["decisions"] + counts.get("decisions", 0), {}
        yield "sage_lost_outcomes_total", self.lost["outcomes"] + counts.get("outcomes", 0), {}
        yield "sage_waiting_outcomes", counts["waiting"], {}
        yield "sage_log_unusable", counts["unusable"], {}
        yield "sage_descriptors_exhausted", float(self.descriptors.exhausted), {}
        yield "sage_in_flight", state.in_flight, {}
        for of, policy in state.logbook.router.deciding.items():
            yield "sage_serving_policy", 1.0, {"of": of, "policy": policy.name, "version": policy.version}
        yield from state.forwarder.breakers.gauges()


def refused(request: Request, refusal: Refusal) -> Response:
    """Returns an error response in the form that the client's SDK understands; Anthropic's SDK is known by its header
    `anthropic-version`."""
    if refusal.status >= 500:
        log_failure(refusal.status, request.scope["path"], refusal.message)
    dialect = BY_NAME["messages" if "anthropic-version" in request.headers else "chat"]
    headers = {} if refusal.retry_after_s is None else {"retry-after": str(math.ceil(refusal.retry_after_s))}
    return JSONResponse(dialect.error(refusal.status, refusal.message, refusal.kind), refusal.status, headers)
