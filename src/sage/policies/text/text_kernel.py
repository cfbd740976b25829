"""Predictions of numbers from a task's text: ridge regression on kernel features of its words, with NumPy alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from sage.policies.features import COLUMN
from sage.policies.policy import Contexts
from sage.policies.text.embedding import Embedder
from sage.words import BUCKETS, word_vector, words_of

NUMBERS = (
    *("log_characters", "log_lines", "has_code", "has_stack_trace", "has_file_path", "has_choices"),
    *("symbol_share", "digit_share"),
)
NUMBERS_WEIGHT = 0.1  # of the features' distance in the kernel, beside that of words
NUM_LANDMARKS = 600
SMALLEST_AXIS = 1e-5
CHUNK = 1000  # rows of hashed words in memory at a time
MODEL_ARRAYS = ("near", "cell", "bias")
RIDGES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class TextKernel(ABC):
    """A Gaussian kernel over texts and their numeric features, evaluated at landmarks (some of the training texts)."""

    marks: ClassVar[tuple[str, ...]]  # the arrays that the texts of the landmarks are kept in
    numbers: np.ndarray  # float64 [landmarks, NUMBERS], centred and scaled
    centre: np.ndarray  # float64 [NUMBERS]
    scale: np.ndarray  # float64 [NUMBERS]; infinite where all texts are alike

    @property
    @abstractmethod
    def landmarks(self) -> np.ndarray:
        """Returns float32 [width, landmarks]: the landmarks' vectors, each of length 1."""

    @abstractmethod
    def products(self, texts: np.ndarray) -> np.ndarray:
        """Returns [n, landmarks]: the cosines between the vectors of `texts` and those of the landmarks."""

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, name) for name in (*self.marks, "numbers", "centre", "scale")}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Returns the shapes that arrays must have, by name of the array."""
        return {"numbers": (self.num_landmarks, len(NUMBERS)), "centre": (len(NUMBERS),), "scale": (len(NUMBERS),)}

    @property
    @abstractmethod
    def num_landmarks(self) -> int: ...

    def nearness(self, contexts: Contexts) -> np.ndarray:
        """Returns float64 [n, landmarks]: the kernel of every text with every landmark; 1 if they are the same."""
        assert contexts.text is not None
        numbers = (raw_numbers(contexts) - self.centre) / self.scale
        squares = (numbers**2).sum(axis=1)[:, None] + self.squares[None] - 2 * numbers @ self.numbers.T
        return np.exp(self.products(contexts.text).astype(np.float64) - 1 - squares / 2)

    @cached_property
    def squares(self) -> np.ndarray:
        return (self.numbers**2).sum(axis=1)

    def whitening(self) -> np.ndarray:
        """Returns float64 [landmarks, axes]: the matrix that turns nearness into kernel features.

        The products of two texts' features are then their kernel, exactly so for landmarks (Nystrom's method).
        """
        texts = self.landmarks.T.astype(np.float64)
        squares = self.squares[:, None] + self.squares[None] - 2 * self.numbers @ self.numbers.T
        sizes, axes = np.linalg.eigh(np.exp(texts @ texts.T - 1 - squares / 2))
        used = sizes > SMALLEST_AXIS  # texts that are alike add no axis
        return axes[:, used] / np.sqrt(sizes[used])


@dataclass(frozen=True, eq=False, kw_only=True)
class WordKernel(TextKernel):
    """A text kernel that compares hashed words."""

    marks: ClassVar[tuple[str, ...]] = ("words", "ends")
    words: np.ndarray  # uint16: hashed words of the landmarks, one after the other
    ends: np.ndarray  # int64 [landmarks]: where each one's end

    @property
    def num_landmarks(self) -> int:
        return len(self.ends)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        total = int(self.ends[-1]) if len(self.ends) else 0
        return super().shapes() | {"words": (total,), "ends": (len(self.ends),)}

    @cached_property
    def landmarks(self) -> np.ndarray:
        return np.ascontiguousarray(word_rows(np.split(self.words, self.ends[:-1])).T)

    def products(self, texts: np.ndarray) -> np.ndarray:
        if len(texts) == 1:  # as in service: only the words that are there
            buckets, values = word_vector(words_of(texts[0]))
            return (values @ self.landmarks[buckets])[None]
        starts = range(0, len(texts), CHUNK)
        return np.vstack([word_rows(texts[s : s + CHUNK]) @ self.landmarks for s in starts])


@dataclass(frozen=True, eq=False, kw_only=True)
class EmbeddingKernel(TextKernel):
    """A text kernel that compares embedding vectors; it needs texts and cannot read hashed words."""

    marks: ClassVar[tuple[str, ...]] = ("embedded",)
    embedded: np.ndarray  # float32 [landmarks, width]
    embedder: Embedder

    @property
    def num_landmarks(self) -> int:
        return len(self.embedded)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return super().shapes() | {"embedded": (len(self.embedded), self.embedder.embed(["a text"]).shape[1])}

    @property
    def landmarks(self) -> np.ndarray:
        return self.embedded.T

    def products(self, texts: np.ndarray) -> np.ndarray:
        place = {text: index for index, text in enumerate(dict.fromkeys(texts))}  # tasks have many rows
        return (self.embedder.embed(list(place)) @ self.landmarks)[[place[text] for text in texts]]


def fit_kernel(
    contexts: Contexts, *, embedder: Embedder | None = None, num_landmarks: int = NUM_LANDMARKS, seed: int = 0
) -> TextKernel:
    """Chooses landmarks at random, at most one per task, and computes centre and scale of the numeric features.

    Outcomes play no part. With an `embedder` the kernel compares embeddings, otherwise hashed words.
    """
    _, first = np.unique(contexts.task_id, return_index=True)
    chosen = np.random.default_rng(seed).permutation(first)[:num_landmarks]
    raw = raw_numbers(contexts)
    deviation = raw.std(axis=0)
    varies = deviation > 1e-9
    scale = np.where(varies, deviation * np.sqrt(max(varies.sum(), 1) / NUMBERS_WEIGHT), np.inf)
    centre = raw.mean(axis=0)
    numbers = {"numbers": (raw[chosen] - centre) / scale, "centre": centre, "scale": scale}
    assert contexts.text is not None
    texts = contexts.text[chosen]
    if embedder is not None:
        return EmbeddingKernel(embedded=embedder.embed(texts.tolist()), embedder=embedder, **numbers)
    words = [words_of(text) for text in texts]
    return WordKernel(words=np.concatenate(words), ends=np.cumsum([len(part) for part in words]), **numbers)


def raw_numbers(contexts: Contexts) -> np.ndarray:
    return contexts.features[:, [COLUMN[name] for name in NUMBERS]].astype(np.float64)


def word_rows(texts: Sequence[str | np.ndarray] | np.ndarray) -> np.ndarray:
    """Returns float32 [n, BUCKETS]: a vector of hashed words for each text."""
    rows = np.zeros((len(texts), BUCKETS), np.float32)
    for row, text in zip(rows, texts, strict=True):
        buckets, values = word_vector(words_of(text))
        row[buckets] = values
    return rows


def has_text(contexts: Contexts, embedder: Embedder | None = None) -> np.ndarray:
    """Returns bool [n]: the rows with a text or hashed words; with an embedder, only those with a text."""
    if contexts.text is None:
        return np.zeros(len(contexts.role), bool)
    return np.array([len(text) > 0 and (embedder is None or isinstance(text, str)) for text in contexts.text], bool)


class RidgePath:
    """A ridge regression of targets on features for any strength of the penalty; the mean is not penalized."""

    def __init__(self, features: np.ndarray, targets: np.ndarray) -> None:
        self.centre, self.mean = features.mean(axis=0), targets.mean(axis=0)
        centred = features - self.centre
        sizes, self.axes = np.linalg.eigh(centred.T @ centred)
        self.sizes = sizes.clip(min=0)
        self.products = self.axes.T @ (centred.T @ (targets - self.mean))

    def weights(self, strengths: np.ndarray | float) -> np.ndarray:
        """Returns [features, targets] for one penalty strength, or for `strengths` [targets]."""
        penalty = self.sizes[:, None] + np.broadcast_to(strengths, self.mean.shape)[None]
        return self.axes @ (self.products / penalty)

    def predict(self, features: np.ndarray, strengths: np.ndarray | float) -> np.ndarray:
        """Returns the predicted targets [n, targets] for features [n, features]."""
        return (features - self.centre) @ self.weights(strengths) + self.mean


class Folds(NamedTuple):
    """Cross-fitted ridge regressions: one per fold, fitted on the rows of all other folds."""

    features: np.ndarray
    targets: np.ndarray
    paths: list[tuple[RidgePath, np.ndarray]]  # with the mask of the fold

    @classmethod
    def of(cls, features: np.ndarray, targets: np.ndarray, fold: np.ndarray) -> Folds:
        """Fits one regression per distinct value of `fold` (int [n]) on the rows outside of that fold."""
        found = [fold == index for index in np.unique(fold)]
        paths = [(RidgePath(features[~left_out], targets[~left_out]), left_out) for left_out in found]
        return cls(features, targets, paths)

    def strengths(self, group: np.ndarray) -> np.ndarray:
        """Returns float64 [targets]: the penalty strengths of RIDGES with the least squared error on held-out folds.

        All targets with the same number in `group` (int [targets]) share one strength.
        """
        errors = [((self.predict(strength) - self.targets) ** 2).sum(axis=0) for strength in RIDGES]
        of_group = np.array([np.bincount(group, error) for error in errors])
        return np.array(RIDGES)[of_group.argmin(axis=0)][group]

    def predict(self, strengths: np.ndarray | float) -> np.ndarray:
        """Returns [n, targets]: every row's prediction by the regression that has not seen the row.

        `strengths` is one penalty strength, or one per target.
        """
        predicted = np.zeros_like(self.targets)
        for path, left_out in self.paths:
            predicted[left_out] = path.predict(self.features[left_out], strengths)
        return predicted


@dataclass(frozen=True, eq=False)
class TextModel:
    """A fitted regression of numbers on texts and cells, in the form that serves."""

    kernel: TextKernel
    near: np.ndarray  # float64 [landmarks, targets]
    cell: np.ndarray  # float64 [cells, targets]
    bias: np.ndarray  # float64 [targets]

    @classmethod
    def of(cls, kernel: TextKernel, whitening: np.ndarray, path: RidgePath, strengths: np.ndarray) -> TextModel:
        weights, axes = path.weights(strengths), whitening.shape[1]
        return cls(kernel, whitening @ weights[:axes], weights[axes:], path.mean - path.centre @ weights)

    def predict(self, contexts: Contexts, cell: np.ndarray) -> np.ndarray:
        """Returns float64 [n, targets] for rows in the given cells (int [n]); a cell never seen adds nothing."""
        known = (cell >= 0) & (cell < len(self.cell))
        of_cell = self.cell[np.where(known, cell, 0)] * known[:, None] if len(self.cell) else 0.0
        return self.kernel.nearness(contexts) @ self.near + of_cell + self.bias

    def arrays(self) -> dict[str, np.ndarray]:
        return self.kernel.arrays() | {name: getattr(self, name) for name in MODEL_ARRAYS}

    @property
    def embedder(self) -> Embedder | None:
        return self.kernel.embedder if isinstance(self.kernel, EmbeddingKernel) else None

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], embedder: Embedder | None = None) -> TextModel:
        own: dict = {name: values for name, values in arrays.items() if name not in MODEL_ARRAYS}
        kernel = WordKernel(**own) if embedder is None else EmbeddingKernel(**own, embedder=embedder)
        return cls(kernel, *(arrays[name] for name in MODEL_ARRAYS))

    def shapes(self, num_cells: int, num_targets: int) -> dict[str, tuple[int, ...]]:
        """Returns the shapes that arrays must have for these numbers of cells and targets, by name of the array."""
        return self.kernel.shapes() | {
            "near": (self.kernel.num_landmarks, num_targets),
            "cell": (num_cells, num_targets),
            "bias": (num_targets,),
        }


def one_hot(cell: np.ndarray, num_cells: int) -> np.ndarray:
    """Returns float64 [n, cells] with a one in the column of each row's cell; zeros for a cell out of range."""
    return (cell[:, None] == np.arange(num_cells)[None]).astype(np.float64)
