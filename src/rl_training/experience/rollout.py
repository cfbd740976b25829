"""On-policy experience: one rollout, prepared once, visited in shuffled minibatches, then dropped."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from rl_training.core import ALONE, Algorithm, BatchT, Column, Metrics, Pass, Ranks, Transition, tree_map
from rl_training.core.tree import saved_tensors
from rl_training.data import Episodes
from rl_training.experience.base import Experience, Prepare
from rl_training.experience.declared_columns import LIFE_LOST, check_collected
from rl_training.functional import RunningMoments, discounted_returns, merge_moments

STATISTICS = "running statistics (normalize_observation, normalize_reward) are kept"


class RewardScaling:
    """A scaling of rewards by the running standard deviation of the discounted return, without a shift.

    Its statistics cover the environments of all ranks; a rollout is added to them before it is scaled.
    """

    def __init__(self, gamma: float, clip: float) -> None:
        self.gamma, self.clip = gamma, clip
        self.moments = RunningMoments(*(torch.tensor(x, dtype=torch.float64) for x in (0.0, 1.0, 0.0)))
        self.last: Tensor | None = None  # the running return of every environment
        self.first: Tensor | None = None  # where an episode starts with the next row

    def scale(self, steps: Transition, ranks: Ranks = ALONE) -> Transition:
        reward = steps.reward.double()
        done = steps.terminated | steps.truncated
        last = torch.zeros_like(reward[0]) if self.last is None else self.last.to(reward.device)
        first = torch.ones_like(done[0]) if self.first is None else self.first.to(reward.device)
        returns = discounted_returns(reward, last, torch.cat([first[None], done[:-1]]), self.gamma)
        self.moments = merge_moments(self.moments, returns[steps.valid], ranks)
        self.last, self.first = returns[-1], done[-1]
        scaled = (reward / (self.moments.var + 1e-8).sqrt()).clamp(-self.clip, self.clip)
        return steps._replace(reward=scaled.to(steps.reward.dtype))

    def cut(self, envs: Tensor | None = None) -> None:
        """Makes discounted returns start from 0 with the next step in the environments of a mask.

        `envs` [num_envs] is True for them; None: all environments.
        """
        if self.first is not None:
            self.first = torch.ones_like(self.first) if envs is None else self.first | envs.to(self.first.device)

    def state_dict(self) -> dict:
        return {"moments": dict(self.moments._asdict()), "last": self.last, "first": self.first}

    def load_state_dict(self, state: dict) -> None:
        for name in ("moments", *(name for name in ("last", "first") if state[name] is not None)):
            saved_tensors(state[name], f"reward_scaling.{name}")
        self.set_moments(state["moments"])
        self.last, self.first = state["last"], state["first"]

    def set_moments(self, moments: dict) -> None:
        """Replaces the running statistics by a dict of 0-dim tensors `mean`, `var` and `count`, as in `state_dict`."""
        self.moments = RunningMoments(**moments)


class Rollout(Experience[BatchT, BatchT]):
    """A store of `n_steps` steps of every environment, which are dropped once they were learned from.

    A checkpoint keeps the steps of an unfinished rollout, and a resumed run goes on with them.
    """

    on_policy = True

    def __init__(
        self,
        n_steps: int,
        *,
        seed: int,
        reward_scaling: RewardScaling | None = None,
        columns: Sequence[Column] = (),
        given: Sequence[str] = (),
        device: torch.device | str = "cpu",
    ) -> None:
        self.order = torch.Generator(device).manual_seed(seed)  # the data's order has a random stream of its own
        super().__init__(device, self.order)
        check_collected(columns, "a rollout", given=given)
        if reward_scaling is not None and any(column.source == "env" for column in columns):
            raise ValueError(
                "experience.normalize_reward=true scales what a team earns together, and this method learns from what each agent "
                "earns: use false"
            )
        self.n_steps, self.reward_scaling, self.columns = n_steps, reward_scaling, columns
        self.why_not_recorded = STATISTICS if reward_scaling is not None else None
        self.chunks: list[Transition] = []
        self.num_samples = 0

    @property
    def wanted_steps(self) -> int:
        return self.n_steps - sum(chunk.reward.shape[0] for chunk in self.chunks)

    def steps_between(self, num_envs: int) -> int:
        return self.n_steps

    def write(self, steps: Transition) -> None:
        columns = {name: column for name, column in steps.columns.items() if name != LIFE_LOST}  # nor has a checkpoint
        self.chunks.append(steps._replace(columns=columns))

    def steps(self) -> Transition:
        if len(self.chunks) > 1:
            self.chunks = [tree_map(lambda *columns: torch.cat(columns), *self.chunks)]
        return self.chunks[0]

    def prepare(self, algorithm: Algorithm, run: Prepare | None = None) -> tuple[BatchT, Metrics]:
        steps = self.steps()
        if self.reward_scaling is not None:
            steps = self.reward_scaling.scale(steps, algorithm.ranks)
        batch, metrics = (run or algorithm.prepare)(steps)
        self.num_samples = steps.reward.numel()
        return tree_map(lambda x: x.flatten(0, 1), batch), metrics

    def num_batches(self, a_pass: Pass, num_samples: int) -> int:
        return a_pass.rounds * math.ceil(num_samples / (a_pass.batch_size or num_samples))

    def draws(self, a_pass: Pass) -> Iterator[Iterator[Tensor]]:
        for _ in range(a_pass.rounds):
            if a_pass.sequences:
                yield iter(self.sequence_rows(a_pass.batch_size or self.num_samples))
            else:
                yield iter(self.shuffled(self.num_samples).split(a_pass.batch_size or self.num_samples))

    def shuffled(self, num: int) -> Tensor:
        if self.device.type == "cpu":
            return torch.randperm(num, generator=self.order)
        # Sorting random keys, which a CUDA graph can hold; few bits, which sort fast: equal keys keep their order.
        return torch.randint(
            -(2**15), 2**15, (num,), generator=self.order, device=self.device, dtype=torch.int16
        ).argsort()

    def sequence_rows(self, batch_size: int) -> list[Tensor]:
        """Returns batches [time, piece] of row indices: shuffled pieces of episodes, about `batch_size` steps a batch.

        Rows are those of flattened [time, env] steps. A piece is whole unless it is longer than a batch; then it is cut
        into equal parts. Shorter ones are padded with -1.
        """
        whole = episode_pieces(self.steps().columns["first"].cpu())
        pieces = [part for piece in whole for part in piece.tensor_split(math.ceil(len(piece) / batch_size))]
        order = self.shuffled(len(pieces)).tolist()
        num_batches = max(1, round(self.num_samples / batch_size))
        target, packs, filled = self.num_samples / num_batches, [[]], 0
        for position in order:
            if filled >= target * len(packs) and len(packs) < num_batches:
                packs.append([])
            packs[-1].append(pieces[position])
            filled += len(pieces[position])
        return [pad_sequence(pack, padding_value=-1) for pack in packs]

    def gather(self, storage: BatchT, draw: Tensor) -> BatchT:
        """Returns the rows with the indices `draw`, [batch] or [time, sequence]; -1 is padding and gets weight 0."""
        if draw.ndim == 1:
            return tree_map(lambda column: column.index_select(0, draw), storage)
        batch = tree_map(lambda column: column[draw.clamp(min=0)], storage)
        return batch._replace(weight=batch.weight * (draw >= 0))

    def settle(self, algorithm: Algorithm) -> None:
        if algorithm.observes:
            algorithm.observe(self.steps().obs, self.steps().valid)
        self.chunks = []

    def cut(self, envs: Tensor | None = None) -> None:
        if self.chunks:
            truncated = self.steps().truncated
            truncated[-1] = True if envs is None else truncated[-1] | envs.to(truncated.device)
        elif self.reward_scaling is not None:
            self.reward_scaling.cut(envs)

    def state_dict(self) -> dict:
        return {
            "steps": dict(self.steps()._asdict()) if self.chunks else None,
            "order": self.order.get_state(),
            "reward_scaling": self.reward_scaling.state_dict() if self.reward_scaling else None,
        }

    def load_state_dict(self, state: dict) -> None:
        steps = state["steps"]
        self.chunks = [tree_map(lambda x: x.to(self.device), self.read_steps(steps))] if steps is not None else []
        self.order.set_state(state["order"])
        if self.reward_scaling is not None:
            self.reward_scaling.load_state_dict(state["reward_scaling"])

    def read_steps(self, state: dict) -> Transition:
        """Returns saved steps with only those extra `columns` that the algorithm needs.

        `state` is the entry `steps` of a result of `state_dict`, a dict by field name; before version 0.2 its entry
        `columns` was called `extras`. Raises a TypeError if an entry that is read is no tensor.
        """
        named = {"columns" if name == "extras" else name: value for name, value in state.items()}
        for name, value in named.items():
            if name != "columns" or self.columns:
                saved_tensors(value, f"steps.{name}")
        steps = Transition(**named)
        return steps._replace(columns={column.name: steps.columns[column.name] for column in self.columns})


def episode_pieces(first: Tensor) -> list[Tensor]:
    """Returns a tensor of row indices, in time order, for each piece of an episode in flattened [time, env] steps.

    A piece begins at an environment's first step and wherever `first` [time, env] is True.
    """
    num_steps, num_envs = first.shape
    begins = first.T.clone()  # environment after environment
    begins[:, 0] = True
    episodes = Episodes.from_starts(begins.flatten().nonzero().flatten().numpy(), first.numel())
    rows = torch.arange(first.numel()).view(num_steps, num_envs).T.flatten()
    return list(rows.split(episodes.length.tolist()))
