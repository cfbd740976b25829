"""Logs in which a model was added late, and has been tried a few times in one category."""

from __future__ import annotations

import numpy as np
from quick_gate import Found

from rl_base.evaluation import BanditLog, diagnose_bandit
from sage.evidence.missingness import GONE, find_gaps
from sage.evidence.task_evidence import gain_estimate, predict_for_proof
from sage.proof.evaluation import FEWEST_TASKS

NEW_MODEL = "new-model"
TRIES = (5, 15, 30, 60)  # the least of each cell; the last is of 60 exactly
RATES = (0.0, 0.01, 0.05, 0.5, 0.9, 0.97, 0.99, 1.0)
CHANCES = (0.02, 0.05, 0.1, 0.3)
CATEGORIES = 4


def judge_new_model(seed: tuple[int, ...], least_tries: int) -> tuple[Found, float]:
    """What the gate finds in a drawn log, and the candidate's true gain, which is 0 or less.

    Models: the incumbent, one that was there before, and the new one, which the candidate takes in the first category. Half of the
    pairs of success rates are .9 to 1; the new model's is the incumbent's, or the next lower one.
    """
    rng = np.random.default_rng(seed)
    most = next((tries for tries in TRIES if tries > least_tries), least_tries + 1)
    tries, chance = int(rng.integers(least_tries, most)), rng.choice(CHANCES)
    place = int(rng.integers(4, len(RATES))) if rng.random() < 0.5 else int(rng.integers(len(RATES)))
    lower = max(place - int(rng.random() < 0.3), 0)
    rate = np.full((CATEGORIES, 3), RATES[place])
    rate[:, 1], rate[0, 2] = rng.choice(RATES, CATEGORIES), RATES[lower]
    own = round(tries / chance)
    category = np.concatenate([np.zeros(own, np.int64), rng.integers(1, CATEGORIES, size=max(3 * own, 600))])
    usual = 1 - chance - 0.1
    propensities = np.tile([usual, 0.1, chance], (len(category), 1))
    action = (rng.random(len(category))[:, None] > propensities.cumsum(axis=1)).sum(axis=1).clip(max=2)
    log = BanditLog(
        actions=action,
        rewards=(rng.random(len(category)) < rate[category, action]).astype(float),
        propensities=propensities,
        features=category[:, None],
        reward_range=(0.0, 1.0),
    )
    one_hot, seen = np.eye(3), np.ones(len(category), bool)
    policies = one_hot[np.where(category == 0, 2, 0)], one_hot[np.zeros(len(category), np.int64)]
    found = gain_estimate(log, *policies, predict_for_proof(log, *policies, seen))
    checks = [diagnose_bandit(log, policy) for policy in policies]
    refused = own < FEWEST_TASKS or any(one.refusal for one in checks)
    gaps = find_gaps(log, ("usual", "other", "new"), seen, None)
    gone = bool(gaps.gone) or any(one.mean_weight_p_value < GONE for one in checks)
    return Found(found, found, refused, gone), (RATES[lower] - RATES[place]) * own / len(category)
