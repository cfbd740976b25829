"""models.yaml is read again when it changes, as a whole; a bad file leaves the old one serving."""

from __future__ import annotations

import logging
import re
import threading
from functools import partial
from pathlib import Path

import pytest

import sage
from sage.files import write_text
from sage.proof.gate_record import record_path
from sage.serve.reloading import signature, watched_files
from tests.sage.orchestrator.test_promotion import judge, train
from tests.sage.serve.answers import BODIES, CHAT, CHAT_STREAM, PATHS, USAGE, table
from tests.sage.serve.scripted import KEY, Asked, Proxy, Reply, call, proxy, stream, wait_for, whole


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sage.serve.app.LOOK_EVERY_S", 0.02)


def reloads(served: Proxy, result: str) -> bool:
    return f'sage_reloads_total{{result="{result}"' in call(served, "/metrics", method="GET")[2].decode()


def model_of(served: Proxy) -> str:
    return call(served, PATHS["chat"], BODIES["chat"], x_sage_category="x")[1]["x-sage-model"]


def test_a_new_table_serves_and_a_bad_one_does_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "models.yaml"
    with proxy(tmp_path, lambda _: whole(CHAT), table) as served, caplog.at_level(logging.WARNING):
        assert model_of(served) == "first"
        good = path.read_text()
        write_text(path, good.replace("primary: first, fallback: second", "primary: second, fallback: first"))
        wait_for(lambda: reloads(served, "done"))
        assert model_of(served) == "second"
        write_text(path, good.replace("primary: first", "primary: frist"))
        wait_for(lambda: reloads(served, "refused"))
        assert model_of(served) == "second"
        assert len(served.logged()) == 3
    assert "what has changed cannot serve, and the old files do" in caplog.text
    assert "roles.default.primary='frist' is not known" in caplog.text


def test_a_stream_that_has_begun_ends_as_it_began(tmp_path: Path) -> None:
    def slow(asked: Asked) -> Reply:
        if asked.values.get("stream"):
            return stream(*CHAT_STREAM[:2], 0.4, *CHAT_STREAM[2:])
        return whole(CHAT)

    path = tmp_path / "models.yaml"
    with proxy(tmp_path, slow, table) as served:
        answers: list[bytes] = []
        asking = threading.Thread(
            target=lambda: answers.append(call(served, PATHS["chat"], BODIES["chat"] | {"stream": True})[2])
        )
        asking.start()
        wait_for(lambda: served.upstream.asked)
        write_text(path, path.read_text() + "exploration: 0.5\n")
        wait_for(lambda: reloads(served, "done"))
        asking.join()
        ((_, outcome),) = served.logged()
    assert answers == [b"".join(part for part in CHAT_STREAM if part != USAGE)]
    assert outcome is not None
    assert outcome.tokens_out == 100


def test_checkpoints_and_what_the_gate_says_of_them_are_watched(tmp_path: Path) -> None:
    checkpoint = tmp_path / "policy.bin"
    switches = {"SAGE_RL_POLICY": "1", "SAGE_RL_CHECKPOINT": str(checkpoint)}
    paths = watched_files(tmp_path / "models.yaml", tmp_path / "sage.db", switches)
    promoted = tmp_path / "sage.db.policies" / "serving.json"
    assert paths == [tmp_path / "models.yaml", promoted, checkpoint, tmp_path / "policy.bin.gate.json"]
    before = signature(paths)
    assert before == (None,) * 4
    write_text(checkpoint, "a")
    assert signature(paths) != before


def decides(served: Proxy) -> str:
    """The policy that the server says is in charge."""
    text = call(served, "/metrics", method="GET")[2].decode()
    (found,) = re.findall(r'sage_serving_policy\{of="decisions",policy="(\w+)"', text)
    return found


def test_a_running_server_follows_promotions_and_rollbacks(tmp_path: Path) -> None:
    checkpoint, models = tmp_path / "policy.bin", tmp_path / "models.yaml"
    train(checkpoint, "a")
    judge(checkpoint)
    floor = partial(table, more="guard: {confidence_floor: 0}\n")
    with proxy(tmp_path, lambda _: whole(CHAT), floor) as served:
        assert (decides(served), model_of(served)) == ("static", "first")
        sage.promote(checkpoint, db=served.db, models=models, environment={})
        wait_for(lambda: decides(served) == "a")
        assert model_of(served) == "second"
        sage.rollback(db=served.db, environment={})
        wait_for(lambda: decides(served) == "static")
        assert model_of(served) == "first"


def test_a_policy_that_the_gate_refuses_later_ends_at_the_next_look(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint, models = tmp_path / "policy.bin", tmp_path / "models.yaml"
    train(checkpoint, "a")
    judge(checkpoint)
    environment = KEY | {"SAGE_RL_POLICY": "1", "SAGE_RL_CHECKPOINT": str(checkpoint)}
    floor = partial(table, more="guard: {confidence_floor: 0}\n")
    with proxy(tmp_path, lambda _: whole(CHAT), floor, environment=environment) as served:
        assert (decides(served), model_of(served)) == ("a", "second")
        judge(checkpoint, promote=False)
        wait_for(lambda: decides(served) == "static")
        assert model_of(served) == "first"
        judge(checkpoint)
        wait_for(lambda: decides(served) == "a")
        good = models.read_text()
        write_text(models, "models: {")
        wait_for(lambda: reloads(served, "refused"))
        record_path(checkpoint).unlink()  # while models.yaml cannot be read
        wait_for(lambda: decides(served) == "static")
        write_text(models, good)
        wait_for(lambda: f"{models} was read again" in caplog.text)
        assert model_of(served) == "first"
        judge(checkpoint)
        wait_for(lambda: decides(served) == "a")
        train(checkpoint, "b")
        wait_for(lambda: "a 1 goes on" in re.sub("a [0-9a-f]{12}", "a 1", caplog.text))
        write_text(models, good + "exploration: 0\n")  # the policy in memory is handed on
        wait_for(lambda: caplog.text.count(f"{models} was read again") == 2)
        assert (decides(served), model_of(served)) == ("a", "second")
        judge(checkpoint)
        wait_for(lambda: decides(served) == "b")
        rows = [(made.policy, made.model, made.verdict) for made, _ in served.logged()]
    unusable = ("static", "first", "policy_unusable")
    assert rows == [("a", "second", "ok"), unusable, unusable, ("a", "second", "ok")]
    said = [record.getMessage() for record in caplog.records]
    assert sum("the gate refused" in line for line in said) == 1
    assert sum("has no gate record" in line for line in said) == 1
