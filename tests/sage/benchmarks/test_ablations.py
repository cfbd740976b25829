"""Ablations: what is served on held-out tasks, by hand where that is possible."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import ablation_setups
import ablations
import numpy as np
import pytest
from ablation_setups import LEVELS, PACKS, Setup, measure_setup, run_ablations, serve

from sage.benchmarks.baselines import Task
from sage.benchmarks.run_pack import RESULTS, verify
from sage.benchmarks.runner import split
from sage.benchmarks.suite import Suite
from sage.cli import main
from sage.files import read_text, write_text
from sage.outcomes.synthetic import synthetic_table
from sage.policies.plausible import PlausibleModels
from sage.rl.cascades.simulated_verifier import SimulatedVerifier
from sage.rl.logging_policies import Exploring, PreferenceOrder

SUITE = Suite(name="s", table="", static="medium")
PERFECT = SimulatedVerifier(1.0, 0.0)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ablation_setups, "LOGGED", 500)
    monkeypatch.setattr(ablation_setups, "EPISODES", 500)


@pytest.fixture(scope="module")
def task() -> Task:
    table = synthetic_table(200, roles=("coder",), seed=3)
    return split(replace(table, score=np.round(table.score)), SUITE, seed=0)


def test_a_perfect_verifier_stops_at_the_first_right_answer(task: Task) -> None:
    ladder = [task.train.models.index(model) for model in ablation_setups.ladder(task, PERFECT).ladder]
    right, cost = task.held_out.score[:, ladder] == 1, task.held_out.cost_usd[:, ladder].cumsum(axis=1)
    attempts = np.where(right.any(axis=1), right.argmax(axis=1), len(ladder) - 1)
    served = serve(task, Setup(cascade="ladder", verifier=PERFECT))
    np.testing.assert_array_equal(served.quality, right.any(axis=1))
    np.testing.assert_allclose(served.cost_usd, cost[np.arange(len(cost)), attempts])


def test_a_policy_that_is_never_sure_is_the_static_table(task: Task) -> None:
    row = measure_setup([task], Setup(floor=1.1))
    assert (row["difference"], row["relative_cost"], row["share_of_tasks_that_change"]) == (0.0, 1.0, 0.0)
    assert row["quality"] == task.held_out.score[:, task.held_out.models.index("medium")].mean()


def test_every_level_has_a_row_and_one_of_each_factor_is_shipped(task: Task) -> None:
    rows = run_ablations([task])
    assert [(row["factor"], row["level"]) for row in rows] == [(f, level) for f in LEVELS for level in LEVELS[f]]
    low, high = np.array([row["interval_of_first_split"] for row in rows]).T
    difference = np.array([row["difference"] for row in rows])
    assert ((low <= difference) & (difference <= high)).all()
    assert {tuple(row["interval_of_first_split"]) for row in rows if row["as_shipped"]} == {
        tuple(measure_setup([task], Setup())["interval_of_first_split"])
    }


def test_known_rates_give_the_best_stopping_on_the_tasks_that_it_was_found_on(task: Task) -> None:
    same = task._replace(held_out=task.train, held_out_contexts=task.train_contexts)
    value = {}
    for cascade in ("ladder", "learned", "known rates"):
        served = serve(same, Setup(cascade=cascade))
        value[cascade] = (served.quality - ablation_setups.PRICE * served.cost_usd).mean()
    assert value["known rates"] >= max(value.values()) - 1e-12


def test_exploration_among_plausible_models_leaves_the_others_without_a_chance(task: Task) -> None:
    among = PlausibleModels(cells={}, elsewhere=("large", "medium"))
    policy = Exploring(PreferenceOrder(("medium",)), 0.1, among)
    models, ran = task.train.models, task.train.ran
    found = dict(zip(models, policy.probabilities(task.train_contexts, models, ran)[0], strict=True))
    assert found == pytest.approx({"small": 0.0, "medium": 0.95, "large": 0.05})


def test_models_with_gaps_are_left_out(task: Task) -> None:
    cost = task.train.cost_usd.copy()
    cost[3, task.train.models.index("small")] = np.nan
    gap = task._replace(train=replace(task.train, cost_usd=cost))
    assert ablation_setups.with_complete_models(gap).held_out.models == ("medium", "large")
    assert ablation_setups.with_complete_models(task).train.models == task.train.models


def test_a_table_without_costs_has_no_cascade(task: Task) -> None:
    unknown = np.full(task.train.cost_usd.shape, np.nan)
    blind = task._replace(train=replace(task.train, cost_usd=unknown, cost_kind="none"))
    assert {row["factor"] for row in run_ablations([blind])} == {f for f in LEVELS if "verifier" not in f}


def test_a_run_pack_recomputes_them(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    synthetic_table(200, roles=("coder",), seed=3).save(tmp_path / "table.npz")
    suite = tmp_path / "suite.yaml"
    suite.write_text(f"name: small\ntable: {tmp_path / 'table.npz'}\nstatic: medium\nseeds: [0]\n")
    assert ablations.main(["--suite", str(suite), "--run-pack-dir", str(tmp_path / "pack")]) == 0
    assert verify(tmp_path / "pack", PACKS) == []
    path = tmp_path / "pack" / RESULTS
    write_text(path, read_text(path).replace('"as_shipped": true', '"as_shipped": false', 1))
    assert main(["bench", "verify", str(tmp_path / "pack")]) == 1  # which hands it on to the program
    assert f"{RESULTS}: changed since the pack was written" in capfd.readouterr().out
