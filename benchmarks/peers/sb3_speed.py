"""Steps per second of Stable-Baselines3's PPO on the same work; run in an environment that has SB3, prints JSON lines.

Reads one JSON request per line on standard input ({"seconds": s}) and answers with one measurement, so that the
caller can alternate libraries within one run.
"""

import argparse
import json
import sys
import time

import stable_baselines3
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", required=True)
    parser.add_argument("--n-envs", type=int, required=True)
    parser.add_argument("--n-steps", type=int, required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--n-epochs", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    env = make_vec_env(options.env, n_envs=options.n_envs, seed=0)
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=options.n_steps,
        batch_size=options.batch_size,
        n_epochs=options.n_epochs,
        device="cpu",
        seed=0,
    )
    print(json.dumps({"ready": stable_baselines3.__version__}), flush=True)
    rollout = options.n_envs * options.n_steps
    for line in sys.stdin:
        num_steps = json.loads(line)["rollouts"] * rollout
        start = time.perf_counter()
        model.learn(num_steps, reset_num_timesteps=False)
        print(json.dumps({"steps_per_second": num_steps / (time.perf_counter() - start)}), flush=True)


if __name__ == "__main__":
    main()
