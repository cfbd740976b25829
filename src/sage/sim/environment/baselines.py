"""Policies to compare with: chance, the best that full knowledge gives, and a ranking heuristic that is tuned on training tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from torch import Tensor

from sage.sim.environment import rules
from sage.sim.environment.dynamics import NUM_TIERS, SoftwareTaskDynamics, split
from sage.sim.environment.packed import Packed
from sage.sim.environment.suspects import NUM_KINDS, NUM_SLOTS

Chooser = Callable[[dict[str, Tensor]], Tensor]  # from observations to actions


def returns_of(choose: Chooser, dynamics: SoftwareTaskDynamics, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Unshaped returns and whether tasks were solved, one for each row of uniform numbers. Rows end when they end."""
    state = dynamics.initial(uniform)
    total, alive, solved = (
        torch.zeros(len(state)),
        torch.ones(len(state), dtype=torch.bool),
        torch.zeros(len(state), dtype=torch.bool),
    )
    for _ in range(rules.HORIZON):
        state, reward, terminated = dynamics.step(state, choose(dynamics.observe(state)))
        total += torch.where(alive, reward / rules.SCALE, 0.0)
        solved |= alive & dynamics.info(state)["is_success"]
        alive &= ~terminated
        if not alive.any():
            break
    return total, solved


def draws(tasks: Packed, repeats: int, seed: int) -> Tensor:
    """Uniform numbers for every task, `repeats` times, the same for every policy."""
    generator = torch.Generator().manual_seed(seed)
    chance = torch.rand(repeats, len(tasks), SoftwareTaskDynamics.num_random, generator=generator)
    chance[..., 0] = (torch.arange(len(tasks)) + 0.5) / len(tasks)
    return chance.flatten(0, 1)


def chance(generator: torch.Generator) -> Chooser:
    """Anything that is allowed, with equal probability."""
    return lambda obs: torch.multinomial(obs["action_mask"].float(), 1, generator=generator).squeeze(-1)


def nothing(obs: dict[str, Tensor]) -> Tensor:
    return torch.full((len(obs["task"]),), rules.STOP)


@dataclass(frozen=True)
class Heuristic:
    """Tries repairs by suspicion and by a fixed order of kinds, then asks models, then escalates.

    `order` ranks kinds; `trials` of at most `slots` statements come first, unless `trials` is 0; `ladder` are the tiers that
    are asked next; at the end it escalates, or stops.
    """

    order: tuple[int, ...]
    trials: int
    slots: int
    ladder: tuple[int, ...]
    escalate: bool

    def __call__(self, obs: dict[str, Tensor]) -> Tensor:
        return torch.tensor([self.choose(*row) for row in zip(*(obs[k].numpy() for k in KEYS), strict=True)])

    def choose(self, mask: np.ndarray, slots: np.ndarray, progress: np.ndarray, models: np.ndarray) -> int:
        failing, unchecked, passes, fails = progress[:4]
        if failing == 0:
            if unchecked and mask[rules.RUN]:
                return rules.RUN
            return rules.SUBMIT if passes or not fails else rules.REVERT
        slots = slots.reshape(NUM_SLOTS, rules.SLOT_FEATURES)
        if round(10 * slots[:, -2].sum()) < self.trials:
            if mask[rules.LOCALISE]:
                return rules.LOCALISE
            for slot in range(self.slots):
                if mask[rules.INSPECT + slot]:
                    return rules.INSPECT + slot
                for kind in self.order:
                    if mask[rules.TRY + slot * NUM_KINDS + kind]:
                        return rules.TRY + slot * NUM_KINDS + kind
        for tier in self.ladder:
            if models[tier] == 0 and mask[rules.ASK + 2 * tier]:
                return rules.ASK + 2 * tier
        return rules.ESCALATE if self.escalate and mask[rules.ESCALATE] else rules.STOP


KEYS = ("action_mask", "slots", "progress", "models")


def heuristics(order: tuple[int, ...]) -> Iterator[Heuristic]:
    """What tuning chooses from."""
    ladders = ((), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2))
    for trials, ladder, escalate in product((0, 4, 8, 12, 16, 24), ladders, (True, False)):
        yield Heuristic(order, trials, NUM_SLOTS, ladder, escalate)


def kind_order(tasks: Packed) -> tuple[int, ...]:
    """Kinds by how often a trial of them repairs a training task, per trial."""
    at_start = tasks.result[:, 0]
    tried, worked = (at_start >= 0).sum((0, 1, 3)), (at_start == 2).sum((0, 1, 3))
    return tuple(np.argsort(-worked / np.maximum(tried, 1), kind="stable").tolist())


def tuned(tasks: Packed, dynamics: SoftwareTaskDynamics, seed: int = 0) -> Heuristic:
    """The best heuristic on training tasks."""
    uniform = draws(tasks, 1, seed)
    return max(heuristics(kind_order(tasks)), key=lambda h: float(returns_of(h, dynamics, uniform)[0].mean()))


def oracle_returns(dynamics: SoftwareTaskDynamics, uniform: Tensor) -> Tensor:
    """The best return of each row for somebody who knows every outcome beforehand."""
    tasks = dynamics.tasks
    state = split(dynamics.initial(uniform))
    task = state.task.long().squeeze(-1)
    table = dynamics.table(uniform.device)
    best = torch.zeros(len(uniform))  # stopping at once
    best = torch.maximum(best, torch.from_numpy(trial_returns(tasks))[task].float())
    for tier in range(NUM_TIERS):
        for context in range(2):
            tiers = torch.full((len(uniform),), tier)
            correct, _ = dynamics.answer(state, table, task, tiers, torch.full_like(tiers, context))
            cost = rules.COST_ASK[2 * tier + context]
            best = torch.maximum(best, torch.where(correct, rules.SOLVED - cost, 0.0))
    escalated = state.chance[..., -1] < dynamics.probability(dynamics.models.escalated, table["difficulty"][task])
    return torch.maximum(best, torch.where(escalated, rules.SOLVED - rules.COSTS["escalate"], 0.0))


def trial_returns(tasks: Packed) -> np.ndarray:
    """The cheapest way to a solving tree by trials: localise, inspect each statement, try each edit, submit."""
    fixed = rules.SOLVED - rules.COSTS["localise"]
    found = np.zeros(len(tasks))
    for i in range(len(tasks)):
        for first in shortest(tasks, i):
            found[i] = max(found[i], fixed - first)
    return found


def shortest(tasks: Packed, i: int) -> Iterator[float]:
    """Costs of the ways from the beginning to trees that solve the task."""
    costs = {0: 0.0}
    ahead = [0]
    while ahead:
        node = ahead.pop(0)
        for s, k, v in np.argwhere(tasks.result[i, node] >= 1):
            if tasks.result[i, node, s, k, v] > 2:
                continue
            there = int(tasks.leads[i, node, s, k, v])
            cost = costs[node] + rules.COST_INSPECT + rules.COST_TRY * (v + 1)
            if cost < costs.get(there, np.inf):
                costs[there] = cost
                ahead.append(there)
    yield from (cost for node, cost in costs.items() if tasks.solves[i, node])
