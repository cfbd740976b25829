"""Answers of shadows, kept for a while beside the log, so that they can be judged like other answers."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sage.files import write_json
from sage.log.records import Decision
from sage.log.redaction import redact
from sage.serve.access.access import Access, Refusal, tenant_of
from sage.serve.access.keys import OPERATOR
from sage.serve.feedback.feedback import refused

ID = re.compile(r"[0-9a-f]{32}")
NOT_THERE = Refusal(404, "not_found_error", "there is no shadow answer of that decision of yours, or no more")
NOT_KEPT = Refusal(
    404, "not_found_error", "answers of shadows are not kept here: set serve.shadow_answers_s in models.yaml"
)


@dataclass(frozen=True)
class ShadowAnswers:
    """A folder with one file for each answer, shared by all processes of a server and readable by its owner only."""

    folder: Path
    seconds: float  # that an answer is kept; none is if 0

    def keep(self, decision: Decision, answer: dict) -> None:
        """Writes the answer of a decision's shadow, and deletes answers that are too old."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = {"decision_id": decision.id, "tenant": decision.tenant, "model": decision.shadow, "answer": answer}
        write_json(self.folder / f"{decision.id}.json", facts, private=True)
        self.forget()

    def forget(self) -> None:
        """Deletes answers that are older than `seconds`."""
        oldest = time.time() - self.seconds
        for path in self.folder.glob("*.json"):
            with suppress(FileNotFoundError):  # another process was faster
                if path.stat().st_mtime < oldest:
                    path.unlink()

    def find(self, decision_id: str, tenant: str | None) -> dict | None:
        """Returns the kept answer of a decision's shadow; None if there is none, if it is too old, or if the decision
        is not the tenant's (None: any tenant's)."""
        if not ID.fullmatch(decision_id):
            return None
        with suppress(FileNotFoundError):
            path = self.folder / f"{decision_id}.json"
            facts = json.loads(path.read_text(encoding="utf-8"))
            fresh = path.stat().st_mtime >= time.time() - self.seconds
            owner = facts.pop("tenant")
            if fresh and (tenant is None or owner == redact(tenant)):
                return facts
        return None


def shadow_route(kept: Callable[[], ShadowAnswers], access: Access) -> Route:
    """Returns the route `GET /v1/shadows/ID`, which shows a shadow's answer to the tenant of its decision and to
    operators."""

    async def show(request: Request) -> Response:
        host = request.client.host if request.client else ""
        caller = access.admit(request.scope["headers"], host, request.scope["path"])
        if isinstance(caller, Refusal):
            return refused(caller)
        answers = kept()
        if answers.seconds <= 0:
            return refused(NOT_KEPT)
        tenant = None if caller.role == OPERATOR else tenant_of(caller.tenant)
        found = await asyncio.to_thread(answers.find, request.path_params["decision_id"], tenant)
        return refused(NOT_THERE) if found is None else JSONResponse(found)

    return Route("/v1/shadows/{decision_id}", show, methods=["GET"])
