"""The three levels of simulated models, each on answers that are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor

from sage.sim.environment import baselines, packed, rules
from sage.sim.environment.dynamics import SoftwareTaskDynamics, split
from sage.sim.environment.models import USUAL_DIFFICULTY, ModelTiers, RecordedModels, open_models
from sage.sim.environment.packed import Packed
from sage.sim.policies import PolicyError, named
from sage.sim.recorded.fitting import fit_models
from sage.sim.recorded.model_file import Fitted, ModelFile, ModelFileError, Row
from tests.sage.sim.environment.test_dynamics import known_table
from tests.sage.sim.recorded_outcomes import drawn_table

SOURCE = dict.fromkeys(("provenance", "licence", "licence_note", "data_source", "cost_kind", "sha256"), "") | {
    "name": "known"
}
TIERS = {"small": "a", "medium": "b", "large": "c", "escalated": "d"}
CURVES = Fitted(
    ability=(-1.0, 0.0, 1.0, 2.0),
    discrimination=(1.0, 2.0, 3.0, 1.0),
    difficulty=(-1.0, 1.0),
    weight=(0.5, 0.5),
    failed_usd=((0.2, 0.2), (0.4, 0.4), (1.0, 4.0)),
    solved_usd=((0.1, 0.1), (0.2, 0.2), (0.5, 0.5)),
)


def row(difficulty: float, *score: float, held_out: bool, usd: float) -> Row:
    return Row(difficulty, held_out, score, (0.0, 0.0, 1.0, 0.0), (usd, 2 * usd, 3 * usd))


ROWS = (
    row(-1.0, 1, 0, 1, 1, held_out=False, usd=0.1),
    row(1.0, 0, 1, 0, 0, held_out=False, usd=0.2),
    row(-2.0, 1, 1, 0, 1, held_out=True, usd=0.3),
    row(2.0, 0, 0, 0, 1, held_out=True, usd=0.4),
)


def models_of(answers: Fitted | tuple[Row, ...]) -> RecordedModels:
    level = "irt" if isinstance(answers, Fitted) else "replay"
    made = ModelFile(level=level, source=SOURCE, tiers=TIERS, units_per_usd=10.0, answers=answers, checks={})
    return RecordedModels(made)


@pytest.fixture
def tasks() -> Packed:
    """Easy and hard ones, of a split that is learned from and of one that is not."""
    mean, deviation = USUAL_DIFFICULTY
    tables = [replace(known_table(), id=f"{s}{i}", split=s) for s in ("train", "test_pkg") for i in (0, 1)]
    hard = np.array([-1, 1, -1, 1], np.float32)
    return replace(packed.packed(tables), difficulty=mean + deviation * hard)


def asked(dynamics: SoftwareTaskDynamics, uniform: Tensor, *questions: int) -> list[tuple[Tensor, Tensor]]:
    """Whether each answer is correct and what it costs; the tree goes back to the beginning before each question."""
    state, found = dynamics.initial(uniform), []
    for question in questions:
        before = split(state)
        state = torch.cat(before._replace(node=torch.zeros_like(before.node)), -1)
        after, _, _ = dynamics.step(state, torch.full((len(state),), rules.ASK + question))
        correct = (split(after).node == rules.ORACLE).squeeze(-1)
        found.append((correct, (split(after).spent - before.spent).squeeze(-1)))
        state = after
    return found


def test_invented_models_answer_as_they_did_when_results_were_stored() -> None:
    """Bit for bit: the formulas before there were levels, on the same draws."""
    tasks = packed.load_packed(packed.SHIPPED)
    dynamics, uniform = SoftwareTaskDynamics(tasks), baselines.draws(tasks, 3, seed=5)
    task, chance = torch.arange(len(tasks)).repeat(3), uniform[:, 1:]
    difficulty = torch.from_numpy(tasks.difficulty)[task]
    for question in range(6):
        tier, context = question // 2, torch.full_like(task, question % 2)
        ability = torch.tensor(ModelTiers().ability)[torch.full_like(task, tier)] + 0.3 * context
        probability = torch.sigmoid(1.3 * (ability - difficulty))
        second = torch.where(chance[:, 9] < 0.5, chance[:, 3 * tier], chance[:, 3 * tier + 1])
        found = asked(dynamics, uniform, question, question)
        assert torch.equal(found[0][0], chance[:, 3 * tier] < probability)
        assert torch.equal(found[1][0], second < probability)
        assert (found[0][1] == rules.COST_ASK[question]).all()
    state = split(dynamics.initial(uniform))
    escalated = chance[:, 10] < torch.sigmoid(1.3 * (2.0 - difficulty))
    assert torch.equal(dynamics.escalation(state, dynamics.table(uniform.device), task), escalated)


def test_a_replayed_task_has_its_whole_recorded_row(tasks: Packed) -> None:
    models = models_of(ROWS)
    dynamics, uniform = SoftwareTaskDynamics(tasks, models, shaping=False), baselines.draws(tasks, 50, seed=0)
    state = split(dynamics.initial(uniform))
    task = state.task.long().squeeze(-1)
    expected = [ROWS[0], ROWS[1], ROWS[2], ROWS[3]]  # easy and hard, not held out and held out
    score = torch.tensor([one.score for one in expected])[task]
    usd = torch.tensor([one.cost_usd for one in expected])[task]
    for tier in range(3):
        for context, factor in ((0, 1.0), (1, 1.5)):
            ((correct, cost),) = asked(dynamics, uniform, 2 * tier + context)
            assert torch.equal(correct, score[:, tier] == 1)
            assert torch.allclose(cost, 10 * factor * usd[:, tier])
    assert torch.equal(dynamics.escalation(state, dynamics.table(uniform.device), task), score[:, 3] == 1)


def test_a_single_task_gets_the_row_that_it_gets_among_others(tasks: Packed) -> None:
    models = models_of(ROWS)
    together = models.answers(tasks, torch.device("cpu"))
    for i in range(len(tasks)):
        alone = models.answers(tasks.chosen([i]), torch.device("cpu"))
        assert all(torch.equal(one[0], all_of[i]) for one, all_of in zip(alone, together, strict=True))


def test_a_second_answer_repeats_the_record_or_follows_the_curve(tasks: Packed) -> None:
    uniform = baselines.draws(tasks, 500, seed=0)
    for correlation in (0.0, 0.5, 1.0):
        dynamics = SoftwareTaskDynamics(tasks, models_of(ROWS).with_correlation(correlation), shaping=False)
        for question, again in ((0, 0.0), (4, 1.0)):  # a fresh answer of small is never correct, of large always
            (first, _), (second, _) = asked(dynamics, uniform, question, question)
            fresh = second[first != again]
            assert (second[first == again] == again).all()
            assert (fresh == again).float().mean().item() == pytest.approx(1 - correlation, abs=0.03)


def test_two_answers_of_a_fitted_model_are_as_correlated_as_it_says(tasks: Packed) -> None:
    uniform = baselines.draws(tasks.chosen([0]), 20_000, seed=0)
    for correlation in (0.0, 0.5, 0.9):
        models = models_of(CURVES).with_correlation(correlation)
        dynamics = SoftwareTaskDynamics(tasks.chosen([0]), models, shaping=False)
        (first, _), (second, _) = asked(dynamics, uniform, 0, 0)
        assert first.float().mean().item() == pytest.approx(second.float().mean().item(), abs=0.02)
        assert np.corrcoef(first, second)[0, 1] == pytest.approx(correlation, abs=0.02)


def test_fitted_models_follow_their_curves_and_pay_more_for_failures(tasks: Packed) -> None:
    found = models_of(CURVES).answers(tasks, torch.device("cpu"))
    rank = torch.special.ndtr(torch.tensor([-1.0, 1.0, -1.0, 1.0]))
    difficulty = ((rank - 0.25) / 0.25 - 1).clamp(-1, 1)  # between the middles of two equal weights
    for tier in range(3):
        wanted = torch.sigmoid(CURVES.discrimination[tier] * (CURVES.ability[tier] - difficulty))
        for context in range(2):
            assert torch.allclose(found.success[:, 0, 2 * tier + context], wanted, atol=1e-6)
    assert torch.allclose(found.success[:, 0, 6], torch.sigmoid(2.0 - difficulty), atol=1e-6)
    assert torch.equal(found.success[:, 0], found.success[:, 1])
    assert torch.allclose(found.price[:, 0], torch.tensor([2.0, 1.0]))
    assert torch.allclose(found.price[:, 3], 1.5 * torch.tensor([4.0, 2.0]))
    assert len(set(found.price[:, 4, 0].tolist())) == 4  # drawn by the task's name
    assert ((found.price[:, 4, 0] >= 10) & (found.price[:, 4, 0] <= 40)).all()


def test_full_knowledge_knows_costs_and_rows(tasks: Packed) -> None:
    nothing_to_try = replace(tasks, result=np.full_like(tasks.result, -1))
    dynamics = SoftwareTaskDynamics(nothing_to_try, models_of(ROWS), shaping=False)
    best = baselines.oracle_returns(dynamics, baselines.draws(tasks, 1, 0))
    assert best.tolist() == pytest.approx([50 - 1, 50 - 4, 50 - 3, 50 - 25])


@pytest.mark.parametrize("level", ["irt", "replay"])
def test_a_file_is_taken_by_gymnasium_and_named_in_results(level: str, tmp_path: Path) -> None:
    fit_models(drawn_table(), level).save(tmp_path / "models.json")
    env = gymnasium.make("sage/SoftwareTask-v0", models=tmp_path / "models.json")
    env.reset(seed=0)
    assert env.step(rules.ASK)[4]["spent"] not in (0.0, rules.COST_ASK[0])
    facts = open_models(tmp_path / "models.json").facts()
    assert facts["level"].startswith(f"{level}: ")
    assert "drawn" in facts["level"]
    assert facts["source"]["licence"] == "CC0"
    with pytest.raises(ModelFileError, match="there is no such file"):
        gymnasium.make("sage/SoftwareTask-v0", models=tmp_path / "other.json")
    with pytest.raises(PolicyError, match="'oracle' asks no models: leave it out"):
        named("oracle", 0, models=tmp_path / "models.json")


def test_a_correlation_is_a_share() -> None:
    for models in (ModelTiers(), models_of(ROWS)):
        with pytest.raises(ValueError, match=r"correlation=1\.5 must lie between 0 and 1"):
            models.with_correlation(1.5)
