"""Small logs for the tests of off-policy evaluation."""

import numpy as np

from rl_base.evaluation import BanditLog, EpisodeLog


def make_bandit(num_rows: int = 300, *, seed: int = 0, clustered: bool = False, **changes: object) -> BanditLog:
    """Three actions, two features, rewards in [0, 1]; clustered: three rows per cluster."""
    rng = np.random.default_rng(seed)
    propensities = 0.5 / 3 + 0.5 * rng.dirichlet(np.full(3, 4.0), size=num_rows)
    actions = (rng.random((num_rows, 1)) > propensities.cumsum(axis=1)).sum(axis=1).clip(max=2)
    features = rng.normal(size=(num_rows, 2))
    rewards = 1 / (1 + np.exp(-(features[:, 0] + 0.5 * actions - 0.5 + 0.3 * rng.normal(size=num_rows))))
    fields = {"actions": actions, "rewards": rewards, "propensities": propensities, "features": features}
    if clustered:
        fields["clusters"] = np.arange(num_rows) // 3
    return BanditLog(**(fields | changes))


def make_target(log: BanditLog, seed: int = 1) -> np.ndarray:
    """Some policy's probabilities on the log's rows."""
    return np.random.default_rng(seed).dirichlet(np.full(log.propensities.shape[1], 4.0), size=len(log.rewards))


def make_episodes(
    num_episodes: int = 120, *, seed: int = 0, gamma: float = 0.9, **changes: object
) -> tuple[EpisodeLog, np.ndarray]:
    """Episodes of one to six steps, and some policy's probabilities of the actions taken."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 7, size=num_episodes)
    steps = int(lengths.sum())
    fields = {
        "episodes": np.repeat(np.arange(num_episodes), lengths),
        "rewards": rng.normal(size=steps),
        "propensities": rng.uniform(0.5, 0.9, size=steps),
        "gamma": gamma,
    }
    return EpisodeLog(**(fields | changes)), rng.uniform(0.5, 0.9, size=steps)
