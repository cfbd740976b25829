"""An export says which numbers of its log it does not hold, and why; the others are rows at their worst."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from rl_base.evaluation import BanditLog
from sage.evidence.completeness import (
    AFTER,
    BEFORE,
    HELD_CALL,
    STEP,
    Completeness,
    ErasedRow,
    ExportHeader,
    HeaderError,
    ranges_of,
    weight_of,
)
from sage.evidence.export_dataset import NOT_DRAWN, export
from sage.evidence.export_file import read_header
from sage.evidence.routing_data import RoutingData
from sage.evidence.selection import EVERYTHING, Selection
from sage.log.cascade_steps import Step
from sage.log.compaction import erase
from sage.log.decision_log import DecisionLog
from sage.pipeline.evaluating import completeness_of
from tests.sage.examples import decision, outcome
from tests.sage.log.test_numbers import delete


def logged(path: Path, kinds: list[dict]) -> DecisionLog:
    """A log of decisions d1, d2 ... with outcomes; each is real, of a task of its own, and made a second after the one before."""
    log = DecisionLog.open(path)
    for number, changes in enumerate(kinds, start=1):
        values = {"data_source": "real", "task_id": f"t{number}", "time": 1000.0 + number}
        log.append(decision(f"d{number}", **values | changes))
        log.add_outcome(outcome(f"d{number}"))
    return log


HELD = {"verdict": "held", "follows": "d1", "candidates": ("small",), "probabilities": (1.0,)}
KINDS = [
    *({}, {}, {}, {"data_source": "replay"}, {"tenant": "acme"}, {"tenant": "acme"}),
    *({"cascade": Step(cascade_id="c", number=0)}, HELD, {}, {}, {}, {}),
]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[DecisionLog]:
    with closing(logged(tmp_path / "sage.db", KINDS)) as log:
        yield log


def test_every_number_has_a_row_or_a_reason(log: DecisionLog, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    erase(log, task="t2")
    erase(log, before=1002.0)
    erase(log, tenant="acme")
    done = export(log, path, until=1012.0)
    header = read_header(path)
    assert header is not None
    assert header.last == 12
    assert header.left_out == {
        "erased by time": [[1, 1]],
        "another data source": [[4, 4]],
        "erased by tenant": [[5, 6]],
        STEP: [[7, 7]],
        HELD_CALL: [[8, 8]],
        AFTER: [[12, 12]],
    }
    assert header.erased == (ErasedRow(2, "default", 1 / 0.75),)
    assert (done.rows, done.erased_by_task, done.unexplained) == (4, 1, 0)
    rows = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    assert [row["number"] for row in rows] == [3, 9, 10, 11]
    found = RoutingData.read(path).completeness
    assert found == Completeness(checked=True, numbers=12, erased=(1 / 0.75,))


def test_rows_that_somebody_deleted_are_seen_wherever_they_were(log: DecisionLog, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    log.close()
    for name in ("d3", "d9", "d12"):  # the last one too
        delete(log.path, name)
    log = DecisionLog.open(log.path)
    assert export(log, path).unexplained == 3
    header, *lines = path.read_text().splitlines()
    assert RoutingData.read(path).completeness.gone == 3
    path.write_text("\n".join([header, *lines[1:]]) + "\n")
    assert RoutingData.read(path).completeness.gone == 4
    assert "of the log's 12 decisions 4 are not here" in str(RoutingData.read(path).completeness)
    path.write_text(
        "\n".join(lines[:-1]) + "\n"
    )  # without the header, up to number 10: no step, held call or tenant is named
    assert [json.loads(line)["number"] for line in lines] == [1, 2, 5, 6, 10, 11]
    assert RoutingData.read(path).completeness == Completeness(checked=True, numbers=10, gone=5)
    path.write_text("".join(json.dumps(json.loads(line) | {"number": None}) + "\n" for line in lines))
    assert not RoutingData.read(path).completeness.checked
    for reason, limits in {BEFORE: {"since": 1010.5}, AFTER: {"until": 1001.5}}.items():
        export(log, path, **limits)  # what was deleted beyond the time does not matter, where the rows beside it tell
        header = read_header(path)
        assert header is not None
        assert reason in header.left_out
        assert RoutingData.read(path).completeness.gone == {BEFORE: 1, AFTER: 0}[reason]


def test_a_proof_of_cascades_knows_what_may_have_been_a_step(log: DecisionLog) -> None:
    """Whatever was erased by tenant is no matter; a step that was erased by task is, and any decision that was deleted."""
    assert completeness_of(log.path) == Completeness(checked=True, numbers=12, bounded=False)
    erase(log, tenant="acme")
    erase(log, task="t2")
    assert completeness_of(log.path).absent == 0
    erase(log, task="t7")
    log.close()
    delete(log.path, "d3")
    found = completeness_of(log.path)
    assert (found.gone, len(found.erased), found.bounded) == (1, 1, False)
    assert str(found).endswith("1 decisions were erased by task: cascades may be missing")
    assert not completeness_of([]).checked


def test_a_held_call_that_was_erased_leaves_its_decision_without_an_outcome(log: DecisionLog, tmp_path: Path) -> None:
    assert export(log, tmp_path / "rows.jsonl").missing == {}
    erase(log, task="t8")
    done = export(log, tmp_path / "rows.jsonl")
    assert (done.missing, done.erased_by_task) == ({"a held call without an outcome": 1}, 0)


def test_a_selection_of_tenants_at_reading_asks_for_their_rows_alone(log: DecisionLog, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    erase(log, task="t5")
    export(log, path)
    assert len(RoutingData.read(path, selection=Selection(tenants=("acme",))).completeness.erased) == 1
    assert RoutingData.read(path, selection=Selection(tenants=("default",))).completeness.erased == ()
    export(log, path, selection=Selection(tenants=("default",)))
    assert RoutingData.read(path).completeness == Completeness(checked=True, numbers=12)


def test_outcomes_that_were_not_drawn_are_not_in_the_export(tmp_path: Path) -> None:
    with closing(logged(tmp_path / "sage.db", [{"outcome_probability": 0.5}] * 40)) as log:
        wanted = [made.id for made, _ in log.rows() if made.outcome_wanted]
        done = export(log, tmp_path / "rows.jsonl")
    assert 5 < len(wanted) < 35
    assert (done.rows, done.missing) == (len(wanted), {NOT_DRAWN: 40 - len(wanted)})
    data = RoutingData.read(tmp_path / "rows.jsonl", gaps=True)
    assert data.sampled is not None
    assert data.decision_id[data.sampled].tolist() == wanted == data.decision_id[data.observed].tolist()
    assert not data.lacks_outcome.any()
    data.write(tmp_path / "again.jsonl")
    assert RoutingData.read(tmp_path / "again.jsonl", gaps=True).sha256 == data.sha256


def test_an_absent_row_weighs_what_the_least_likely_try_can() -> None:
    log = BanditLog(
        actions=[0, 1], rewards=[0.0, 1.0], propensities=[[0.75, 0.25], [0.9, 0.1]], reward_range=(0.0, 1.0)
    )
    assert Completeness(checked=True).weights(log) is None
    weights = Completeness(gone=1, reports_gone=1, erased=(4.0,)).weights(log)
    np.testing.assert_allclose(weights, [10.0, 10.0, 4.0])
    kept = {"model": "b", "candidates": ["a", "b"], "probabilities": [0.75, 0.25], "outcome_wanted": True}
    assert weight_of(kept) == 4.0
    assert weight_of(kept | {"outcome_probability": 0.2}) == 20.0
    assert weight_of(kept | {"outcome_wanted": False, "outcome_probability": 0.2}) == 1.0
    assert weight_of(kept | {"shadow": "a", "shadow_probabilities": [0.5, 0.0]}) == 5.0


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [([1, 3], "number 3"), ([None], "number None"), ([1, 1], "two rows have the same number")],
    ids=str,
)
def test_a_header_of_other_rows_is_refused(numbers: list[int | None], sentence: str) -> None:
    with pytest.raises(HeaderError, match=sentence):
        ExportHeader(last=2).compare(numbers, EVERYTHING)


def test_ranges_are_short() -> None:
    assert ranges_of([1, 2, 3, 7, 9, 10]) == [[1, 3], [7, 7], [9, 10]]
    assert ranges_of([]) == []
