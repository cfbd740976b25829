"""Steps per second of Stable-Baselines3 and sb3-contrib; run in an environment that has them, asked as in `protocol.py`."""

import sb3_contrib
import stable_baselines3
import torch
from protocol import Learn, serve
from sb3_contrib import TQC, CrossQ, RecurrentPPO
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.env_util import make_vec_env

KINDS = {kind.__name__: kind for kind in (PPO, DQN, SAC, TD3, TQC, CrossQ, RecurrentPPO)}


def build(work: dict) -> Learn:
    torch.set_num_threads(work["threads"])
    env = make_vec_env(work["env"], n_envs=work["n_envs"], seed=0)
    network = {key: work[key] for key in ("net_arch", "lstm_hidden_size") if key in work}
    other = {"algorithm", "env", "n_envs", "threads", "critic_net_arch", *network}
    settings = {key: value for key, value in work.items() if key not in other}
    if "critic_net_arch" in work:
        network["net_arch"] = {"pi": work["net_arch"], "qf": work["critic_net_arch"]}
    recurrent = work["algorithm"] == "RecurrentPPO"
    network |= {"enable_critic_lstm": True} if recurrent else {}
    policy = "MlpLstmPolicy" if recurrent else "MlpPolicy"
    model = KINDS[work["algorithm"]](policy, env, seed=0, policy_kwargs=network, **settings)
    return lambda num_steps: model.learn(num_steps, reset_num_timesteps=False)


if __name__ == "__main__":
    versions = {"sb3": stable_baselines3.__version__, "sb3_contrib": sb3_contrib.__version__}
    serve(dict.fromkeys(KINDS, build), versions, devices=("cpu", "cuda"))
