"""Independent seeds for the parts of a run: the draws of one part never shift those of another."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Streams:
    """Integer seeds for the parts of a run, such as network and environments, independent of each other."""

    network: int
    training: int
    order: int
    envs: int
    evaluation: int
    data: int

    @classmethod
    def from_seed(cls, seed: int) -> Streams:
        return cls(*(int(part.generate_state(1)[0]) for part in np.random.SeedSequence(seed).spawn(6)))

    def of_rank(self, rank: int) -> Streams:
        """Returns the seeds of one rank (process): `training`, `order` and `data` are its own; unchanged for rank 0."""
        if rank == 0:
            return self
        own = {name: derived(getattr(self, name), rank) for name in ("training", "order", "data")}
        return replace(self, **own)

    def envs_of(self, env_key: str) -> int:
        """Returns the seed of the environments with this `Phase.env_key`; for "", the usual key, it is `envs`."""
        return derived(self.envs, *env_key.encode()) if env_key else self.envs

    def evaluation_at(self, timesteps: int) -> int:
        """Returns the seed of the evaluation at a step, the same in a resumed run, which sees the same episodes."""
        return derived(self.evaluation, timesteps)


def derived(*numbers: int) -> int:
    """Returns a seed that depends on the given numbers alone."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])
