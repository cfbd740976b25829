import numpy as np
import pytest

from sage.log.records import Request
from sage.policies.features import contexts_of
from sage.policies.policy import object_array
from sage.policies.text.text_kernel import (
    Folds,
    RidgePath,
    TextModel,
    fit_kernel,
    has_text,
    one_hot,
    raw_numbers,
    word_rows,
)
from sage.rl.replay import with_words
from tests.sage.rl.text_logs import text_contexts


def test_word_rows_tell_texts_apart_and_are_of_unit_length():
    rows = word_rows(object_array(["fix the bug", "fix the bug", "write a poem", ""]))
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), [1, 1, 1, 0], rtol=1e-5)
    assert rows[0] @ rows[1] == pytest.approx(1.0, rel=1e-5)
    assert rows[0] @ rows[2] < 0.3


def test_the_kernel_is_exact_on_its_landmarks():
    contexts = contexts_of([Request(role="coder", task=f"task number {'x' * i} of {i}") for i in range(30)])
    contexts = contexts._replace(task_id=np.array([f"t{i:02}" for i in range(30)]))
    kernel = fit_kernel(contexts, num_landmarks=30)
    features = kernel.nearness(contexts) @ kernel.whitening()
    words, numbers = word_rows(contexts.text), (raw_numbers(contexts) - kernel.centre) / kernel.scale
    distance = ((numbers[:, None] - numbers[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(features @ features.T, np.exp(words @ words.T - 1 - distance / 2), atol=1e-3)


def test_one_row_is_as_near_as_among_many_and_kept_words_as_the_text():
    contexts, _ = text_contexts(40)
    kernel = fit_kernel(contexts)
    together, kept = kernel.nearness(contexts), kernel.nearness(with_words(contexts))
    alone = kernel.nearness(contexts_of([Request(role="coder", task=contexts.text[3])]))
    np.testing.assert_allclose(alone[0], together[3], rtol=1e-5)
    np.testing.assert_array_equal(kept, together)


def test_rows_without_a_text_say_so():
    contexts = contexts_of([Request(role="coder", task="x"), Request(role="coder")])
    assert has_text(contexts).tolist() == [True, False]
    assert has_text(contexts._replace(text=None)).tolist() == [False, False]


def test_ridge_recovers_a_line_and_shrinks_to_the_mean():
    x = np.random.default_rng(0).standard_normal((200, 3))
    y = (x @ np.array([1.0, -2.0, 0.5]) + 4.0)[:, None]
    path = RidgePath(x, y)
    np.testing.assert_allclose(path.predict(x[:5], 1e-9), y[:5], rtol=1e-6)
    np.testing.assert_allclose(path.predict(x[:5], 1e12), np.full((5, 1), y.mean()), rtol=1e-6)


def test_cross_fitting_never_sees_the_row_it_predicts():
    noise = np.random.default_rng(0).standard_normal((100, 1))
    folds = Folds.of(
        np.eye(100), noise, np.arange(100) % 5
    )  # a row alone tells its own noise, and nothing of the others
    assert np.corrcoef(folds.predict(1e-6)[:, 0], noise[:, 0])[0, 1] < 0.1


def test_noise_is_shrunk_most_and_a_signal_least():
    generator = np.random.default_rng(0)
    x, noise = generator.standard_normal((100, 50)), generator.standard_normal(100)
    folds = Folds.of(x, np.stack([noise, x[:, 0]], axis=1), np.arange(100) % 5)
    assert folds.strengths(np.array([0, 1])).tolist() == [300.0, 0.3]
    shared = folds.strengths(np.array([0, 0]))
    assert shared[0] == shared[1]


def test_a_model_is_the_regression_that_it_came_from_and_new_cells_add_nothing():
    contexts, hard = text_contexts(60)
    kernel = fit_kernel(contexts)
    whitening, cell = kernel.whitening(), np.arange(60) % 2
    features = np.hstack([kernel.nearness(contexts) @ whitening, one_hot(cell, 2)])
    path = RidgePath(features, (hard + 0.5 * cell)[:, None])
    model = TextModel.of(kernel, whitening, path, np.array([1.0]))
    np.testing.assert_allclose(model.predict(contexts, cell), path.predict(features, 1.0), atol=1e-6)
    unseen = model.predict(contexts, np.full(60, 2))
    np.testing.assert_allclose(model.predict(contexts, cell) - unseen, model.cell[cell], atol=1e-9)
