"""Deep recurrent Q-learning (Hausknecht and Stone, 2015, arXiv:1507.06527) as somebody outside would write it.

Learns from pieces of episodes that a replay or a dataset hands out, each begun with the memory of the acting policy.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from rl_training import Agent
from rl_training.algorithms.off_policy import OffPolicyAlgorithm, OffPolicyConfig, num_actions
from rl_training.algorithms.target_networks import TargetNetworks, frozen_copy
from rl_training.core import (
    Act,
    Adam,
    Column,
    Loss,
    Pass,
    Policy,
    Schedule,
    Scheduled,
    Spec,
    Step,
    StepBatch,
    Tree,
)
from rl_training.core.policy import Memory
from rl_training.core.ranges import Count, Natural, Share
from rl_training.functional import weighted_mean
from rl_training.models import ObservationNormalizer, RecurrentCore, forget
from rl_training.models.q_networks import epsilon_greedy


@dataclass(frozen=True, kw_only=True)
class RecurrentQConfig(OffPolicyConfig):
    target_update_interval: Count = 50  # updates
    hidden: Count = 32
    length: Count = 32  # of the pieces; batch_size counts steps
    burn_in: Natural = 0
    stored_memory: bool = True  # False: pieces begin with an empty memory
    epsilon: Share = 0.2


class RecurrentQNetwork(nn.Module):
    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.core, self.head = RecurrentCore(inputs, hidden, cell="gru"), nn.Linear(hidden, outputs)

    def forward(self, obs: Tensor, memory: Memory) -> Tensor:
        return self.head(self.core(obs, memory))


class RecurrentQPolicy(Policy):
    def __init__(self, spec: Spec, normalizer: ObservationNormalizer, network: RecurrentQNetwork, eps: float) -> None:
        super().__init__(spec)
        self.normalizer, self.network, self.epsilon = normalizer, network, Scheduled(Schedule(1.0, eps, 0.5))

    def initial_memory(self, num: int) -> Memory:
        return self.network.core.initial(num)

    def act(self, obs: Tree, memory: Memory = (), first: Tensor | None = None, *, explore: bool = True) -> Act:
        output, memory = self.network.core.advance(self.normalizer(obs), forget(memory, first))
        q = self.network.head(output)
        greedy = q.argmax(-1)
        if not explore:
            return Act(greedy, torch.zeros_like(q[:, 0]), memory)
        return Act(*epsilon_greedy(greedy, self.epsilon(), q.shape[-1], None), memory)


class RecurrentQAlgorithm(OffPolicyAlgorithm[RecurrentQConfig]):
    policy: RecurrentQPolicy

    def build_networks(self, normalizer: ObservationNormalizer) -> None:
        c, spec = self.config, self.spec
        network = RecurrentQNetwork(spec.obs.size, c.hidden, num_actions(spec, "RecurrentQ"))
        self.policy = RecurrentQPolicy(spec, normalizer, network, c.epsilon)
        self.target = frozen_copy(network)
        groups = [(network.parameters(), c.learning_rate)]
        self.optimizers["q"] = Adam(groups, max_grad_norm=c.max_grad_norm)

    @property
    def columns(self) -> tuple[Column, ...]:
        memory = Column("memory0", (1, self.config.hidden), torch.float32, "policy")
        return (memory,) if self.config.stored_memory else ()

    def passes(self) -> tuple[Pass, ...]:
        pieces = {"sequences": True, "length": self.config.length, "burn_in": self.config.burn_in}
        return tuple(replace(a_pass, one_graph=False, **pieces) for a_pass in super().passes())

    def target_networks(self) -> TargetNetworks:
        return TargetNetworks([(self.target, self.policy.network)], 1.0, self.config.target_update_interval)

    def update(self, batch: StepBatch) -> Step:
        return self.minimize(self.loss, batch, "q")

    def loss(self, batch: StepBatch) -> Loss:
        memory = self.policy.initial_memory(batch.weight.shape[1])
        if self.config.stored_memory:
            memory = forget((batch.columns["memory0"][0],), batch.columns["first"][0])
        seen = self.normalizer(torch.cat([batch.obs[:1], batch.next_obs]))  # from every step to its successor
        q = self.policy.network(seen, memory)
        with torch.no_grad():
            best = q[1:].argmax(-1, keepdim=True)
            target = batch.reward + batch.discount * self.target(seen, memory)[1:].gather(-1, best).squeeze(-1)
        error = q[:-1].gather(-1, batch.action.unsqueeze(-1)).squeeze(-1) - target
        loss = weighted_mean(error.square(), batch.weight)
        return Loss(loss, {"loss": loss.detach()})


class RecurrentQ(Agent):
    name = "recurrent_q"
