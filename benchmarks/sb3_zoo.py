"""The models of RL Baselines3 Zoo, which Stable-Baselines3 1.0 to 1.5 saved: what it does, and what `import_sb3` makes of them.

git clone https://github.com/DLR-RM/rl-trained-agents
/path/to/python-with-sb3-and-contrib benchmarks/sb3_zoo.py act rl-trained-agents --out actions.npz
python benchmarks/sb3_zoo.py compare rl-trained-agents --actions actions.npz

`act` writes the deterministic actions of every model on 1,000 random observations, `compare` imports each and compares.
"""

import argparse
import importlib
import json
import logging
import sys
from collections import Counter, defaultdict
from pathlib import Path

import gymnasium
import numpy as np

ACTS = ("ppo", "a2c", "trpo", "dqn", "qrdqn", "ddpg", "td3", "sac", "tqc")  # folders of the repository
ROWS = 1_000
CONSTANTS = {"learning_rate": 1e-4, "lr_schedule": lambda _: 1e-4, "clip_range": lambda _: 0.2, "train_freq": 1}


def models(folder: Path) -> dict[str, Path]:
    """Every zip that is there as a whole, by its name; some are stored elsewhere."""
    found = {str(path.relative_to(folder)): path for kind in ACTS for path in sorted((folder / kind).rglob("*.zip"))}
    return {name: path for name, path in found.items() if path.read_bytes()[:2] == b"PK"}


def observations(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(ROWS, *shape)).astype(np.float32)


def act(folder: Path, out: Path) -> None:
    """Loads each model with its own library, which runs the code in the file, and acts."""
    import sb3_contrib
    import stable_baselines3

    sys.modules["gym"] = gymnasium
    for part in ("spaces", "spaces.box", "spaces.discrete", "spaces.dict"):
        sys.modules[f"gym.{part}"] = importlib.import_module(f"gymnasium.{part}")
    actions: dict[str, np.ndarray] = {}
    for name, path in models(folder).items():
        kind = name.split("/")[0].upper()
        library = sb3_contrib if hasattr(sb3_contrib, kind) else stable_baselines3
        own = CONSTANTS | {"exploration_schedule": lambda _: 0.1}
        more = {} if kind in ("PPO", "A2C", "TRPO") else {"buffer_size": 1}
        try:
            model = getattr(library, kind).load(path, custom_objects=own, device="cpu", **more)
        except Exception as error:
            print(name, "is not loaded:", type(error).__name__, str(error)[:80])
            continue
        if isinstance(model.observation_space, gymnasium.spaces.Box):
            actions[name] = model.predict(observations(model.observation_space.shape), deterministic=True)[0]
    np.savez_compressed(out, **actions)
    print(f"{len(actions)} models")


def compare(folder: Path, known: Path) -> None:
    """Imports each model and prints how many actions differ, and by how much."""
    from rl_training import import_sb3

    logging.disable(logging.WARNING)
    theirs, counts, refused = np.load(known), Counter(), defaultdict(list)
    worst: dict[str, float] = defaultdict(float)
    for name in theirs:
        try:
            agent = import_sb3(folder / name)
        except ValueError as error:
            why = str(error).partition(f"{name} ")[2].partition(";")[0]
            refused[why].append(name)
            continue
        kind, found = type(agent).__name__, agent.predict(observations(agent.spec.obs.shape))[0]
        counts[kind] += 1
        worst[kind] = max(worst[kind], float(np.abs(found.astype(float) - theirs[name]).max()))
    print(json.dumps({"imported": sum(counts.values()), "by": counts, "largest_difference": worst}, indent=1))
    for why, names in refused.items():
        print(f"refused: {len(names)} ({names[0]} ...): {why}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["act", "compare"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("actions.npz"))
    parser.add_argument("--actions", type=Path, default=Path("actions.npz"))
    options = parser.parse_args()
    act(options.folder, options.out) if options.what == "act" else compare(options.folder, options.actions)
