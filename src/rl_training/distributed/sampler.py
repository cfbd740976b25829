"""A sampler: some of a run's environments, and a copy of the policy that acts in them; independent of processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import gymnasium as gym
import torch

from rl_training.core import Tree
from rl_training.core.joint_actions import uniform_policy
from rl_training.distributed.messages import Assignment, Block, Carry, Request, weights_of
from rl_training.distributed.sliced_collector import SlicedCollector
from rl_training.envs.backends import find_backend
from rl_training.runtime.torch_context import plain_torch, threads_and_precision
from rl_training.runtime.worth_compiling import CompileMode


class Sampler:
    """A stepper of some of a run's environments with its own copy of the policy, in the learner's service.

    Its answers depend only on the calls.
    """

    def __init__(self, assignment: Assignment, beat: Callable[[], None] = lambda: None) -> None:
        given = assignment
        if given.registered is not None:
            gym.registry.setdefault(given.env.id, given.registered)
        make_part = find_backend(given.env.backend).make_part
        assert make_part is not None  # else samplers were refused
        self.env = make_part(given.env, given.factory, given.rows, given.num_envs)
        self.policy = given.policy
        self.uniform = uniform_policy(replace(given.policy.spec, obs=self.env.spec.obs))
        self.collector = SlicedCollector(self.env, self.policy, columns=given.columns, beat=beat)
        self.rows = given.rows
        self.mode: CompileMode = False

    def reset(self, seed: int) -> Tree:
        """Resets the sampler's environments and returns their observations; `seed` is that of the whole run."""
        self.collector.obs = self.env.reset(seed)
        return self.collector.obs

    def restore(self, state: dict) -> bool:
        """Repeats the saved open episodes in the sampler's environments; returns False if they went differently."""
        return self.env.restore(state)

    def set_carry(self, carry: Carry) -> None:
        """Sets the observations, memory and episode starts of the sampler's environments for the next `collect`."""
        self.collector.obs, self.collector.memory, self.collector.first = carry

    @plain_torch()
    @torch.no_grad()
    def collect(self, request: Request) -> Block:
        """Takes the steps that a request asks for; returns them with observations, memory and random state after them.

        Copies the request's weights into the sampler's policy, and sets torch's random state to the request's.
        """
        sampling, collector = request.sampling, self.collector
        self.execute(sampling.mode)
        if not sampling.uniform:
            for ours, theirs in zip(weights_of(self.policy), request.weights, strict=True):
                ours.copy_(theirs)
        torch.set_rng_state(request.random)
        with threads_and_precision(sampling.threads, tf32=sampling.precision == "high"):
            steps = collector.collect(self.uniform if sampling.uniform else self.policy, sampling.num_steps)
        collector.pop_episodes()  # the learner counts them, of all samplers together
        ended = (steps.terminated | steps.truncated).any(0).nonzero().flatten().tolist()
        return Block(
            steps,
            Carry(collector.obs, collector.memory, collector.first),
            torch.get_rng_state(),
            collector.columns,
            sampling.version,
            {self.rows.start + row: self.env.envs[row].start for row in ended},
        )

    def execute(self, mode: CompileMode) -> None:
        if mode != self.mode:
            self.mode = mode
            self.collector.execute(mode)

    def close(self) -> None:
        self.env.close()
