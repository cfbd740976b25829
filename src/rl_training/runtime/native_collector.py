"""The collector of native environments, which steps them and the policy together as tensor code."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rl_training.core import Policy, Transition, UniformPolicy, tree_map
from rl_training.envs import NativeEnv
from rl_training.envs.episode_columns import EpisodeColumns, columns_by_time
from rl_training.runtime.collector import EndedEpisodes, LocalCollector, remember, transition
from rl_training.runtime.compilation import compile_graph
from rl_training.runtime.cuda_graph import CudaGraph
from rl_training.runtime.worth_compiling import CompileMode

Draws = Any  # the random numbers of a block, [time, ...]; of a stack, the policies' besides the environments'
Block = tuple[tuple, tuple[Transition, EpisodeColumns]]  # what the next block goes on from, and the steps
BLOCK = 8  # steps in one compiled call: fewer calls, longer compilation


class Counts(NamedTuple):
    """Returns and lengths so far of every open episode, and the number and metric sums of ended ones, on the device."""

    returns: Tensor
    lengths: Tensor
    ended: Tensor  # number, returns and lengths; for each column that environments give, how many had it and the sum


class NativeCollector(LocalCollector):
    """A collector that steps policy and native environments as one function of tensors, several steps in a call.

    `collect` lists every episode. `trace` is pure tensor code to be recorded: it counts episodes on the device, and
    `carry` returns the tensors that one call leaves to the next.
    """

    why_not_recorded = None
    env: NativeEnv  # pyrefly: ignore (narrower than the base, and never reassigned)
    counts: Counts | None = None  # on the device, while steps are traced; else the host's are the newest
    uncounted = 0  # episodes that ended on the device before steps were collected again

    def execute(self, mode: CompileMode) -> None:
        self.first = self.first.to(self.device)
        compiled, self.records = mode is True, mode is not False and self.device.type == "cuda"
        self.block_size = BLOCK if compiled or self.records else 1
        self.run_block = compile_graph(self.block, self.device) if compiled else self.block
        self.run_count = compile_graph(count_episodes, self.device) if compiled else count_episodes
        self.recordings: dict[Policy, CudaGraph] = {}

    @torch.no_grad()
    def collect(self, policy: Policy, num_steps: int) -> Transition:
        self.returns, self.lengths = self.open_episodes()
        self.uncounted, self.counts = self.uncounted_episodes, None
        steps, columns = self.take(policy, num_steps, self.recorded_block if self.records else self.run_block)
        self.latest, self.columns = steps, columns_by_time(columns)
        self.obs = self.env.dynamics.observe(self.env.state)
        self.track_episodes(steps)
        return steps

    def take(self, policy: Policy, num_steps: int, run: Callable[..., Block]) -> tuple[Transition, EpisodeColumns]:
        env, parts = self.env, []
        while num_steps > 0:
            size = self.block_size if num_steps >= self.block_size else 1
            uniform = self.draw(size)
            carry = (env.state, env.elapsed, self.memory, self.first)
            (env.state, env.elapsed, self.memory, self.first), steps = run(policy, carry, uniform)
            parts.append(steps)
            num_steps -= size
        return tree_map(lambda *chunks: torch.cat(chunks), *parts)

    def draw(self, size: int) -> Draws:
        """Draws the environments' random numbers of `size` steps, [time, ...]."""
        return torch.stack([self.env.draw() for _ in range(size)])

    def recorded_block(self, policy: Policy, carry: tuple, uniform: Draws) -> Block:
        """Takes steps as `block` does by replaying a CUDA graph; eagerly if there are few or actions are random."""
        if len(uniform) < self.block_size or isinstance(policy, UniformPolicy):
            return self.block(policy, carry, uniform)
        if policy not in self.recordings:
            self.recordings[policy] = CudaGraph(partial(self.run_block, policy))
        return self.recordings[policy](carry, uniform)

    def block(self, policy: Policy, carry: tuple, uniform: Draws) -> Block:
        """Takes one step per row of the random numbers `uniform` [time, ...]; returns the new carry and the steps.

        The carry is (environment state, elapsed steps, policy memory, mask of episodes that begin); the steps are a
        Transition [time, env] and columns of ended episodes. Changes neither the collector nor its environments.
        """
        env, (state, elapsed, memory, first) = self.env, carry
        obs, rows = env.dynamics.observe(state), []
        for noise in uniform.unbind(0):
            remembered = remember(self.kept, memory, first)
            act = self.act(policy, obs, memory, first)
            state, elapsed, step = env.advance(state, elapsed, self.convert(act.action), noise)
            memory, first = act.memory, step.terminated | step.truncated
            rows.append((transition(obs, act, step, remembered | step.values), step.columns))
            obs = step.obs
        return (state, elapsed, memory, first), tree_map(lambda *columns: torch.stack(columns), *rows)

    @property
    def generators(self) -> tuple[torch.Generator, ...]:
        return (self.env.generator,)

    @torch.no_grad()
    def trace(self, policy: Policy, num_steps: int) -> Transition:
        """Takes [time, env] steps as pure tensor code, with episodes counted on the device; the host's counts stay.

        The caller calls `count_traced` after every call or replay, so that the host counts the steps.
        """
        steps, columns = self.take(policy, num_steps, self.run_block)
        self.counts = self.run_count(self.counted(), steps, columns)
        return steps

    def count_traced(self, num_steps: int) -> None:
        self.timesteps += num_steps * self.num_envs

    def counted(self) -> Counts:
        """Returns the counts on the device; new ones from the host's returns and lengths if there are none yet."""
        if self.counts is not None:
            return self.counts
        ended = torch.zeros(3 + 2 * len(self.env.column_names), dtype=torch.float64, device=self.device)
        returns, lengths = (torch.tensor(count, device=self.device) for count in (self.returns, self.lengths))
        return Counts(returns, lengths, ended)

    def carry(self) -> tuple:
        return (self.env.state, self.env.elapsed, self.memory, self.first, self.counted())

    def set_carry(self, carry: tuple) -> None:
        self.env.state, self.env.elapsed, self.memory, self.first, self.counts = carry

    def open_episodes(self) -> tuple[np.ndarray, np.ndarray]:
        if self.counts is None:
            return self.returns, self.lengths
        return self.counts.returns.cpu().numpy().copy(), self.counts.lengths.cpu().numpy().copy()

    @property
    def uncounted_episodes(self) -> int:
        return self.uncounted + (0 if self.counts is None else int(self.counts.ended[0]))

    def pop_ended(self) -> EndedEpisodes:
        before, self.uncounted = self.uncounted, 0
        if self.counts is None:
            return EndedEpisodes(before)
        sums = self.counts.ended.clone()
        self.counts.ended.zero_()
        return EndedEpisodes(before, sums, self.env.column_names)

    def state_dict(self) -> dict:
        return super().state_dict() | {"obs": self.env.dynamics.observe(self.env.state)}

    def load_state_dict(self, state: dict) -> bool:
        self.uncounted, self.counts = 0, None
        return super().load_state_dict(state)


def count_episodes(counts: Counts, steps: Transition, columns: EpisodeColumns) -> Counts:
    """Returns new counts with the steps [time, env] added, as pure tensor code.

    `columns` are `info` values [time, env] by name, where NaN is no value.
    """
    returns, lengths, ended = counts
    number = torch.zeros_like(returns)
    total, steps_taken = torch.zeros_like(returns), torch.zeros_like(returns)
    for reward, terminated, truncated in zip(steps.reward, steps.terminated, steps.truncated, strict=True):
        done = terminated | truncated
        returns, lengths = returns + reward, lengths + 1
        number = number + done
        total, steps_taken = total + returns * done, steps_taken + lengths * done
        returns, lengths = torch.where(done, 0.0, returns), torch.where(done, 0, lengths)
    said = []
    for column in columns.values():
        given = (steps.terminated | steps.truncated) & ~column.isnan()
        said += [given.sum(), torch.where(given, column, 0.0).sum()]
    return Counts(returns, lengths, ended + torch.stack([number.sum(), total.sum(), steps_taken.sum(), *said]))
