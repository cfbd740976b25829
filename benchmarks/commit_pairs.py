"""How fast one commit trains beside another: measured in turns, reported as ratios.

.venv/bin/python benchmarks/commit_pairs.py OLD NEW [--cells PPO SAC] [--starts 5] [--pairs 5] [--compile] [--core 0]
.venv/bin/python benchmarks/commit_pairs.py OLD NEW --cells PPO-cuda --compile     # native environments on a GPU

OLD and NEW are commits of this repository, or folders with their `src`. For each cell both run in a process of their own on
one core, warmed up, and take turns; a pair is one measurement of each. Both are started anew several times, because one
start of the same code is faster than another by more than what is to be seen. Results: results/commit_pairs.txt.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
SMALL = {"net_arch": [64, 64], "batch_size": 64, "buffer_size": 20_000}
ON_GPU = {
    "backend": "native",
    "n_envs": 4_096,
    "n_steps": 32,
    "batch_size": 32_768,
    "n_epochs": 4,
    "net_arch": [64, 64],
}
ON_GPU |= {"device": "cuda", "precision": "tf32", "learning_rate": 3e-3, "log_interval": 10**12}
CELLS: dict[str, tuple[str, dict[str, object], int]] = {  # environment, settings, steps of a measurement
    "PPO": ("CartPole-v1", {"n_envs": 8, "n_steps": 128, "batch_size": 256, "n_epochs": 4}, 4_096),
    "DQN": ("CartPole-v1", SMALL | {"train_freq": 4, "learning_starts": 500, "target_update_interval": 500}, 3_000),
    "SAC": ("Pendulum-v1", SMALL | {"learning_starts": 100}, 400),
    "TD3": ("Pendulum-v1", SMALL | {"learning_starts": 100}, 500),
    "PPO-cuda": ("CartPole-v1", ON_GPU, 131_072 * 500),
}
ON_CPU = [name for name in CELLS if "-" not in name]
WORKER = """
import json, sys, time
import rl_training
name, env, settings, steps, compiled = json.loads(sys.argv[1])
agent = getattr(rl_training, name.partition("-")[0])(env, seed=0, threads=1, compile=compiled, total_timesteps=10**9, **settings)

def go(num):
    agent.learn(stop_at=agent.progress.timesteps + num, progress=False)

go(max(steps, 1_000))
print("ready", flush=True)
for _ in sys.stdin:
    start = time.perf_counter()
    go(steps)
    print(steps / (time.perf_counter() - start), flush=True)
"""


def start(source: Path, name: str, *, core: int, compiled: bool) -> subprocess.Popen:
    env, settings, steps = CELLS[name]
    surroundings = os.environ | {"PYTHONPATH": str(source / "src"), "OMP_NUM_THREADS": "1"}
    work = json.dumps([name, env, settings, steps, compiled])
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, work], env=surroundings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    if name in ON_CPU:
        os.sched_setaffinity(process.pid, {core})
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("ready"):
            return process
    raise SystemExit(f"{source}: {name} did not start")


def extract(commit: str, target: Path) -> Path:
    """Returns the folder itself, or writes the sources of a commit to `target`."""
    if (Path(commit) / "src").is_dir():
        return Path(commit).resolve()
    target.mkdir()
    archive = subprocess.run(["git", "archive", commit, "src"], cwd=REPOSITORY, capture_output=True, check=True)
    subprocess.run(["tar", "x", "-C", target], input=archive.stdout, check=True)
    return target


def measure(process: subprocess.Popen) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def compare(sources: list[Path], name: str, starts: int, pairs: int, *, core: int, compiled: bool) -> str:
    rates: list[list[float]] = [[], []]
    for _ in range(starts):
        processes = [start(source, name, core=core, compiled=compiled) for source in sources]
        for number in range(pairs):
            for side in ((0, 1), (1, 0))[number % 2]:
                rates[side].append(measure(processes[side]))
        for process in processes:
            process.communicate()
    ratios = sorted(new / old for old, new in zip(*rates, strict=True))
    old, new = map(statistics.median, rates)
    low, _, high = statistics.quantiles(ratios, n=4)
    return (
        f"{name}: old {old:.0f}, new {new:.0f} steps/s; ratio {statistics.median(ratios):.3f}, quartiles {low:.3f} to "
        f"{high:.3f}, range {ratios[0]:.3f} to {ratios[-1]:.3f}, {starts} starts of {pairs} pairs"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", nargs=2, metavar="COMMIT")
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=ON_CPU)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=5, help="of each start")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--core", type=int, default=0, help="the core on which both run in turns")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sources = [
            extract(name, Path(folder) / side) for name, side in zip(options.commits, ("old", "new"), strict=True)
        ]
        for name in options.cells:
            numbers = options.starts, options.pairs
            print(compare(sources, name, *numbers, core=options.core, compiled=options.compile), flush=True)


if __name__ == "__main__":
    main()
