"""Reports on decisions, by callers and by CI: `POST /v1/outcomes` and `POST /v1/webhooks/ci`."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sage.log.database import DatabaseError
from sage.log.decision_log import REFUSED, DecisionLog, LogError
from sage.log.lookup import decision_ids
from sage.log.record_checks import CI, CLIENT, RecordError, is_unicode
from sage.log.redaction import redact
from sage.log.reports import MOST_REPORTS
from sage.orchestrator.model_router import Router
from sage.orchestrator.nearest import nearest
from sage.orchestrator.request_fields import AttemptFields, OutcomeFields
from sage.serve.access.access import WEBHOOK, Access, Caller, Refusal, bad, tenant_of
from sage.serve.access.bodies import parse_object, read_body
from sage.serve.access.keys import OPERATOR
from sage.serve.feedback.ci_events import CiEvent, CiEventError, event_of, signature, tenant_secret
from sage.serve.replies import log_failure
from sage.upstream.secrets import Secret
from sage.verifiers.verifier import verify

MOST_BYTES = 1024 * 1024
MOST_OUTCOMES = 1000
MOST_SOURCE = 100  # characters
MOST_VERDICTS = 50  # in one report
MOST_WAITING = 10_000  # reports of one tenant that wait to be logged
T = TypeVar("T")
REPORT_FIELDS = sorted(
    {"decision_id", "source", "correct", "shadow", *OutcomeFields.__optional_keys__} - {"provenance", "usage_problem"}
)
ENDING = Refusal(503, "api_error", "the server ends, and has not logged all of this: send it again", retry_after_s=1)
NO_LOG = Refusal(503, "api_error", "the log cannot be used now: send it again later")
CI_DAYS = 30  # that a decision may be older than the result of its tests
NOT_THERE = Refusal(404, "not_found_error", "there is no such decision of yours: check the id")
TOO_MANY = Refusal(
    409,
    "invalid_request_error",
    f"this decision has {MOST_REPORTS} reports from your source, which is the limit: this one is not logged",
)
BUSY = Refusal(
    429,
    "rate_limit_error",
    f"{MOST_WAITING} reports of yours wait to be logged: send these again later",
    retry_after_s=1,
)


class Feedback:
    """The routes for reports; `router` returns the router that serves now."""

    def __init__(self, router: Callable[[], Router], access: Access, secret: Secret | None = None) -> None:
        self.router = router
        self.access = access
        self.secret = secret
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="sage-feedback")
        self.waiting: Counter[str] = Counter()  # reports by tenant
        self.turns: dict[str, asyncio.Lock] = {}
        self.ending = False  # set when the server is told to stop

    def routes(self) -> Iterator[Route]:
        yield Route("/v1/outcomes", self.outcomes, methods=["POST"])
        yield Route(WEBHOOK, self.ci, methods=["POST"])
        yield Route(WEBHOOK + "/{tenant}", self.ci, methods=["POST"])

    async def outcomes(self, request: Request) -> Response:
        """Logs the report in a request's body, or many as `{"outcomes": [...]}`, and returns the status or the error of
        each."""
        caller, body = await self.admitted(request)
        if isinstance(caller, Refusal):
            return refused(caller)
        values = parse_object(body)
        if isinstance(values, Refusal):
            return refused(values)
        if "outcomes" not in values:
            result = await self.in_turn(caller.tenant, [partial(self.report, values, caller)])
            result = result if isinstance(result, Refusal) else result[0]
            return refused(result) if isinstance(result, Refusal) else JSONResponse(result)
        reports = values["outcomes"]
        if not isinstance(reports, list) or len(values) > 1 or not 0 < len(reports) <= MOST_OUTCOMES:
            return refused(bad(f"outcomes must be a list of 1 to {MOST_OUTCOMES} reports, and nothing beside it"))
        results = await self.in_turn(caller.tenant, [partial(self.report, report, caller) for report in reports])
        if isinstance(results, Refusal):
            return refused(results)
        return JSONResponse({"outcomes": [shown(result) for result in results]})

    async def ci(self, request: Request) -> Response:
        """Logs the result of a CI run for all decisions that it is about; the body must be signed with the server's
        secret, or with the tenant's if the path names one."""
        caller, body = await self.admitted(request)
        if isinstance(caller, Refusal):
            return refused(caller)
        if self.secret is None:
            return refused(
                Refusal(404, "not_found_error", "this server has no secret for webhooks: set serve.webhook_key_env")
            )
        tenant = request.path_params.get("tenant")
        secret = self.secret.reveal() if tenant is None else tenant_secret(self.secret.reveal(), tenant)
        given = request.headers.get("x-hub-signature-256", "")
        if not hmac.compare_digest(signature(secret, body).encode(), given.encode("latin-1", "replace")):
            return refused(
                Refusal(401, "authentication_error", "x-hub-signature-256 does not sign this body with the secret")
            )
        values = parse_object(body)
        if isinstance(values, Refusal):
            return refused(values)
        try:
            event = event_of(values)
        except CiEventError as error:
            return refused(bad(str(error)))
        of = tenant_of(tenant or "")
        try:
            found = [] if event.quality is None else await asyncio.to_thread(decisions_of, self.router().log, event, of)
        except DatabaseError:
            return refused(NO_LOG)
        statuses = await self.in_turn(of, [partial(self.join, event, decision_id) for decision_id in found])
        if isinstance(statuses, Refusal):
            return refused(statuses)
        return JSONResponse({"decisions": len(statuses), "statuses": Counter(statuses)})

    async def in_turn(self, tenant: str, calls: Sequence[Callable[[], T]]) -> list[T] | Refusal:
        """Returns the results of the calls, made one after the other while tenants take turns; a Refusal if too many
        calls wait or the server is told to stop."""
        if self.waiting[tenant] > MOST_WAITING:
            return BUSY
        self.waiting[tenant] += len(calls)
        turn, results = self.turns.setdefault(tenant, asyncio.Lock()), []
        try:
            for call in calls:
                async with turn:
                    if self.ending:
                        return ENDING
                    results.append(await asyncio.get_running_loop().run_in_executor(self.thread, call))
        finally:
            self.waiting[tenant] -= len(calls)
            if not self.waiting[tenant]:
                del self.waiting[tenant], self.turns[tenant]
        return results

    async def admitted(self, request: Request) -> tuple[Caller | Refusal, bytes]:
        client = request.client.host if request.client else ""
        caller = self.access.admit(request.scope["headers"], client, request.scope["path"])
        if isinstance(caller, Refusal):
            return caller, b""
        body = await read_body(request.receive, request.scope["headers"], MOST_BYTES)
        return (body, b"") if isinstance(body, Refusal) else (caller, body)

    def report(self, values: object, caller: Caller) -> dict[str, str] | Refusal:
        """Logs one report and returns its status, or a Refusal; only operators may report on decisions of other
        tenants."""
        router = self.router()
        try:
            fields = checked_report(values, caller)
            decision_id = fields.pop("decision_id")
            tenant = router.log.decision(decision_id).tenant
            if caller.role != OPERATOR and tenant != redact(tenant_of(caller.tenant)):
                return NOT_THERE
            correction, shadow = fields.pop("correct", False), fields.pop("shadow", False)
            verdicts = verify(None, {}, fields.pop("verdicts", {}))
            outcome = router.outcome_of(decision_id, None, fields, verdicts)
            status = router.report(outcome, correction=correction, shadow=shadow)
            return TOO_MANY if status == REFUSED else {"decision_id": decision_id, "status": status}
        except RecordError as error:
            return bad(redact(str(error))[:500])
        except DatabaseError:
            return NO_LOG
        except LogError:
            return NOT_THERE

    def join(self, event: CiEvent, decision_id: str) -> str:
        """Logs the event's quality for one decision, and returns the status of that report, such as `joined`."""
        router = self.router()
        said: AttemptFields = {"quality": event.quality, "provenance": event.source, "source": CI}
        return router.report(router.outcome_of(decision_id, None, said, ()))


