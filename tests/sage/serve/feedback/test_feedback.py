"""Reports of callers and CI reach the decisions of their own tenant, with their source, and nobody else's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette

from sage import Router
from sage.log.budget_settings import TenantBudget
from sage.log.records import Outcome
from sage.log.reports import MOST_REPORTS
from sage.serve.access.access import Access
from sage.serve.access.keys import KeyFile, LiveKeys
from sage.serve.feedback.ci_events import signature, tenant_secret
from sage.serve.feedback.feedback import ENDING, MOST_WAITING, Feedback
from sage.upstream.secrets import Secret
from tests.sage.examples import written
from tests.sage.serve.asgi import call

MASTER = "s3cret-of-the-server"


class Setting:
    """A server with two tenants, of which one has a budget."""

    def __init__(self, folder: Path) -> None:
        file = KeyFile(folder / "keys.json")
        self.keys = {
            "team": file.add("ada", tenant="team")[1],
            "other": file.add("bob", tenant="other", budget=TenantBudget(usd=1.0))[1],
            "operator": file.add("eve", tenant="staff", role="operator")[1],
        }
        self.router = Router.open(folder / "sage.db", models=written(folder), environment={})
        self.feedback = Feedback(lambda: self.router, Access(LiveKeys(file.path)), Secret(MASTER))
        self.app = Starlette(routes=list(self.feedback.routes()))

    def decided(self, tenant: str = "team", **fields: str) -> str:
        return self.router.route(role="coder", tenant=tenant, **fields).id  # pyrefly: ignore

    def post(self, values: object, tenant: str = "team") -> tuple[int, dict]:
        headers = {"authorization": f"Bearer {self.keys[tenant]}"}
        return call(self.app, "POST", "/v1/outcomes", body=json.dumps(values).encode(), headers=headers)

    def known(self, decision_id: str) -> Outcome | None:
        return next(outcome for made, outcome in self.router.log.rows() if made.id == decision_id)

    def ci(self, values: object, secret: str, path: str = "/v1/webhooks/ci/team") -> tuple[int, dict]:
        body = json.dumps(values).encode()
        return call(self.app, "POST", path, body=body, headers={"x-hub-signature-256": signature(secret, body)})


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Setting]:
    setting = Setting(tmp_path)
    yield setting
    setting.router.close()


def test_one_report_in_two_parts(at: Setting) -> None:
    made = at.decided()
    assert at.post({"decision_id": made, "latency_s": 2.0}) == (200, {"decision_id": made, "status": "joined"})
    status, said = at.post({"decision_id": made, "quality": 1.0, "source": "tests", "verdicts": {"lint": False}})
    assert (status, said["status"]) == (200, "joined")
    known = at.known(made)
    assert (known.quality, known.latency_s, known.provenance) == (1.0, 2.0, "api: tests")
    assert [(verdict.verifier, verdict.verdict) for verdict in known.verdicts] == [("lint", "failed")]


def test_many_reports_have_results_of_their_own(at: Setting) -> None:
    made, strange = at.decided(), at.decided("other")
    reports = [{"decision_id": made, "quality": 1, "source": "ada"}, {"decision_id": strange, "quality": 0}, 5]
    status, said = at.post({"outcomes": reports})
    assert status == 200
    assert said["outcomes"][0] == {"decision_id": made, "status": "joined"}
    assert "no such decision" in said["outcomes"][1]["error"]
    assert "must be an object" in said["outcomes"][2]["error"]
    assert at.known(made).provenance == "api: ada"
    assert at.known(strange) is None


def test_another_tenants_decision_looks_as_if_it_were_not_there(at: Setting) -> None:
    strange = at.decided("other")
    assert at.post({"decision_id": strange, "quality": 0}) == at.post({"decision_id": "0" * 32, "quality": 0})
    assert at.post({"decision_id": strange, "quality": 0})[0] == 404
    assert at.router.log.counts()["with_outcome"] == 0
    assert at.router.log.counts()["unknown"] == 0  # nothing is kept of it


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"quality": 1.0}, "decision_id must be"),
        ({"decision_id": "ID", "qualty": 1.0}, "did you mean 'quality'"),
        ({"decision_id": "ID", "provenance": "proxy"}, "'provenance' is not a field"),
        ({"decision_id": "ID", "quality": 2.0}, "quality=2.0 must be between 0 and 1"),
        ({"decision_id": "ID", "quality": float("nan")}, "quality=nan"),
        ({"decision_id": "ID"}, "says nothing"),
        ({"decision_id": "ID", "correct": 1, "quality": 1}, "correct must be true or false"),
        ({"decision_id": "ID", "verdicts": [1]}, "verdicts must be an object"),
        ({"decision_id": "ID", "verdicts": {"a": 3}}, "must be true, false"),
        ({"decision_id": "ID", "source": "x" * 101, "quality": 1}, "at most 100 characters"),
        ({"decision_id": "ID", "verdicts": {f"v{k}": True for k in range(51)}}, "51 verifiers: send at most 50"),
        ({"outcomes": []}, "1 to 1000 reports"),
        ({"outcomes": [], "quality": 1}, "nothing beside it"),
    ],
)
def test_bad_reports_get_a_sentence(at: Setting, values: dict, sentence: str) -> None:
    made = at.decided()
    status, said = at.post({key: made if value == "ID" else value for key, value in values.items()})
    assert status == 400
    assert sentence in said["error"]["message"]
    assert at.known(made) is None


def test_nobody_lowers_what_a_budget_counts(at: Setting) -> None:
    made = at.decided("other")
    for report in ({"cost_usd": 0.0}, {"cost_usd": 0.0, "correct": True}):
        status, said = at.post({"decision_id": made} | report, "other")
        assert status == 400
        assert "measured by the server" in said["error"]["message"]
    assert at.post({"decision_id": at.decided(), "cost_usd": 0.5})[0] == 200  # where there is no budget


def github(message: str = "", conclusion: str = "success", sha: str = "ab12", name: str = "tests") -> dict:
    run = {"conclusion": conclusion, "head_sha": sha, "name": name, "head_commit": {"message": message}}
    return {"action": "completed", "workflow_run": run}


def test_ci_tells_all_decisions_of_a_task(at: Setting) -> None:
    first, second, other = at.decided(task_id="t1"), at.decided(session="s1"), at.decided(task_id="t2")
    by_commit = at.decided(task_id="ab12")
    strange = at.decided("other", task_id="t1")
    secret = tenant_secret(MASTER, "team")
    event = github("Repair it\n\nSage-Task: t1\nSage-Session: s1\n", "failure")
    assert at.ci(event, secret) == (200, {"decisions": 3, "statuses": {"joined": 3}})
    for made in (first, second, by_commit):
        assert (at.known(made).quality, at.known(made).provenance) == (0.0, "ci: tests")
    assert at.known(other) is None
    assert at.known(strange) is None
    assert at.ci(event, secret)[1] == {"decisions": 3, "statuses": {"duplicate": 3}}  # a delivery that is repeated


def test_plain_events_and_those_that_say_nothing(at: Setting) -> None:
    made = at.decided("default", task_id="t1")
    path = "/v1/webhooks/ci"
    assert at.ci({"task_id": "t1", "conclusion": "cancelled"}, MASTER, path)[1]["decisions"] == 0
    assert at.known(made) is None
    assert at.ci({"decision_id": made, "conclusion": "passed"}, MASTER, path)[1]["decisions"] == 1
    assert at.known(made).quality == 1.0
    for bad in ({}, {"task_id": "t1"}, {"conclusion": "success"}, {"task_id": 5, "conclusion": "success"}):
        assert at.ci(bad, MASTER, path)[0] == 400


@pytest.mark.parametrize("signed", ["", "sha256=", "sha256=" + "0" * 64, "sha1=abc", "é"])
def test_unsigned_events_are_refused(at: Setting, signed: str) -> None:
    made = at.decided(task_id="t1")
    event = {"task_id": "t1", "conclusion": "success"}
    headers = {"x-hub-signature-256": signed.encode("latin-1")}
    assert call(at.app, "POST", "/v1/webhooks/ci/team", body=json.dumps(event).encode(), headers=headers)[0] == 401
    assert at.known(made) is None


def test_one_tenants_secret_signs_for_no_other(at: Setting) -> None:
    event = {"task_id": "t1", "conclusion": "success"}
    for path, secret in (
        ("/v1/webhooks/ci/other", tenant_secret(MASTER, "team")),
        ("/v1/webhooks/ci", tenant_secret(MASTER, "team")),
        ("/v1/webhooks/ci/other", MASTER),
    ):
        assert at.ci(event, secret, path)[0] == 401


@pytest.mark.parametrize("client_first", [True, False])
def test_a_client_does_not_change_what_ci_says(at: Setting, client_first: bool) -> None:
    made = at.decided(task_id="t1")
    claim = {"decision_id": made, "quality": 1, "source": "ci: tests"}
    if client_first:
        assert at.post(claim)[1]["status"] == "joined"
    said = at.ci({"task_id": "t1", "conclusion": "failure"}, tenant_secret(MASTER, "team"))[1]
    assert said["statuses"] == {"corrected" if client_first else "joined": 1}
    for again in (claim, claim | {"correct": True}, {"decision_id": made, "timed_out": True, "correct": True}):
        assert at.post(again)[1]["status"] == "conflict"
    known = at.known(made)
    assert (known.quality, known.timed_out, known.source, known.provenance) == (0.0, False, "ci", "ci")
    assert at.post({"decision_id": made, "quality": 0.5, "source": "a person"}, "operator")[1]["status"] == "corrected"
    assert at.router.outcome(made, quality=0.5, provenance="api: a person") == "duplicate"
    assert at.ci({"task_id": "t1", "conclusion": "success"}, tenant_secret(MASTER, "team"))[1]["statuses"] == {
        "conflict": 1
    }
    assert (at.known(made).quality, at.known(made).source) == (0.5, "operator")


def test_reports_beyond_the_limit_are_refused_and_ci_is_heard(at: Setting) -> None:
    made = at.decided(task_id="t1")
    reports = [{"decision_id": made, "quality": number / 200} for number in range(MOST_REPORTS + 1)]
    results = at.post({"outcomes": reports})[1]["outcomes"]
    assert [result.get("status") for result in results] == ["joined", *["conflict"] * (MOST_REPORTS - 1), None]
    status, said = at.post({"decision_id": made, "quality": 1.0})
    assert (status, said["error"]["message"]) == (409, results[-1]["error"])
    assert "has 100 reports from your source" in said["error"]["message"]
    event = {"task_id": "t1", "conclusion": "success"}
    assert at.ci(event, tenant_secret(MASTER, "team"))[1]["statuses"] == {"corrected": 1}
    assert at.known(made).quality == 1.0


def test_tenants_report_in_turn_and_what_is_left_ends_with_the_server(at: Setting) -> None:
    feedback, order = at.feedback, []

    async def both() -> None:
        many = asyncio.ensure_future(feedback.in_turn("team", [lambda: order.append("team")] * MOST_WAITING))
        await asyncio.sleep(0)
        assert await feedback.in_turn("other", [lambda: order.append("other")] * 3) == [None] * 3
        assert feedback.waiting["team"] == MOST_WAITING
        feedback.ending = True
        assert await many == ENDING

    asyncio.run(both())
    feedback.thread.submit(order.append, "end").result()
    assert order.count("other") == 3
    assert order.index("end") < 50  # of 10,000
    assert not feedback.waiting


def test_a_tenant_with_too_many_waiting_reports_is_told_to_wait(at: Setting) -> None:
    made = at.decided()
    at.feedback.waiting["team"] = MOST_WAITING + 1
    status, said = at.post({"decision_id": made, "quality": 1.0})
    assert (status, said["error"]["type"]) == (429, "rate_limit_error")
    assert at.post({"decision_id": at.decided("other"), "quality": 1.0}, "other")[0] == 200
