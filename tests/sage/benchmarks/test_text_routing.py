from dataclasses import replace

import numpy as np
import pytest

from sage.benchmarks.text_kernel import TextKernel, best_ridge, counts, cross_fitted, folds_of, hashed_words, ridge
from sage.benchmarks.threshold_router import curve_of, study_pair
from sage.outcomes.table import OutcomeTable


def pair_table(num_tasks=240, seed=0):
    """Tasks that say 'proof' are solved by the dear model only; all others by both."""
    generator = np.random.default_rng(seed)
    hard = generator.random(num_tasks) < 0.4
    texts = ["prove the theorem by a proof" if h else "add two numbers please" for h in hard]
    length = generator.integers(1, 40, num_tasks)
    prompt = np.array([f"{text} {'and so on ' * n}" for text, n in zip(texts, length, strict=True)], dtype=object)
    cost = np.array([[0.01 * len(p), 1.0 * len(p)] for p in prompt])
    return OutcomeTable(
        name="pair",
        models=("cheap", "dear"),
        task_id=np.array([f"t{i}" for i in range(num_tasks)]),
        category=np.array(["one"] * num_tasks),
        role=np.array(["coder"] * num_tasks),
        prompt=prompt,
        score=np.stack([1.0 - hard, np.ones(num_tasks)], axis=1),
        cost_usd=cost,
        latency_s=np.full((num_tasks, 2), np.nan),
        data_source="synthetic",
    )


def test_hashed_words_tell_texts_apart_and_are_of_unit_length():
    words = hashed_words(np.array(["fix the bug", "fix the bug", "write a poem", ""], dtype=object))
    np.testing.assert_allclose(np.linalg.norm(words, axis=1), [1, 1, 1, 0], rtol=1e-5)
    assert words[0] @ words[1] == pytest.approx(1.0, rel=1e-5)
    assert words[0] @ words[2] < 0.3


def test_ridge_recovers_a_line_and_shrinks_to_the_mean():
    x = np.random.default_rng(0).standard_normal((200, 3))
    y = x @ np.array([1.0, -2.0, 0.5]) + 4.0
    np.testing.assert_allclose(ridge(x, y, 1e-9)(x[:5]), y[:5], rtol=1e-6)
    np.testing.assert_allclose(ridge(x, y, 1e12)(x[:5]), y.mean(), rtol=1e-6)


def test_cross_fitting_never_sees_the_row_it_predicts():
    noise = np.random.default_rng(0).standard_normal(100)
    features = np.eye(100)  # a row alone tells its own noise, and nothing of the others
    predicted = cross_fitted(features, noise, 1e-6, folds_of(100, 0))
    assert np.corrcoef(predicted, noise)[0, 1] < 0.1


def test_noise_is_shrunk_most_and_a_signal_least():
    generator = np.random.default_rng(0)
    x, noise = generator.standard_normal((100, 50)), generator.standard_normal(100)
    assert best_ridge(x, noise, folds_of(100, 0)) == 30.0
    assert best_ridge(x, x[:, 0], folds_of(100, 0)) == 0.3


def test_the_kernel_is_exact_on_its_landmarks():
    table = pair_table(40)
    kernel = TextKernel.fit(table, num_landmarks=40)
    features = kernel.features(table)[:, :-1]
    standard = (counts(table.prompt) - kernel.centre) / kernel.scale
    direct = replace(kernel, landmark_words=hashed_words(table.prompt), landmark_counts=standard)
    np.testing.assert_allclose(features @ features.T, direct.products(hashed_words(table.prompt), standard), atol=1e-3)


def test_a_category_that_was_never_seen_is_zero_everywhere():
    table = pair_table(30)
    kernel = TextKernel.fit(table)
    unseen = kernel.features(replace(table, category=np.array(["other"] * 30)))
    assert (unseen[:, -1] == 0).all()
    assert (kernel.features(table)[:, -1] == 1).all()


def test_the_curve_by_hand():
    score = np.array([[0.0, 1.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    cost = np.array([[1.0, 10.0]] * 4)
    curve = curve_of(np.array([0.9, 0.1, 0.5, -0.5]), score, cost)
    np.testing.assert_allclose(curve.quality, np.array([2, 3, 4, 4, 3]) / 3)
    np.testing.assert_allclose(curve.cost, np.array([4, 13, 22, 31, 40]) / 40)
    assert curve.cost_at(1.0) == pytest.approx(13 / 40)
    assert curve.threshold_at(1.2) == 0.5


def test_the_router_finds_who_needs_the_dear_model():
    table = pair_table()
    train, held_out = table.select(np.arange(160)), table.select(np.arange(160, 240))
    study = study_pair(train, held_out)
    assert study.per_dollar
    assert study.foreseen > 0.9
    curve = curve_of(study.held_out.rank(False), held_out.score, held_out.cost_usd)
    hard_cost = held_out.cost_usd[held_out.score[:, 0] == 0, 1].sum() / held_out.cost_usd[:, 1].sum()
    assert curve.cost_at(1.0) < hard_cost + 0.02
