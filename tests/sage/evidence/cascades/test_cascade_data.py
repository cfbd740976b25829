"""Cascade episodes: records, arrays, files, and the replay that makes them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cascade_replay import replay_cascade

from sage.evidence.cascades.cascade_data import CascadeData
from sage.evidence.cascades.cascade_records import CascadeEpisode, CascadeStep
from sage.evidence.routing_data import RoutingDataError
from sage.log.records import RecordError
from sage.outcomes.table import OutcomeTable
from sage.policies.cascades.cascade_ladder import ExploringCascade, LadderCascade
from sage.policies.cascades.cascade_policy import taken_column
from sage.rl.cascades.simulated_verifier import SimulatedVerifier


def small_table(num_tasks: int = 200, seed: int = 0, prefix: str = "t") -> OutcomeTable:
    """Three models, of which the dearer ones solve what the cheaper ones do and more."""
    generator = np.random.default_rng(seed)
    difficulty = generator.random((num_tasks, 1))
    score = (difficulty < [0.5, 0.6, 0.8]).astype(float)
    return OutcomeTable(
        name="small",
        models=("a", "b", "c"),
        task_id=np.array([f"{prefix}{i}" for i in range(num_tasks)]),
        category=np.full(num_tasks, "x"),
        role=np.full(num_tasks, "coder"),
        score=score,
        cost_usd=np.tile([0.1, 0.2, 1.0], (num_tasks, 1)),
        latency_s=np.full(score.shape, np.nan),
        data_source="real",
    )


def attempt(model: str, verdict: bool | None, *others: str) -> CascadeStep:
    names = (model, *others)
    share = tuple([1 / len(names)] * len(names))
    return CascadeStep(candidates=names, probabilities=share, action=model, verdict=verdict, cost_usd=0.5)


def stop(*others: str) -> CascadeStep:
    return CascadeStep(candidates=("stop", *others), probabilities=(1.0, *(0.0 for _ in others)), action="stop")


def episode(*steps: CascadeStep, quality: float | None = 1.0, name: str = "e") -> CascadeEpisode:
    return CascadeEpisode(id=name, time=0.0, data_source="real", role="coder", steps=steps, quality=quality)


def test_the_latest_accepted_answer_is_taken_or_else_the_latest():
    accepted_then_not = episode(attempt("a", True), attempt("b", False), stop())
    assert accepted_then_not.taken == 0
    assert episode(attempt("a", True), attempt("b", True), stop()).taken == 1
    assert episode(attempt("a", False), attempt("b", None), stop()).taken == 1
    order = np.array([[1, 2, 0], [2, 1, 0], [0, 0, 0], [1, 2, 3]])
    verdict = np.array([[1, -1, 0], [-1, -1, 0], [0, 0, 0], [1, 1, -1]])
    assert taken_column(order, verdict).tolist() == [0, 0, -1, 1]


@pytest.mark.parametrize(
    ("steps", "quality", "sentence"),
    [
        ((stop(),), 1.0, "begin with an attempt"),
        ((attempt("a", True), attempt("a", True), stop()), 1.0, "'a' again"),
        ((attempt("a", True), stop(), attempt("b", True)), None, "a stop is the end"),
        ((attempt("a", True),), 1.0, "did not stop"),
    ],
)
def test_episodes_that_cannot_be_true_are_refused(steps: tuple, quality: float | None, sentence: str):
    with pytest.raises(RecordError, match=sentence):
        episode(*steps, quality=quality)


def test_states_hold_what_was_known_before_each_step():
    data = CascadeData.from_episodes([episode(attempt("b", False, "a"), attempt("a", True, "stop"), stop())])
    assert data.models == ("a", "b")
    assert data.order.tolist() == [[0, 0], [0, 1], [2, 1]]
    assert data.verdict.tolist() == [[0, 0], [0, -1], [1, -1]]
    assert data.spent_usd.tolist() == [0.0, 0.5, 1.0]
    assert data.action.tolist() == [1, 0, 2]
    assert data.taken_propensity.tolist() == [0.5, 0.5, 1.0]
    assert data.rewards(price=0.2).tolist() == pytest.approx([-0.1, -0.1, 1.0])


def test_broken_off_and_unreported_episodes_are_not_observed():
    whole, unreported = (episode(attempt("a", True), stop(), quality=q, name=i) for q, i in ((1.0, "1"), (None, "2")))
    data = CascadeData.from_episodes([whole, unreported, episode(attempt("a", False), quality=None, name="3")])
    assert data.observed.tolist() == [True, False, False]
    assert data.ended.tolist() == [True, True, False]
    assert data.select(np.array([False, True, True])).episode.tolist() == [0, 0, 1]


def test_a_file_gives_back_what_was_written(tmp_path):
    policy = ExploringCascade(LadderCascade(("a", "b", "c")), 0.3)
    data = replay_cascade(small_table(), policy, 50, verifier=SimulatedVerifier(), seed=1)
    data.write(tmp_path / "episodes.jsonl")
    again = CascadeData.read(tmp_path / "episodes.jsonl")
    assert again.sha256 == data.sha256
    assert again.data_source == "replay"


def test_files_name_the_line_that_is_wrong(tmp_path):
    path = tmp_path / "episodes.jsonl"
    path.write_text('{"schema": 1}\n', encoding="utf-8")
    with pytest.raises(RoutingDataError, match="line 1: a cascadeepisode needs the field 'id'"):
        CascadeData.read(path)
    with pytest.raises(RoutingDataError, match="twice"):
        CascadeData.from_episodes([episode(attempt("a", True), stop())] * 2)


def test_replayed_ladders_stop_at_acceptance_and_cost_what_they_tried():
    table = small_table()
    data = replay_cascade(table, LadderCascade(("a", "c")), 2_000, verifier=SimulatedVerifier(1.0, 0.0), seed=0)
    solved_by_a = data.quality[(np.bincount(data.episode) == 2)]
    assert solved_by_a.all()
    assert set(np.round(data.total_cost, 6)) == {0.1, 1.1}
    assert data.quality.mean() == pytest.approx((table.score[:, 2]).mean(), abs=0.03)


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_the_verifier_has_its_rates_and_its_correlation(correlation: float):
    generator = np.random.default_rng(0)
    verifier, of_task = SimulatedVerifier(0.8, 0.3, correlation), generator.random(100_000)
    right = np.ones(len(of_task), bool)
    first, second = (verifier.accepts(right, of_task, generator) for _ in range(2))
    assert first.mean() == pytest.approx(0.8, abs=0.01)
    assert verifier.accepts(~right, of_task, generator).mean() == pytest.approx(0.3, abs=0.01)
    assert np.corrcoef(first, second)[0, 1] == pytest.approx(correlation, abs=0.02)


def test_states_have_the_task_ids_that_were_served_and_rows_the_tasks_they_are_of() -> None:
    first = attempt("a", True)
    given = [replace(episode(first, stop(), name=f"e{i}"), task_id=f"e{i}", opening="o") for i in range(2)]
    given.append(replace(episode(first, stop(), name="e2"), task_id="t", opening="o"))
    data = CascadeData.from_episodes(given)
    assert data.states.contexts.task_id.tolist() == ["e0", "e0", "e1", "e1", "t", "t"]
    assert data.contexts.task_id.tolist() == ["t", "t", "t"]  # they begin with the same words
    assert data.select(np.array([1])).states.contexts.task_id.tolist() == ["e1", "e1"]
