"""PPO with one small network that is shared by all suspicious statements."""

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
# Of the first policy's scores: episodes go on, and trials are made in the order of suspicion, so that it is seen what they lead to.
ENDING, ASKING = -3.0, -1.5  # for actions that end an episode, and for questions
SUSPICION = -0.3  # for each statement that is more suspicious
GAIN = 3.0  # for an edit that makes the program as much more usual as can be


class TaskEncoder(nn.Module):
    """Encoder of the whole task, of each statement in view of the whole, and of gains of edits: [rows, WIDTH * (1 +
    slots) + trials]."""

    def __init__(self, space: Space) -> None:
        super().__init__()
        assert isinstance(space, Dict)
        self.names = [name for name in space.spaces if name not in ("slots", "edits", "action_mask")]
        outer = sum(space.spaces[name].size for name in self.names) + rules.INSPECT
        self.slot = nn.Sequential(nn.Linear(rules.SLOT_FEATURES + 2 * NUM_KINDS + NUM_SLOTS, WIDTH), nn.ReLU())
        self.whole = nn.Sequential(nn.Linear(outer + 2 * WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU())
        self.joint = nn.Sequential(nn.Linear(2 * WIDTH, WIDTH), nn.ReLU())
        self.features_dim = WIDTH * (1 + NUM_SLOTS) + NUM_SLOTS * NUM_KINDS
        self.register_buffer("rank", torch.eye(NUM_SLOTS), persistent=False)

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        seen = obs["slots"].unflatten(-1, (NUM_SLOTS, rules.SLOT_FEATURES))
        open_kinds = obs["action_mask"][..., rules.TRY :].unflatten(-1, (NUM_SLOTS, NUM_KINDS)).to(seen.dtype)
        rank = self.rank.expand(*seen.shape[:-1], NUM_SLOTS)
        gains = obs["edits"].unflatten(-1, (NUM_SLOTS, NUM_KINDS))
        slots = self.slot(torch.cat([seen, open_kinds, gains, rank], -1))
        allowed = obs["action_mask"][..., : rules.INSPECT].to(seen.dtype)
        outer = torch.cat([*(obs[name] for name in self.names), allowed], -1)
        whole = self.whole(torch.cat([outer, slots.mean(-2), slots.amax(-2)], -1))
        joint = self.joint(torch.cat([slots, whole.unsqueeze(-2).expand_as(slots)], -1))
        return torch.cat([whole, joint.flatten(-2), obs["edits"]], -1)


class PointerHead(ActionHead):
    """Head that scores general actions from the features of the whole, and actions on a statement from the features of
    that statement."""

    def __init__(self, space: Space) -> None:
        super().__init__(1, (), space)
        del self.net
        self.general = nn.Linear(WIDTH, rules.INSPECT)
        self.own = nn.Linear(WIDTH, 1 + NUM_KINDS)
        self.gain = nn.Parameter(torch.tensor(GAIN))  # one for all kinds, so that it holds for kinds that seldom help
        self.rank = nn.Parameter(SUSPICION * torch.arange(NUM_SLOTS, dtype=torch.float32).unsqueeze(-1))
        for layer in (self.general, self.own):
            nn.init.orthogonal_(layer.weight, 0.01)
            nn.init.zeros_(layer.bias)
        with torch.no_grad():
            self.general.bias[[rules.SUBMIT, rules.ESCALATE, rules.STOP]] = ENDING
            self.general.bias[rules.ASK : rules.INSPECT] = ASKING

    def forward(self, features: Tensor, mask: Tensor | None) -> Categorical:
        whole, slots, gains = features.split([WIDTH, WIDTH * NUM_SLOTS, NUM_SLOTS * NUM_KINDS], -1)
        own = self.own(slots.unflatten(-1, (NUM_SLOTS, WIDTH))) + self.rank
        logits = torch.cat([self.general(whole), own[..., 0], own[..., 1:].flatten(-2) + self.gain * gains], -1)
        return Categorical.from_logits(logits, mask)


class PointerPPOAlgorithm(PPOAlgorithm):
    """PPO for software tasks: its policy ends in a PointerHead, and the preset gives it a TaskEncoder."""

    def build_head(self, inputs: int) -> ActionHead:
        return PointerHead(self.spec.action)


register_algorithm(NAME, PointerPPOAlgorithm, PPOConfig, "PPO for software tasks: one network for all statements.")
