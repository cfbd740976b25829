"""Whether every algorithm still computes the same numbers, bit for bit, as before a change.

OMP_NUM_THREADS=1 PYTHONPATH=. .venv/bin/python benchmarks/numeric_snapshots.py store
OMP_NUM_THREADS=1 PYTHONPATH=. .venv/bin/python benchmarks/numeric_snapshots.py check [NAME ...]

Each case is a short run on the CPU, eager, from a fixed seed: every algorithm as the conformance suite configures it, and
what its options, data and native environments add. `store` writes a hash of all parameters after it to
benchmarks/results/numeric_snapshots.json, beside the machine and the versions, because another processor rounds
differently; `check` runs the cases again and exits with 1 if one differs. It compares two commits on one machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path

import torch
from tests.conformance.cases import CASES, Case, named
from tests.offline import cloned, cql, rlpd

import rl_training
from rl_training import Agent

OUT = Path(__file__).parent / "results" / "numeric_snapshots.json"
STEPS = 480
Run = Callable[[], Agent]


def run_case(case: Case, env: object = None, **settings: object) -> Agent:
    agent = case.agent(env or case.home, **settings)
    agent.learn(STEPS, progress=False)
    return agent


def learned(agent: Callable[..., Agent], updates: int, steps: int, **settings: object) -> Agent:
    """From data, then from the environment too."""
    made = agent(**settings)
    if updates:
        made.learn(total_updates=updates, progress=False)
    if steps:
        made.learn(steps, progress=False)
    return made


def paused(case: Case, at: int) -> Agent:
    """A run that stops on the way and goes on."""
    agent = case.agent(case.home)
    agent.learn(STEPS, stop_at=at, progress=False)
    agent.learn(progress=False)
    return agent


def all_runs() -> dict[str, Run]:
    ppo, a2c, recurrent, dqn, rainbow, sac, td3 = named("PPO", "A2C", "RecurrentPPO", "DQN", "RainbowDQN", "SAC", "TD3")
    runs: dict[str, Run] = {case.name: partial(run_case, case) for case in CASES}
    for case in (ppo, a2c, recurrent, dqn, sac):
        runs[f"{case.name} normalised"] = partial(run_case, case, **case.normalised)
        native = "CartPole-v1" if case.acts_in == "discrete" else "Pendulum-v1"
        runs[f"{case.name} native"] = partial(run_case, case, native, backend="native")
    runs |= {
        "PPO options": partial(run_case, ppo, "CartPole-v1", target_kl=1e-3, clip_range_vf=0.1, clip_range="lin_0.3"),
        "PPO paused": partial(paused, ppo, 204),
        "PPO shared": partial(run_case, ppo, "CartPole-v1", net_arch={"pi": [8], "vf": [16], "shared": [12]}),
        "PPO two rates": partial(run_case, ppo, vf_learning_rate=1e-3, ent_coef=0.01),
        "RecurrentPPO gru": partial(run_case, recurrent, "CartPole-v1", cell="gru", shared_lstm=True),
        "DQN frames": partial(run_case, dqn, "CartPole-v1", frame_stack=3),
        "DQN paused": partial(paused, dqn, 301),
        "DQN one": partial(run_case, dqn, "CartPole-v1", n_envs=1, n_steps=2),
        "RainbowDQN one": partial(run_case, rainbow, "CartPole-v1", n_envs=1, train_freq=4),
        "SAC n-step": partial(run_case, sac, n_steps=3, prioritized=True, policy_delay=2),
        "SAC async": partial(run_case, sac, vectorization="async"),
        "TD3 ou": partial(run_case, td3, action_noise="ou", tau=1.0),
        "BC": partial(learned, cloned, 250, 0),
        "BC pendulum": partial(learned, pendulum_clone, 250, 0, normalize_observation=True),
        "DiscreteCQL data": partial(learned, cql, 130, 0, n_steps=3),
        "DiscreteCQL both": partial(learned, cql, 130, 160),
        "RLPD data": partial(learned, rlpd, 0, 160),
        "RLPD both": partial(learned, rlpd, 130, 160, normalize_observation=True),
    }
    return runs


def pendulum_clone(**settings: object) -> Agent:
    from tests.offline import QUICK, steps_of

    return rl_training.BC("Pendulum-v1", **{"dataset": steps_of("Pendulum-v1")} | QUICK | settings)


def fingerprint(agent: Agent) -> str:
    digest = hashlib.sha256()
    for parameter in agent.algorithm.parameters():
        digest.update(parameter.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def machine() -> dict[str, str]:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
    return {"cpu": cpu, "torch": torch.__version__, "gymnasium": version("gymnasium"), "numpy": version("numpy")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("store", "check"))
    parser.add_argument("names", nargs="*", help="cases; default: all")
    parser.add_argument("--file", type=Path, default=OUT)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    runs = all_runs()
    found = {name: fingerprint(runs[name]()) for name in arguments.names or runs}
    if arguments.action == "store":
        record = {"machine": machine(), "parameters": found}
        arguments.file.write_text(json.dumps(record, indent=1) + "\n")
        print(f"{len(found)} snapshots stored")
        return 0
    stored = json.loads(arguments.file.read_text())
    if stored["machine"] != machine():
        print(f"stored on {stored['machine']}, run on {machine()}: numbers may differ in the last bits")
    differ = [name for name, value in found.items() if stored["parameters"].get(name) != value]
    for name in differ:
        print(f"{name}: {found[name]}, stored {stored['parameters'].get(name)}")
    print(f"{len(found) - len(differ)} of {len(found)} equal")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
