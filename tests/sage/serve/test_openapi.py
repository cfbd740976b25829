"""docs/sage/openapi.yaml is the server's own: the same routes, and answers that fit its schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator
from starlette.routing import Route

from sage.log.decision_log import STATUSES
from sage.log.records import UNLOGGED
from sage.serve.feedback.feedback import REPORT_FIELDS
from tests.sage.serve.answers import BODIES, CHAT, PATHS, table
from tests.sage.serve.scripted import Proxy, call, proxy, whole

FILE = yaml.safe_load((Path(__file__).parents[3] / "docs" / "sage" / "openapi.yaml").read_text(encoding="utf-8"))
KEPT = partial(
    table,
    serve="{retries: 0, shadow_answers_s: 60}",
    more="exploration: {shadow: 1.0, among: [first, second]}",
)


def references(values: object) -> Iterator[str]:
    if isinstance(values, dict):
        for name, value in values.items():
            if name == "$ref":
                yield value
            yield from references(value)
    elif isinstance(values, list):
        for value in values:
            yield from references(value)


def at(reference: str) -> dict:
    found = FILE
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return found


def check(method: str, path: str, status: int, body: bytes) -> None:
    """That the file has the status, and that the answer fits its schema."""
    responses = FILE["paths"][path][method.lower()]["responses"]
    described = responses[str(status)]
    described = at(described["$ref"]) if "$ref" in described else described
    schema = described["content"]["application/json"]["schema"]
    Draft202012Validator({**schema, "components": FILE["components"]}).validate(json.loads(body))


def test_the_file_has_the_servers_routes_and_no_others(tmp_path: Path) -> None:
    with proxy(tmp_path, lambda _: whole(CHAT), table) as served:
        routes = [route for route in served.application.asgi.routes if isinstance(route, Route)]
    methods = [(route.path.replace(":path}", "}"), route.methods or set()) for route in routes]
    served_routes = {(path, method) for path, named in methods for method in named if method != "HEAD"}
    written = {(path, method.upper()) for path, methods in FILE["paths"].items() for method in methods}
    assert written == served_routes


def test_references_and_schemas_are_sound() -> None:
    for reference in references(FILE):
        assert at(reference)
    for schema in FILE["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_fields_and_statuses_are_those_of_the_code() -> None:
    schemas = FILE["components"]["schemas"]
    assert sorted(schemas["Outcome"]["properties"]) == REPORT_FIELDS
    assert set(schemas["Reported"]["properties"]["status"]["enum"]) == {*STATUSES, UNLOGGED}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Proxy]:
    with proxy(tmp_path, lambda _: whole(CHAT), KEPT) as running:
        yield running


def test_answers_fit_their_schemas(served: Proxy) -> None:
    status, headers, body = call(served, PATHS["chat"], BODIES["chat"])
    check("post", PATHS["chat"], status, body)
    named = FILE["components"]["responses"]["Answer"]["headers"]
    kinds = {name: FILE["components"]["headers"][kind["$ref"].rpartition("/")[2]] for name, kind in named.items()}
    assert {name for name, kind in kinds.items() if kind.get("required")} == headers.keys() & kinds.keys()
    decision = headers["x-sage-decision-id"]
    report = {"decision_id": decision, "quality": 1.0, "source": "tests", "verdicts": {"tests": True}}
    schema = {"$ref": "#/components/schemas/Outcome", "components": FILE["components"]}
    Draft202012Validator(schema).validate(report)
    for sent in (report, {"outcomes": [report, {"decision_id": "0" * 32, "quality": 1.0}]}):
        status, _, body = call(served, "/v1/outcomes", sent)
        check("post", "/v1/outcomes", status, body)
    status, _, body = call(served, "/v1/models", method="GET")
    check("get", "/v1/models", status, body)
    status, _, body = call(served, "/v1/models/first", method="GET")
    check("get", "/v1/models/{name}", status, body)
    for headers in ({}, {"anthropic_version": "2023-06-01"}):
        status, _, body = call(served, "/v1/models/nobody", method="GET", **headers)
        assert status == 404
        check("get", "/v1/models/{name}", status, body)
    status, _, body = call(served, f"/v1/shadows/{decision}", method="GET")
    check("get", "/v1/shadows/{decision_id}", status, body)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (PATHS["chat"], b"{"),
        (PATHS["messages"], b"[]"),
        (PATHS["responses"], {"input": "x"}),
        ("/v1/outcomes", {"decision_id": "0" * 32, "qualty": 1}),
        ("/v1/webhooks/ci", {"task_id": "t", "conclusion": "success"}),
    ],
)
def test_errors_fit_their_schemas(served: Proxy, path: str, body: object) -> None:
    status, _, answer = call(served, path, body)
    assert status in (400, 404)
    check("post", path, status, answer)
