"""Training data of text policies: rows with every model's outcome, and cross-fitted predictions from their texts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rl_base.evaluation.reward_model import assign_folds
from sage.evidence.logged_rewards import FOLDS
from sage.policies.cell_policy import lower_scores
from sage.policies.cells import Cells
from sage.policies.policy import Contexts, select_rows
from sage.policies.text.embedding import Embedder
from sage.policies.text.text_kernel import Folds, RidgePath, TextModel, fit_kernel, has_text, one_hot
from sage.rl.cell_posterior import cell_posterior
from sage.rl.dollar_worth import best_of

LEAST_CATEGORIES = 3  # that can be left out in turn
CATEGORY_FOLDS = 10


@dataclass(frozen=True, eq=False)
class Lesson:
    """Rows with the outcome (or its estimate) of every model in each; NaN where a model could not have been chosen."""

    contexts: Contexts
    models: tuple[str, ...]
    quality: np.ndarray  # [n, models], or a reward that costs are part of
    cost: np.ndarray | None  # [n, models] USD, where costs count apart
    incumbent: np.ndarray  # int64 [n]
    cells: Cells
    seed: int = 0
    embedder: Embedder | None = None  # instead of hashed words

    @cached_property
    def cell(self) -> np.ndarray:
        return self.cells.index(self.contexts)

    @cached_property
    def task(self) -> np.ndarray:
        return np.unique(self.contexts.task_id, return_inverse=True)[1]

    @cached_property
    def category(self) -> np.ndarray:
        return np.unique(self.contexts.category, return_inverse=True)[1]

    def with_text(self) -> Lesson:
        """Returns the rows that have a text; the cells stay those of all rows."""
        rows = np.flatnonzero(has_text(self.contexts, self.embedder))
        return replace(
            self,
            contexts=select_rows(self.contexts, rows),
            quality=self.quality[rows],
            cost=None if self.cost is None else self.cost[rows],
            incumbent=self.incumbent[rows],
        )

    @property
    def num_tasks(self) -> int:
        return len(np.unique(self.contexts.task_id))

    def worth(self, usd_worth: float) -> np.ndarray:
        """Returns [n, models]: quality less cost times `usd_worth`; the quality alone without costs."""
        return self.quality if self.cost is None else self.quality - usd_worth * self.cost

    def filled(self, values: np.ndarray) -> np.ndarray:
        """Returns `values` [n, models] with the mean of the cell, or else of the model, in place of every NaN."""
        gaps = np.isnan(values)
        if not gaps.any():
            return values
        count = np.maximum((~gaps).sum(axis=0), 1)
        overall = np.nansum(values, axis=0) / count
        of_cell = np.zeros((len(self.cells), values.shape[1]))
        rows = np.zeros_like(of_cell)
        np.add.at(of_cell, self.cell, np.nan_to_num(values))
        np.add.at(rows, self.cell, ~gaps)
        means = np.where(rows > 0, of_cell / np.maximum(rows, 1), overall)
        return np.where(gaps, means[self.cell], values)


class TextLesson:
    """The rows with a text, their kernel features, and predictions of each row by regressions that have not seen it."""

    def __init__(self, lesson: Lesson) -> None:
        contexts, seed = lesson.contexts, lesson.seed
        self.lesson = lesson
        self.kernel = fit_kernel(contexts, embedder=lesson.embedder, seed=seed)
        self.whitening = self.kernel.whitening()
        near = self.kernel.nearness(contexts) @ self.whitening
        self.features = np.hstack([near, one_hot(lesson.cell, len(lesson.cells))])
        parts = [lesson.filled(values) for values in (lesson.quality, lesson.cost) if values is not None]
        self.targets = np.hstack(parts)
        self.fold = assign_folds(lesson.task, min(FOLDS, int(lesson.task.max()) + 1), seed)
        self.group = np.repeat(np.arange(len(parts)), len(lesson.models))  # quality or cost
        folds = Folds.of(self.features, self.targets, self.fold)
        self.strengths = folds.strengths(self.group)
        self.predicted = folds.predict(self.strengths)

    def model(self) -> TextModel:
        """Fits the regression on all rows, with the same penalties, and returns it in the form that serves."""
        return TextModel.of(self.kernel, self.whitening, RidgePath(self.features, self.targets), self.strengths)

    def by_cell(self) -> np.ndarray:
        """Returns predictions [n, targets] by regressions that know the cell and no text."""
        folds = Folds.of(one_hot(self.lesson.cell, len(self.lesson.cells)), self.targets, self.fold)
        return folds.predict(folds.strengths(self.group))

    def without_category(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Returns every row's predictions by regressions without the row's category, and the folds of categories.

        Returns None if there are fewer than LEAST_CATEGORIES categories.
        """
        num_categories = int(self.lesson.category.max()) + 1
        if num_categories < LEAST_CATEGORIES:
            return None
        fold = assign_folds(self.lesson.category, min(CATEGORY_FOLDS, num_categories), self.lesson.seed)
        return Folds.of(self.features, self.targets, fold).predict(self.strengths), fold

    def worth(self, predicted: np.ndarray, usd_worth: float) -> np.ndarray:
        num_models = len(self.lesson.models)
        quality, cost = predicted[:, :num_models], predicted[:, num_models:]
        return quality - usd_worth * cost if cost.shape[1] else quality

    def choices(self, worth: np.ndarray) -> np.ndarray:
        """Returns int64 [n]: the model with the highest `worth` [n, models] among those that could have been chosen.

        It is the incumbent where the incumbent itself could not have been chosen.
        """
        return best_of(worth, ~np.isnan(self.lesson.quality), self.lesson.incumbent)


def table_choices(lesson: Lesson, values: np.ndarray, fold: np.ndarray, *, new: bool) -> np.ndarray:
    """Returns int64 [n]: the choices of tables learned on the other folds.

    With `new`, tables choose as for a category never seen.
    """
    cells, role = lesson.cells, lesson.cells.role_of_pair[lesson.cell]
    choices = lesson.incumbent.copy()
    for index in np.unique(fold):
        held_out, seen = fold == index, fold != index
        rows = (lesson.cell[seen], lesson.incumbent[seen], lesson.task[seen])
        scores = lower_scores(*cell_posterior(values[seen], cells, *rows), 0.0)
        place = len(cells) + role[held_out] if new else lesson.cell[held_out]
        choices[held_out] = best_of(scores[place], ~np.isnan(values[held_out]), lesson.incumbent[held_out])
    return choices