def decisions_of(log: DecisionLog, event: CiEvent, tenant: str) -> list[str]:
    """Returns the ids of a tenant's decisions, of the last CI_DAYS days, that an event is about."""
    since = max(time.time() - CI_DAYS * 86_400, 0.0)
    return decision_ids(log, tenant, since=since, tasks=event.tasks, sessions=event.sessions, decisions=event.decisions)


def checked_report(values: object, caller: Caller) -> Any:  # an outcome's fields, whose values the record checks itself
    """Returns the valid fields of a report, with its source as provenance, so that no report looks like another
    caller's; raises RecordError if a field is not valid."""
    if not isinstance(values, dict):
        raise RecordError("an outcome must be an object with decision_id and what came of it")
    for name in values:
        if name not in REPORT_FIELDS:
            raise RecordError(f"{name[:50]!r} is not a field of an outcome: {nearest(name[:50], REPORT_FIELDS)}")
    fields = dict(values)
    for name in ("correct", "shadow"):
        if not isinstance(fields.get(name, False), bool):
            raise RecordError(f"{name} must be true or false")
    if not isinstance(fields.get("decision_id"), str):
        raise RecordError("decision_id must be the id of a decision: the header x-sage-decision-id has it")
    if not isinstance(fields.get("verdicts", {}), dict):
        raise RecordError("verdicts must be an object of verifiers, each with true, false or null")
    names = (*fields.get("verdicts", {}), fields.get("model"))
    if len(names) > MOST_VERDICTS + 1:
        raise RecordError(f"verdicts has {len(names) - 1} verifiers: send at most {MOST_VERDICTS}")
    if any(isinstance(name, str) and redact(name) != name for name in names):  # which are kept as they are
        raise RecordError("the name of a verifier or model looks like a secret: choose another one")
    texts = (*names, fields["decision_id"], fields.get("source"))
    if not all(is_unicode(text) for text in texts if isinstance(text, str)):
        raise RecordError("a text of the outcome holds half a character: send it in UTF-8")
    if caller.budget is not None and fields.get("cost_usd") is not None and not fields.get("shadow"):
        raise RecordError("cost_usd is measured by the server where there is a budget: leave it out")
    source = fields.pop("source", "")
    if not isinstance(source, str) or len(source) > MOST_SOURCE:
        raise RecordError(f"source must be at most {MOST_SOURCE} characters: who judged, such as tests or a person")
    judged = f"api: {source}" if source else "api" if fields.get("quality") is not None else ""
    return fields | {"provenance": judged, "source": OPERATOR if caller.role == OPERATOR else CLIENT}


def shown(result: dict[str, str] | Refusal) -> dict[str, str]:
    return {"error": result.message} if isinstance(result, Refusal) else result


def refused(refusal: Refusal) -> Response:
    if refusal.status >= 500:
        log_failure(refusal.status, "a report", refusal.message)
    headers = {} if refusal.retry_after_s is None else {"retry-after": str(int(refusal.retry_after_s) + 1)}
    error = {"message": refusal.message, "type": refusal.kind, "param": None, "code": None}
    return JSONResponse({"error": error}, refusal.status, headers)
