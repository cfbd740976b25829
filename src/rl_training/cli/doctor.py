"""`rl-training doctor`: what is installed, what works here, and what to do about the rest."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

import gymnasium
import torch

from rl_training.config.presets import broken_packages
from rl_training.core.registry import ALGORITHMS, describe_package
from rl_training.envs import BACKENDS, NATIVE
from rl_training.experience.settings import STORES
from rl_training.experiment.run_directory import installed

OPTIONAL = {
    "mujoco": "mujoco",
    "gymnasium_robotics": "robotics",
    "Box2D": "box2d",
    "ale_py": "atari",
    "tensorboard": "tensorboard",
}
OPTIONAL |= {"imageio_ffmpeg": "video", "optuna": "tune", "ray": "ray"}
REQUIRED = ("rl-training", "torch", "numpy", "gymnasium", "pyyaml", "rich", "safetensors", "matplotlib")


def doctor(options: argparse.Namespace) -> int:
    """Checks the installation and prints one line per check; returns 1 if something required is broken, else 0."""
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
    healthy &= plug_ins_load()
    healthy &= can_train()
    return 0 if healthy else 1


def plug_ins_load() -> bool:
    """Imports what installed packages add (algorithms, stores, environments), and prints a line for each.

    Returns False if anything cannot be used.
    """
    problems = broken_packages()
    for registry in (ALGORITHMS, STORES, NATIVE, BACKENDS):
        for name, point in registry.declared.items():
            try:
                registry.load(name)
                if name not in registry and not (registry is NATIVE and name in gymnasium.registry):
                    problems.append(registry.registers_nothing(name))
                    continue
            except ValueError as error:
                problems.append(str(error))
                continue
            print(f"ok    {describe_package(point)} adds {name!r} to {registry.group}")
    for problem in problems:
        print(f"BAD   {problem}")
    return not problems


def can_train() -> bool:
    """Trains PPO for a moment, saves, loads and acts, and prints a line; returns False if the action is invalid."""
    from rl_training.api import PPO, load

    agent = PPO("CartPole-v1", n_envs=2, n_steps=32, batch_size=32, n_epochs=1, compile=False)
    agent.learn(128, progress=False)
    with tempfile.TemporaryDirectory() as folder:
        agent.save(Path(folder) / "model")
        action, _ = load(Path(folder) / "model").predict([0.0, 0.0, 0.0, 0.0])
    works = action in (0, 1)
    print("ok    trained, saved, loaded and acted" if works else "BAD   the loaded model gave an invalid action")
    return works
