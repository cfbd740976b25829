"""Policies to compare with: chance, the best that full knowledge gives, and a ranking heuristic that is tuned on
training tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, permutations
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sage.sim.environment import rules
from sage.sim.environment.dynamics import NUM_TIERS, SoftwareTaskDynamics, split
from sage.sim.environment.packed import Packed
from sage.sim.environment.suspects import NUM_KINDS, NUM_SLOTS
from sage.sim.environment.tables import REPAIRED

Chooser = Callable[[dict[str, Tensor]], Tensor]  # from observations to actions


class Episodes(NamedTuple):
    """Results of episodes, one entry for each row of uniform numbers."""

    total: Tensor  # unshaped returns
    solved: Tensor
    spent: Tensor


def episodes_of(choose: Chooser, dynamics: SoftwareTaskDynamics, uniform: Tensor) -> Episodes:
    """Plays one episode for each row of `uniform` [episodes, num_random], all at a time, and returns their results."""
    state = dynamics.initial(uniform)
    total, spent = state.new_zeros(len(state)), state.new_zeros(len(state))
    alive, solved = total == 0, total > 0
    for _ in range(rules.HORIZON):
        state, reward, terminated = dynamics.step(state, choose(dynamics.observe(state)))
        total += torch.where(alive, reward / rules.SCALE, 0.0)
        facts = dynamics.info(state)
        solved |= alive & facts["is_success"]
        spent = torch.where(alive, facts["spent"], spent)
        alive &= ~terminated
        if not alive.any():
            break
    return Episodes(total, solved, spent)


def returns_of(choose: Chooser, dynamics: SoftwareTaskDynamics, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the unshaped return of an episode for each row of `uniform`, and whether it solved its task."""
    found = episodes_of(choose, dynamics, uniform)
    return found.total, found.solved


def draws(tasks: Packed, repeats: int, seed: int) -> Tensor:
    """Returns uniform numbers [repeats * tasks, num_random] that play every task `repeats` times, the same for every
    policy."""
    generator = torch.Generator().manual_seed(seed)
    chance = torch.rand(repeats, len(tasks), SoftwareTaskDynamics.num_random, generator=generator)
    chance[..., 0] = (torch.arange(len(tasks)) + 0.5) / len(tasks)
    return chance.flatten(0, 1)


def chance(generator: torch.Generator) -> Chooser:
    """Returns a policy that takes each allowed action with equal probability."""
    return lambda obs: torch.multinomial(obs["action_mask"].float(), 1, generator=generator).squeeze(-1)


def nothing(obs: dict[str, Tensor]) -> Tensor:
    """Returns the action STOP for every episode."""
    return torch.full_like(obs["task"][:, 0], rules.STOP, dtype=torch.long)


