"""Multi-agent PPO: PPO for teams with critics that see the global state (Yu et al., 2022, arXiv:2103.01955)."""

from __future__ import annotations

from dataclasses import dataclass

from rl_training.algorithms.ippo import TeamPPOAlgorithm, TeamPPOConfig
from rl_training.core.registry import register


@dataclass(frozen=True, kw_only=True)
class MAPPOConfig(TeamPPOConfig):
    """MAPPO's settings: those of IPPO."""


class MAPPOAlgorithm(TeamPPOAlgorithm[MAPPOConfig]):
    """MAPPO: agents act on what they observe; their critics see that, the agent's number and the global state."""

    needs_state = True


register("mappo", MAPPOAlgorithm, MAPPOConfig, "PPO for teams, with critics that see the global state.")
