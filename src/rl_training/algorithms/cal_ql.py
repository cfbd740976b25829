"""Calibrated Q-learning (Nakamoto et al., 2023, arXiv:2303.05479): CQL, but no value sinks below the data's returns."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rl_training.algorithms.cql import CQLAlgorithm, CQLConfig
from rl_training.core import Column, Metrics, StepBatch, register
from rl_training.functional import weighted_mean

RETURN_TO_GO = "return_to_go"


@dataclass(frozen=True, kw_only=True)
class CalQLConfig(CQLConfig):
    """Cal-QL's settings, the same as those of CQL."""


class CalQLAlgorithm(CQLAlgorithm):
    """Cal-QL: CQL whose penalty counts values of the policy's actions as no lower than the data's returns."""

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*super().columns, Column(RETURN_TO_GO, source="episode"))

    def compared(self, drawn_q: Tensor, batch: StepBatch) -> tuple[Tensor, Metrics]:
        bound = batch.columns[RETURN_TO_GO].unsqueeze(-1)
        by_policy, uniform = drawn_q.split([2 * self.config.n_actions, self.config.n_actions], -1)
        bounded = (by_policy < bound).to(bound.dtype).mean((0, 2))
        metrics = {"bound_rate": weighted_mean(bounded, batch.weight)}
        return torch.cat([torch.maximum(by_policy, bound), uniform], -1), metrics


register("cal_ql", CalQLAlgorithm, CalQLConfig, "CQL calibrated by the data's returns, for fine-tuning.")
