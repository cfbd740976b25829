"""Seconds that compiling takes on the CPU with an empty cache, for the presets of PPO, DQN and SAC.

python benchmarks/compile_time.py [--repeats 3]

Every call is a process of its own with a new cache folder. It trains a preset, in which only the budget and the step of the
first update are smaller, until it has taken two updates, and takes from that the time of the same run without
compilation. Wall seconds, and CPU seconds with those of child processes: the C++ compiler. Imports that the compiler needs
are counted, those of torch are not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from plain_learn import cpu_seconds

HERE = Path(__file__).parent
PRESETS = {
    "ppo/cartpole": ("training.total_timesteps=512",),
    "dqn/cartpole": ("training.total_timesteps=320", "experience.learning_starts=300"),
    "sac/halfcheetah": ("training.total_timesteps=128", "experience.learning_starts=120"),
}
ALONE = ("evaluation.interval=0", "training.threads=1")


def train(preset: str, *, compiled: bool) -> dict[str, float]:
    """Trains in this process; returns its seconds."""
    from rl_training.api import Agent
    from rl_training.config import RunConfig, load_config_values
    from rl_training.config.overrides import apply_override

    values = load_config_values(preset)
    for assignment in (*PRESETS[preset], *ALONE, f"training.compile={str(compiled).lower()}"):
        values = apply_override(values, assignment)
    agent = Agent(RunConfig.from_mapping(values))
    wall, cpu = time.perf_counter(), cpu_seconds()
    agent.learn(progress=False)
    return {"wall_s": time.perf_counter() - wall, "cpu_s": cpu_seconds() - cpu}


def call(preset: str, mode: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        # TMPDIR, too: torch keeps precompiled headers there.
        environment = os.environ | {"RL_TRAINING_CACHE": folder, "TMPDIR": folder, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, __file__, "--only", preset, mode]
        done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "compile_time.json")
    parser.add_argument(
        "--only", nargs=2, metavar=("PRESET", "MODE"), help="one run, compiled or eager, in this process"
    )
    chosen = parser.parse_args()
    if chosen.only:
        print(json.dumps(train(chosen.only[0], compiled=chosen.only[1] == "compiled")))
        return
    results = {}
    for preset in PRESETS:
        rows = []
        for _ in range(chosen.repeats):
            compiled, eager = call(preset, "compiled"), call(preset, "eager")
            rows.append({unit: round(compiled[unit] - eager[unit], 2) for unit in ("wall_s", "cpu_s")})
            rows[-1]["load"] = round(os.getloadavg()[0], 1)
            print(preset, rows[-1], flush=True)
        results[preset] = rows
    results["measured"] = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    chosen.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
