"""IPPO, DQN and PPO on one GPU, each compared with another library, within the minutes for which a machine is lent.

python benchmarks/cells_on_gpu.py ippo-spread-gpu --peer-python PYTHON --out FOLDER --minutes 9   # JaxMARL; set JAXMARL
python benchmarks/cells_on_gpu.py dqn-pong-gpu ppo-pong-gpu --peer-python PYTHON --out FOLDER --minutes 9
python benchmarks/cells_on_gpu.py ... --tiny    # the same program on a CPU, to try it first

These are cells of `bench speed`. `ippo-spread-gpu` is compared with JaxMARL, `dqn-pong-gpu` with Stable-Baselines3, and
`ppo-pong-gpu` with CleanRL's loop, which needs torch and ale-py only. The emulators alone, which bound both of Pong, are
measured first. PYTHON has the other library: for DQN Stable-Baselines3, sb3-contrib, torch and ale-py, but no OpenCV.

`pairs.jsonl` in the folder gets a line for each finished pair, ours and theirs. Run again with the same folder, the program
measures what is missing. `speed.json` has the medians of all pairs so far. The exit code is 0 once everything is measured, 3
if the minutes were not enough, and 1 if a library could not be measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import torch
from finished_lines import FinishedLines, at_most

from rl_training.bench.peer_environments import PeerUnavailableError
from rl_training.bench.peer_process import Peer
from rl_training.bench.speed import machine_and_versions, peer_row, run_cell, sentence
from rl_training.bench.speed_cells import SPEED, SpeedCell
from rl_training.core import Discrete
from rl_training.envs import EnvConfig, make_env
from rl_training.experiment.run_directory import write_atomically

PEERS = {"ippo-spread-gpu": "jaxmarl", "dqn-pong-gpu": "sb3", "ppo-pong-gpu": "cleanrl"}
ALONE_SECONDS = 8.0
TINY = {
    "ippo-spread-gpu": {"device": "cpu", "n_envs": 8, "batch_size": 64},
    "dqn-pong-gpu": {"device": "cpu", "buffer_size": 400, "learning_starts": 80},
    "ppo-pong-gpu": {"device": "cpu", "n_envs": 8, "n_steps": 16, "batch_size": 32},
}
TINY_STEPS = 256  # a multiple of PPO's 8 x 16 and IPPO's 8 x 32


def shrink(name: str, cell: SpeedCell) -> SpeedCell:
    """Returns the same cell on the CPU, with so few steps that it only shows that its program runs."""
    return replace(cell, work=cell.work | TINY[name], warm_up=TINY_STEPS, steps=TINY_STEPS)


def emulators_alone(cell: SpeedCell, seconds: float) -> dict[str, object]:
    """Steps the games of a cell with random actions; returns a row of `speed.json` with the steps per second."""
    config = EnvConfig(id=cell.work["env"], n_envs=cell.work["n_envs"], kwargs=cell.ours["kwargs"])
    with closing(make_env(config)) as env:
        env.reset(seed=0)
        assert isinstance(env.spec.action, Discrete)
        actions = torch.randint(env.spec.action.num, (1_024, config.n_envs))
        steps, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            env.step(actions[steps % len(actions)])
            steps += 1
        speed = steps * config.n_envs / (time.perf_counter() - start)
    work = {"env": config.id, "n_envs": config.n_envs, "kwargs": config.kwargs}
    return {"work": work, "ours_steps_per_second": [round(speed, 1)]} | machine_and_versions({})


def summary(rows: list[dict]) -> dict:
    """Returns the row of `speed.json` for the pairs of a cell: the last one's, with the speeds and ratios of all."""
    last = {key: value for key, value in rows[-1].items() if key not in ("cell", "of", "tiny")}
    if "peer" not in last:
        return last
    pairs = [(row["ours_steps_per_second"][0], row["peer_steps_per_second"][0]) for row in rows]
    return last | peer_row(last["peer"], pairs)


def measure(name: str, options: argparse.Namespace, lines: FinishedLines) -> bool:
    """Measures what is missing of a cell; returns whether all of it is there now."""
    peer, cell = PEERS[name], SPEED[name]
    assert isinstance(cell, SpeedCell)
    cell = shrink(name, cell) if options.tiny else cell
    python = Path(sys.executable) if peer == "cleanrl" else options.peer_python

    def keep(cell_name: str, row: dict) -> None:
        lines.add({"cell": cell_name, "of": name, "tiny": options.tiny} | row)
        alike = lines.like(tiny=options.tiny)
        rows = {row["cell"]: summary([one for one in alike if one["cell"] == row["cell"]]) for row in alike}
        write_atomically(options.out / "speed.json", json.dumps(rows, indent=2) + "\n")

    alone = f"{name}-emulators-alone"
    if "pong" in name and not lines.like(cell=alone, tiny=options.tiny):
        keep(alone, emulators_alone(cell, 1.0 if options.tiny else ALONE_SECONDS))
    missing = options.repeats - len(lines.like(of=name, peer=peer, tiny=options.tiny))
    if missing <= 0:
        return True
    try:  # before ours is compiled
        Peer(peer, python, cell.work | {"threads": cell.threads}, limit=options.peer_timeout).close()
    except PeerUnavailableError as reason:
        print(f"{name}: {peer} cannot be measured: {reason}", flush=True)
        return False
    found = run_cell(name, cell, {peer: python}, repeats=missing, limit=options.peer_timeout, keep=keep)
    for key, row in found.items():
        print(f"{key}: {sentence(row)}", flush=True)
    return not any("unavailable" in row for row in found.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cells", nargs="+", choices=list(PEERS), metavar="CELL", help=", ".join(PEERS))
    parser.add_argument("--peer-python", type=Path, default=Path(sys.executable), help="interpreter of JaxMARL or SB3")
    parser.add_argument("--out", type=Path, required=True, help="folder for pairs.jsonl and speed.json")
    parser.add_argument("--repeats", type=int, default=3, help="pairs of measurements (default: 3)")
    parser.add_argument("--minutes", type=float, help="stop after so long, wherever it is")
    parser.add_argument(
        "--peer-timeout", type=float, default=240.0, help="seconds for each answer of the other library"
    )
    parser.add_argument("--tiny", action="store_true", help="a few steps on the CPU, to see that everything runs")
    options = parser.parse_args()
    if not options.tiny and not torch.cuda.is_available():
        parser.error("there is no usable GPU: --tiny runs the same program on a CPU")
    lines = FinishedLines(options.out / "pairs.jsonl")
    with at_most(options.minutes):
        complete = [measure(name, options, lines) for name in options.cells]
    sys.exit(0 if all(complete) else 1)


if __name__ == "__main__":
    main()
