"""Whether a run is the same to the last bit whoever steps its environments: a hash of all parameters for each setup.

python benchmarks/scale/exactness.py                      # writes benchmarks/results/scale/exactness.json
python benchmarks/scale/exactness.py --only CartPole      # some of the cells, printed alone
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from pathlib import Path

import ray
from machine import described

import rl_training
from rl_training import Agent, Callback
from rl_training.distributed import ray_engine
from rl_training.experiment.run_directory import write_atomically

OUT = Path(__file__).parents[1] / "results" / "scale" / "exactness.json"
COMMON = {"n_envs": 8, "seed": 1, "threads": 1, "compile": False, "checkpoint": {"interval": 10**9}}
ROLLOUT = COMMON | {"n_steps": 16, "batch_size": 32, "n_epochs": 2, "total_timesteps": 20 * 16 * 8}
REPLAY = COMMON | {
    "learning_starts": 400, "train_freq": 8, "gradient_steps": 1, "buffer_size": 2_000, "batch_size": 64,
    "total_timesteps": 1_600,
}  # fmt: skip
CELLS = {
    "PPO CartPole-v1": ROLLOUT,
    "PPO HalfCheetah-v5": ROLLOUT,
    "RecurrentPPO CartPole-v1": ROLLOUT | {"lstm_hidden_size": 32},
    "RecurrentPPO HalfCheetah-v5": ROLLOUT | {"lstm_hidden_size": 32},
    "DiscreteSAC CartPole-v1": REPLAY,
    "SAC HalfCheetah-v5": REPLAY,
}
SETUPS = {
    "one process": {"workers": 1},
    "2 workers": {"workers": 2},
    "4 workers": {"workers": 4},
    "2 workers, one killed in the middle": {"workers": 2},
    "2 workers, paused, 4 workers": {"workers": 2},
    "2 Ray actors": {"workers": 2, "engine": "ray"},
}


class KillOne(Callback):
    """Ends a sampler's process once."""

    interval = 800

    def __init__(self) -> None:
        self.done = False

    def on_interval(self, trainer: rl_training.runtime.Trainer) -> None:
        if not self.done:
            self.done = True
            trainer.collector.env.pool.engine.processes[1].kill()


def digest(agent: Agent) -> str:
    """Of everything that the algorithm holds: networks, targets, optimizers, statistics."""
    found = hashlib.sha256()
    for name, value in (*agent.algorithm.named_parameters(), *agent.algorithm.named_buffers()):
        found.update(name.encode() + value.detach().contiguous().numpy().tobytes())
    return found.hexdigest()[:16]


def run(cell: str, setup: str, folder: Path) -> str:
    name, env = cell.split()
    agent = getattr(rl_training, name)(env, **CELLS[cell], sampling=SETUPS[setup], run_dir=folder)
    if "paused" in setup:
        agent.learn(stop_at=CELLS[cell]["total_timesteps"] // 2 + 24, progress=False)
        agent.close()
        agent = Agent.resume(folder, sampling={"workers": 4})
    killer = KillOne()
    agent.learn(progress=False, callbacks=[killer] if "killed" in setup else [])
    assert killer.done or "killed" not in setup
    agent.close()
    return digest(agent)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cells whose name has this in it; nothing is written")
    only = parser.parse_args().only
    rows = {}
    ray_engine.start_local(ray, 2)  # one cluster for all cells
    for cell in (cell for cell in CELLS if only in cell):
        with tempfile.TemporaryDirectory() as folder:
            rows[cell] = {setup: run(cell, setup, Path(folder) / str(i)) for i, setup in enumerate(SETUPS)}
        print(cell, "equal" if len(set(rows[cell].values())) == 1 else "NOT EQUAL", rows[cell], flush=True)
        if not only:
            write_atomically(OUT, json.dumps({"machine": described(), "hashes": rows}, indent=1) + "\n")
    return int(any(len(set(row.values())) > 1 for row in rows.values()))


if __name__ == "__main__":
    raise SystemExit(main())
