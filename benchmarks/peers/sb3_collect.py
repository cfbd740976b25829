"""Collects rollouts with Stable-Baselines3, once for every line on standard input; answers with the seconds each took.

python benchmarks/peers/sb3_collect.py HalfCheetah-v5 SubprocVecEnv      # in an environment that has Stable-Baselines3
"""

from __future__ import annotations

import sys
import time

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import CallbackList
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

NUM_ENVS, NUM_STEPS = 8, 128


def main() -> None:
    env_id, kind = sys.argv[1:]
    torch.set_num_threads(1)
    kinds = {"DummyVecEnv": DummyVecEnv, "SubprocVecEnv": SubprocVecEnv}
    env = make_vec_env(env_id, NUM_ENVS, seed=0, vec_env_cls=kinds[kind])
    model = PPO("MlpPolicy", env, n_steps=NUM_STEPS, batch_size=64, seed=0, device="cpu")
    model._setup_learn(10**9)
    callback = CallbackList([])
    callback.init_callback(model)
    for _ in sys.stdin:
        started = time.perf_counter()
        model.collect_rollouts(env, callback, model.rollout_buffer, NUM_STEPS)
        print(time.perf_counter() - started, flush=True)
    env.close()


if __name__ == "__main__":
    main()
