"""Off-policy experience: a ring of steps, drawn uniformly or by priority, with n-step returns made on the way out.

Every environment writes a column of its own. An observation is stored once: the successor of a row is the next row of
its column. Where an episode is cut, its last observation gets a row that never counts; the newest observation waits
in the row that is written next. Frame stacks are stored as single frames and rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index

import numpy as np
import torch
from torch import Tensor

from rl_training.core import Algorithm, Metrics, Pass, Rows, Spec, StepBatch, Transition, Tree, tree_map
from rl_training.experience import sum_tree
from rl_training.experience.allocation import Allocator, row_bytes
from rl_training.experience.base import Drawn, Prepare
from rl_training.experience.ring import DRAWABLE, Columns, as_arrays, clear, leaves, put
from rl_training.experience.segments import RowLog, Segment, numbers_between
from rl_training.functional import ENDED, TERMINATED, n_step_return


class Replay(Drawn[Columns]):
    """Holds the last `capacity` steps; ready after `learning_starts`, then after every `train_freq` env steps."""

    def __init__(
        self,
        spec: Spec,
        num_envs: int,
        *,
        capacity: int,
        learning_starts: int,
        train_freq: int,
        gamma: float,
        seed: int,
        n_steps: int = 1,
        frame_stack: int = 1,
        prioritized: bool = False,
        alpha: float = 0.6,
        eps: float = 1e-6,
        device: torch.device | str = "cpu",
        folder: str | None = None,
    ) -> None:
        super().__init__(device)
        self.num_envs, self.gamma, self.n_steps, self.frame_stack = num_envs, gamma, n_steps, frame_stack
        self.prioritized, self.alpha, self.eps = prioritized, alpha, eps
        self.learning_starts, self.train_freq = learning_starts, train_freq
        self.reach = -(-capacity // num_envs)  # slots that can be drawn
        self.slots = self.reach + frame_stack  # and the one that waits, and those only needed to rebuild stacks
        self.capacity = self.slots * num_envs
        self.columns = self.allocate(spec, Allocator(self.device, folder))
        self.arrays = as_arrays(self.columns)
        self.plain = num_envs == frame_stack == 1 and self.device.type == "cpu"
        self.env = torch.arange(num_envs, device=self.device)
        self.env_array = as_arrays(self.env)
        self.first = torch.ones(num_envs, dtype=torch.bool, device=self.device)
        self.order = torch.Generator(self.device).manual_seed(seed)
        self.added = self.drawn = self.learned_at = 0  # steps, rows, and the steps when `finish` was called last
        self.observed = self.columns.written.clone()
        self.log = RowLog(torch.zeros(num_envs, dtype=torch.long))
        self.run_write: Callable[[Tensor, Transition], Tensor] | None = None  # a recording of `write_rows`

    def allocate(self, spec: Spec, allocator: Allocator) -> Columns:
        observation = row_bytes(spec.obs) // self.frame_stack
        other = row_bytes(spec.action) + 5 + 4 * (self.frame_stack > 1) + 8 * self.prioritized
        per_row = f"{self.capacity:,} rows of {observation + other:,} bytes"
        allocator.check(
            self.capacity * (observation + other), f"experience.buffer_size={self.reach * self.num_envs}", per_row
        )
        action = allocator.zeros_for(spec.action, self.capacity)
        assert isinstance(action, Tensor)
        return Columns(
            allocator.zeros_for(spec.obs, self.capacity, skip_first=self.frame_stack > 1),
            action.flatten(1) if action.ndim > 1 else action,
            allocator.zeros((self.capacity,), torch.float32),
            allocator.zeros((self.capacity,), torch.uint8),
            allocator.zeros((self.capacity if self.frame_stack > 1 else 0,), torch.int32),
            torch.zeros(self.num_envs, dtype=torch.long, device=self.device),
            sum_tree.empty_tree(self.capacity, self.device) if self.prioritized else (),
            torch.ones(1, dtype=torch.float64, device=self.device),  # not 0-dim: compiled code would not write to it
        )

    @property
    def warming_up(self) -> bool:
        return self.added < self.due_at(self.learning_starts)

    @property
    def wanted_steps(self) -> int:
        due = self.due_at(max(self.learning_starts, self.learned_at + 1))
        return -(-(due - self.added) // self.num_envs)

    def due_at(self, steps: int) -> int:
        """The next multiple of train_freq: counted since the run began, so that a pause changes nothing."""
        return -(-steps // self.train_freq) * self.train_freq

    def steps_between(self, num_envs: int) -> int:
        return self.train_freq // num_envs

    def add(self, steps: Transition) -> None:
        if self.run_write is not None and steps.reward.numel() == self.train_freq:
            self.first = self.run_write(self.first, self.placed(steps))
        else:
            self.write(steps)
        self.count_added(steps.reward.numel())

    def placed(self, steps: Transition) -> Transition:
        return steps if steps.reward.device == self.env.device else tree_map(lambda x: x.to(self.device), steps)

    def write(self, steps: Transition) -> None:
        steps, longest = self.placed(steps), self.longest
        if steps.reward.numel() == 1 and self.plain:
            self.write_one(as_arrays(steps))
            return
        for start in range(0, len(steps.reward), longest):
            part = tree_map(lambda x, s=start: x[s : s + longest], steps) if len(steps.reward) > longest else steps
            self.first = self.write_rows(self.first, part)

    @property
    def longest(self) -> int:
        """How many steps can be written at once: each may take two slots."""
        return max(1, self.reach // 2)

    def count_added(self, num_steps: int) -> None:
        self.added += num_steps

    def record(self, recorder: Callable[[Callable], Callable]) -> None:
        """Writing the steps of a whole iteration is recorded; fewer or more are written as before."""
        if self.steps_between(self.num_envs) > self.longest:
            return
        write = recorder(self.write_rows)
        # What is not stored need not be copied to where the recording reads.
        self.run_write = lambda first, steps: write(first, steps._replace(log_prob=None, columns={}))  # pyrefly: ignore

    def write_rows(self, first: Tensor, steps: Transition) -> Tensor:
        """Writes successors first and steps over them: what stays is the last observation of a cut episode.

        `first` says where an episode starts with these steps; returns where one starts with the next.
        """
        columns, steps = self.arrays, as_arrays(steps)
        ended = steps.terminated | steps.truncated
        advance = (steps.truncated > steps.terminated) + 1  # a cut episode's last observation takes a slot of its own
        ahead = advance.cumsum(0)
        row = self.row_of(columns.written + ahead - advance).reshape(-1)
        following = (row + self.num_envs) % self.capacity
        clear(columns.flags, following)
        put(columns.flags, row, steps.terminated * TERMINATED + ended * ENDED + steps.valid * DRAWABLE)
        put(columns.reward, row, steps.reward)
        put(columns.action, row, steps.action)
        for column, here, after in leaves(columns.obs, steps.obs, steps.next_obs):
            if self.frame_stack > 1:
                here, after = here[:, :, -1], after[:, :, -1]
            put(column, following, after)
            put(column, row, here)
        if self.frame_stack > 1:
            age = self.ages(first, torch.as_tensor(ended)).flatten()
            self.columns.age[torch.as_tensor(following)] = age + 1
            self.columns.age[torch.as_tensor(row)] = age
        if self.prioritized:
            # Never drawn: successors, the waiting row, and rows whose stacks can no longer be rebuilt.
            for behind in range(self.frame_stack):
                self.forget(self.row_of(columns.written + ahead[-1] + behind))
            self.forget(following)
            self.enter(row, steps.valid.reshape(-1))
        columns.written[...] += ahead[-1]
        return torch.as_tensor(ended[-1])

    def write_one(self, steps: Transition) -> None:
        """The same as `write_rows` for the commonest case, one step of one environment on the CPU, by plain indices."""
        columns = self.arrays
        terminated, truncated, valid = steps.terminated[0, 0], steps.truncated[0, 0], steps.valid[0, 0]
        ended = terminated or truncated
        row = columns.written[0] % self.slots
        following = (row + 1) % self.slots
        columns.flags[following] = 0
        columns.flags[row] = terminated * TERMINATED + ended * ENDED + valid * DRAWABLE
        columns.reward[row] = steps.reward[0, 0]
        columns.action[row] = steps.action[0, 0]
        for column, here, after in leaves(columns.obs, steps.obs, steps.next_obs):
            column[following] = after[0, 0]
            column[row] = here[0, 0]
        columns.written[0] += 1 + (truncated and not terminated)
        if self.prioritized:
            priority = columns.priority[0].reshape(-1)
            priority[following] = priority[columns.written[0] % self.slots] = 0.0
            priority[row] = (columns.highest**self.alpha)[0] * valid  # numpy's power of one number rounds otherwise
            changed = np.array([row, following, columns.written[0] % self.slots])
            sum_tree.add_up(columns.priority, changed)  # pyrefly: ignore (an array, as all here)
        self.first = torch.tensor([ended])

    def enter(self, row: Tensor, valid: Tensor) -> None:
        """Gives new rows the highest priority so far."""
        columns = self.arrays
        columns.priority[0].reshape(-1)[row] = columns.highest**self.alpha * valid
        sum_tree.add_up(columns.priority, row)

    def forget(self, row: Tensor) -> None:
        """Takes rows out of the draw."""
        columns = self.arrays
        clear(columns.priority[0].reshape(-1), row)
        sum_tree.add_up(columns.priority, row)

    def row_of(self, slot: Tensor) -> Tensor:
        return slot % self.slots * self.num_envs + (self.env if isinstance(slot, Tensor) else self.env_array)

    def ages(self, first: Tensor, ended: Tensor) -> Tensor:
        """Steps since the episode began, for every step of a chunk."""
        before = self.columns.age[self.row_of(self.columns.written)]  # that of the observation that waits
        first = torch.cat([first[None], ended[:-1]])
        time = torch.arange(len(ended), dtype=torch.int32, device=self.device)[:, None]
        began = time.masked_fill(~first, -1).cummax(0).values
        return torch.where(began < 0, time + before, time - began).to(torch.int32)

    def prepare(self, algorithm: Algorithm, run: Prepare | None = None) -> tuple[Columns, Metrics]:
        return self.columns, {}

    @property
    def generators(self) -> tuple[torch.Generator, ...]:
        return (self.order,)

    def count_drawn(self, num_batches: int, batch_size: int) -> None:
        self.drawn += num_batches * batch_size

    def draw(self, batch_size: int) -> Tensor:
        return torch.rand(batch_size, generator=self.order, dtype=torch.float64, device=self.device)

    def locate(self, storage: Columns, uniform: Tensor) -> Tensor:
        """Turns numbers in [0, 1) into rows, each row that can be drawn with the same probability."""
        available = storage.written.clamp(max=self.reach)
        ends = available.cumsum(0)
        place = (uniform * ends[-1]).long()
        env = torch.searchsorted(ends, place, right=True) if self.num_envs > 1 else torch.zeros_like(place)
        back = place - (ends - available)[env]
        return (storage.written[env] - 1 - back) % self.slots * self.num_envs + env

    def gather(self, storage: Columns, draw: Tensor) -> StepBatch:
        """Sums rewards until the episode ends, `n_steps` are taken, or the newest step is reached."""
        columns = {}
        if self.prioritized:  # one draw from every part of equal mass, as in arXiv:1511.05952
            stratified = (torch.arange(len(draw), device=draw.device) + draw) / len(draw)
            row, columns["probability"] = sum_tree.draw(storage.priority, stratified)
            columns["row"] = row
        else:
            row = self.locate(storage, draw)
        env = row % self.num_envs
        newest = storage.written[env] % self.slots * self.num_envs + env
        walk = n_step_return(
            storage.reward, storage.flags, row, self.follow, n=self.n_steps, gamma=self.gamma, stop=newest
        )
        return StepBatch(
            self.observation(storage, row),
            storage.action[row],
            walk.reward,
            walk.discount,
            self.observation(storage, self.follow(walk.last)),
            (storage.flags[row] & DRAWABLE != 0).to(walk.reward.dtype),
            columns,
        )

    def follow(self, row: Tensor) -> Tensor:
        """The next row of the same environment."""
        return (row + self.num_envs) % self.capacity

    def observation(self, storage: Columns, row: Tensor) -> Tree:
        if self.frame_stack == 1:
            return tree_map(lambda column: column[row], storage.obs)
        past = torch.arange(self.frame_stack - 1, -1, -1, device=row.device)
        past = torch.minimum(past, storage.age[row].unsqueeze(-1))  # before the first frame there is the first frame
        frames = (row.unsqueeze(-1) - past * self.num_envs) % self.capacity
        return tree_map(lambda column: column[frames], storage.obs)

    def feedback(self, storage: Columns, batch: StepBatch, rows: Rows) -> None:
        if self.prioritized:
            priority = rows["priority"].to(torch.float64).abs() + self.eps
            storage.highest.copy_(torch.maximum(storage.highest, priority.max()))
            sum_tree.write(storage.priority, batch.columns["row"], priority**self.alpha)

    def carry(self) -> tuple:
        return (self.first,)

    def set_carry(self, carry: tuple) -> None:
        (self.first,) = carry

    def settle(self, algorithm: Algorithm) -> None:
        if algorithm.observes:
            start = torch.maximum(self.observed, self.columns.written - self.reach)
            row = self.rows_between(start, self.columns.written)
            drawable = self.columns.flags[row] & DRAWABLE != 0
            algorithm.observe(self.observation(self.columns, row), drawable)
            self.observed.copy_(self.columns.written)

    def count_learned(self, passes: Sequence[Pass]) -> None:
        super().count_learned(passes)
        self.learned_at = self.added

    def cut(self) -> None:
        columns = self.columns
        last = self.row_of(columns.written - 1)
        is_open = ~self.first
        columns.flags[last] |= (is_open * ENDED).to(torch.uint8)
        columns.written.add_(is_open)  # the waiting observation becomes the last one of its episode
        self.first = torch.ones_like(self.first)
        self.log = RowLog(self.log.oldest)  # a row has changed that may be on disk: the next save writes all anew

    def sample(self, num: int) -> StepBatch | None:
        if self.added == 0:
            return None
        return self.gather(self.columns, torch.rand(num, dtype=torch.float64, device=self.device))

    def health(self) -> dict[str, float]:
        """How old and how often used the rows are and, with priorities, how many rows they amount to."""
        kept = min(self.added, self.reach * self.num_envs)
        health = {"replay_age": kept / 2, "replay_reuse": self.drawn / max(self.added, 1)}
        if self.prioritized:
            priority = self.columns.priority[0]
            mean = priority.sum() / max(kept, 1)
            health["priority_spread"] = float(priority.max() / mean)
            health["priority_effective_share"] = float(priority.sum() ** 2 / priority.square().sum() / max(kept, 1))
        return health

    def rows_between(self, start: Tensor, stop: Tensor) -> Tensor:
        env, number = numbers_between(start, stop)
        return number % self.slots * self.num_envs + env

    def named_columns(self) -> dict[str, Tensor]:
        columns = self.columns
        obs = columns.obs if isinstance(columns.obs, dict) else {"": columns.obs}
        names = {f"obs.{key}" if key else "obs": leaf for key, leaf in obs.items()}
        names |= {"action": columns.action, "reward": columns.reward, "flags": columns.flags}
        return names | ({"age": columns.age} if self.frame_stack > 1 else {})

    def extend_log(self) -> RowLog:
        """Adds what was written since the last time as one segment, and drops segments that are overwritten."""
        written = self.columns.written.to("cpu", copy=True)
        oldest = (written - self.slots + 1).clamp(min=0)
        kept = [s for s in self.log.segments if bool((s.stop > oldest).any())]
        start = torch.maximum(kept[-1].stop if kept else oldest, oldest)
        if not all(segment.available for segment in kept):  # somebody deleted files: all that is still here, anew
            kept, start = [], oldest
        if bool((written > start).any()):
            row = self.rows_between(start.to(self.device), self.columns.written)
            rows = {name: column[row].cpu() for name, column in self.named_columns().items()}
            kept.append(Segment(start, written, rows))
        self.log = RowLog(oldest, kept)
        return self.log

    def state_dict(self) -> dict:
        waiting = self.row_of(self.columns.written)
        state = {
            "rows": self.extend_log(),
            "waiting": {name: column[waiting] for name, column in self.named_columns().items()},
            "written": self.columns.written,
            "observed": self.observed,
            "first": self.first,
            "order": self.order.get_state(),
            "counts": [self.added, self.drawn, self.learned_at],
        }
        if self.prioritized:
            state |= {"priority": list(self.columns.priority), "highest": self.columns.highest}
        return state

    def load_state_dict(self, state: dict) -> None:
        self.log = state["rows"].saved()
        for segment in state["rows"].segments:
            row = self.rows_between(segment.start, segment.stop).to(self.device)
            self.place(row, segment.read())
        self.columns.written.copy_(state["written"])
        self.place(self.row_of(self.columns.written), state["waiting"])
        self.observed.copy_(state["observed"])
        self.first = state["first"].to(self.device)
        self.order.set_state(state["order"])
        self.added, self.drawn, self.learned_at = map(index, state["counts"])
        if self.prioritized:
            for level, saved in zip(self.columns.priority, state["priority"], strict=True):
                level.copy_(saved)  # sums too: added up anew, in another order, they might differ in the last bit
            self.columns.highest.copy_(state["highest"])

    def place(self, row: Tensor, rows: dict[str, Tensor]) -> None:
        for name, column in self.named_columns().items():
            column[row] = rows[name].to(self.device)
