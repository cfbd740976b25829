"""The ring that a replay is written to: tensors on a device, written as NumPy views on the CPU.

Every environment writes a column of its own. An observation is stored once: the successor of a row is the next row of
its column. Where an episode is cut, its last observation gets a row that never counts; the newest observation waits
in the row that is written next. Frame stacks are stored as single frames and rebuilt. A lost life ends what is learned
from, not the game: stacks go on, and the successor is the next row as always.

With hindsight, terminated episodes keep their last observation too, and `ends` holds the age of an episode's last
step. Its index is the first row's number modulo twice the ring, so that no later episode overwrites it while any of
its rows is stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rl_training.core import Spec, Transition, Tree, tree_map
from rl_training.core.free_memory import GIGABYTE
from rl_training.core.tree import TreeT
from rl_training.experience import sum_tree
from rl_training.experience.allocation import Allocator, row_bytes
from rl_training.experience.declared_columns import LIFE_LOST, RETURN_TO_GO
from rl_training.experience.hindsight import EpisodePosition
from rl_training.experience.hindsight_at_end import JudgedAtEnd
from rl_training.experience.segments import numbers_between
from rl_training.experience.sum_tree import Levels
from rl_training.functional import ENDED, TERMINATED

if TYPE_CHECKING:
    from rl_training.experience.settings import ReplaySettings, StoreContext


FEW = 8  # steps of one environment that are written faster one by one
LARGE = 1e9  # bytes of a replay whose size is said before a run
DRAWABLE = 4  # a bit of `flags`, besides those of `functional.n_step`


class RingColumns(NamedTuple):
    """The tensors of a ring buffer of steps, most with one row per step, at index slot * num_envs + environment."""

    obs: Tree
    action: Tensor
    reward: Tensor
    flags: Tensor
    age: Tensor  # steps since the episode began; empty unless sequences are drawn, returns kept or goals relabelled
    behind: Tensor  # earlier frames of the same game in its stack; empty unless frames are stacked
    declared: dict[str, Tensor]  # what the algorithm needs besides
    returns: Tensor  # discounted rewards up to the end of the episode, once it has ended; empty unless asked for
    ends: Tensor  # of episodes: the age of the last step, -1 before it; empty without hindsight
    goals: dict[str, Tensor]  # other goals of rows and what they pay, where that is not computed when they are drawn
    written: Tensor  # slots written so far, per environment: the next is written % slots
    priority: Levels  # empty unless prioritised
    highest: Tensor  # priority seen so far, which new rows get


class Ring:
    """A ring buffer of the steps of all environments, in which new steps take the place of the oldest."""

    notice: str | None = None  # how much memory it takes, where that is much

    def __init__(self, settings: ReplaySettings, run: StoreContext, *, keeps_age: bool) -> None:
        num_envs, frame_stack, self.device = (
            run.num_envs,
            run.frame_stack,
            torch.device(settings.storage_device(run.device)),
        )
        self.num_envs, self.frame_stack = num_envs, frame_stack
        self.priority_power = settings.per_alpha if settings.prioritized else None
        self.declared = [column for column in run.columns if column.source != "episode"]
        self.keeps_returns = any(column.name == RETURN_TO_GO for column in run.columns)
        self.reach = -(-settings.buffer_size // num_envs)  # slots that can be drawn
        self.slots = self.reach + frame_stack  # and the one that waits, and those only needed to rebuild stacks
        self.capacity = self.slots * num_envs
        self.keeps_ends = settings.relabels is not None
        self.keeps_age = keeps_age or self.keeps_returns or self.keeps_ends
        judged = settings.relabels is not None and run.goals is not None and not run.goals.tensor_code
        self.goals = JudgedAtEnd.table(settings.relabels, settings.n_steps) if judged and settings.relabels else {}
        self.columns = self.allocate(run.spec, Allocator(self.device, settings.buffer_folder))
        self.arrays = as_arrays(self.columns)
        self.by_numpy = self.device.type == "cpu"
        self.plain = num_envs == 1 and not self.keeps_age and self.by_numpy
        self.env = torch.arange(num_envs, device=self.device)
        self.env_array = as_arrays(self.env)
        self.first = torch.ones(num_envs, dtype=torch.bool, device=self.device)  # where an episode starts next

    def allocate(self, spec: Spec, allocator: Allocator) -> RingColumns:
        rows, stacked, prioritized = self.capacity, self.frame_stack > 1, self.priority_power is not None
        declared = sum(math.prod(column.shape) * column.dtype.itemsize for column in self.declared)
        per_row = row_bytes(spec.obs) // self.frame_stack + row_bytes(spec.action) + 5 + declared
        per_row += 4 * self.keeps_age + 2 * stacked + 4 * self.keeps_returns + 8 * prioritized + 8 * self.keeps_ends
        per_row += sum(width * dtype.itemsize for width, dtype in self.goals.values())
        name, detail = f"experience.buffer_size={self.reach * self.num_envs}", f"{rows:,} rows of {per_row:,} bytes"
        allocator.check(rows * per_row, name, detail)
        if rows * per_row >= LARGE:
            self.notice = f"the replay takes {rows * per_row / GIGABYTE:.2f} GB {allocator.place} ({detail})"
        action = allocator.zeros_for(spec.action, rows)
        return RingColumns(
            allocator.zeros_for(spec.obs, rows, skip_first=stacked),
            action.flatten(1) if isinstance(action, Tensor) and action.ndim > 1 else action,  # pyrefly: ignore (a team's)
            allocator.zeros((rows,), torch.float32),
            allocator.zeros((rows,), torch.uint8),
            allocator.zeros((rows if self.keeps_age else 0,), torch.int32),
            allocator.zeros((rows if stacked else 0,), torch.int16),
            {column.name: allocator.zeros((rows, *column.shape), column.dtype) for column in self.declared},
            allocator.zeros((rows if self.keeps_returns else 0,), torch.float32).fill_(-math.inf),
            allocator.zeros((2 * rows + 1 if self.keeps_ends else 0,), torch.int32).fill_(-1),
            {name: allocator.zeros((rows, width), dtype) for name, (width, dtype) in self.goals.items()},
            torch.zeros(self.num_envs, dtype=torch.long, device=self.device),
            sum_tree.empty_tree(rows, self.device) if prioritized else (),
            torch.ones(1, dtype=torch.float64, device=self.device),  # not 0-dim: compiled code would not write to it
        )

    def add(self, steps: Transition) -> None:
        """Writes a `Transition` of [time, env, ...] tensors, on the ring's device, in place of the oldest steps."""
        if self.plain and len(steps.reward) <= FEW:
            arrays = as_arrays(steps)
            over = [self.write_one(arrays, time) for time in range(len(steps.reward))]
            self.first = torch.tensor(over[-1:])
            return
        for start in range(0, len(steps.reward), self.longest):
            part = steps
            if len(steps.reward) > self.longest:
                part = tree_map(lambda x, s=start: x[s : s + self.longest], steps)
            self.first = self.write_rows(self.first, part)

    @property
    def longest(self) -> int:
        """Returns the largest number of steps of each environment that can be written at once.

        A step may take two slots: one more for the last observation of a cut episode.
        """
        return max(1, self.reach // 2)

    def only_stored(self, steps: Transition) -> Transition:
        """Returns the steps without the extra `columns` that the ring neither stores nor reads.

        `log_prob` becomes None unless it is stored.
        """
        names = self.columns.declared
        read = {*names, LIFE_LOST} if self.frame_stack > 1 else names
        columns = {name: column for name, column in steps.columns.items() if name in read}
        return steps._replace(log_prob=steps.log_prob if "log_prob" in names else None, columns=columns)  # pyrefly: ignore

    def write_rows(self, first: Tensor, steps: Transition) -> Tensor:
        """Writes [time, env, ...] steps as rows and returns a mask [env]: True where the next step starts an episode.

        `first` [env] is that mask for the first of these steps. The last observation of a cut episode gets a row of its
        own, which is never drawn.
        """
        columns, steps = self.arrays, as_arrays(steps) if self.by_numpy else steps
        ended = steps.terminated | steps.truncated
        kept = ended if self.keeps_ends else steps.truncated > steps.terminated
        advance = kept + 1  # a cut episode's last observation takes a slot of its own
        ahead = advance.cumsum(0)
        number = columns.written + ahead - advance
        row = self.row_of(number).reshape(-1)
        following = (row + self.num_envs) % self.capacity
        clear(columns.flags, following)
        put(columns.flags, row, steps.terminated * TERMINATED + ended * ENDED + steps.valid * DRAWABLE)
        put(columns.reward, row, steps.reward)
        for column, action in leaves(columns.action, steps.action):
            put(column, row, action)
        for name, column in columns.declared.items():
            put(column, row, steps.log_prob if name == "log_prob" else steps.columns[name])
        for column, here, after in leaves(columns.obs, steps.obs, steps.next_obs):
            if self.frame_stack > 1:
                here, after = here[:, :, -1], after[:, :, -1]
            put(column, following, after)
            put(column, row, here)
        over = ended | ~steps.valid  # an episode starts after a row that only reset
        if self.keeps_age:
            age = self.ages(self.columns.age, first, torch.as_tensor(over))
            self.columns.age[torch.as_tensor(following)] = age.flatten() + 1
            self.columns.age[torch.as_tensor(row)] = age.flatten()
            if self.keeps_ends:
                self.note_ends(torch.as_tensor(number), age, torch.as_tensor(ended))
        if self.frame_stack > 1:
            game_over = over & ~steps.columns[LIFE_LOST] if LIFE_LOST in steps.columns else over
            self.note_frames(*(torch.as_tensor(x) for x in (row, following, ahead[-1], game_over)))
        if self.priority_power is not None:
            # Never drawn: successors, the waiting row, and rows whose stacks can no longer be rebuilt.
            for behind in range(self.frame_stack):
                self.forget(self.row_of(columns.written + ahead[-1] + behind))
            self.forget(following)
            new = columns.highest**self.priority_power * steps.valid.reshape(-1)  # the highest so far
            columns.priority[0].reshape(-1)[row] = new
            sum_tree.add_up(columns.priority, row)
        columns.written[...] += ahead[-1]
        return torch.as_tensor(over[-1])

    def write_one(self, steps: Transition, time: int) -> bool:
        """Writes step `time` of [time, 1, ...] steps, NumPy arrays of the only environment, by plain indices.

        Returns True if the next step starts an episode.
        """
        columns = self.arrays
        terminated, truncated, valid = (bool(x[time, 0]) for x in (steps.terminated, steps.truncated, steps.valid))
        ended = terminated or truncated
        written = int(columns.written[0])
        row, following = written % self.slots, (written + 1) % self.slots
        columns.flags[following] = 0
        columns.flags[row] = terminated * TERMINATED + ended * ENDED + valid * DRAWABLE
        columns.reward[row] = steps.reward[time, 0]
        for column, action in leaves(columns.action, steps.action):
            column[row] = action[time, 0]
        for name, column in columns.declared.items():
            column[row] = (steps.log_prob if name == "log_prob" else steps.columns[name])[time, 0]
        newest = (time, 0, -1) if self.frame_stack > 1 else (time, 0)
        for column, here, after in leaves(columns.obs, steps.obs, steps.next_obs):
            column[following] = after[newest]
            column[row] = here[newest]
        written += 1 + (truncated and not terminated)
        columns.written[0] = written
        if self.frame_stack > 1:
            columns.behind[following] = min(columns.behind[row] + 1, self.frame_stack - 1)
            if (ended or not valid) and not (LIFE_LOST in steps.columns and steps.columns[LIFE_LOST][time, 0]):
                columns.behind[written % self.slots] = 0
        if self.priority_power is not None:
            priority = columns.priority[0].reshape(-1)
            unseen = [following, *((written + ahead) % self.slots for ahead in range(self.frame_stack))]
            priority[unseen] = 0.0
            # numpy's power of one number rounds otherwise
            priority[row] = (columns.highest**self.priority_power)[0] * valid
            changed = np.array([row, *unseen])
            sum_tree.add_up(columns.priority, changed)  # pyrefly: ignore (an array, as all here)
        return ended or not valid

    def forget(self, row: Tensor) -> None:
        """Sets the priority of the rows with the indices `row` to 0, so that they are not drawn."""
        columns = self.arrays
        clear(columns.priority[0].reshape(-1), row)
        sum_tree.add_up(columns.priority, row)

    def cut(self, envs: Tensor | None = None) -> Tensor:
        """Marks the last step of every running episode as its end; returns a mask [env] of where there was one.

        `envs` is a mask [env] of the environments to cut; None: all of them.
        """
        columns = self.columns
        is_open = ~self.first if envs is None else ~self.first & envs.to(self.first.device)
        columns.flags[self.row_of(columns.written - 1)] |= (is_open * ENDED).to(torch.uint8)
        columns.written.add_(is_open)  # the waiting observation becomes the last one of its episode
        if self.frame_stack > 1:  # also of games that had just lost a life, whose last episode has ended
            over = torch.ones_like(self.first) if envs is None else envs.to(self.first.device)
            columns.behind[self.row_of(columns.written)] *= ~over
        self.first = self.first | is_open
        self.find_ends()
        return is_open

    def note_ends(self, number: Tensor, age: Tensor, ended: Tensor) -> None:
        """Updates the column `ends`, which holds for each episode the age of its last step, -1 if it has not ended.

        Arguments are [time, env], for steps that are being written: the number of the row since the run began, the age
        (steps since the episode began) and True where an episode ends.
        """
        ends = self.columns.ends
        began = self.entry_of(number - age, self.env)
        ends.index_fill_(0, torch.where(age == 0, began, len(ends) - 1).flatten(), -1)
        ends[torch.where(ended, began, len(ends) - 1).flatten()] = age.flatten()

    def find_ends(self) -> None:
        """Computes the column `ends`, the age of each episode's last step, anew from the flags of all stored rows.

        Does nothing unless rows get other goals (hindsight).
        """
        if not self.keeps_ends:
            return
        columns = self.columns
        env, number = numbers_between((columns.written - self.slots + 1).clamp(min=0), columns.written)
        row = number % self.slots * self.num_envs + env
        over = columns.flags[row] & ENDED != 0
        columns.ends.fill_(-1)
        columns.ends[self.entry_of(number - columns.age[row], env)[over]] = columns.age[row][over]

    def entry_of(self, number: Tensor, env: Tensor) -> Tensor:
        """Returns the index in the column `ends` of the episode whose first row has the number `number`.

        Rows of environment `env` are numbered since the run began.
        """
        return number % (2 * self.slots) * self.num_envs + env

    def episode_position(self, storage: RingColumns, row: Tensor) -> EpisodePosition:
        """Returns, for each row index, the number of later steps in its episode and of earlier rows still stored.

        The first is negative if the episode has not ended.
        """
        env, age = row % self.num_envs, storage.age[row].long()
        written = storage.written[env]
        newer = (written - 1 - row // self.num_envs) % self.slots
        left = storage.ends[self.entry_of(written - 1 - newer - age, env)] - age
        return EpisodePosition(left, torch.minimum(age, written.clamp(max=self.reach) - 1 - newer))

    def note_frames(self, row: Tensor, following: Tensor, advance: Tensor, over: Tensor) -> None:
        """Updates the column `behind`, how many earlier frames of the same game are in a row's stack.

        The arguments are of steps that are being written: `row` and `following` [time * env], the indices of their rows
        and of the successors, and `advance` [env], the slots that they take. `over` [time, env] is True where a game is
        over after a step.
        """
        behind, most = self.columns.behind, self.frame_stack - 1
        frames = self.ages(behind, torch.zeros_like(over[0]), over).flatten()
        behind[following] = (frames + 1).clamp(max=most).to(behind.dtype)
        behind[row] = frames.clamp(max=most).to(behind.dtype)
        behind[self.row_of(self.columns.written + advance)] *= ~over[-1]  # a game begins with the next step

    def ages(self, column: Tensor, first: Tensor, over: Tensor) -> Tensor:
        """Returns, for steps to be written, the number of steps since their episodes began, int32 [time, env].

        `column` has that number for the observation that waits. `first` [env] is True where an episode starts with the
        first of the steps, `over` [time, env] where one is over after a step.
        """
        before = column[self.row_of(self.columns.written)]
        first = torch.cat([first[None], over[:-1]])
        time = torch.arange(len(over), dtype=torch.int32, device=self.device)[:, None]
        began = time.masked_fill(~first, -1).cummax(0).values
        return torch.where(began < 0, time + before, time - began).to(torch.int32)

    def row_of(self, slot: Tensor) -> Tensor:
        return slot % self.slots * self.num_envs + (self.env if isinstance(slot, Tensor) else self.env_array)

    def follow(self, row: Tensor) -> Tensor:
        """Returns for each row index the index of the next row of the same environment."""
        return (row + self.num_envs) % self.capacity

    def rows_between(self, start: Tensor, stop: Tensor) -> Tensor:
        """Returns the indices of the rows with the numbers `start` to `stop` (exclusive), ordered by environment.

        `start` and `stop` [num_envs] count each environment's rows since the run began.
        """
        env, number = numbers_between(start, stop)
        return number % self.slots * self.num_envs + env

    def observation(self, storage: RingColumns, row: Tensor) -> Tree:
        if self.frame_stack == 1:
            return tree_map(lambda column: column[row], storage.obs)
        past = torch.arange(self.frame_stack - 1, -1, -1, device=row.device)
        past = torch.minimum(past, storage.behind[row].unsqueeze(-1))  # before the first frame there is the first frame
        frames = (row.unsqueeze(-1) - past * self.num_envs) % self.capacity
        # index_select copies whole frames, indexing copies number after number.
        return tree_map(lambda column: column.index_select(0, frames.flatten()).unflatten(0, frames.shape), storage.obs)

    def named_columns(self) -> dict[str, Tensor]:
        """Returns the columns that checkpoints hold, tensors [rows, ...] by name, e.g. "obs.position" or "reward"."""
        columns = self.columns
        obs = columns.obs if isinstance(columns.obs, dict) else {"": columns.obs}
        names = {f"obs.{key}" if key else "obs": leaf for key, leaf in obs.items()}
        actions = columns.action if isinstance(columns.action, dict) else {"": columns.action}  # pyrefly: ignore (a team's)
        names |= {f"action.{key}" if key else "action": leaf for key, leaf in actions.items()}
        names |= {"reward": columns.reward, "flags": columns.flags}
        names |= {f"columns.{name}": column for name, column in columns.declared.items()}
        names |= {"age": columns.age} if self.keeps_age else {}
        return names | ({"behind": columns.behind} if self.frame_stack > 1 else {})


def as_arrays(tree: TreeT) -> TreeT:
    """Returns a tree with NumPy views in place of tensors on the CPU, since these are faster to index.

    Tensors on other devices stay as they are.
    """
    return tree_map(lambda x: x.numpy() if x.device.type == "cpu" else x, tree)  # pyrefly: ignore


def put(column: Tensor, row: Tensor, values: Tensor) -> None:
    """Writes values [time, env, ...] to the rows of `column` with the indices `row` [time * env], as its dtype."""
    values = values.reshape(-1, *values.shape[2:])
    column[row] = values.to(column.dtype) if isinstance(values, Tensor) else values


def clear(column: Tensor, row: Tensor) -> None:
    """Sets the rows of `column` with the indices `row` to 0.

    For tensors no number is copied from the host, which a CUDA graph could not record.
    """
    if isinstance(column, Tensor):
        column.index_fill_(0, row, 0)
    else:
        column[row] = 0


def leaves(*trees: Tree) -> Iterator[tuple[Tensor, ...]]:
    """Yields, for several dicts of tensors, one tuple of the tensors under each key; for plain tensors one tuple."""
    first = trees[0]
    if isinstance(first, dict):
        yield from (tuple(tree[key] for tree in trees) for key in first)  # pyrefly: ignore
    else:
        yield trees  # pyrefly: ignore
