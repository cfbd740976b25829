"""Recurrent cores: memory between observations and actions."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from rl_training.core.policy import Memory


class RecurrentCore(nn.Module):
    """An LSTM or a GRU. Its memory is a tuple of [batch, layers, hidden], so that rows are environments."""

    def __init__(
        self,
        inputs: int,
        hidden: int,
        *,
        layers: int = 1,
        cell: Literal["lstm", "gru"] = "lstm",
        ortho_init: bool = True,
    ) -> None:
        super().__init__()
        self.cell, self.features_dim, self.num_layers = cell, hidden, layers
        self.rnn = (nn.LSTM if cell == "lstm" else nn.GRU)(inputs, hidden, layers)
        for name, parameter in self.rnn.named_parameters():
            if ortho_init and "weight" in name:
                nn.init.orthogonal_(parameter)
            elif ortho_init:
                nn.init.zeros_(parameter)
        self.weights = self.rnn.all_weights  # by layer; a step reads them here because nn.LSTM itself does not compile

    def initial(self, num: int) -> Memory:
        """Returns zero memory for `num` rows: a tuple of [num, layers, hidden], two for an LSTM and one for a GRU."""
        zeros = self.weights[0][0].new_zeros(num, self.num_layers, self.features_dim)
        return (zeros, zeros.clone()) if self.cell == "lstm" else (zeros,)

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        """Returns outputs [time, batch, hidden] of whole sequences [time, batch, features] that go on from `memory`."""
        states = [part.transpose(0, 1).contiguous() for part in memory]
        return self.rnn(x, tuple(states) if self.cell == "lstm" else states[0])[0]

    def advance(self, x: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """Returns the output [batch, hidden] of one step on [batch, features], and the new memory."""
        layers: list[Memory] = []
        for index, weights in enumerate(self.weights):
            state = tuple(part[:, index] for part in memory)
            new = (
                torch.lstm_cell(x, state, *weights) if self.cell == "lstm" else (torch.gru_cell(x, state[0], *weights),)
            )
            x = new[0]
            layers.append(tuple(new))
        return x, tuple(torch.stack(parts, 1) for parts in zip(*layers, strict=True))


def forget(memory: Memory, first: Tensor | None) -> Memory:
    """Returns memory, tensors [batch, ...], with zeros in rows where `first` [batch] is True; None marks none."""
    if first is None:
        return memory
    return tuple(torch.where(first.view(-1, *[1] * (part.ndim - 1)), 0.0, part) for part in memory)
