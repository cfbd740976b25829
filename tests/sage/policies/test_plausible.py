import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from sage.evidence.objective import QUALITY, Objective, points_worse
from sage.policies.plausible import PlausibleError, PlausibleModels
from sage.rl.doubly_robust_learner import learn_doubly_robust
from sage.rl.find_plausible import find_plausible, find_trial, plausible_mask
from tests.sage.rl.made_logs import MODELS, made_contexts, made_log


def test_models_that_are_surely_worse_are_left_out() -> None:
    """ "big" is usual; "mid" is better in code and worse in prose, "small" is worse everywhere."""
    found = find_plausible(made_log(20_000))
    assert found.cells == {("coder", "code"): ("big", "mid"), ("coder", "prose"): ("big",)}


def test_under_a_margin_a_model_is_plausible_where_it_may_save_enough() -> None:
    """ "mid" costs a quarter of "big" and loses 20 points in prose; "small" costs little less and loses 40 everywhere."""
    truth = {"code": (0.7, 0.72, 0.3), "prose": (0.7, 0.5, 0.3)}
    log = made_log(20_000, truth=truth, prices=(0.40, 0.10, 0.08))
    found = find_plausible(log, objective=points_worse(2))
    assert found.cells == {("coder", "code"): ("big", "mid"), ("coder", "prose"): ("big", "mid")}
    for_quality = find_plausible(log, objective=Objective(weights=QUALITY))
    assert for_quality.cells == {("coder", "code"): ("big", "mid"), ("coder", "prose"): ("big",)}
    same_price = dataclasses.replace(log, cost_usd=np.full(len(log), 0.4))
    assert find_plausible(same_price, objective=points_worse(2)).cells == for_quality.cells


def test_the_most_promising_stay_and_the_incumbent_always() -> None:
    rng = np.random.default_rng(0)
    values = np.array([0.5, 0.52, 0.9, 0.6, 0.1]) + rng.normal(0, 0.01, (200, 5))
    usual, cell, tasks = np.zeros(200, int), np.arange(200) % 4, np.arange(200)
    kept = plausible_mask(values, cell, 4, usual, tasks, most=3)
    assert kept.tolist() == [[True, False, True, True, False]] * 4


def test_a_model_that_was_never_tried_is_plausible() -> None:
    values = np.tile([0.5, 0.1, np.nan], (100, 1)) + np.random.default_rng(0).normal(0, 0.01, (100, 1))
    kept = plausible_mask(values, np.zeros(100, int), 1, np.zeros(100, int), np.arange(100), most=3)
    assert kept.tolist() == [[True, False, True]]


def test_pairs_that_are_not_listed_explore_all_or_nothing() -> None:
    contexts = made_contexts(np.array(["code", "other", "code"]), np.array(["a", "b", "c"]))
    eligible = np.array([[True, True, True], [True, True, True], [False, False, True]])
    found = PlausibleModels(cells={("coder", "code"): ("big", "mid")})
    everything, nothing = [True] * 3, [False] * 3
    assert found.mask(contexts, MODELS, eligible).tolist() == [[True, True, False], everything, nothing]
    trial = dataclasses.replace(found, elsewhere=())
    assert trial.mask(contexts, MODELS, eligible).tolist() == [[True, True, False], nothing, nothing]


def test_the_file_gives_back_what_was_written(tmp_path: Path) -> None:
    found = find_plausible(made_log(2_000))
    for kept in (found, dataclasses.replace(found, elsewhere=())):
        kept.write(tmp_path / "plausible.json")
        assert PlausibleModels.read(tmp_path / "plausible.json") == kept


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read"),
        ("[1]", "is no list of plausible models"),
        ("{", "is no list of plausible models"),
        (json.dumps({"format": 9}), "has format 9, this sage reads 1"),
    ],
)
def test_other_files_get_a_sentence(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "plausible.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(PlausibleError, match=said):
        PlausibleModels.read(path)


def test_a_trial_explores_where_the_policy_differs_and_nowhere_else() -> None:
    data = made_log(4_000)
    policy = learn_doubly_robust(data)
    found = find_trial(data, policy, floor=0.9)
    assert found.cells == {("coder", "code"): ("big", "mid"), ("coder", "prose"): ("big",)}
    assert found.elsewhere == ()
    with pytest.raises(PlausibleError, match="never decides differently from the incumbent above the floor of 1"):
        find_trial(data, policy, floor=1.1)


def test_a_set_of_one_is_refused() -> None:
    with pytest.raises(PlausibleError, match="most=1 must be 2 or more"):
        find_plausible(made_log(500), most=1)


def test_rows_without_an_outcome_say_nothing() -> None:
    data = made_log(4_000)
    quality = data.quality.copy()
    quality[::10] = np.nan
    gaps = dataclasses.replace(data, quality=quality)
    assert find_plausible(gaps).cells == find_plausible(gaps.select(gaps.observed)).cells
