"""`rl-training doctor`: what is installed, what works here, and what to do about the rest."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

import torch

from rl_training.experiment.run_directory import installed

OPTIONAL = {"mujoco": "mujoco", "Box2D": "box2d", "tensorboard": "tensorboard"}
REQUIRED = ("rl-training", "torch", "numpy", "gymnasium", "pyyaml", "rich", "safetensors", "matplotlib")


def doctor(options: argparse.Namespace) -> int:
    """Prints one line per check; returns 1 if something required is broken."""
    healthy = True
    for name in REQUIRED:
        found = installed(name)
        healthy &= found is not None
        print(f"ok    {name} {found}" if found else f"BAD   {name} is not installed: pip install rl-training")
    for module, extra in OPTIONAL.items():
        there = importlib.util.find_spec(module) is not None
        print(f"ok    {module}" if there else f"--    {module} is not installed: pip install 'rl-training[{extra}]'")
    print(f"ok    {os.cpu_count()} cores; torch would use {torch.get_num_threads()} threads")
    if torch.cuda.is_available():
        print(f"ok    GPU {torch.cuda.get_device_name()}")
    else:
        print("--    no GPU: device='cpu' is used")
    compiler = shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")
    print(f"ok    C++ compiler {compiler}" if compiler else "--    no C++ compiler: compile=True is not available")
    healthy &= can_train()
    return 0 if healthy else 1


def can_train() -> bool:
    """Trains for a moment, saves, loads and acts."""
    from rl_training.api import PPO, load

    agent = PPO("CartPole-v1", n_envs=2, n_steps=32, batch_size=32, n_epochs=1, compile=False)
    agent.learn(128, progress=False)
    with tempfile.TemporaryDirectory() as folder:
        agent.save(Path(folder) / "model")
        action, _ = load(Path(folder) / "model").predict([0.0, 0.0, 0.0, 0.0])
    works = action in (0, 1)
    print("ok    trained, saved, loaded and acted" if works else "BAD   the loaded model gave an invalid action")
    return works
