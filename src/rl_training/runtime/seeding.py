"""One seed, independent random streams: what one part draws never shifts another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

RandomState = dict[str, Tensor]  # of torch's own generators: the host's and, on a GPU, the device's


@dataclass(frozen=True)
class Streams:
    """Seeds derived from the run's seed."""

    network: int
    training: int
    order: int
    envs: int
    evaluation: int
    data: int

    @classmethod
    def from_seed(cls, seed: int) -> Streams:
        return cls(*(int(part.generate_state(1)[0]) for part in np.random.SeedSequence(seed).spawn(6)))

    def envs_of(self, place: str) -> int:
        """The seed of the environments of a place; "" is that of most runs, which have no other."""
        if not place:
            return self.envs
        return int(np.random.SeedSequence([self.envs, *place.encode()]).generate_state(1)[0])

    def evaluation_at(self, timesteps: int) -> int:
        """The seed of the evaluation at a step: stateless, so a resumed run evaluates on the same episodes."""
        return int(np.random.SeedSequence([self.evaluation, timesteps]).generate_state(1)[0])


def seeded_rng(seed: int, device: torch.device) -> RandomState:
    rng = {"cpu": torch.Generator().manual_seed(seed).get_state()}
    if device.type == "cuda":
        rng["cuda"] = torch.Generator(device).manual_seed(seed).get_state()
    return rng


def get_rng(device: torch.device) -> RandomState:
    rng = {"cpu": torch.get_rng_state()}
    return rng | {"cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else rng


def set_rng(rng: RandomState, device: torch.device) -> None:
    torch.set_rng_state(rng["cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(rng["cuda"], device)


def checked_rng(rng: RandomState, device: torch.device) -> RandomState:
    """Random numbers that a file holds, if generators can go on from them."""
    torch.Generator().set_state(rng["cpu"])
    if device.type == "cuda" and "cuda" in rng:  # not where it was trained on the host until now
        torch.Generator(device).set_state(rng["cuda"])
    return rng


class OwnStream:
    """Random numbers apart from those of a run that goes on: what is drawn from here changes nothing there."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.state: RandomState = {}

    @contextmanager
    def used(self, device: torch.device) -> Iterator[None]:
        outside = get_rng(device)
        set_rng(seeded_rng(self.seed, device) | self.state, device)
        try:
            yield
        finally:
            self.state = get_rng(device)
            set_rng(outside, device)
