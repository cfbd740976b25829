"""MAPPO with memory: recurrent policies of what agents observe, and recurrent critics that see the global state too."""

from __future__ import annotations

from dataclasses import dataclass

from rl_training.algorithms.recurrent_ippo import RecurrentTeamPPOAlgorithm, RecurrentTeamPPOConfig
from rl_training.core.registry import register


@dataclass(frozen=True, kw_only=True)
class RecurrentMAPPOConfig(RecurrentTeamPPOConfig):
    """RecurrentMAPPO's settings: those of RecurrentIPPO."""


class RecurrentMAPPOAlgorithm(RecurrentTeamPPOAlgorithm[RecurrentMAPPOConfig]):
    """MAPPO with memory, in policies and in critics."""

    needs_state = True


register("recurrent_mappo", RecurrentMAPPOAlgorithm, RecurrentMAPPOConfig, "MAPPO with an LSTM or GRU.")
