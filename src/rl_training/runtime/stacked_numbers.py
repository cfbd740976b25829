"""Random numbers of the members of a stack, each from a generator of its own."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from rl_training.core.noise import NoiseRequest
from rl_training.envs import NativeEnv

GOLDEN, FIRST, SECOND = -7046029254386353131, -4658895280553007687, -7723592293110705685  # 64-bit, as signed numbers


class MemberNumbers(ABC):
    """The source of what a stack draws: for the environments' steps, for the policies', and for the orders of rows."""

    @abstractmethod
    def for_steps(self, size: int, asked: tuple[NoiseRequest, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Draws for `size` steps: [time, member * env, ...] for environments, [time, member, ...] for each request."""

    @abstractmethod
    def for_loss(self, asked: tuple[NoiseRequest, ...]) -> tuple[Tensor, ...]:
        """Draws what a loss asks for, [member, ...] for each request."""

    @abstractmethod
    def orders(self, num: int, stopped: Tensor) -> Tensor:
        """Draws an order of `num` rows for each member, [member, row]; those `stopped` need none."""

    @abstractmethod
    def rows(self, num: int) -> Tensor:
        """Draws `num` numbers in [0, 1) for each member, [member, row], that select rows of its replay."""


class OwnNumbers(MemberNumbers):
    """Numbers that each member draws as it would alone, call by call."""

    def __init__(
        self,
        envs: Sequence[NativeEnv],
        generators: Sequence[torch.Generator],
        choose: Sequence[Callable[[int], Tensor]],
    ) -> None:
        """`choose` are the functions by which the members' stores draw an order, or numbers that select rows."""
        self.envs, self.generators, self.choose = envs, generators, choose

    def for_steps(self, size: int, asked: tuple[NoiseRequest, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        envs = torch.stack([torch.cat([env.draw() for env in self.envs]) for _ in range(size)])
        steps = [self.for_loss(asked) for _ in range(size)]
        return envs, tuple(torch.stack(numbers) for numbers in zip(*steps, strict=True))

    def for_loss(self, asked: tuple[NoiseRequest, ...]) -> tuple[Tensor, ...]:
        return tuple(torch.stack([one.draw(generator) for generator in self.generators]) for one in asked)

    def orders(self, num: int, stopped: Tensor) -> Tensor:
        going = [not ended for ended in stopped.tolist()]
        rows = [choose(num) if goes else torch.arange(num) for goes, choose in zip(going, self.choose, strict=True)]
        return torch.stack(rows)

    def rows(self, num: int) -> Tensor:
        return torch.stack([choose(num) for choose in self.choose])


class HashedNumbers(MemberNumbers):
    """Numbers for a GPU, drawn for all members in one go: a hash of a member's seed and of a count of its own.

    Seeds and counts are those of the members' generators, so a member goes on with other numbers when it leaves.
    """

    def __init__(self, envs: Sequence[NativeEnv], generators: Sequence[torch.Generator]) -> None:
        self.generators, self.device = generators, envs[0].device
        self.num_envs = envs[0].num_envs
        self.num_each = envs[0].dynamics.num_random + envs[0].dynamics.num_step_random
        states = torch.stack([generator.get_state().view(torch.int64)[:2] for generator in generators])
        self.seed, self.count = (column.unsqueeze(1).to(self.device) for column in states.unbind(1))

    def store(self, member: int) -> None:
        """Sets a member's own generator to the state of its row in the stack."""
        count = -(-int(self.count[member]) // 4) * 4
        state = torch.tensor([int(self.seed[member]), count])
        self.generators[member].set_state(state.view(torch.uint8))

    def load(self, member: int) -> None:
        """Sets the stack's row of a member to the state of the member's own generator."""
        self.count[member] = int(self.generators[member].get_state().view(torch.int64)[1])

    def bits(self, num: int) -> Tensor:
        """Draws [member, num] integers of 64 random bits, by the generator SplitMix64."""
        numbers = mixed(self.seed) + (self.count + torch.arange(num, device=self.device)) * GOLDEN
        self.count.add_(num)
        return mixed(numbers)

    def uniform(self, *shape: int) -> Tensor:
        """Draws numbers in (0, 1), [member, *shape]."""
        return (((self.bits(math.prod(shape)) >> 41) & 0x7FFFFF).float().add_(0.5) * 2.0**-23).unflatten(1, shape)

    def drawn(self, asked: NoiseRequest, size: int) -> Tensor:
        shape = (size, *asked.shape)
        match asked.kind:
            case "exponential":
                numbers = -self.uniform(*shape).log()
            case "normal":
                radius, angle = self.uniform(2, *shape).unbind(1)
                numbers = (-2 * radius.log()).sqrt() * (2 * math.pi * angle).cos()
            case "uniform":
                numbers = self.uniform(*shape)
        return numbers.movedim(1, 0)

    def for_steps(self, size: int, asked: tuple[NoiseRequest, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        envs = self.uniform(size, self.num_envs, self.num_each).movedim(1, 0).flatten(1, 2)
        return envs, tuple(self.drawn(one, size) for one in asked)

    def for_loss(self, asked: tuple[NoiseRequest, ...]) -> tuple[Tensor, ...]:
        return tuple(self.drawn(one, 1).squeeze(0) for one in asked)

    def orders(self, num: int, stopped: Tensor) -> Tensor:
        return (self.bits(num) >> 48).to(torch.int16).argsort(1)

    def rows(self, num: int) -> Tensor:
        return ((self.bits(num) >> 11) & (2**53 - 1)).double() * 2.0**-53


def mixed(x: Tensor) -> Tensor:
    x = (x ^ ((x >> 30) & (2**34 - 1))) * FIRST
    x = (x ^ ((x >> 27) & (2**37 - 1))) * SECOND
    return x ^ ((x >> 31) & (2**33 - 1))
