"""Tasks whose words say which model solves them, with known truth."""

from __future__ import annotations

import numpy as np

from sage.evidence.routing_data import RoutingData
from sage.log.records import Request
from sage.policies.features import VERSION, contexts_of
from sage.policies.policy import Contexts
from sage.rl.replay import with_words

MODELS = ("cheap", "dear")
COST = np.array([0.01, 0.1])


def text_contexts(
    num_tasks: int, *, seed: int = 0, categories: tuple[str, ...] = ("a",)
) -> tuple[Contexts, np.ndarray]:
    """Every second task or so says 'prove', in any category; with that mask."""
    generator = np.random.default_rng(seed)
    hard = generator.random(num_tasks) < 0.5
    texts = [
        f"{'prove the theorem' if h else 'add two numbers'} {'and so on ' * n}"
        for h, n in zip(hard, generator.integers(0, 9, num_tasks), strict=True)
    ]
    requests = [
        Request(role="coder", task=text, task_id=f"t{seed}-{i}", category=categories[i % len(categories)])
        for i, text in enumerate(texts)
    ]
    return contexts_of(requests), hard


def outcomes_of(hard: np.ndarray, *, told: bool = True, seed: int = 1) -> np.ndarray:
    """[n, models]: the cheap model fails on what is hard; without `told`, on others that no word tells apart."""
    fails = hard if told else np.random.default_rng(seed).random(len(hard)) < 0.5
    return np.stack([1.0 - fails, np.ones(len(hard))], axis=1)


def text_log(num_rows: int = 600, *, told: bool = True, seed: int = 0, words: bool = True) -> RoutingData:
    """Half of the rows explore around the dear model; quality and cost are known."""
    contexts, hard = text_contexts(num_rows, seed=seed, categories=("a", "b"))
    generator = np.random.default_rng(seed + 7)
    propensity = np.tile([0.25, 0.75], (num_rows, 1))
    action = (generator.random(num_rows) < 0.75).astype(np.int64)
    rows = np.arange(num_rows)
    return RoutingData(
        contexts=with_words(contexts) if words else contexts._replace(text=None),
        models=MODELS,
        eligible=np.ones((num_rows, 2), bool),
        action=action,
        propensity=propensity,
        quality=outcomes_of(hard, told=told)[rows, action],
        cost_usd=COST[action],
        latency_s=np.full(num_rows, np.nan),
        retries=np.zeros(num_rows, np.int64),
        timed_out=np.zeros(num_rows, bool),
        data_source=np.full(num_rows, "replay"),
        policy=np.full(num_rows, "static"),
        policy_version=np.full(num_rows, "1"),
        decision_id=np.array([f"d{seed}-{i}" for i in range(num_rows)]),
        time=np.arange(num_rows, dtype=float),
        features_version=VERSION,
    )
