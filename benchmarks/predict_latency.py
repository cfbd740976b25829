"""Measures how long one observation takes: `agent.predict`, exported policies, and Stable-Baselines3's `predict`.

    python benchmarks/predict_latency.py --peer-python PATH    # an interpreter that has Stable-Baselines3

Every round measures each way once, in a process of its own with one thread; ours and the peer's alternate. A number is
microseconds per call: the least over rounds of the least of 150 batches of 50 calls, because other programs on a shared machine
only ever add to it. The median of the batches is recorded, too.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
OUT = HERE / "results" / "predict_latency.json"
CALLS, BATCHES = 50, 150
AGENTS: dict[str, tuple[str, str, dict]] = {
    "PPO, CartPole, 64x64": ("PPO", "CartPole-v1", {}),
    "PPO, Pendulum, normalised": ("PPO", "Pendulum-v1", {"normalize_observation": True}),
    "DQN, CartPole, 64x64": ("DQN", "CartPole-v1", {"net_arch": [64, 64]}),
    "SAC, Pendulum, 256x256": ("SAC", "Pendulum-v1", {"net_arch": [256, 256]}),
    "RecurrentPPO, CartPole, LSTM 64": ("RecurrentPPO", "CartPole-v1", {"lstm_hidden_size": 64}),
    "RecurrentPPO, CartPole, LSTM 256": ("RecurrentPPO", "CartPole-v1", {"lstm_hidden_size": 256}),
}


def microseconds(call: Callable[[], object]) -> dict[str, float]:
    call()
    batches = []
    for _ in range(BATCHES):
        begun = time.perf_counter()
        for _ in range(CALLS):
            call()
        batches.append((time.perf_counter() - begun) / CALLS * 1e6)
    return {"least": min(batches), "median": statistics.median(batches)}


def measure_ours() -> dict[str, dict[str, dict[str, float]]]:
    import onnxruntime
    import torch

    import rl_training
    from rl_training import ConfigError
    from rl_training.export.run_policy import Policy

    torch.set_num_threads(1)
    found: dict[str, dict[str, dict[str, float]]] = {}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        for cell, (name, env, settings) in AGENTS.items():
            agent = getattr(rl_training, name)(env, seed=0, **settings)
            obs = np.full(agent.spec.obs.shape, 0.1, np.float32)
            _, state = agent.predict(obs)
            ways: dict[str, Callable[[], object]] = {"agent.predict": lambda a=agent, o=obs, s=state: a.predict(o, s)}
            path = Path(folder) / name / cell / "policy.onnx"
            agent.export(path)
            session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            names = [output.name for output in session.get_outputs()]
            policy = Policy(path)
            inputs, _ = policy.read(obs)
            if state is not None:
                policy.remember(inputs, state, False)
            ways["onnxruntime, new arrays"] = lambda s=session, n=names, i=inputs: s.run(n, i)
            ways["onnxruntime, in place"] = lambda p=policy, i=inputs: p.compute(i)
            ways["run_policy.py, .onnx"] = lambda p=policy, o=obs, s=state: p.predict(o, s)
            try:
                plain = Policy(agent.export(path.with_suffix(".npz")).policy)
                ways["run_policy.py, .npz"] = lambda p=plain, o=obs: p.predict(o)
            except ConfigError:  # more than dense layers
                pass
            found[cell] = {way: microseconds(call) for way, call in ways.items()}
    return found


def answer(command: list[str]) -> dict[str, dict[str, dict[str, float]]]:
    one_thread = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(command, env=os.environ | one_thread, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer-python", help="interpreter that has stable-baselines3 and sb3-contrib")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--one", action="store_true", help="measure ours once and print it")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure_ours()))
        return
    commands = [[sys.executable, __file__, "--one"]]
    if options.peer_python:
        commands.append([options.peer_python, str(HERE / "peers" / "sb3_latency.py")])
    rounds: dict[str, dict[str, dict[str, list[float]]]] = {}
    for _ in range(options.rounds):
        for command in commands:
            for cell, ways in answer(command).items():
                for way, found in ways.items():
                    kept = rounds.setdefault(cell, {}).setdefault(way, {"least": [], "median": []})
                    for what, value in found.items():
                        kept[what].append(round(value, 2))
    from rl_training.experiment.run_directory import collect_metadata

    metadata = collect_metadata()
    record = {
        "unit": "microseconds per call of one observation, one thread; of 150 batches of 50 calls in each round",
        "git": metadata["git"],
        "hardware": metadata["hardware"],
        "versions": metadata["versions"],
        "cells": rounds,
    }
    options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for cell, ways in rounds.items():
        print(cell, *(f"{way} {min(found['least']):.1f}" for way, found in ways.items()), sep="; ")


if __name__ == "__main__":
    main()
