"""Forwarding of a request to its first answer: retries of one model, then the next model, as long as the client has
seen nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import aiohttp

from sage.orchestrator.upstream_settings import ServeSettings
from sage.upstream.answer_bodies import AnswerBody, BodyError
from sage.upstream.body_edit import edited
from sage.upstream.breaker import Breakers, ModelEndpoint
from sage.upstream.dialects.dialect import Dialect, dumps
from sage.upstream.headers import JSON, returned_headers, with_type
from sage.upstream.metrics import Metrics
from sage.upstream.sse import StreamError
from sage.upstream.streams import Stream
from sage.upstream.upstreams import (
    TRANSPORT_ERRORS,
    CompleteAnswer,
    Target,
    UpstreamError,
    check_status,
    failure_of,
    parse_answer,
    without_key,
)

BACKOFF_S = 0.1  # before the first retry, where the upstream does not say; doubled for each further one


@dataclass
class Call:
    """A client's request, with the models that it is forwarded to."""

    dialect: Dialect
    body: bytes
    values: dict  # the body, parsed
    headers: Mapping[str, str]  # names in small letters
    query: str = ""
    order: tuple[str, ...] = ()  # models, as they will be asked
    attempts: int = 0  # so far
    model: str = ""  # the last one that was asked
    may_ask: Callable[[str], Awaitable[bool]] | None = None  # whether a budget has room for a model after the first one
    key: str = ""  # whose request it is: the id of the caller's key

    @property
    def streams(self) -> bool:
        return self.dialect.streams and self.values.get("stream") is True

    def endpoint_of(self, model: str) -> ModelEndpoint:
        """Returns the endpoint of a model, at which failures of this request are counted."""
        return ModelEndpoint(model, self.dialect.endpoint)

    def body_for(self, target: Target) -> bytes:
        return edited(self.body, self.values, target.model, self.dialect.added_fields(self.values))


@dataclass
class StartedStream:
    """A stream that has given its first content; `held` are its bytes so far."""

    stream: Stream
    held: bytes


