"""Small datasets of every kind."""

from __future__ import annotations

import numpy as np

from rl_training.core import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Spec
from rl_training.data import Dataset, Provenance, ReferenceScore
from rl_training.data.columns import Arrays, leaves

LENGTHS = (4, 1, 13, 5)
TERMINATED = (True, True, False, False)

SPACES: dict[str, Space] = {
    "box": Box((3,), (-np.inf,) * 3, (np.inf,) * 3),
    "image": Box((4, 5, 2), (0.0,) * 40, (255.0,) * 40, "uint8"),
    "discrete": Discrete(5),
    "dict": Dict({"position": Box((2,), (-9.0,) * 2, (9.0,) * 2), "grid": Discrete(7), "action_mask": MultiBinary(4)}),
}
ACTIONS: dict[str, Space] = {
    "box": Box((2,), (-2.0, -1.0), (2.0, 1.0)),
    "discrete": Discrete(4),
    "shifted": Discrete(4, start=-1),
    "several": MultiDiscrete((3, 2)),
    "bits": MultiBinary(3),
}
PROVENANCE = Provenance(
    source="tests", env_id="Test-v0", method="drawn at random", versions={"numpy": "2"}, seed=3, synthetic=True
)


def draw(space: Space, rows: int, rng: np.random.Generator) -> Arrays:
    match space:
        case Dict():
            return {key: draw(leaf, rows, rng) for key, leaf in space.spaces.items()}
        case Box(dtype="uint8"):
            return rng.integers(0, 256, (rows, *space.shape), np.uint8)
        case Box():
            return rng.uniform(-1, 1, (rows, *space.shape)).astype(np.float32)
        case Discrete():
            return rng.integers(space.start, space.start + space.num, rows)
        case MultiDiscrete():
            return rng.integers(0, space.nums, (rows, len(space.nums)))
        case MultiBinary():
            return rng.integers(0, 2, (rows, space.num))


def make(
    obs: str = "box",
    action: str = "box",
    *,
    stored: bool = False,
    log_prob: bool = False,
    extras: bool = False,
    lengths: tuple[int, ...] = LENGTHS,
    terminated: tuple[bool, ...] = TERMINATED,
    seed: int = 0,
) -> Dataset:
    """Episodes of the given lengths; those that do not terminate are cut."""
    rng = np.random.default_rng(seed)
    rows, stop = sum(lengths), np.cumsum(lengths)
    ended, cut = np.zeros((2, rows), bool)
    ended[stop - 1], cut[stop - 1] = terminated, ~np.array(terminated)
    spec = Spec(SPACES[obs], ACTIONS[action])
    dataset = Dataset.from_arrays(
        obs=draw(spec.obs, rows, rng),
        action=draw(spec.action, rows, rng),
        reward=rng.normal(size=rows).astype(np.float32),
        terminated=ended,
        truncated=cut,
        last_obs=draw(spec.obs, len(lengths), rng),
        log_prob=-rng.exponential(size=rows).astype(np.float32) if log_prob else None,
        extras={"cost": rng.normal(size=(rows, 2, 3)), "task": rng.integers(0, 9, rows, np.int16)} if extras else None,
        spec=spec,
        provenance=PROVENANCE,
        reference=ReferenceScore(-10.0, 90.0, "made up"),
    )
    return with_stored_successors(dataset) if stored else dataset


def with_stored_successors(dataset: Dataset) -> Dataset:
    columns = dataset.columns._replace(next_obs=dataset.successors(np.arange(len(dataset))), last_obs=None)
    return Dataset(columns, dataset.spec, dataset.provenance, dataset.reference)


def count_up(lengths: tuple[int, ...] = (3, 2), terminated: tuple[bool, ...] = (True, False)) -> Dataset:
    """Row i observes i and is rewarded with i + 1; the last observation of episode e is 100 + e."""
    rows, stop = sum(lengths), np.cumsum(lengths)
    ended, cut = np.zeros((2, rows), bool)
    ended[stop - 1], cut[stop - 1] = terminated, ~np.array(terminated)
    return Dataset.from_arrays(
        obs=np.arange(rows)[:, None].astype(np.float32),
        action=np.arange(rows) % 4,
        reward=np.arange(1, rows + 1),
        terminated=ended,
        truncated=cut,
        last_obs=100 + np.arange(len(lengths))[:, None].astype(np.float32),
        spec=Spec(Box((1,), (-np.inf,), (np.inf,)), Discrete(4)),
    )


def flat_obs(dataset: Dataset) -> dict[str, np.ndarray]:
    return leaves("obs", dataset.obs)
