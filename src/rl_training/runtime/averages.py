"""Means of metrics over many updates, kept on the device and in little memory."""

from __future__ import annotations

import torch
from torch import Tensor

from rl_training.core import Metrics

MANY = 256  # updates whose metrics are kept apart: small tensors that stay between large ones make memory grow


class Averages:
    """Adds up what was said of updates; a metric that some of them lack is averaged over the others."""

    def __init__(self) -> None:
        self.sums: dict[str, Tensor] = {}
        self.counts: dict[str, int] = {}

    def add(self, history: list[Metrics]) -> None:
        for name in dict.fromkeys(name for metrics in history for name in metrics):
            column = [metrics[name] for metrics in history if name in metrics]
            total = column[0] if len(column) == 1 else torch.stack(column).sum()
            self.sums[name] = self.sums[name] + total if name in self.sums else total
            self.counts[name] = self.counts.get(name, 0) + len(column)

    def pop(self) -> Metrics:
        """The means, once."""
        means = {
            name: total / count if (count := self.counts[name]) > 1 else total for name, total in self.sums.items()
        }
        self.sums, self.counts = {}, {}
        return means


def read(metrics: Metrics) -> dict[str, float]:
    """The numbers; a device is waited for once, not once for each."""
    alike: dict[tuple, list[str]] = {}
    for name, value in metrics.items():
        alike.setdefault((value.device, value.dtype), []).append(name)
    numbers: dict[str, float] = {}
    for names in alike.values():
        column = torch.stack([metrics[name].reshape(()) for name in names]).tolist()
        numbers |= zip(names, map(float, column), strict=True)
    return {name: numbers[name] for name in metrics}
