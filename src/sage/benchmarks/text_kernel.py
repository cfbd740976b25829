"""What the words of a task say about its outcomes: kernel ridge regression on hashed words, with NumPy alone."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sage.outcomes.table import OutcomeTable

TOKEN = re.compile(r"[a-z]+|\d+(?:\.\d+)?|[^\sa-z\d]")
SCANNED = 4000  # characters
BUCKETS = 4096
CHUNK = 1000  # rows of hashed words in memory at a time
COUNTED = (r"\d+", r"[.?!](?:\s|$)", r"\S+", r"[$%]", r"\b(?:each|every|per)\b", r"\b(?:half|twice|times|if)\b", r"\n")
RIDGES = (0.3, 1.0, 3.0, 10.0, 30.0)
NUM_FOLDS = 5
SMALLEST_AXIS = 1e-5


def hashed_words(texts: np.ndarray) -> np.ndarray:
    """float32 [n, BUCKETS] of unit length: log counts of words and pairs of words; numbers count by their length."""
    words = np.zeros((len(texts), BUCKETS), np.float32)
    for row, text in enumerate(texts):
        tokens = [f"#{min(len(t), 5)}" if t[0].isdigit() else t for t in TOKEN.findall(str(text).lower()[:SCANNED])]
        pairs = [f"{a} {b}" for a, b in pairwise(tokens)]
        buckets = [zlib.crc32(token.encode()) % BUCKETS for token in (*tokens, *pairs)]
        words[row] = np.log1p(np.bincount(buckets, minlength=BUCKETS)[:BUCKETS])
    return words / np.maximum(np.linalg.norm(words, axis=1, keepdims=True), 1e-9)


def counts(texts: np.ndarray) -> np.ndarray:
    """float64 [n, 1 + COUNTED]: log length, and logs of how often each pattern occurs."""
    patterns = [re.compile(pattern) for pattern in COUNTED]
    rows = [[len(text), *(len(p.findall(text[:SCANNED])) for p in patterns)] for text in map(str, texts)]
    return np.log1p(np.array(rows, np.float64))


@dataclass(frozen=True)
class TextKernel:
    """Features whose products are a Gaussian kernel over words and counts, exact on the landmarks (Nystrom)."""

    landmark_words: np.ndarray
    landmark_counts: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    whitening: np.ndarray
    categories: tuple[str, ...]
    category_weight: float = 1.0
    counts_weight: float = 0.1

    @classmethod
    def fit(cls, table: OutcomeTable, *, num_landmarks: int = 1200, seed: int = 0) -> TextKernel:
        """Takes landmarks and scales from the given tasks; outcomes are not looked at."""
        texts = prompts_of(table)
        chosen = np.random.default_rng(seed).permutation(len(texts))[:num_landmarks]
        raw = counts(texts)
        centre, scale = raw.mean(axis=0), np.maximum(raw.std(axis=0), 1e-9)
        landmark_counts = (raw[chosen] - centre) / scale
        words = hashed_words(texts[chosen])
        categories = tuple(sorted(set(table.category.tolist())))
        empty = cls(words, landmark_counts, centre, scale, np.eye(len(chosen)), categories)
        sizes, axes = np.linalg.eigh(empty.products(words, landmark_counts))
        used = sizes > SMALLEST_AXIS  # texts that are alike add no axis
        return cls(words, landmark_counts, centre, scale, axes[:, used] / np.sqrt(sizes[used]), categories)

    def products(self, words: np.ndarray, standard_counts: np.ndarray) -> np.ndarray:
        word_distance = 2 - 2 * (words @ self.landmark_words.T).astype(np.float64)
        squares = (standard_counts**2).sum(axis=1)[:, None] + (self.landmark_counts**2).sum(axis=1)[None]
        count_distance = (squares - 2 * standard_counts @ self.landmark_counts.T) / standard_counts.shape[1]
        return np.exp(-word_distance - self.counts_weight / 2 * count_distance)

    def features(self, table: OutcomeTable) -> np.ndarray:
        """float64 [n, landmarks + categories]; a category that was never seen is zero everywhere."""
        texts = prompts_of(table)
        standard_counts = (counts(texts) - self.centre) / self.scale
        near = [
            self.products(hashed_words(texts[start : start + CHUNK]), standard_counts[start : start + CHUNK])
            for start in range(0, len(texts), CHUNK)
        ]
        same_category = table.category[:, None] == np.array(self.categories)[None]
        return np.hstack([np.vstack(near) @ self.whitening, np.sqrt(self.category_weight) * same_category])


def prompts_of(table: OutcomeTable) -> np.ndarray:
    return np.full(len(table), "", dtype=object) if table.prompt is None else table.prompt


def ridge(features: np.ndarray, targets: np.ndarray, strength: float) -> Callable[[np.ndarray], np.ndarray]:
    """Least squares with a penalty on everything but the mean."""
    centre, mean = features.mean(axis=0), targets.mean(axis=0)
    centred = features - centre
    penalty = strength * np.eye(features.shape[1])
    weights = np.linalg.solve(centred.T @ centred + penalty, centred.T @ (targets - mean))
    return lambda rows: (rows - centre) @ weights + mean


def folds_of(num_rows: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(num_rows) % NUM_FOLDS


def cross_fitted(features: np.ndarray, targets: np.ndarray, strength: float, fold: np.ndarray) -> np.ndarray:
    """Every row predicted by a regression that has not seen its fold."""
    predicted = np.zeros_like(targets)
    for held_out in np.unique(fold):
        here = fold == held_out
        predicted[here] = ridge(features[~here], targets[~here], strength)(features[here])
    return predicted


def best_ridge(features: np.ndarray, targets: np.ndarray, fold: np.ndarray) -> float:
    """The strength with the least squared error on rows left out."""
    errors = [((cross_fitted(features, targets, strength, fold) - targets) ** 2).mean() for strength in RIDGES]
    return RIDGES[int(np.argmin(errors))]
