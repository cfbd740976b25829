"""Small synthetic logs with known truth."""

from __future__ import annotations

import numpy as np

from sage.evidence.routing_data import RoutingData
from sage.policies.features import NAMES, VERSION
from sage.policies.policy import Contexts

MODELS = ("big", "mid", "small")
TRUTH = {"code": (0.5, 0.8, 0.2), "prose": (0.7, 0.4, 0.3)}  # mean quality of each model
USUAL = 0  # the static table takes "big"


def made_contexts(category: np.ndarray, task_id: np.ndarray, role: str = "coder") -> Contexts:
    features = np.zeros((len(category), len(NAMES)), np.float32)
    return Contexts(np.full(len(category), role), np.asarray(category), features, np.asarray(task_id))


def made_log(
    rows: int = 4_000,
    *,
    seed: int = 0,
    epsilon: float = 0.3,
    truth: dict[str, tuple[float, ...]] = TRUTH,
    source: str = "replay",
    rows_per_task: int = 1,
    prices: tuple[float, ...] | None = None,
) -> RoutingData:
    """Epsilon-greedy around the usual model; qualities are 0 or 1, without latency; costs are within half of the price."""
    rng = np.random.default_rng(seed)
    task = np.arange(rows) // rows_per_task
    category = np.array(sorted(truth))[task % len(truth)]
    propensity = np.full((rows, len(MODELS)), epsilon / len(MODELS))
    propensity[:, USUAL] += 1 - epsilon
    action = (rng.random(rows)[:, None] > propensity.cumsum(axis=1)).sum(axis=1).clip(max=len(MODELS) - 1)
    mean = np.array([truth[name] for name in category])[np.arange(rows), action]
    quality = (rng.random(rows) < mean).astype(float)
    cost = np.full(rows, np.nan) if prices is None else np.array(prices)[action] * rng.uniform(0.5, 1.5, rows)
    return RoutingData(
        contexts=made_contexts(category, np.array([f"task-{seed}-{t}" for t in task])),
        models=MODELS,
        eligible=np.ones(propensity.shape, bool),
        action=action,
        propensity=propensity,
        quality=quality,
        cost_usd=cost,
        latency_s=np.full(rows, np.nan),
        retries=np.zeros(rows, np.int64),
        timed_out=np.zeros(rows, bool),
        data_source=np.full(rows, source),
        policy=np.full(rows, "static"),
        policy_version=np.full(rows, "1"),
        decision_id=np.array([f"d-{seed}-{i}" for i in range(rows)]),
        time=np.arange(rows, dtype=float),
        features_version=VERSION,
    )
