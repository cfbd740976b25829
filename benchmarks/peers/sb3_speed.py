"""Steps per second of Stable-Baselines3 or sb3-contrib; run in an environment that has them, answers in JSON lines.

Takes the work as one JSON argument, then requests as in `protocol.py`.
"""

import json
import sys

import sb3_contrib
import stable_baselines3
import torch
from protocol import serve
from sb3_contrib import TQC, CrossQ, RecurrentPPO
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env

OFF_POLICY = {kind.__name__: kind for kind in (DQN, SAC, TD3, TQC, CrossQ)}


def build(work: dict) -> BaseAlgorithm:
    env = make_vec_env(work["env"], n_envs=work["n_envs"], seed=0)
    network = {key: work[key] for key in ("net_arch", "lstm_hidden_size") if key in work}
    other = {"algorithm", "env", "n_envs", "threads", "critic_net_arch", *network}
    settings = {key: value for key, value in work.items() if key not in other}
    if "critic_net_arch" in work:
        network["net_arch"] = {"pi": work["net_arch"], "qf": work["critic_net_arch"]}
    if work["algorithm"] == "PPO":
        return PPO("MlpPolicy", env, device="cpu", seed=0, **settings)
    if work["algorithm"] in OFF_POLICY:
        kind = OFF_POLICY[work["algorithm"]]
        return kind("MlpPolicy", env, device="cpu", seed=0, policy_kwargs=network, **settings)
    network |= {"enable_critic_lstm": True}
    return RecurrentPPO("MlpLstmPolicy", env, device="cpu", seed=0, policy_kwargs=network, **settings)


def main() -> None:
    work = json.loads(sys.argv[1])
    torch.set_num_threads(work["threads"])
    serve(build(work), {"sb3": stable_baselines3.__version__, "sb3_contrib": sb3_contrib.__version__})


if __name__ == "__main__":
    main()