@dataclass
class Forwarder:
    session: aiohttp.ClientSession
    targets: Mapping[str, Target]
    breakers: Breakers
    settings: ServeSettings
    metrics: Metrics = field(default_factory=Metrics)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def answer(self, call: Call) -> CompleteAnswer | StartedStream:
        """Returns the answer of the first model in `call.order` that gives one; raises the last UpstreamError if none
        does."""
        last: UpstreamError | None = None
        for model in call.order:
            if last is not None and not await self.may_follow(call, model):
                continue
            try:
                return await self.answer_of(call, self.targets[model])
            except UpstreamError as failure:
                last = failure
                if failure.answer is not None and not failure.again:
                    break  # it is the request that is wrong
        assert last is not None
        raise last

    async def may_follow(self, call: Call, model: str) -> bool:
        """Returns whether a model may be asked after another one failed: its breaker allows it, and so does the
        budget."""
        usable = self.breakers.usable(call.endpoint_of(model), call.key)
        return usable and (call.may_ask is None or await call.may_ask(model))

    async def answer_of(self, call: Call, target: Target) -> CompleteAnswer | StartedStream:
        """Returns one model's answer, after retries; raises UpstreamError if there is none. A stream's success is
        unknown yet: report it with `stream_ended`."""
        place, trials = call.endpoint_of(target.name), 0
        while True:
            self.breakers.call_started(place, call.key)
            call.attempts, call.model = call.attempts + 1, target.name
            try:
                answer = await (self.streamed(call, target) if call.streams else self.whole(call, target))
            except UpstreamError as failure:
                self.metrics.count("sage_attempts_total", model=target.name, result=str(failure.status))
                if failure.blames:
                    self.breakers.failed(place, call.key, failure.summary)
                wait = BACKOFF_S * 2**trials if failure.retry_after_s is None else failure.retry_after_s
                trials += 1
                useless = trials > self.settings.retries or wait > self.settings.max_retry_after_s
                if not failure.again or useless or not self.breakers.usable(place, call.key):
                    if failure.status == 429 and failure.retry_after_s is not None:
                        self.breakers.rest(place, call.key, failure.retry_after_s)
                    raise
                await self.sleep(wait)
            else:
                self.metrics.count("sage_attempts_total", model=target.name, result="200")
                (self.breakers.succeeded if isinstance(answer, CompleteAnswer) else self.breakers.stream_started)(
                    place, call.key
                )
                return answer

    def stream_ended(self, call: Call, error: StreamError | None = None) -> None:
        """Tells the breaker that a stream has ended, with the error that broke it, or None if it is complete."""
        place = call.endpoint_of(call.model)
        if error is None:
            self.breakers.succeeded(place, call.key)
            return
        self.metrics.count("sage_broken_streams_total", model=call.model)
        if error.blames:
            self.breakers.failed(place, call.key, error.summary)

    async def whole(self, call: Call, target: Target) -> CompleteAnswer:
        try:
            async with self.post(call, target) as response:
                if not 200 <= response.status < 300:
                    check_status(response, await refused_answer(response, call, target), target)
                body = await AnswerBody(response, target).whole()
        except BodyError as error:
            raise UpstreamError(f"the upstream of {target.name} gave {error}", blames=True) from error
        except TRANSPORT_ERRORS as error:
            raise failure_of(error, target) from error
        values = parse_answer(body, call.dialect, target)
        headers = with_type(returned_headers(response.raw_headers), b"json", JSON[1])
        return CompleteAnswer(response.status, headers, body, values)

    async def streamed(self, call: Call, target: Target) -> StartedStream:
        response, begun, began = None, None, time.monotonic()
        try:
            async with asyncio.timeout(min(target.upstream.first_byte_s, target.upstream.first_content_s)):
                response = await self.post(call, target)
                if not 200 <= response.status < 300:
                    check_status(response, await refused_answer(response, call, target), target)
                if not response.content_type.startswith("text/event-stream"):
                    raise UpstreamError(
                        f"the upstream of {target.name} gave no stream of events", again=True, blames=True
                    )
                stream = Stream(response, call.dialect.reader(call.values), target, time.monotonic() - began)
                held = await stream.portion()
            begun = StartedStream(stream, await stream.begin(held))
        except StreamError as error:
            raise UpstreamError(
                without_key(f"{target.name}: {error}".encode(), target).decode(),
                again=not error.timed_out,
                blames=error.blames,
                timed_out=error.timed_out,
                summary=f"{target.name}: {error.summary}",
            ) from error
        except TRANSPORT_ERRORS as error:
            raise failure_of(error, target) from error
        finally:
            if begun is None and response is not None:
                response.close()
        return begun

    def post(self, call: Call, target: Target) -> aiohttp.client._RequestContextManager:
        url = call.dialect.url(target.url)
        return self.session.post(
            f"{url}?{call.query}" if call.query else url,
            data=call.body_for(target),
            headers=target.headers(call.dialect, call.headers),
            timeout=target.timeout(call.streams),
            allow_redirects=False,
        )


async def refused_answer(response: aiohttp.ClientResponse, call: Call, target: Target) -> CompleteAnswer:
    """Returns the part of an error answer that a client may see: without the upstream's key, and no more than the limit
    on bodies allows."""
    try:
        body = without_key(await AnswerBody(response, target).whole(), target)
    except BodyError as error:
        message = f"the upstream of {target.name} answered {response.status} with {error}"
        return CompleteAnswer(response.status, [JSON], dumps(call.dialect.error(response.status, message)))
    returned = with_type(returned_headers(response.raw_headers), b"json", b"text/plain; charset=utf-8")
    return CompleteAnswer(response.status, [(name, without_key(value, target)) for name, value in returned], body)
