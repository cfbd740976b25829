"""Updates per second of d3rlpy from data; run in an environment that has it, asked as in `protocol.py`."""

import d3rlpy
import numpy as np
import torch
from d3rlpy.algos import CQLConfig, IQLConfig, TD3PlusBCConfig
from d3rlpy.dataset import MDPDataset
from d3rlpy.logging import NoopAdapterFactory
from d3rlpy.models.encoders import VectorEncoderFactory
from d3rlpy.preprocessing import StandardObservationScaler
from protocol import Learn, serve

KINDS = {"IQL": IQLConfig, "TD3BC": TD3PlusBCConfig, "CQL": CQLConfig}


def build(work: dict) -> Learn:
    torch.set_num_threads(work["threads"])
    kind, dataset = KINDS[work["algorithm"]], synthetic(work["data"])
    names = [name for name in kind.__dataclass_fields__ if name.endswith("encoder_factory")]
    networks = {name: VectorEncoderFactory(work["net_arch"]) for name in names}
    scaler = StandardObservationScaler() if work.get("normalize_observation") else None
    alpha = {"alpha_learning_rate": 0.0} if work["algorithm"] == "CQL" else {}  # a fixed weight of the penalty
    config = kind(batch_size=work["batch_size"], observation_scaler=scaler, **networks, **alpha)
    algo = config.create(device=False)

    def learn(num_updates: int) -> None:
        quiet = {"logger_adapter": NoopAdapterFactory(), "show_progress": False}
        algo.fit(dataset, n_steps=num_updates, n_steps_per_epoch=num_updates, **quiet)

    return learn


def synthetic(sizes: dict[str, int]) -> MDPDataset:
    """Returns random steps in episodes of the same length, none of which ends in a terminal state."""
    rng, rows = np.random.default_rng(0), sizes["rows"]
    return MDPDataset(
        observations=rng.standard_normal((rows, sizes["obs_size"]), dtype=np.float32),
        actions=rng.uniform(-1, 1, (rows, sizes["action_size"])).astype(np.float32),
        rewards=rng.standard_normal(rows, dtype=np.float32),
        terminals=np.zeros(rows, dtype=np.float32),
        timeouts=(np.arange(rows) % sizes["episode_length"] == sizes["episode_length"] - 1).astype(np.float32),
    )


if __name__ == "__main__":
    serve(dict.fromkeys(KINDS, build), {"d3rlpy": d3rlpy.__version__})
