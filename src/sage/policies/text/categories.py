"""Categories inferred from texts where callers give none, learned from the categories that other callers gave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sage.policies.features import COLUMN
from sage.policies.policy import Contexts, select_rows
from sage.policies.text.text_kernel import Folds, RidgePath, TextModel, fit_kernel, has_text, one_hot

FOLDS = 5
LEAST_TASKS = 100
ACCURACY = 0.9  # of inferred categories, on tasks left out; less sure ones are not inferred


@dataclass(frozen=True, eq=False)
class Categorizer:
    """A classifier of texts into categories; it infers none where the highest score is below `floor`."""

    names: tuple[str, ...]
    model: TextModel  # one target for each name
    floor: float
    accuracy: float  # of what is inferred, on tasks left out
    share: float  # of texts with an inferred category, likewise

    def infer(self, contexts: Contexts) -> np.ndarray:
        """Returns text [n]: the inferred category; '' where a row has no text or no category scores high enough."""
        found = np.full(len(contexts.role), "", dtype=object)
        rows = np.flatnonzero(has_text(contexts))
        if len(rows):
            texts = select_rows(contexts, rows) if len(rows) < len(found) else contexts
            scores = self.model.predict(texts, np.full(len(rows), -1))
            named = np.array(self.names, object)[scores.argmax(axis=1)]
            found[rows] = np.where(scores.max(axis=1) >= self.floor, named, "")
        return found.astype(np.str_)

    def options(self) -> dict:
        return {"names": list(self.names), "floor": self.floor, "accuracy": self.accuracy, "share": self.share}


def with_categories(categorizer: Categorizer | None, contexts: Contexts) -> Contexts:
    """Returns contexts whose empty categories are filled with inferred ones.

    Without a categorizer or without texts they are the same contexts.
    """
    if categorizer is None or contexts.text is None or (contexts.category != "").all():
        return contexts
    blank = np.flatnonzero(contexts.category == "")
    category = contexts.category.astype(object)
    category[blank] = categorizer.infer(select_rows(contexts, blank))
    return contexts._replace(category=category.astype(np.str_))


def learn_categories(contexts: Contexts, *, seed: int = 0) -> Categorizer | None:
    """Learns a categorizer from the rows that have a text and whose caller gave a category.

    Returns None for fewer than LEAST_TASKS tasks or two categories, or if no floor reaches ACCURACY on held-out tasks.
    """
    from rl_base.evaluation.reward_model import assign_folds

    given = (contexts.category != "") & (contexts.features[:, COLUMN["category_known"]] > 0)
    rows = np.flatnonzero(given & has_text(contexts))
    names, truth = np.unique(contexts.category[rows], return_inverse=True)
    task = np.unique(contexts.task_id[rows], return_inverse=True)[1]
    if len(names) < 2 or len(np.unique(task)) < LEAST_TASKS:
        return None
    texts = select_rows(contexts, rows)
    kernel = fit_kernel(texts, seed=seed)
    whitening = kernel.whitening()
    features, targets = kernel.nearness(texts) @ whitening, one_hot(truth, len(names))
    folds = Folds.of(features, targets, assign_folds(task, FOLDS, seed))
    strengths = folds.strengths(np.zeros(len(names), np.int64))
    scores = folds.predict(strengths)
    floor = least_floor(scores.max(axis=1), scores.argmax(axis=1) == truth)
    if floor is None:
        return None
    taken = scores.max(axis=1) >= floor
    right = float((scores.argmax(axis=1) == truth)[taken].mean())
    model = TextModel.of(kernel, whitening, RidgePath(features, targets), strengths)
    return Categorizer(tuple(names.tolist()), model, floor, right, float(taken.mean()))


def least_floor(score: np.ndarray, right: np.ndarray) -> float | None:
    """Returns the lowest score at or above which at least ACCURACY of the rows are right; None if there is none.

    `score` is [n], `right` bool [n].
    """
    order = np.argsort(-score, kind="stable")
    share = np.cumsum(right[order]) / np.arange(1, len(order) + 1)
    good = np.flatnonzero(share >= ACCURACY)
    return float(score[order][good[-1]]) if len(good) else None
