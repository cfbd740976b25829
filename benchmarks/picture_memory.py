"""Memory of runs on Pong: its curve over 200,000 steps, and its peak beside Stable-Baselines3.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/picture_memory.py curve
OMP_NUM_THREADS=1 .venv/bin/python benchmarks/picture_memory.py peers --python SB3_PYTHON

`curve` runs PPO (one epoch) and DQN (a ring of 20,000, an update for every 64 steps), 8 games each, with the Nature network
and few updates, because a step's memory is looked at and not its learning. Every 10,000 steps a line says the resident
memory of the process. `peers` runs the cells of `bench speed --suite pictures` for 5,120 steps in processes of their own, and
says the peak of each. Both write to benchmarks/results/picture_memory.json (or --out), a key for each run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

from rl_training import DQN, PPO, Agent, Callback
from rl_training.bench.speed import build_ours
from rl_training.bench.speed_cells import SPEED, SpeedCell

OUT = Path(__file__).parent / "results" / "picture_memory.json"
STEPS, EVERY, PEER_STEPS = 200_000, 10_000, 5_120
COMMON = {"n_envs": 8, "kwargs": {"protocol": "dqn"}, "seed": 0, "threads": 1, "compile": False}
SB3 = """
import json, resource, sys
sys.path.insert(0, sys.argv[1])
from sb3_speed import build
build(json.loads(sys.argv[2]))(int(sys.argv[3]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def resident() -> float:
    """Returns the memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


def peak() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6, 1)


class Watch(Callback):
    """A callback that notes the resident memory."""

    interval = EVERY

    def __init__(self) -> None:
        self.curve: list[tuple[int, float]] = []

    def on_interval(self, trainer: object) -> None:
        step = (len(self.curve) + 1) * EVERY
        self.curve.append((step, resident()))
        print(f"{step:,} steps: {self.curve[-1][1]} MB", flush=True)


def curve(name: str) -> dict:
    before = resident()
    watch = Watch()
    with closing(build(name)) as agent:
        agent.learn(STEPS, progress=False, callbacks=[watch])
    last = [size for step, size in watch.curve if step > STEPS / 2]
    return {
        "after_import_mb": before,
        "curve_mb": watch.curve,
        "peak_mb": peak(),
        "growth_in_second_half_mb": round(last[-1] - last[0], 1),
    }


def build(name: str) -> Agent:
    if name == "ppo":
        return PPO("ALE/Pong-v5", n_steps=128, batch_size=256, n_epochs=1, net_arch=[], **COMMON)
    few = {"buffer_size": 20_000, "learning_starts": 1_000, "train_freq": 64}
    return DQN("ALE/Pong-v5", net_arch=[], **few, **COMMON)


def in_process(*arguments: str) -> dict:
    """Runs this file in a process of its own and returns what it says in its last line."""
    done = subprocess.run([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def ours(cell: str) -> dict:
    plan = SPEED[cell]
    assert isinstance(plan, SpeedCell)
    before = resident()
    with closing(build_ours(plan.work | plan.ours | {"threads": plan.threads})) as agent:
        agent.learn(PEER_STEPS, progress=False)
    return {"after_import_mb": before, "peak_mb": peak()}


def theirs(cell: str, python: Path) -> float:
    plan = SPEED[cell]
    assert isinstance(plan, SpeedCell)
    work = json.dumps(plan.work | {"threads": plan.threads, "device": "cpu"})
    folder = str(Path(__file__).parent / "peers")
    command = [str(python), "-c", SB3, folder, work, str(PEER_STEPS)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return round(int(done.stdout.splitlines()[-1]) * 1024 / 1e6, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("curve", "peers", "one-curve", "one-cell"))
    parser.add_argument("name", nargs="?")
    parser.add_argument("--python", type=Path, help="an interpreter that has Stable-Baselines3 and ale-py")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    if options.what.startswith("one"):
        print(json.dumps((curve if options.what == "one-curve" else ours)(options.name)))
        return
    found = json.loads(options.out.read_text()) if options.out.exists() else {}
    found["versions"] = {name: version(name) for name in ("torch", "ale-py", "rl-training")}
    for name in ("ppo", "dqn") if options.what == "curve" else ("ppo-pong-learn", "dqn-pong-learn"):
        if options.what == "curve":
            found[f"{name} over {STEPS:,} steps"] = in_process("one-curve", name)
        else:
            peer = {"sb3_peak_mb": theirs(name, options.python)} if options.python else {}
            found[name] = in_process("one-cell", name) | peer
        options.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
