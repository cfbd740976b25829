"""Environment steps per second of one core on compiled tasks, with observations and masks: eager, and compiled.

OMP_NUM_THREADS=1 python benchmarks/sage/sim_steps.py --tables tables.npz [--out results/sim_steps.json]

Steps are divided by processor time, so that other work on the machine does not count. Actions are drawn outside the time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from rl_training.experiment.run_directory import collect_metadata, write_atomically
from sage.sim.environment.dynamics import SoftwareTaskDynamics
from sage.sim.environment.packed import load_packed

NUM_ENVS, STEPS, REPEATS = 1024, 40, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "sim_steps.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dynamics = SoftwareTaskDynamics(load_packed(options.tables).of_split("train"))

    def advance(state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        after, reward, terminated = dynamics.step(state, action)
        fresh = dynamics.initial(torch.rand(NUM_ENVS, dynamics.num_random))
        state = torch.where(terminated.unsqueeze(-1), fresh, after)
        return state, reward, dynamics.observe(state)

    rates = {"eager": measured(dynamics, advance), "compiled": measured(dynamics, torch.compile(advance))}
    record = {
        "environments": NUM_ENVS,
        "steps_per_second": rates,
        "metadata": collect_metadata() | {"command": "benchmarks/sage/sim_steps.py"},
    }
    write_atomically(options.out, json.dumps(record, indent=1) + "\n")
    for name, found in rates.items():
        print(f"{name}: {statistics.median(found):,.0f} steps/s ({min(found):,.0f} to {max(found):,.0f})")


def measured(dynamics: SoftwareTaskDynamics, advance: Callable) -> list[float]:
    state = dynamics.initial(torch.rand(NUM_ENVS, dynamics.num_random))
    obs, found = dynamics.observe(state), []
    for _ in range(REPEATS + 1):  # the first compiles
        spent = 0.0
        for _ in range(STEPS):
            action = torch.multinomial(obs["action_mask"].float(), 1).squeeze(-1)
            start = time.process_time()
            state, _, obs = advance(state, action)
            spent += time.process_time() - start
        found.append(round(NUM_ENVS * STEPS / spent, 1))
    return found[1:]


if __name__ == "__main__":
    main()
