"""QMIX: the team's value is a monotonic function of its agents', made by the state (Rashid et al., arXiv:1803.11485)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_training.algorithms.vdn import MixedQAlgorithm, VDNConfig
from rl_training.core import Dict, register
from rl_training.core.ranges import Count
from rl_training.models import MLP


@dataclass(frozen=True, kw_only=True)
class QMIXConfig(VDNConfig):
    """QMIX's settings: VDN's, and the widths of the mixer."""

    mixing_width: Count = 32  # units of the mixing network's hidden layer
    hyper_width: Count = 64  # units of the networks that make its weights from the state


class MonotonicMixer(nn.Module):
    """A network that mixes agents' values; its weights come from the state and are never negative."""

    def __init__(self, num_agents: int, state_size: int, width: int, hyper_width: int) -> None:
        super().__init__()
        self.num_agents, self.width = num_agents, width
        self.first, self.last = (
            MLP(state_size, (hyper_width,), outputs, activation_fn="relu", ortho_init=False)
            for outputs in (num_agents * width, width)
        )
        self.bias = nn.Linear(state_size, width)
        self.value = MLP(state_size, (width,), 1, activation_fn="relu", ortho_init=False)

    def forward(self, q: Tensor, state: Tensor | None) -> Tensor:
        assert state is not None
        state = state.flatten(1)
        first = self.first(state).abs().unflatten(-1, (self.num_agents, self.width))
        hidden = F.elu(torch.einsum("ba,baw->bw", q, first) + self.bias(state))
        return (hidden * self.last(state).abs()).sum(-1) + self.value(state).squeeze(-1)


class QMIXAlgorithm(MixedQAlgorithm[QMIXConfig]):
    """QMIX: VDN with a mixing network, so that an agent's value may count more in one state than in another."""

    needs_state = True

    def build_mixer(self) -> MonotonicMixer:
        c = self.config
        assert isinstance(self.spec.obs, Dict)
        state = self.spec.obs.spaces["state"]
        return MonotonicMixer(len(self.spec.agents), state.size, c.mixing_width, c.hyper_width)


register("qmix", QMIXAlgorithm, QMIXConfig, "Q-learning for teams: the team's value is monotonic in its agents'.")
