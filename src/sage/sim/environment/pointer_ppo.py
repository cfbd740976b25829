"""PPO whose policy looks at every suspicious statement with the same eyes: one small network for all of them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rl_training.algorithms.ppo import PPOAlgorithm, PPOConfig
from rl_training.core import Dict, Space
from rl_training.extending import register_algorithm
from rl_training.functional import Categorical
from rl_training.models import ActionHead
from sage.sim.environment import rules
from sage.sim.environment.suspects import NUM_KINDS, NUM_SLOTS

NAME = "pointer_ppo"
WIDTH = 64
ENDING = -3.0  # of the first policy's scores: for actions that end an episode


class TaskEncoder(nn.Module):
    """Features of the whole, and of each statement in view of the whole: [rows, WIDTH * (1 + slots)]."""

    def __init__(self, space: Space) -> None:
        super().__init__()
        assert isinstance(space, Dict)
        self.names = [name for name in space.spaces if name not in ("slots", "action_mask")]
        outer = sum(space.spaces[name].size for name in self.names) + rules.INSPECT
        self.slot = nn.Sequential(nn.Linear(rules.SLOT_FEATURES + NUM_KINDS + NUM_SLOTS, WIDTH), nn.ReLU())
        self.whole = nn.Sequential(nn.Linear(outer + 2 * WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU())
        self.joint = nn.Sequential(nn.Linear(2 * WIDTH, WIDTH), nn.ReLU())
        self.features_dim = WIDTH * (1 + NUM_SLOTS)
        self.register_buffer("rank", torch.eye(NUM_SLOTS), persistent=False)

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        seen = obs["slots"].unflatten(-1, (NUM_SLOTS, rules.SLOT_FEATURES))
        open_kinds = obs["action_mask"][..., rules.TRY :].unflatten(-1, (NUM_SLOTS, NUM_KINDS)).to(seen.dtype)
        rank = self.rank.expand(*seen.shape[:-1], NUM_SLOTS)
        slots = self.slot(torch.cat([seen, open_kinds, rank], -1))
        allowed = obs["action_mask"][..., : rules.INSPECT].to(seen.dtype)
        outer = torch.cat([*(obs[name] for name in self.names), allowed], -1)
        whole = self.whole(torch.cat([outer, slots.mean(-2), slots.amax(-2)], -1))
        joint = self.joint(torch.cat([slots, whole.unsqueeze(-2).expand_as(slots)], -1))
        return torch.cat([whole, joint.flatten(-2)], -1)


class PointerHead(ActionHead):
    """Scores of the general actions from the whole, of what is done to a statement from that statement."""

    def __init__(self, space: Space) -> None:
        super().__init__(1, (), space)
        del self.net
        self.general = nn.Linear(WIDTH, rules.INSPECT)
        self.own = nn.Linear(WIDTH, 1 + NUM_KINDS)
        for layer in (self.general, self.own):
            nn.init.orthogonal_(layer.weight, 0.01)
            nn.init.zeros_(layer.bias)
        with torch.no_grad():  # at first episodes go on, so that it is seen what trials lead to
            self.general.bias[[rules.SUBMIT, rules.ESCALATE, rules.STOP]] = ENDING

    def forward(self, features: Tensor, mask: Tensor | None) -> Categorical:
        whole, slots = features[..., :WIDTH], features[..., WIDTH:].unflatten(-1, (NUM_SLOTS, WIDTH))
        own = self.own(slots)
        logits = torch.cat([self.general(whole), own[..., 0], own[..., 1:].flatten(-2)], -1)
        return Categorical.from_logits(logits, mask)


class PointerPPOAlgorithm(PPOAlgorithm):
    """PPO with the encoder and the head above; the value is of the whole."""

    def build_head(self, inputs: int) -> ActionHead:
        return PointerHead(self.spec.action)


register_algorithm(NAME, PointerPPOAlgorithm, PPOConfig, "PPO for software tasks: one network for all statements.")
