"""Collection on the host while the last updates still run on the GPU; actions are one iteration behind."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from rl_training.core import Policy, Transition, tree_leaves
from rl_training.runtime.collector import Collector
from rl_training.runtime.transfer import copy_all


class Overlap:
    """A copy of a policy that acts on a CUDA stream of its own while updates change the original.

    The copy is taken before an iteration's updates are launched and used while they run. Other policies, such as one
    that acts at random, are used as they are.
    """

    def __init__(self, policy: Policy, device: torch.device) -> None:
        self.policy, self.device = policy, device
        self.acting = copy.deepcopy(policy).requires_grad_(False)
        self.stream = torch.cuda.Stream(device, priority=-1)  # small kernels that somebody waits for go first
        self.copied = torch.cuda.Event()
        self.random: torch.Generator | None = None
        self.take_copy()

    @torch.no_grad()
    def take_copy(self) -> None:
        """Copies the policy's parameters, as after all updates launched so far, for the next steps; does not wait."""
        pairs = ([*module.parameters(), *module.buffers()] for module in (self.acting, self.policy))
        copy_all(*pairs)
        self.copied.record(torch.cuda.current_stream(self.device))

    def collect(self, collector: Collector, policy: Policy, num_steps: int) -> Transition:
        """Collects [time, env] steps with the copy in place of the original policy; does not wait for later updates."""
        learning = torch.cuda.current_stream(self.device)
        self.stream.wait_event(self.copied)
        with torch.cuda.stream(self.stream), self.own_random_numbers():
            steps = collector.collect(self.acting if policy is self.policy else policy, num_steps)
        learning.wait_stream(self.stream)
        for leaf in tree_leaves(steps):
            leaf.record_stream(learning)  # its memory is free again only after what learns from it
        return steps

    @contextmanager
    def own_random_numbers(self) -> Iterator[None]:
        """Gives acting its own random generator in the block, as recorded updates use the default one meanwhile."""
        index = self.device.index
        generator = torch.cuda.default_generators[torch.cuda.current_device() if index is None else index]
        if self.random is None:
            self.random = generator.clone_state().manual_seed(int(torch.randint(2**62, ())))
        learning = generator.graphsafe_get_state()
        generator.graphsafe_set_state(self.random)
        try:
            yield
        finally:
            generator.graphsafe_set_state(learning)
