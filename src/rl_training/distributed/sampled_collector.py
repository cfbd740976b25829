"""Collects steps from samplers, in step with learning: the run is that of one process, to the last bit."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from rl_training.core import Column, Policy, Transition, UniformPolicy, tree_map
from rl_training.distributed.engines import start_engine
from rl_training.distributed.messages import Block, Carry, How, Request
from rl_training.distributed.sampled_env import SampledEnv, joined
from rl_training.envs.episode_columns import EpisodeColumns
from rl_training.runtime.collector import LocalCollector
from rl_training.runtime.transfer import Packed
from rl_training.runtime.worth_compiling import CompileMode

HOST = torch.device("cpu")


class SampledCollector(LocalCollector):
    """Sends weights and where random numbers stand, and gets the steps that one process would have taken.

    Samplers act on the host. What an environment, the policy's memory and the running returns are in is kept here, after
    every block of steps, as in a process that steps the environments itself.
    """

    env: SampledEnv  # pyrefly: ignore (narrower than the base, and never reassigned)

    def __init__(self, env: SampledEnv, policy: Policy, *, seed: int, columns: Sequence[Column] = ()) -> None:
        away = policy.device.type != "cpu"
        self.send_steps = Packed(policy.device) if away else None
        self.lost = torch.zeros(env.num_envs, dtype=torch.bool)
        acting = copy.deepcopy(policy).to(HOST).requires_grad_(False)
        env.hire(acting, columns, partial(start_engine, env.sampling, env.here, env.config.timeout_s))
        super().__init__(env, acting, seed=seed, columns=columns)
        env.crew.revive = self.revive

    def execute(self, mode: CompileMode) -> None:
        self.mode = mode

    @torch.no_grad()
    def collect(self, policy: Policy, num_steps: int) -> Transition:
        capacity = self.env.crew.engine.capacity
        sizes = [min(capacity, num_steps - done) for done in range(0, num_steps, capacity)]
        blocks = [self.take(policy, size) for size in sizes]
        steps = self.latest = blocks[0] if len(blocks) == 1 else tree_map(lambda *x: torch.cat(x), *blocks)
        return steps if self.send_steps is None else self.send_steps(steps)

    def take(self, policy: Policy, num_steps: int) -> Transition:
        """Some steps of every environment, by one request."""
        crew = self.env.crew
        key = crew.engine.publish(self.request(policy, num_steps))
        blocks = crew.ask_all("collect", [(key,)] * len(self.env.rows))
        self.install_random_numbers(blocks)
        return self.add_blocks(blocks)

    def request(self, policy: Policy, num_steps: int) -> Request:
        uniform = isinstance(policy, UniformPolicy)
        weights = () if uniform else tuple(x.detach() for x in (*policy.parameters(), *policy.buffers()))
        how = How(num_steps, uniform, self.mode, torch.get_num_threads(), torch.get_float32_matmul_precision())
        return Request(how, weights, torch.get_rng_state())

    def install_random_numbers(self, blocks: Sequence[Block]) -> None:
        first, *others = (block.random for block in blocks)
        if not all(torch.equal(first, other) for other in others):
            raise RuntimeError(
                "samplers drew different numbers of random numbers although they acted on as many rows: the policy draws "
                "by what it sees; use sampling.workers=1"
            )
        torch.set_rng_state(first.clone())

    def add_blocks(self, blocks: Sequence[Block]) -> Transition:
        """Takes the blocks of all samplers as steps of all environments, and keeps the books of them."""
        steps = joined([block.steps for block in blocks], dim=1)
        self.obs, self.memory, self.first = joined([block.carry for block in blocks])
        self.columns = self.join_columns([block.columns for block in blocks])
        starts = {env: start for block in blocks for env, start in block.starts.items()}
        self.env.took(self.convert(steps.action), steps.terminated | steps.truncated, starts, self.obs)
        self.track_episodes(steps)
        return steps

    def join_columns(self, parts: Sequence[dict[int, EpisodeColumns]]) -> dict[int, EpisodeColumns]:
        """What was said of ended episodes, by step, with a row for every environment."""
        whole: dict[int, EpisodeColumns] = {}
        for rows, columns in zip(self.env.rows, parts, strict=True):
            for time, said in columns.items():
                for name, values in said.items():
                    column = whole.setdefault(time, {}).setdefault(name, no_values(self.num_envs))
                    column[rows.start : rows.stop] = values
        return whole

    def load_state_dict(self, state: dict) -> bool:
        went_on = super().load_state_dict(state)
        self.env.place(self.carry)
        return went_on

    @property
    def carry(self) -> Carry:
        return Carry(self.obs, self.memory, self.first)

    def revive(self, index: int) -> None:
        """Brings a sampler that was launched again to where the lost one stood, or else to new episodes."""
        fresh = self.env.revive(index, self.carry)
        if fresh is None:
            return
        rows = self.env.rows[index]
        own = torch.arange(rows.start, rows.stop)
        self.obs, self.memory, self.first = tree_map(lambda x, new: x.index_copy(0, own, new), self.carry, fresh)
        self.env.obs = self.obs
        self.returns[own], self.lengths[own], self.lost[own] = 0.0, 0, True

    def pop_lost(self) -> Tensor | None:
        if not self.lost.any():
            return None
        lost, self.lost = self.lost, torch.zeros_like(self.lost)
        return lost


def no_values(num_envs: int) -> Tensor:
    return torch.full((num_envs,), torch.nan, dtype=torch.float64)
