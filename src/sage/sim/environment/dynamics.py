"""Software tasks as tensor code: thousands of episodes at a time on compiled tasks, without running anything."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from rl_training.core import Box, Dict, Discrete, MultiBinary, Spec
from rl_training.envs.native import NativeDynamics
from sage.sim.environment import rules
from sage.sim.environment.models import Models, ModelTiers, open_models
from sage.sim.environment.packed import Packed, load_packed
from sage.sim.environment.suspects import NUM_KINDS, NUM_SLOTS, NUM_VARIANTS
from sage.sim.environment.tables import BETTER, REPAIRED

NUM_TIERS = len(rules.TIERS)
NUM_TRIES = NUM_SLOTS * NUM_KINDS


class EpisodeState(NamedTuple):
    """Columns of the state [episodes, columns], all as floats."""

    task: Tensor
    node: Tensor
    spent: Tensor
    localised: Tensor
    checked: Tensor  # 0: not since the tree changed, 1: all visible tests pass, 2: some do not, 3: the task is solved
    inspected: Tensor  # [slots]
    tries: Tensor  # [slots * kinds]
    best: Tensor  # [slots], the best result of a trial
    history: Tensor  # [2 * actions], type + 1 and outcome of the last ones
    asked: Tensor  # [tiers]
    answered: Tensor  # [tiers], 0: never, 1: tests still fail, 2: they pass
    chance: Tensor  # [tiers * 3 + 3], drawn at the beginning


CHANCES = 3 * NUM_TIERS + 3
REPEATS, ESCALATED, OUTAGE = range(3 * NUM_TIERS, CHANCES)  # what the draws after those of answers decide
WIDTHS = (1, 1, 1, 1, 1, NUM_SLOTS, NUM_TRIES, NUM_SLOTS, 2 * rules.HISTORY, NUM_TIERS, NUM_TIERS, CHANCES)


class SoftwareTaskDynamics(NativeDynamics):
    """A batch of episodes, each on a task drawn from those given."""

    max_episode_steps = rules.HORIZON
    num_random = 1 + CHANCES
    info_names = ("is_success", "spent")

    def __init__(
        self,
        tasks: Packed,
        models: Models | None = None,
        *,
        shaping: bool = True,
        gamma: float = 0.99,
        outage: float = 0.0,
    ) -> None:
        """Makes the environment of `tasks`; `outage` is the share of episodes in which no model can be asked, so that a
        policy learns to do without."""
        self.tasks, self.shaping, self.gamma, self.outage = tasks, shaping, gamma, outage
        self.models: Models = models or ModelTiers()
        parts = {
            "task": box(rules.NUM_TASK_FEATURES),
            "slots": box(NUM_SLOTS * rules.SLOT_FEATURES),
            "history": box(rules.HISTORY * (len(rules.TYPES) + 4)),
            "models": box(3 * NUM_TIERS),
            "progress": box(7),
            "kept": box(NUM_KINDS),
            "edits": box(NUM_TRIES),
        }
        self.spec = Spec(Dict({**parts, "action_mask": MultiBinary(rules.NUM_ACTIONS)}), Discrete(rules.NUM_ACTIONS))
        self.moved: dict[torch.device, dict[str, Tensor]] = {}

    def table(self, device: torch.device) -> dict[str, Tensor]:
        """Returns the tasks and the constants as tensors on a device, to which they are moved once."""
        if device not in self.moved:
            arrays = {name: value for name, value in vars(self.tasks).items() if hasattr(value, "dtype")}
            found = {name: torch.as_tensor(value, device=device) for name, value in arrays.items()}
            found["next"] = next_variants(found["result"]).flatten(1)
            found["result"] = found["result"].flatten(1)
            found["leads"] = found["leads"].flatten(1)
            found["gains"] = found["gains"].float()
            found["strange"] = found["gains"].amax((-2, -1))
            found["gains"] = found["gains"].flatten(1)
            found["cost"] = costs().to(device)
            found["type"] = types().to(device)
            found |= self.models.answers(self.tasks, device)._asdict()
            self.moved[device] = found
        return self.moved[device]

    def initial(self, uniform: Tensor) -> Tensor:
        task = (uniform[..., :1] * len(self.tasks)).floor().clamp(max=len(self.tasks) - 1)
        zeros = uniform.new_zeros(*uniform.shape[:-1], sum(WIDTHS) - 1 - CHANCES)
        return torch.cat([task, zeros, uniform[..., 1:]], -1)

    def step(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        t, s = self.table(state.device), split(state)
        task, node = s.task.long().squeeze(-1), s.node.long().squeeze(-1)
        slot, index, is_try = touched(action)
        variant = self.variants(s, t, task, node, index.unsqueeze(-1))
        action = torch.where(self.allows(s, t, task, node, action, variant), action, rules.FORBIDDEN)
        kind, variant = t["type"][action], variant.squeeze(-1)
        is_try = is_try & (action != rules.FORBIDDEN)
        is_ask = (action >= rules.ASK) & (action < rules.INSPECT)
        is_inspect = (action >= rules.INSPECT) & (action < rules.TRY)
        place = (node.clamp(max=rules.ORACLE - 1) * NUM_TRIES + index) * NUM_VARIANTS
        place = place + variant.clamp(max=NUM_VARIANTS - 1)
        result = torch.where(is_try, t["result"][task, place].long(), 0)
        keeps = (result == BETTER) | (result == REPAIRED)
        tried = torch.where(keeps, t["leads"][task, place].long(), node)
        tier, context = ((action - rules.ASK) // 2).clamp(0, NUM_TIERS - 1), (action - rules.ASK) % 2
        correct, plausible = self.answer(s, t, task, tier, context)
        fooled = plausible & (t["plausible"][task] > 0)
        given = torch.where(correct, rules.ORACLE, torch.where(fooled, t["plausible"][task], node))
        after = torch.where(is_try, tried, torch.where(is_ask, given, node))
        after = torch.where(action == rules.REVERT, 0, after)
        cost = torch.where(is_ask, t["price"][task, 2 * tier + context, correct.long()], t["cost"][action])
        spent = s.spent.squeeze(-1) + cost
        checked = torch.where(after == node, s.checked.squeeze(-1), 0.0)
        checked = torch.where(action == rules.RUN, 2.0 - t["passes"][task, after].float(), checked)
        deeper = is_try & (result == BETTER)
        tries = torch.where(
            deeper.unsqueeze(-1), 0.0, s.tries
        )  # but what was tried here is not tried again after a revert
        done = torch.where(is_try, variant + 1.0, s.tries.gather(-1, index.unsqueeze(-1)).squeeze(-1))
        tries = tries.scatter(-1, index.unsqueeze(-1), done.unsqueeze(-1))
        slots = torch.arange(NUM_SLOTS, device=state.device) == slot.unsqueeze(-1)
        inspected = torch.maximum(s.inspected, (slots & is_inspect.unsqueeze(-1)).float())
        best = torch.maximum(s.best, (slots & is_try.unsqueeze(-1)) * usefulness(result).unsqueeze(-1))
        solved_tests = t["failing"][task, after] == 0
        outcome = torch.where(is_try, result, torch.where(is_ask, 1 + solved_tests.long(), checked.long()))
        history = torch.cat([torch.stack([kind + 1, outcome], -1).float(), s.history[..., :-2]], -1)
        asking = (torch.arange(NUM_TIERS, device=state.device) == tier.unsqueeze(-1)) & is_ask.unsqueeze(-1)
        answered = torch.where(asking, 1.0 + solved_tests.float().unsqueeze(-1), s.answered)
        moved = EpisodeState(
            s.task,
            after.float().unsqueeze(-1),
            spent.unsqueeze(-1),
            torch.maximum(s.localised, (action == rules.LOCALISE).float().unsqueeze(-1)),
            checked.unsqueeze(-1),
            inspected,
            tries,
            best,
            history,
            s.asked + asking.float(),
            answered,
            s.chance,
        )
        reward, solved, terminated = self.judge(s, t, task, action, after, cost)
        if self.shaping:
            before, there = self.potential(t, task, node), self.potential(t, task, after)
            reward = reward + torch.where(terminated, 0.0, self.gamma * there) - before
        moved = moved._replace(checked=torch.where(solved.unsqueeze(-1), 3.0, moved.checked))
        return torch.cat(moved, -1), reward * rules.SCALE, terminated

    def judge(
        self, s: EpisodeState, t: dict[str, Tensor], task: Tensor, action: Tensor, after: Tensor, cost: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns, for each episode, the reward without shaping, whether the task is solved, and whether the episode is
        over."""
        submitted, given_up = action == rules.SUBMIT, action == rules.ESCALATE
        solved = (submitted & t["solves"][task, after]) | (given_up & self.escalation(s, t, task))
        reward = torch.where(solved, rules.SOLVED, torch.where(submitted, rules.WRONG, 0.0)) - cost
        return reward, solved, submitted | given_up | (action == rules.STOP)

    def answer(
        self, s: EpisodeState, t: dict[str, Tensor], task: Tensor, tier: Tensor, context: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Returns, for each episode, whether the model's next patch is correct, and whether it is wrong but passes the
        visible tests."""
        draws = s.chance[..., : 3 * NUM_TIERS].unflatten(-1, (NUM_TIERS, 3))
        mine = draws.gather(-2, tier.view(-1, 1, 1).expand(-1, 1, 3)).squeeze(-2)
        again = s.asked.gather(-1, tier.unsqueeze(-1)).squeeze(-1) > 0
        anew = again & (s.chance[..., REPEATS] >= self.models.correlation)
        drawn = torch.where(anew, mine[..., 1], mine[..., 0])
        correct = drawn < t["success"][task, anew.long(), 2 * tier + context]
        return correct, ~correct & (mine[..., 2] < self.models.plausible)

    def escalation(self, s: EpisodeState, t: dict[str, Tensor], task: Tensor) -> Tensor:
        """Returns, for each episode, whether escalating would solve the task."""
        return s.chance[..., ESCALATED] < t["success"][task, 0, -1]

    def potential(self, t: dict[str, Tensor], task: Tensor, node: Tensor) -> Tensor:
        return rules.SHAPING * (1 - t["failing"][task, node])

    def observe(self, state: Tensor) -> dict[str, Tensor]:
        t, s = self.table(state.device), split(state)
        task, node = s.task.long().squeeze(-1), s.node.long().squeeze(-1)
        seen = s.inspected.unsqueeze(-1)
        tried = s.tries.unflatten(-1, (NUM_SLOTS, NUM_KINDS)).sum(-1, keepdim=True) / 10
        strange = t["strange"][task].unsqueeze(-1)
        slots = torch.cat([t["looks"][task], strange, t["syntax"][task] * seen, seen, tried, s.best.unsqueeze(-1)], -1)
        index = every_trial(node)
        variant = self.variants(s, t, task, node, index)
        gains = t["gains"][task.unsqueeze(-1), index * NUM_VARIANTS + variant.clamp(max=NUM_VARIANTS - 1)]
        shown = (variant < NUM_VARIANTS) & (s.inspected > 0).repeat_interleave(NUM_KINDS, -1)
        steps = s.history.unflatten(-1, (rules.HISTORY, 2)).long()
        kinds = torch.nn.functional.one_hot(steps[..., 0], len(rules.TYPES) + 1)[..., 1:]
        outcomes = torch.nn.functional.one_hot(steps[..., 1], 4) * (steps[..., :1] > 0)
        failing = t["failing"][task, node].unsqueeze(-1)
        checked = torch.nn.functional.one_hot(s.checked.long().squeeze(-1).clamp(max=2), 3).float()
        left = 1 - s.spent / rules.MOST_SPENT
        progress = torch.cat([failing, checked, s.localised, left, (node > 0).float().unsqueeze(-1)], -1)
        models = torch.cat([s.asked / rules.MOST_ASKED, (s.answered == 1).float(), (s.answered == 2).float()], -1)
        return {
            "task": t["features"][task],
            "slots": (slots * s.localised.unsqueeze(-1)).flatten(-2),
            "history": torch.cat([kinds, outcomes], -1).flatten(-2).float(),
            "models": models,
            "progress": progress,
            "kept": t["kept"][task, node],
            "edits": gains * shown,
            "action_mask": self.mask(s, t, task, node, variant),
        }

    def mask(self, s: EpisodeState, t: dict[str, Tensor], task: Tensor, node: Tensor, variant: Tensor) -> Tensor:
        """Returns the action mask [episodes, actions], 1 for what may be done; `variant` are the edits that all trials
        would make."""
        trials = self.trials(s, t, task, node, every_trial(node), variant)
        return torch.cat([self.others(s, t, task, node), trials], -1).to(torch.int8)

    def allows(
        self, s: EpisodeState, t: dict[str, Tensor], task: Tensor, node: Tensor, action: Tensor, variant: Tensor
    ) -> Tensor:
        """Returns, for each episode, whether its mask allows an action, without computing the whole mask."""
        _, index, is_try = touched(action)
        other = self.others(s, t, task, node).gather(-1, action.clamp(0, rules.TRY - 1).unsqueeze(-1))
        trial = self.trials(s, t, task, node, index.unsqueeze(-1), variant)
        return torch.where(is_try, trial.squeeze(-1), other.squeeze(-1))

    def others(self, s: EpisodeState, t: dict[str, Tensor], task: Tensor, node: Tensor) -> Tensor:
        """Returns the mask [episodes, TRY] of the actions that are no trials."""
        rich = s.spent < rules.MOST_SPENT
        known = s.localised > 0
        left = t["failing"][task, node].unsqueeze(-1) > 0
        inspect = (s.inspected == 0) & known & rich & (t["looks"][task].sum(-1) > 0)
        reachable = rich & (s.chance[..., OUTAGE : OUTAGE + 1] >= self.outage)
        ask = ((s.asked < rules.MOST_ASKED) & reachable & left).repeat_interleave(2, -1)
        always = torch.ones_like(known)
        first = [~known & rich, rich & (s.checked == 0), (node > 0).unsqueeze(-1), always, reachable, always]
        return torch.cat([*first, ask, inspect], -1)

    def trials(
        self, s: EpisodeState, t: dict[str, Tensor], task: Tensor, node: Tensor, index: Tensor, variant: Tensor
    ) -> Tensor:
        """Returns the mask [episodes, trials] of some trials, given their indices among all trials and the edits that
        they would make."""
        looked_at = s.inspected.gather(-1, index // NUM_KINDS) > 0
        going_on = (s.localised > 0) & (s.spent < rules.MOST_SPENT) & (node < rules.ORACLE).unsqueeze(-1)
        return (variant < NUM_VARIANTS) & looked_at & going_on & (t["failing"][task, node].unsqueeze(-1) > 0)

    def variants(self, s: EpisodeState, t: dict[str, Tensor], task: Tensor, node: Tensor, index: Tensor) -> Tensor:
        """Returns the edit [episodes, trials] that each of some trials would make, which is the next one that the tree
        has; NUM_VARIANTS if there is none."""
        first = (node.clamp(max=rules.ORACLE - 1).unsqueeze(-1) * NUM_TRIES + index) * (NUM_VARIANTS + 1)
        return t["next"][task.unsqueeze(-1), first + s.tries.gather(-1, index).long()].long()

    def info(self, state: Tensor) -> dict[str, Tensor]:
        s = split(state)
        return {"is_success": (s.checked == 3).squeeze(-1), "spent": s.spent.squeeze(-1)}


def compiled_tasks(
    tables: str,
    split: str | Sequence[str] = "train",
    *,
    shaping: bool = True,
    gamma: float = 0.99,
    outage: float = 0.0,
    models: str | None = None,
    most: int = 0,
    kind: type[SoftwareTaskDynamics] = SoftwareTaskDynamics,
) -> SoftwareTaskDynamics:
    """Returns the environment of some splits of a file of `sage sim compile`, or of their first `most` tasks (0: all);
    `models` is a file of `sage sim fit-models`, or None for the invented models."""
    tasks = load_packed(Path(tables)).of_split(*([split] if isinstance(split, str) else split))
    return kind(
        tasks.chosen(range(min(most, len(tasks)))) if most else tasks,
        open_models(models),
        shaping=shaping,
        gamma=gamma,
        outage=outage,
    )


def box(size: int) -> Box:
    low, high = rules.BOUNDS
    return Box((size,), (low,) * size, (high,) * size)


def split(state: Tensor) -> EpisodeState:
    return EpisodeState(*state.split(list(WIDTHS), -1))


def every_trial(node: Tensor) -> Tensor:
    return torch.arange(NUM_TRIES, device=node.device).expand(len(node), -1)


def next_variants(result: Tensor) -> Tensor:
    """Returns, for each number of variants that were tried, from 0 to NUM_VARIANTS, the next one that can be tried:
    [..., NUM_VARIANTS + 1]; NUM_VARIANTS means none."""
    found = [torch.full_like(result[..., 0], NUM_VARIANTS)]
    for variant in reversed(range(NUM_VARIANTS)):
        found.append(torch.where(result[..., variant] >= 0, torch.full_like(found[-1], variant), found[-1]))
    return torch.stack(found[::-1], -1)


def touched(action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the slot of each action, its index among all trials, and whether it is a trial."""
    is_try = (action >= rules.TRY) & (action < rules.NUM_ACTIONS)
    index = (action - rules.TRY).clamp(0, NUM_TRIES - 1)
    slot = torch.where(is_try, index // NUM_KINDS, (action - rules.INSPECT).clamp(0, NUM_SLOTS - 1))
    return slot, index, is_try


def usefulness(result: Tensor) -> Tensor:
    return torch.where(result == REPAIRED, 1.0, torch.where(result == BETTER, 0.5, 0.0))


def costs() -> Tensor:
    fixed = [rules.COSTS[name] for name in rules.TYPES[: rules.ASK]]
    return torch.tensor(
        [
            *fixed,
            *rules.COST_ASK,
            *[rules.COST_INSPECT] * NUM_SLOTS,
            *[rules.COST_TRY] * NUM_TRIES,
            rules.COST_FORBIDDEN,
        ],
        dtype=torch.float32,
    )


def types() -> Tensor:
    return torch.tensor([*range(rules.ASK), *[6] * 6, *[7] * NUM_SLOTS, *[8] * NUM_TRIES, 0])
