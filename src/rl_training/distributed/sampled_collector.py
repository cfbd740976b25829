"""A collector that waits for its samplers: the run equals that of one process, to the last bit."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from rl_training.core import Column, Policy, Transition, UniformPolicy, tree_map
from rl_training.distributed.engines import start_engine
from rl_training.distributed.messages import Block, Carry, Request, SamplingMode, weights_of
from rl_training.distributed.sampled_env import SampledEnv, joined
from rl_training.envs.episode_columns import EpisodeColumns
from rl_training.runtime.collector import LocalCollector
from rl_training.runtime.transfer import Packed
from rl_training.runtime.worth_compiling import CompileMode

HOST = torch.device("cpu")


class SampledCollector(LocalCollector):
    """A collector whose steps samplers (other processes) take; they equal those that one process would have taken.

    Sends them weights and random state; they act on the CPU. After each answer the learner has the observations, the
    policy's memory and the running returns, like a process that steps the environments itself.
    """

    env: SampledEnv  # pyrefly: ignore (narrower than the base, and never reassigned)

    def __init__(self, env: SampledEnv, policy: Policy, *, seed: int, columns: Sequence[Column] = ()) -> None:
        away = policy.device.type != "cpu"
        self.send_steps = Packed(policy.device) if away else None
        self.lost = torch.zeros(env.num_envs, dtype=torch.bool)
        acting = copy.deepcopy(policy).to(HOST).requires_grad_(False)
        env.hire(acting, columns, partial(start_engine, env.sampling, env.here.spec.obs, env.fragment))
        super().__init__(env, acting, seed=seed, columns=columns)
        env.pool.revive = self.revive

    def execute(self, mode: CompileMode) -> None:
        self.mode = mode

    @torch.no_grad()
    def collect(self, policy: Policy, num_steps: int) -> Transition:
        parts: list[Transition] = []
        for part in self.take(policy, num_steps):
            if parts and (lost := self.pop_lost()) is not None:  # its episodes are open in what is collected here
                parts[-1].truncated[-1] |= lost
            parts.append(part)
        steps = self.latest = parts[0] if len(parts) == 1 else tree_map(lambda *x: torch.cat(x), *parts)
        return steps if self.send_steps is None else self.send_steps(steps)

    def take(self, policy: Policy, num_steps: int) -> Iterator[Transition]:
        """Yields `num_steps` steps of every environment in consecutive parts, [time, env].

        Counts the episodes that ended in a part before it yields the part.
        """
        pool = self.env.pool
        for done in range(0, num_steps, pool.engine.capacity):
            size = min(pool.engine.capacity, num_steps - done)
            sampling = self.sampling_mode(size, uniform=isinstance(policy, UniformPolicy))
            weights = () if sampling.uniform else tuple(x.detach() for x in weights_of(policy))
            key = pool.engine.publish(Request(sampling, weights, torch.get_rng_state()))
            blocks = pool.ask_all("collect", [(key,)] * len(self.env.rows))
            torch.set_rng_state(blocks[0].random.clone())
            steps, self.columns = self.join(blocks)
            self.track_episodes(steps)
            yield steps

    def sampling_mode(self, num_steps: int, *, uniform: bool) -> SamplingMode:
        """Returns the settings with which samplers take `num_steps` steps, at random if `uniform` is True.

        Compile mode, threads and precision are those of the learner now.
        """
        return SamplingMode(
            num_steps, uniform, self.mode, torch.get_num_threads(), torch.get_float32_matmul_precision()
        )

    def join(self, blocks: Sequence[Block]) -> tuple[Transition, dict[int, EpisodeColumns]]:
        """Joins the samplers' answers: returns the steps, [time, env], and the values that ended episodes gave.

        The latter are {step: {name: [env]}}. Stores the observations, memory and episode starts after these steps, and
        logs the actions of open episodes. Raises RuntimeError if the samplers' random states differ.
        """
        check_random_numbers(blocks)
        steps = joined([block.steps for block in blocks], dim=1)
        self.obs, self.memory, self.first = joined([block.carry for block in blocks])
        starts = {env: start for block in blocks for env, start in block.starts.items()}
        self.env.took(self.convert(steps.action), steps.terminated | steps.truncated, starts, self.obs)
        return steps, self.join_columns([block.columns for block in blocks])

    def join_columns(self, parts: Sequence[dict[int, EpisodeColumns]]) -> dict[int, EpisodeColumns]:
        """Joins the samplers' values of ended episodes, {step: {name: [own env]}} each, to {step: {name: [env]}}.

        An entry is NaN if no episode with this column ended there.
        """
        whole: dict[int, EpisodeColumns] = {}
        for rows, columns in zip(self.env.rows, parts, strict=True):
            for time, said in columns.items():
                for name, values in said.items():
                    column = whole.setdefault(time, {}).setdefault(name, no_values(self.num_envs))
                    column[rows.start : rows.stop] = values
        return whole

    def load_state_dict(self, state: dict) -> bool:
        went_on = super().load_state_dict(state)
        self.env.set_carry(self.carry)
        return went_on

    @property
    def carry(self) -> Carry:
        return Carry(self.obs, self.memory, self.first)

    def revive(self, index: int) -> None:
        """Restores the state of lost sampler `index` in its replacement or, if that fails, starts new episodes there.

        The episodes that are then lost appear as truncated in the steps that are collected.
        """
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


def check_random_numbers(blocks: Sequence[Block]) -> None:
    """Raises RuntimeError if torch's random states differ in the samplers' answers `blocks`.

    Later random numbers would then depend on the number of samplers.
    """
    if not all(torch.equal(blocks[0].random, block.random) for block in blocks):
        raise RuntimeError(
            "samplers drew different numbers of random numbers although they acted on as many rows: the policy draws by what "
            "it sees; use sampling.workers=1"
        )


def no_values(num_envs: int) -> Tensor:
    return torch.full((num_envs,), torch.nan, dtype=torch.float64)
