"""One seed, independent random streams: what one part draws never shifts another."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


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

    def of_rank(self, rank: int) -> Streams:
        """Returns the seeds of a rank: its own for what is drawn row by row. Rank 0 has those of a single process."""
        if rank == 0:
            return self
        own = {name: derived(getattr(self, name), rank) for name in ("training", "order", "data")}
        return replace(self, **own)

    def envs_of(self, env_key: str) -> int:
        """Returns the seed of the environments with this key (`Phase.env_key`); most runs have only the key ""."""
        return derived(self.envs, *env_key.encode()) if env_key else self.envs

    def evaluation_at(self, timesteps: int) -> int:
        """Returns the seed of the evaluation at a step: stateless, so a resumed run evaluates on the same episodes."""
        return derived(self.evaluation, timesteps)


def derived(*numbers: int) -> int:
    """Derives a seed from some numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])
