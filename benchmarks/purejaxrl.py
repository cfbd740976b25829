"""Wall time and rates on a GPU compared with PureJaxRL: plain calls, and many seeds. Every line takes at most 8 minutes there.

python benchmarks/purejaxrl.py plain 5e6 20e6 100e6 --caches cold    # the call of docs/gpu.md from an empty cache
python benchmarks/purejaxrl.py plain 300e6 --caches cold
python benchmarks/purejaxrl.py plain 1e9 --caches cold --repeats 2
python benchmarks/purejaxrl.py plain 5e6 20e6 100e6 --caches warm
python benchmarks/purejaxrl.py plain 300e6 1e9 --caches warm --repeats 2
python benchmarks/purejaxrl.py seeds 64 --caches cold warm           # stacked CartPole seeds compared with vmapped ones
python benchmarks/purejaxrl.py seeds 256 --caches cold warm
python benchmarks/purejaxrl.py sac                                   # 32 Pendulum seeds as a stack, and one of them alone

--peer-python is an interpreter for peers/purejaxrl_wall.py; --tiny --device cpu tries a line on a few steps. Every call is a
process of its own, ours and the peer's in turns; "warm" is a second process with the cache folder of a first one, which is
not counted. A line of JSON for each is printed, and added to --out; run again, a line measures what is missing in that file.
The exit code is 0 once everything is measured, 3 if --minutes were not enough, and 1 if a side failed.
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

from finished_lines import FinishedLines, at_most

START = time.time()
HERE = Path(__file__).parent
SEED_STEPS, SEED_ENVS, SEED_LENGTH = 409_600, 64, 128  # of each seed
TINY_STEPS = 65_536


def ours_plain(total: int, device: str, tiny: bool) -> dict:
    """Trains as docs/gpu.md writes it, in this process."""
    from rl_training import PPO
    from rl_training.core import Schedule

    sizes = {"n_envs": 64, "batch_size": 512} if tiny else {"n_envs": 4096, "batch_size": 32_768}
    agent = PPO(
        "CartPole-v1",
        backend="native",
        n_steps=32,
        n_epochs=4,
        learning_rate=Schedule(3e-3, 0.0),
        device=device,
        precision="float32" if device == "cpu" else "tf32",
        **sizes,
    )
    agent.learn(total, progress=False)
    done = time.time() - START
    return {
        "steps": agent.num_timesteps,
        "from_start_s": round(done, 2),
        "mode": str(agent.trainer.execution.mode),
        "mean_return": round(agent.evaluate(64).mean, 1),
    }


def commands(options: argparse.Namespace, size: float) -> dict[str, list[str]]:
    """Returns the command of each side for one size: env steps, or a number of seeds."""
    tiny, peer = ["--tiny"] if options.tiny else [], [options.peer_python, str(HERE / "peers" / "purejaxrl_wall.py")]
    if options.what == "plain":
        size = min(size, TINY_STEPS) if options.tiny else size
        ours = [sys.executable, __file__, "ours", str(size), "--device", options.device, *tiny]
        theirs = [*peer, "--total", str(size), "--again", "0", *(["--envs", "64"] if options.tiny else [])]
        return {"ours": ours, "peer": theirs}
    stacked, last = [sys.executable, str(HERE / "stacked_seeds.py"), "train"], ["--device", options.device]
    last += ["--small"] if options.tiny else []
    if options.what == "sac":
        return {"stack": [*stacked, "sac-32", *last], "alone": [*stacked, "sac-alone", *last]}
    seeds, envs, length, steps = int(size), SEED_ENVS, SEED_LENGTH, SEED_STEPS
    if options.tiny:
        seeds, envs, length, steps = 3, 4, 16, 256
    theirs = [*peer, "--seeds", str(seeds), "--total", str(steps), "--lr", "2.5e-4"]
    theirs += ["--envs", str(envs), "--steps", str(length), "--ent-coef", "0.01"]
    return {"ours": [*stacked, f"ppo-{int(size)}", *last], "peer": theirs}


def measured(command: list[str], cache: str, device: str) -> dict:
    """Runs a command with its own folder of compiled code, and returns what it says in its last line."""
    Path(cache).mkdir(exist_ok=True)
    environment = os.environ | {"RL_TRAINING_CACHE": cache, "TRITON_CACHE_DIR": f"{cache}/triton", "TMPDIR": cache}
    environment |= {"JAX_COMPILATION_CACHE_DIR": f"{cache}/jax", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    environment |= {"JAX_PLATFORMS": device, "CUDA_CACHE_PATH": f"{cache}/cuda"}
    environment.pop("TORCHINDUCTOR_CACHE_DIR", None)
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(options: argparse.Namespace, size: float, caches: str, lines: FinishedLines) -> list[str]:
    """Measures both sides in turns as often as is missing in `lines`; returns the sides that failed."""
    sides, failed = commands(options, size), []
    case = {"what": options.what, "size": size, "caches": caches, "device": options.device, "tiny": options.tiny}
    missing = {side: options.repeats - len(lines.like(side=side, **case)) for side in sides}
    with tempfile.TemporaryDirectory() as kept:
        for number in range(-1 if caches == "warm" else 0, max(missing.values())):
            for side, command in sides.items():
                if side in failed or number >= missing[side] or missing[side] <= 0:
                    continue
                cache = f"{kept}/{side}" if caches == "warm" else f"{kept}/{side}{number}"
                try:
                    row = measured(command, cache, options.device)
                except subprocess.CalledProcessError as error:
                    print(f"{side} failed with exit code {error.returncode}: {' '.join(command)}", flush=True)
                    failed.append(side)
                    continue
                if number >= 0:  # or it filled the cache
                    lines.add(row | case | {"side": side})
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["plain", "seeds", "sac", "ours"])
    parser.add_argument("sizes", nargs="*", type=float, help="env steps, or numbers of seeds: 64, 256")
    parser.add_argument("--caches", nargs="+", choices=["cold", "warm"], default=["cold"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--minutes", type=float, help="stop after so long, wherever it is")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "purejaxrl.jsonl")
    options = parser.parse_args()
    if options.what == "ours":
        print(json.dumps(ours_plain(int(options.sizes[0]), options.device, options.tiny)))
        return
    lines, failed = FinishedLines(options.out), []
    with at_most(options.minutes):
        for size in options.sizes or [32]:
            for caches in options.caches:
                failed += measure(options, size, caches, lines)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
