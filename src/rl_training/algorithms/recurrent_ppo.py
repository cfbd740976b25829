"""PPO with memory: recurrent actor and critic, trained on whole pieces of episodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from rl_training.algorithms.ppo import PPOAlgorithm, PPOConfig
from rl_training.core import Column, Metrics, Needs, Pass, RolloutBatch, Rows, Supply, Transition, Tree, register
from rl_training.core.policy import Memory
from rl_training.core.ranges import Count
from rl_training.core.tree import saved_tensors
from rl_training.functional import Distribution
from rl_training.models import ObservationNormalizer, RecurrentCore, RecurrentPolicy, encode_mask, forget
from rl_training.models.trunk import share_layers


@dataclass(frozen=True, kw_only=True)
class RecurrentPPOConfig(PPOConfig):
    """RecurrentPPO's settings, with sb3-contrib's names and defaults."""

    needs = Needs("rollout", {"n_steps": 128})

    batch_size: Count = 128  # steps; batches hold pieces of episodes, cut where they are longer than this
    cell: Literal["lstm", "gru"] = "lstm"
    lstm_hidden_size: Count = 256
    n_lstm_layers: Count = 1
    shared_lstm: bool = False  # True: the critic reads the actor's memory

    def check(self, supply: Supply) -> None:
        supply.check_batch_size(self.batch_size)


class RecurrentPPOAlgorithm(PPOAlgorithm):
    """PPO with a recurrent policy and critic, on pieces of episodes: rows of a batch are [time, sequence]."""

    why_not_stacked = "cuts its rollouts into sequences, whose lengths differ between members"
    why_not_shared = "its batches hold whole pieces of episodes, of which every process has another number"
    config: RecurrentPPOConfig  # pyrefly: ignore (narrower than the base, and never reassigned)
    policy: RecurrentPolicy  # pyrefly: ignore (likewise)

    critic_memory: Memory = ()  # of every environment, where the next rollout goes on
    memory_before: Memory = ()  # the critic's, before each step of the last rollout: [time, env, ...]

    def build_policy(self, normalizer: ObservationNormalizer, trunk: nn.Module, trunk_dim: int) -> RecurrentPolicy:
        core = self.build_core(trunk_dim)
        return RecurrentPolicy(self.spec.seen_by("policy"), normalizer, trunk, core, self.build_head(core.features_dim))

    def build_value_core(self, inputs: int) -> int:
        shared = self.config.shared_lstm
        if shared and self.spec.seen_by("policy").obs != self.spec.seen_by("critic").obs:
            raise ValueError(
                "algorithm.shared_lstm=true lets the critic read the policy's memory, and env.obs_groups lets them see "
                "different observations: use shared_lstm=false"
            )
        self.value_core = self.policy.core if shared else self.build_core(inputs)
        return self.value_core.features_dim

    def build_core(self, inputs: int) -> RecurrentCore:
        c = self.config
        return RecurrentCore(inputs, c.lstm_hidden_size, layers=c.n_lstm_layers, cell=c.cell, ortho_init=c.ortho_init)

    @property
    def columns(self) -> tuple[Column, ...]:
        memory = self.policy.initial_memory(1)
        parts = (Column(f"memory{i}", part.shape[1:], part.dtype, "policy") for i, part in enumerate(memory))
        return (Column("first", (), torch.bool, "policy"), *parts)

    def passes(self) -> tuple[Pass, ...]:
        return (Pass(self.config.n_epochs, self.config.batch_size, sequences=True, one_graph=False),)

    def starting_memory(self, columns: Rows, prefix: str) -> Memory:
        """Returns memory, a tuple of tensors [sequence, ...], at the start of sequences; zeros where an episode begins.

        It is read from the columns "<prefix>0", "<prefix>1", ...
        """
        parts = tuple(column[0] for name, column in columns.items() if name.startswith(prefix))
        return forget(parts, columns["first"][0])

    def distribution_of(self, features: Tensor, batch: RolloutBatch) -> Distribution:
        memory = self.starting_memory(batch.columns, "memory")
        return self.policy.choices(features, encode_mask(batch.obs), memory)

    def values_of(self, features: Tensor, batch: RolloutBatch) -> Tensor:
        prefix = "memory" if self.config.shared_lstm else "critic_memory"
        memory = self.starting_memory(batch.columns, prefix)
        return self.value_head(self.value_core(share_layers(self.value_trunk, features), memory)).squeeze(-1)

    def rollout_values(self, rollout: Transition) -> tuple[Tensor, Tensor]:
        """Returns values [time, env] of a rollout's observations, and of true successors, each from that step's memory.

        Sets `memory_before`, for the batch, and `next_critic_memory`, for the next rollout.
        """
        memory, outputs, memories = self.rollout_memory(rollout), [], []
        inputs, next_inputs = (share_layers(self.value_trunk, x) for x in self.rollout_features(rollout))
        for features, first in zip(inputs, rollout.columns["first"], strict=True):
            memories.append(memory)
            output, memory = self.value_core.advance(features, forget(memory, first))
            outputs.append(output)
        everywhere = tuple(torch.cat(parts) for parts in zip(*memories[1:], memory, strict=True))
        successor, _ = self.value_core.advance(next_inputs.flatten(0, 1), everywhere)
        value = self.value_head(torch.stack(outputs)).squeeze(-1)
        self.memory_before = tuple(torch.stack(parts) for parts in zip(*memories, strict=True))
        self.next_critic_memory = memory
        return value, self.value_head(successor).view_as(value)

    def rollout_memory(self, rollout: Transition) -> Memory:
        """Returns the critic's memory at the rollout's start: the policy's if shared, else its own; zeros at first."""
        if self.config.shared_lstm:
            return tuple(rollout.columns[f"memory{i}"][0] for i in range(len(self.policy.initial_memory(1))))
        if not self.critic_memory:
            return self.value_core.initial(rollout.reward.shape[1])
        return tuple(part.to(rollout.reward.device) for part in self.critic_memory)

    def prepare(self, rollout: Transition) -> tuple[RolloutBatch, Metrics]:
        batch, metrics = super().prepare(rollout)
        columns = {f"critic_memory{i}": part for i, part in enumerate(self.memory_before)}
        return batch._replace(columns=batch.columns | columns), metrics

    def value(self, obs: Tree) -> Tensor:
        raise TypeError("a recurrent critic has no value for an observation alone: use batch_value or rollout_values")

    @property
    def observes(self) -> bool:
        return True

    def observe(self, obs: Tree, valid: Tensor) -> None:
        super().observe(obs, valid)
        if not self.config.shared_lstm:
            self.critic_memory = self.next_critic_memory

    def get_extra_state(self) -> list[Tensor]:
        return list(self.critic_memory)

    def set_extra_state(self, state: list[Tensor]) -> None:
        if len(state) not in (0, len(self.value_core.initial(1))):
            raise TypeError(f"critic_memory has {len(state)} parts")
        self.critic_memory = tuple(saved_tensors(part, "critic_memory") for part in state)  # pyrefly: ignore


register("recurrent_ppo", RecurrentPPOAlgorithm, RecurrentPPOConfig, "PPO with an LSTM or GRU.", "core")
