"""Routers as policies of the simulator: one model is asked once, a patch that passes the visible tests is submitted,
and nothing else is done."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sage.policies.features import NAMES
from sage.policies.policy import Contexts
from sage.rl.category_table import table_from_outcomes
from sage.sim.environment import rules
from sage.sim.environment.baselines import Chooser, draws
from sage.sim.environment.dynamics import SoftwareTaskDynamics, split
from sage.sim.environment.models import Models
from sage.sim.environment.packed import Packed
from sage.sim.environment.tables import ERRORS

ROLE = "coder"
FIRST_ERROR = rules.NUM_TASK_FEATURES - len(ERRORS) - 2  # where the shares of errors begin among a task's features
CATEGORIES = (*(names[0] for names in ERRORS), "other")
REPEATS = 5


def category_of(features: Tensor) -> Tensor:
    """Returns the index in CATEGORIES of the most frequent error of the failing tests; `features` [..., features] are a
    task's."""
    return features[..., FIRST_ERROR : FIRST_ERROR + len(CATEGORIES)].argmax(-1)


def routed(tiers: Tensor) -> Chooser:
    """Returns a policy that asks the tier of each task's category; `tiers` [categories] are indices of rules.TIERS."""

    def choose(obs: dict[str, Tensor]) -> Tensor:
        ask = rules.ASK + 2 * tiers.to(obs["task"].device)[category_of(obs["task"])]
        asked = (obs["models"][..., : len(rules.TIERS)] > 0).any(-1)
        repaired = obs["progress"][..., 0] == 0
        return torch.where(repaired, rules.SUBMIT, torch.where(asked, rules.STOP, ask))

    return choose


def static_router(tier: int) -> Chooser:
    return routed(torch.full((len(CATEGORIES),), tier))


def learned_router(tasks: Packed, models: Models | None = None, seed: int = 0) -> Chooser:
    """Returns a policy that follows sage's category table, learned from the returns of every tier on training tasks."""
    contexts, rewards = outcomes(tasks, models, seed)
    policy = table_from_outcomes(contexts, rules.TIERS, rewards)
    asked = contexts_of(CATEGORIES, CATEGORIES)
    chosen = policy.probabilities(asked, rules.TIERS, np.ones((len(CATEGORIES), len(rules.TIERS)), bool)).argmax(1)
    return routed(torch.from_numpy(chosen))


def outcomes(tasks: Packed, models: Models | None, seed: int) -> tuple[Contexts, np.ndarray]:
    """Returns the contexts of all tasks, each REPEATS times, and rewards [contexts, tiers]: the return of asking a tier
    and submitting a patch that passes."""
    dynamics = SoftwareTaskDynamics(tasks, models, shaping=False)
    uniform = draws(tasks, REPEATS, seed)
    state = split(dynamics.initial(uniform))
    table, task = dynamics.table(uniform.device), state.task.long().squeeze(-1)
    rewards = []
    for tier in range(len(rules.TIERS)):
        correct, _ = dynamics.answer(state, table, task, torch.full_like(task, tier), torch.zeros_like(task))
        price = table["price"][task, 2 * tier, correct.long()]
        rewards.append((rules.SOLVED * correct.float() - price) * rules.SCALE)
    categories = [CATEGORIES[i] for i in category_of(table["features"][task]).tolist()]
    return contexts_of(categories, [tasks.ids[i] for i in task.tolist()]), torch.stack(rewards, 1).double().numpy()


def contexts_of(categories: tuple[str, ...] | list[str], ids: tuple[str, ...] | list[str]) -> Contexts:
    return Contexts(
        role=np.full(len(ids), ROLE),
        category=np.array(categories, np.str_),
        features=np.zeros((len(ids), len(NAMES)), np.float32),
        task_id=np.array(ids, np.str_),
    )
