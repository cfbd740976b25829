"""Which learned policy is in charge after every change of a checkpoint, its gate record and models.yaml."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from sage import Router
from sage.files import sha256_of
from sage.log.records import Request
from sage.policies.checkpoint import load_policy, save_policy
from sage.policies.features import contexts_of
from sage.proof.gate_record import GateRecord, record_path, records_of
from sage.rl.category_table import table_from_outcomes

TABLE = """
models:
  first: {input_usd_per_mtok: 1, output_usd_per_mtok: 1}
  second: {input_usd_per_mtok: 2, output_usd_per_mtok: 2}
roles: {default: {primary: first}}
guard: {confidence_floor: 0}
"""


def train(path: Path, name: str) -> None:
    path.write_bytes(trained(name))


@cache
def trained(name: str) -> bytes:
    """A policy that always takes `second`."""
    contexts = contexts_of([Request(role="coder", category="x", task_id=str(i)) for i in range(40)])
    rewards = np.tile([0.0, 1.0], (40, 1))
    policy = table_from_outcomes(contexts, ("first", "second"), rewards, incumbent="first", name=name)
    with TemporaryDirectory() as folder:
        save_policy(Path(folder) / "policy", policy)
        return (Path(folder) / "policy").read_bytes()


def judge(path: Path, promote: bool = True, **changes: object) -> None:
    """The gate's verdict on the file as it is."""
    values: dict = {
        "checkpoint_sha256": sha256_of(path),
        "policy": "category_table",
        "policy_version": "1",
        "promote": promote,
        "reason": "above zero" if promote else "not above zero",
        "data_source": "real",
        "data_sha256": "0" * 64,
        "level": 0.95,
        "method": "anytime",
        "floor": 0.0,
        "date": "2026-01-31T12:00:00+00:00",
    }
    GateRecord(**values | changes).write(path)


class Serving:
    """A router that looks at its files again, and another one that starts then."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "policy.bin"
        self.models = folder / "models.yaml"
        self.models.write_text(TABLE)
        train(self.path, "a")
        judge(self.path)
        self.environment = {"SAGE_RL_POLICY": "1", "SAGE_RL_CHECKPOINT": str(self.path)}
        self.router = self.opened()

    def opened(self, before: Router | None = None) -> Router:
        db = self.folder / "sage.db"
        return Router.open(db, models=self.models, environment=self.environment, before=before)

    def running(self) -> str:
        self.router.look_again(self.environment)
        return self.decides(self.router)

    def restarted(self) -> str:
        with self.opened() as router:
            return self.decides(router)

    def decides(self, router: Router) -> str:
        made = router.route(role="coder", category="x")
        assert (made.policy == "static") == (made.model == "first") == (made.verdict == "policy_unusable")
        assert (router.policy is None) == (made.policy == "static")
        assert router.deciding["decisions"].name == made.policy
        return made.policy


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    return Serving(tmp_path)


Step = Callable[[Path], object]
RETRAINED: Step = lambda path: train(path, "b")  # noqa: E731
PROMOTED: Step = judge
REFUSED: Step = lambda path: judge(path, promote=False)  # noqa: E731
NO_RECORD: Step = lambda path: record_path(path).unlink()  # noqa: E731
GARBAGE: Step = lambda path: record_path(path).write_text('{"promote": true')  # noqa: E731
DEEP: Step = lambda path: record_path(path).write_text("[" * 100_000)  # noqa: E731
BROKEN: Step = lambda path: path.write_bytes(b"half")  # noqa: E731
GONE: Step = lambda path: path.unlink()  # noqa: E731
FIRST_AGAIN: Step = lambda path: train(path, "a")  # noqa: E731
OF_ANOTHER: Step = lambda path: judge(path, checkpoint_sha256="0" * 64)  # noqa: E731


@pytest.mark.parametrize(
    ("steps", "running", "restarted"),
    [
        ([], "a", "a"),
        ([REFUSED], "static", "static"),
        ([REFUSED, PROMOTED], "a", "a"),
        ([NO_RECORD], "static", "static"),
        ([NO_RECORD, PROMOTED], "a", "a"),
        ([GARBAGE], "static", "static"),
        ([DEEP], "static", "static"),
        ([GARBAGE, PROMOTED], "a", "a"),
        ([RETRAINED], "a", "static"),
        ([RETRAINED, NO_RECORD], "static", "static"),
        ([RETRAINED, REFUSED], "a", "static"),
        ([RETRAINED, PROMOTED], "b", "b"),
        ([RETRAINED, PROMOTED, REFUSED], "static", "static"),
        ([RETRAINED, PROMOTED, FIRST_AGAIN], "a", "a"),
        ([RETRAINED, REFUSED, FIRST_AGAIN], "a", "a"),
        ([REFUSED, RETRAINED], "static", "static"),
        ([REFUSED, RETRAINED, PROMOTED, FIRST_AGAIN], "b", "static"),
        ([BROKEN], "a", "static"),
        ([BROKEN, NO_RECORD], "static", "static"),
        ([GONE], "a", "static"),
        ([OF_ANOTHER, FIRST_AGAIN], "a", "a"),
    ],
)
def test_the_record_says_who_is_in_charge(serving: Serving, steps: list[Step], running: str, restarted: str) -> None:
    for step in steps:
        step(serving.path)
        serving.router.look_again(serving.environment)
    assert (serving.running(), serving.restarted()) == (running, restarted)


def test_a_process_that_missed_steps_agrees_with_one_that_saw_them(serving: Serving) -> None:
    """Two workers look at different moments."""
    verdict = record_path(serving.path).read_text()
    late = serving.opened()
    for step in (NO_RECORD, RETRAINED, lambda path: record_path(path).write_text(verdict)):
        step(serving.path)
        seen = serving.running()
    late.look_again(serving.environment)
    assert (seen, serving.decides(late)) == ("a", "a")


def test_a_record_of_before_keeps_its_verdict_when_another_file_is_judged(serving: Serving) -> None:
    """A record of one verdict, as sage wrote it until now, and a copied record that knows only another file."""
    old = records_of(serving.path)
    RETRAINED(serving.path)
    REFUSED(serving.path)
    assert [record.promote for record in records_of(serving.path).values()] == [True, False]
    assert set(old) < set(records_of(serving.path))
    record_path(serving.path).unlink()
    REFUSED(serving.path)  # of the new file alone
    assert serving.running() == "a"


def test_a_table_with_another_floor_or_objective_ends_a_policy_that_was_not_judged_for_it(serving: Serving) -> None:
    RETRAINED(serving.path)
    for other, policy in {
        TABLE.replace("floor: 0", "floor: 0.5"): "static",
        TABLE: "a",
        TABLE + "objective: {max_points_worse: 1}\n": "static",
        TABLE + "exploration: 0\n": "a",
    }.items():
        serving.models.write_text(other)
        serving.router = serving.opened(before=serving.router)
        found = serving.router.policy
        assert (found.name if found is not None else "static") == policy


def test_a_file_that_changes_while_it_is_read_is_not_taken_for_the_judged_one(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replaced(path: Path) -> object:
        train(path, "b")
        return load_policy(path)

    monkeypatch.setattr("sage.policies.checkpoint.load_policy", replaced)
    with serving.opened() as router:
        assert router.policy is None
        assert "is about another file" in router.in_charge[0]
