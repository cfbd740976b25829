"""Off-policy experience: a ring of steps, drawn uniformly or by priority, with n-step returns computed when drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rl_training.core import Algorithm, Column, Metrics, Pass, Rows, StepBatch, Transition, tree_map
from rl_training.core.teams import AGENT_REWARD, OWN_STEPS
from rl_training.experience import sum_tree
from rl_training.experience.base import Prepare, SampledExperience
from rl_training.experience.declared_columns import NEXT_ACTION, RETURN_TO_GO, check_collected, given_by
from rl_training.experience.episode_returns import EpisodeReturns
from rl_training.experience.hindsight import Hindsight, JudgedWhenDrawn, OtherGoals
from rl_training.experience.hindsight_at_end import JudgedAtEnd
from rl_training.experience.own_steps import OwnSteps
from rl_training.experience.replay_state import ReplayState
from rl_training.experience.ring import DRAWABLE, Ring, RingColumns
from rl_training.experience.sequences import Sequences, wanted_sequences
from rl_training.functional import ENDED
from rl_training.functional.n_step import n_step_walk

if TYPE_CHECKING:
    from rl_training.experience.settings import ReplaySettings, StoreContext


class Replay(SampledExperience[RingColumns]):
    """A store of the last `buffer_size` env steps, of which random batches are drawn.

    Updates come every `train_freq` env steps after `learning_starts`.
    """

    def __init__(self, settings: ReplaySettings, run: StoreContext) -> None:
        device, sequences = torch.device(settings.storage_device(run.device)), wanted_sequences(run.passes)
        if sequences is not None and settings.prioritized:
            raise ValueError(
                "experience.prioritized=true draws single rows, and this algorithm learns from sequences: use false"
            )
        check_collected(run.columns, "a replay", able=(NEXT_ACTION, RETURN_TO_GO, OWN_STEPS), given=given_by(run.spec))
        check_agent_rewards(settings, run.columns)
        self.order = torch.Generator(device).manual_seed(run.seed)
        super().__init__(device, sequences, self.order)
        self.settings, self.gamma, self.num_envs = settings, run.gamma, run.num_envs
        self.rewards = settings.rewards(None) if run.data is None else run.data.rewards
        self.needs_next_action = any(column.name == NEXT_ACTION for column in run.columns)
        self.ring = Ring(settings, run, keeps_age=sequences is not None)
        self.columns, self.reach, self.notice = self.ring.columns, self.ring.reach, self.ring.notice
        self.returns = EpisodeReturns(self.ring, run.gamma) if self.ring.keeps_returns else None
        self.why_not_recorded = "returns are found when episodes end" if self.returns else None
        self.own_steps = OwnSteps.asked_for(self.ring, run, settings.n_steps)
        self.n_steps = 1 if self.own_steps else settings.n_steps  # of environments: agents count their own
        self.hindsight = self.build_hindsight(run)
        self.added = self.learned_at = 0  # steps, and how many when it was learned from last
        self.observed = self.columns.written.clone()
        self.saved = ReplayState(self.ring)
        self.run_write: Callable[[Tensor, Transition], Tensor] | None = None  # a recording of the ring's `write_rows`

    def build_hindsight(self, run: StoreContext) -> Hindsight | None:
        relabels, goals = self.settings.relabels, run.goals
        if relabels is None:
            return None
        if self.sequences is not None:
            raise ValueError(
                "experience.hindsight gives single rows other goals, and this algorithm learns from sequences: drop hindsight"
            )
        if self.returns is not None:
            raise ValueError(
                "experience.hindsight: this algorithm needs to know what the rest of an episode earned, which nobody knows of "
                "another goal: drop hindsight"
            )
        assert goals is not None

        def judge(achieved: Tensor, desired: Tensor) -> tuple[Tensor, Tensor]:
            reward, terminated = goals.judge(achieved, desired)
            return self.rewards(reward), terminated

        if goals.tensor_code:
            return JudgedWhenDrawn(relabels, self.ring, judge)
        return JudgedAtEnd(
            relabels, self.ring, judge, n_steps=self.settings.n_steps, seed=run.seed, in_env_units=goals.judge
        )

    @property
    def warming_up(self) -> bool:
        return self.added < self.due_at(self.settings.learning_starts)

    @property
    def wanted_steps(self) -> int:
        due = self.due_at(max(self.settings.learning_starts, self.learned_at + 1))
        return -(-(due - self.added) // self.num_envs)

    def due_at(self, steps: int) -> int:
        """Returns the smallest multiple of `train_freq` that is at least `steps`, env steps since the run began.

        A pause of the run does not move it.
        """
        return -(-steps // self.settings.train_freq) * self.settings.train_freq

    def steps_between(self, num_envs: int) -> int:
        return self.settings.train_freq // num_envs

    def add(self, steps: Transition) -> None:
        if self.run_write is not None and steps.reward.numel() == self.settings.train_freq:
            self.ring.first = self.run_write(self.ring.first, self.ring.only_stored(self.placed(steps)))
        else:
            self.write(steps)
        if self.returns is not None:
            self.returns.look()
        if self.hindsight is not None:
            self.hindsight.added(steps)
        self.count_added(steps.reward.numel())

    def placed(self, steps: Transition) -> Transition:
        """Returns the steps on the store's device, with rewards scaled and shifted by the settings."""
        steps = steps._replace(reward=self.rewards(steps.reward))
        return steps if steps.reward.device == self.ring.env.device else tree_map(lambda x: x.to(self.device), steps)

    def write(self, steps: Transition) -> None:
        self.ring.add(self.placed(steps))

    def count_added(self, num_steps: int) -> None:
        self.added += num_steps

    def record(self, recorder: Callable[[Callable], Callable]) -> None:
        """Makes `add` write exactly one iteration's steps by `recorder(write_rows)`, e.g. a CUDA graph.

        Other numbers of steps are written as before; so are all if an iteration's are too many to write at once.
        """
        if self.steps_between(self.num_envs) <= self.ring.longest:
            self.run_write = recorder(self.ring.write_rows)

    def prepare(self, algorithm: Algorithm, run: Prepare | None = None) -> tuple[RingColumns, Metrics]:
        return self.columns, {}

    def gather(self, storage: RingColumns, draw: Tensor) -> StepBatch:
        if self.settings.prioritized:  # one draw from every part of equal mass, as in arXiv:1511.05952
            stratified = (torch.arange(len(draw), device=draw.device) + draw) / len(draw)
            row, probability = sum_tree.draw(storage.priority, stratified)
            batch = self.take(storage, row, self.other_goals(storage, row, draw))
            return batch._replace(columns=batch.columns | {"probability": probability, "row": row})
        row = self.locate(storage, draw)
        if self.sequences is not None:
            return self.take_pieces(storage, row, self.sequences)
        return self.take(storage, row, self.other_goals(storage, row, draw))

    def other_goals(self, storage: RingColumns, row: Tensor, draw: Tensor) -> OtherGoals | None:
        return None if self.hindsight is None else self.hindsight.choose(storage, row, draw)

    def locate(self, storage: RingColumns, uniform: Tensor) -> Tensor:
        """Returns the row indices that numbers in [0, 1) select; all rows that can be drawn are equally likely."""
        available = storage.written.clamp(max=self.reach)
        if self.num_envs == 1 and not torch.compiler.is_compiling():  # compiled for a GPU, this is slower
            return (storage.written - 1 - (uniform * available).long()) % self.ring.slots
        ends = available.cumsum(0)
        place = (uniform * ends[-1]).long()
        env = torch.searchsorted(ends, place, right=True) if self.num_envs > 1 else torch.zeros_like(place)
        back = place - (ends - available)[env]
        return (storage.written[env] - 1 - back) % self.ring.slots * self.num_envs + env

    def take(self, storage: RingColumns, row: Tensor, goals: OtherGoals | None = None) -> StepBatch:
        """Returns a batch of the rows with the indices `row` [rows], with n-step returns.

        These stop at an episode's end or the newest step. Rows with another goal in `goals` get its rewards and ends;
        rows that cannot be learned from get weight 0.
        """
        ring, newest = self.ring, None
        if self.n_steps > 1 or self.needs_next_action:
            env = row % self.num_envs
            newest = storage.written[env] % ring.slots * self.num_envs + env

        def read(row: Tensor, step: int) -> tuple[Tensor, Tensor]:
            return (storage.reward[row], storage.flags[row]) if goals is None else goals.read(storage, row, step)

        walk = n_step_walk(read, row, ring.follow, n=self.n_steps, gamma=self.gamma, stop=newest)
        after = ring.follow(walk.last)
        columns = {name: column[row] for name, column in storage.declared.items()}
        flags = walk.flags if self.n_steps == 1 and goals is None else storage.flags[row]
        weight = (flags & DRAWABLE != 0).to(walk.reward.dtype)
        if self.returns is not None:
            columns[RETURN_TO_GO] = storage.returns[row]
        if self.needs_next_action:  # where it is not known yet, or never, the row is not learned from
            known = (walk.flags & ENDED == 0) & (after != newest)
            columns[NEXT_ACTION] = storage.action[torch.where(known, after, row)]
            weight = weight * (known | (walk.discount == 0))
        seen, following = ring.observation(storage, row), ring.observation(storage, after)
        action = tree_map(lambda column: column[row], storage.action)
        batch = StepBatch(seen, action, walk.reward, walk.discount, following, weight, columns)
        if self.own_steps is not None:
            return self.own_steps.put_into(batch, storage, row)
        return batch if goals is None else goals.put_into(batch)

    def take_pieces(self, storage: RingColumns, row: Tensor, sequences: Sequences) -> StepBatch:
        """Returns a batch [time, piece, ...] of pieces of episodes, one around each row index in `row` [piece].

        Steps of a piece that are not stored, or are not of the episode, have weight 0.
        """
        env = row % self.num_envs
        newer = (storage.written[env] - 1 - row // self.num_envs) % self.ring.slots
        older = storage.written[env].clamp(max=self.reach) - 1 - newer
        layout = sequences.lay_out(storage.age[row].long(), older)
        piece = (row + layout.offset * self.num_envs) % self.ring.capacity
        over = (storage.flags[piece] & (ENDED | DRAWABLE) != DRAWABLE).long()  # it ends there, or was only reset
        inside = (layout.offset <= newer) & (over.cumsum(0) == over)  # none before it
        return layout.finish(self.take(storage, torch.where(inside, piece, row).flatten()), inside)

    def feedback(self, storage: RingColumns, batch: StepBatch, rows: Rows) -> None:
        if self.settings.prioritized:
            if "priority" not in rows:
                raise ValueError(
                    "experience.prioritized=true needs an algorithm that says how surprising each row was, as "
                    "Loss(value, metrics, {'priority': ...}): use prioritized=false"
                )
            priority = rows["priority"].to(torch.float64).abs() + self.settings.per_eps
            storage.highest.copy_(torch.maximum(storage.highest, priority.max()))
            sum_tree.write(storage.priority, batch.columns["row"], priority**self.settings.per_alpha)

    def carry(self) -> tuple:
        return (self.ring.first,)

    def set_carry(self, carry: tuple) -> None:
        (self.ring.first,) = carry

    def settle(self, algorithm: Algorithm) -> None:
        if self.settings.prioritized:
            self.columns.highest.copy_(algorithm.ranks.largest(self.columns.highest))
        if algorithm.observes:
            start = torch.maximum(self.observed, self.columns.written - self.reach)
            row = self.ring.rows_between(start, self.columns.written)
            drawable = self.columns.flags[row] & DRAWABLE != 0
            algorithm.observe(self.ring.observation(self.columns, row), drawable)
            self.observed.copy_(self.columns.written)

    def count_learned(self, passes: Sequence[Pass]) -> None:
        super().count_learned(passes)
        self.learned_at = self.added

    def cut(self, envs: Tensor | None = None) -> None:
        was_open = self.ring.cut(envs)
        if self.returns is not None:
            self.returns.look_again()
        if self.hindsight is not None:
            self.hindsight.cut(was_open)
        self.saved.forget()  # a row has changed that may be on disk: the next save writes all anew

    def sample(self, num: int) -> StepBatch | None:
        return super().sample(num) if self.added else None

    def health(self) -> dict[str, float]:
        """Returns the mean age of rows (`replay_age`, in env steps) and how often each was drawn (`replay_reuse`).

        With priorities, also the largest one over the mean (`priority_spread`) and `priority_effective_share`, the
        share of rows that equal priorities would need to give batches as varied.
        """
        kept = min(self.added, self.reach * self.num_envs)
        health = {"replay_age": kept / 2, "replay_reuse": self.drawn / max(self.added, 1)}
        if self.settings.prioritized:
            priority = self.columns.priority[0]
            mean = priority.sum() / max(kept, 1)
            health["priority_spread"] = float(priority.max() / mean)
            health["priority_effective_share"] = float(priority.sum() ** 2 / priority.square().sum() / max(kept, 1))
        return health

    def state_dict(self) -> dict:
        other_goals = {} if self.hindsight is None else self.hindsight.state_dict()
        return (
            self.saved.write()
            | other_goals
            | {
                "observed": self.observed,
                "order": self.order.get_state(),
                "counts": [self.added, self.drawn, self.learned_at],
            }
        )

    def load_state_dict(self, state: dict) -> None:
        self.saved.read(state)
        if self.returns is not None:
            self.returns.look_again()
        if self.hindsight is not None:
            self.hindsight.load_state_dict(state)
        self.observed.copy_(state["observed"])
        self.order.set_state(state["order"])
        self.added, self.drawn, self.learned_at = map(index, state["counts"])


def check_agent_rewards(settings: ReplaySettings, columns: Sequence[Column]) -> None:
    """Raises a ValueError for settings of rewards that would not reach those of single agents, which are a column."""
    if not any(column.name == AGENT_REWARD for column in columns):
        return
    raw = {"n_steps": 1, "reward_scale": 1.0, "reward_shift": 0.0}
    if any(column.name == OWN_STEPS for column in columns):
        del raw["n_steps"]
    for name, value in raw.items():
        if getattr(settings, name) != value:
            raise ValueError(
                f"experience.{name}={getattr(settings, name)} changes what the team earns, and this method learns from what each "
                f"agent earns: use {name}={value}, or algorithm.learns_from='team'"
            )
