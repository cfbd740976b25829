"""A policy as a function of named tensors: from raw observations and memory to actions of the environment."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from rl_training.core import Dict, Discrete, Leaf, MultiDiscrete, Policy, Space, Tree
from rl_training.core.policy import Memory, Preference
from rl_training.export.run_policy import FORMAT
from rl_training.functional import DiagGaussian, MultiCategorical
from rl_training.models.q_networks import QNetwork, QPolicy
from rl_training.models.value_heads import CategoricalHead

NAME = "observation"
EXAMPLE_ROWS = 2  # of what it is traced with: a single row would be taken for the only number there is


class PolicyProgram(nn.Module):
    """A policy whose inputs and outputs are flat tuples of tensors [rows, ...], without checks and random numbers.

    Inputs are the observation or its entries, then, if it has memory, the memory and the bool flags that reset it.
    Outputs are the action in the environment's units, what it was chosen by, and the new memory.
    """

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.policy = copy.deepcopy(policy).cpu() if policy.device.type != "cpu" else policy
        self.leaves = leaves_of(policy.spec.obs)
        self.memory: list[tuple[str, tuple[int, ...]]] = []  # names and shapes, without rows
        self.memory = self.carried_memory()

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        num = len(self.leaves)
        values, rest = inputs[:num], inputs[num:]
        memory, first = (rest[:-1], rest[-1]) if self.memory else (self.policy.initial_memory(values[0].shape[0]), None)
        preferred = self.prefer(values, memory, first)
        action = self.policy.to_env(preferred.action)
        carried = preferred.memory if self.memory else ()
        return (action, *named_parameters(preferred.distribution).values(), *carried)

    def prefer(self, values: tuple[Tensor, ...], memory: Memory, first: Tensor | None = None) -> Preference:
        obs: Tree = dict(zip(self.leaves, values, strict=True)) if self.takes_dict else values[0]
        return self.policy.prefer(self.policy.from_env.convert(obs), memory, first)

    @torch.no_grad()
    def carried_memory(self) -> list[tuple[str, tuple[int, ...]]]:
        """Returns names and shapes of the memory that the deterministic action depends on.

        Memory that comes back as the same tensor, as that of exploration noise does, has no part in it.
        """
        memory = self.policy.initial_memory(EXAMPLE_ROWS)
        after = self.prefer(self.example(), memory).memory
        if all(new is old for new, old in zip(after, memory, strict=True)):
            return []
        return [(f"memory{index}", tuple(part.shape[1:])) for index, part in enumerate(memory)]

    @property
    def scale(self) -> float:
        """Returns the largest size of C51's atoms, at least 1; 1 for policies without atoms."""
        match self.policy:
            case QPolicy(network=QNetwork(head=CategoricalHead(atoms=atoms))):
                return max(1.0, atoms.abs().max().item())
        return 1.0

    @property
    def takes_dict(self) -> bool:
        return isinstance(self.policy.spec.obs, Dict)

    @property
    def input_names(self) -> list[str]:
        flags = ["first"] if self.memory else []
        return [*(input_name(key) for key in self.leaves), *(name for name, _ in self.memory), *flags]

    def example(self, rows: int = EXAMPLE_ROWS) -> tuple[Tensor, ...]:
        """Returns zeros for all inputs."""
        values = [torch.zeros(rows, *leaf.shape, dtype=getattr(torch, leaf.dtype)) for leaf in self.leaves.values()]
        values = [value + first_choice(leaf) for value, leaf in zip(values, self.leaves.values(), strict=True)]
        memory = [torch.zeros(rows, *shape) for _, shape in self.memory]
        return (*values, *memory, *([torch.zeros(rows, dtype=torch.bool)] if self.memory else []))

    @torch.no_grad()
    def describe(self) -> dict:
        """Returns what a program that runs the policy must know of inputs and outputs, as plain data."""
        example = self.example()
        values = example[: len(self.leaves)]
        preferred = self.prefer(values, self.policy.initial_memory(EXAMPLE_ROWS))
        names = ["action", *named_parameters(preferred.distribution)]
        outputs = self.forward(*example)[: len(names)]
        return {
            "format": FORMAT,
            "dict": self.takes_dict,
            "inputs": [
                {"name": input_name(key), "key": key, "shape": list(leaf.shape), "dtype": leaf.dtype}
                for key, leaf in self.leaves.items()
            ],
            "memory": [{"name": name, "shape": list(shape)} for name, shape in self.memory],
            "outputs": [
                {
                    "name": name,
                    "shape": list(value.shape[1:]),
                    "dtype": str(value.dtype).removeprefix("torch."),
                    "scale": self.scale if name == "q_values" else 1.0,
                }
                for name, value in zip(names, outputs, strict=True)
            ],
            "choices": choices_of(self.policy.spec.action),
        }


def input_name(key: str) -> str:
    return f"{NAME}.{key}" if key else NAME


def leaves_of(space: Space) -> dict[str, Leaf]:
    """Returns the entries of an observation space by key; that of a space without keys is ""."""
    return space.spaces if isinstance(space, Dict) else {"": space}


def first_choice(leaf: Leaf) -> int:
    return leaf.start if isinstance(leaf, Discrete) else 0


def choices_of(space: Space) -> list[int]:
    """Returns the number of choices of each action, whose masks are joined in one; [] for actions without a mask."""
    match space:
        case Discrete():
            return [space.num]
        case MultiDiscrete():
            return list(space.nums)
    return []


def named_parameters(distribution: tuple) -> dict[str, Tensor]:
    """Returns the tensors [rows, ...] of a distribution by name; those of several choices are joined."""
    if isinstance(distribution, MultiCategorical):
        return {"log_probs": torch.cat([part.log_probs for part in distribution.parts], -1)}
    if isinstance(distribution, DiagGaussian):
        return {"mean": distribution.mean, "log_std": distribution.log_std.expand_as(distribution.mean)}
    return dict(zip(getattr(distribution, "_fields", ()), distribution, strict=True))