def rising(ladder: tuple[int, ...]) -> bool:
    """Returns whether each question is to a larger model than the one before; a question is 2 * tier + context."""
    return all(before // 2 < after // 2 for before, after in pairwise(ladder))


@dataclass(frozen=True)
class Heuristic:
    """A policy that tries repairs by suspicion and by a fixed order of kinds, then asks models, then escalates or
    stops.

    `order` are the kinds that it tries, ranked; `trials` come first; `ladder` are the questions (tier and context) that
    are asked next; at the end it escalates, or stops.
    """

    order: tuple[int, ...]
    trials: int
    ladder: tuple[int, ...]
    escalate: bool

    def __call__(self, obs: dict[str, Tensor]) -> Tensor:
        """Returns, for each episode, the first action of `ranking` that is wanted and allowed."""
        failing, unchecked, passes, fails = (column > 0 for column in obs["progress"][..., :4].unbind(-1))
        tried = obs["slots"].unflatten(-1, (NUM_SLOTS, rules.SLOT_FEATURES))[..., -2].sum(-1)
        trying = failing & ((10 * tried).round() < self.trials)
        wanted = torch.zeros_like(obs["action_mask"], dtype=torch.bool)
        wanted[:, rules.RUN] = ~failing & unchecked
        wanted[:, rules.SUBMIT] = ~failing & (passes | ~fails)
        wanted[:, rules.REVERT] = ~failing
        wanted[:, rules.LOCALISE] = trying
        wanted[:, rules.INSPECT :] = trying.unsqueeze(-1)
        for question in self.ladder:
            wanted[:, rules.ASK + question] = failing & (obs["models"][..., question // 2] == 0)
        wanted[:, rules.ESCALATE] = failing & self.escalate
        wanted[:, rules.STOP] = True
        ranking = self.ranking.to(wanted.device)
        return ranking[(wanted & (obs["action_mask"] > 0))[:, ranking].int().argmax(-1)]

    @cached_property
    def ranking(self) -> Tensor:
        """Returns all actions that the heuristic may take, the most urgent first."""
        found = [rules.RUN, rules.SUBMIT, rules.REVERT, rules.LOCALISE]
        for slot in range(NUM_SLOTS):
            found += [rules.INSPECT + slot, *(rules.TRY + slot * NUM_KINDS + kind for kind in self.order)]
        return torch.tensor([*found, *(rules.ASK + question for question in self.ladder), rules.ESCALATE, rules.STOP])


TRIALS = tuple(range(0, 33, 4))
QUESTIONS = range(rules.INSPECT - rules.ASK)
LADDERS = tuple(ladder for length in range(4) for ladder in permutations(QUESTIONS, length) if rising(ladder))


def kind_order(tasks: Packed) -> tuple[int, ...]:
    """Returns the kinds of edits, first those whose trials solve training tasks most often."""
    at_start, leads = tasks.result[:, 0], tasks.leads[:, 0].astype(np.int64)
    solved = (at_start == REPAIRED) & tasks.solves[np.arange(len(tasks))[:, None, None, None], leads]
    tried = (at_start >= 0).sum((0, 1, 3))
    return tuple(np.argsort(-solved.sum((0, 1, 3)) / np.maximum(tried, 1), kind="stable").tolist())


def tuned(tasks: Packed, dynamics: SoftwareTaskDynamics, *, models: bool = True, seed: int = 0) -> Heuristic:
    """Returns the heuristic that is best on the tasks, with or without models: one part is improved at a time, until no
    part can be."""
    uniform = draws(tasks, 2, seed)
    order = kind_order(tasks)
    orders = tuple(order[:most] for most in (12, 10, 8, 6, 4))
    parts = {"trials": TRIALS, "order": orders, "escalate": (True, False)} | ({"ladder": LADDERS} if models else {})
    best = Heuristic(order, trials=8, ladder=(), escalate=True)
    known: dict[Heuristic, float] = {}

    def score(heuristic: Heuristic) -> float:
        if heuristic not in known:
            known[heuristic] = float(returns_of(heuristic, dynamics, uniform)[0].mean())
        return known[heuristic]

    while True:
        before = best
        for name, values in parts.items():
            best = max((replace(best, **{name: value}) for value in values), key=score)  # pyrefly: ignore (its own fields)
        if best == before:
            return best


def oracle_returns(dynamics: SoftwareTaskDynamics, uniform: Tensor) -> Tensor:
    """Returns the best possible return for each row of `uniform`, if every outcome were known beforehand."""
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
            cost = table["price"][task, 2 * tier + context, correct.long()]
            best = torch.maximum(best, torch.where(correct, rules.SOLVED - cost, 0.0))
    escalated = dynamics.escalation(state, table, task)
    return torch.maximum(best, torch.where(escalated, rules.SOLVED - rules.COSTS["escalate"], 0.0))


def trial_returns(tasks: Packed) -> np.ndarray:
    """Returns the best return of each task by trials alone (localise, inspect each statement, try each edit, submit); 0
    if trials do not solve it."""
    fixed = rules.SOLVED - rules.COSTS["localise"]
    found = np.zeros(len(tasks))
    for i in range(len(tasks)):
        for first in shortest(tasks, i):
            found[i] = max(found[i], fixed - first)
    return found


def shortest(tasks: Packed, i: int) -> Iterator[float]:
    """Yields the costs of the cheapest ways from the start to each tree that solves task number `i`."""
    costs = {0: 0.0}
    ahead = [0]
    while ahead:
        node = ahead.pop(0)
        for s, k, v in np.argwhere(tasks.result[i, node] >= 1):
            if tasks.result[i, node, s, k, v] > 2:
                continue
            there = int(tasks.leads[i, node, s, k, v])
            trials = (tasks.result[i, node, s, k, : v + 1] >= 0).sum()
            cost = costs[node] + rules.COST_INSPECT + rules.COST_TRY * trials
            if cost < costs.get(there, np.inf):
                costs[there] = cost
                ahead.append(there)
    yield from (cost for node, cost in costs.items() if tasks.solves[i, node])
