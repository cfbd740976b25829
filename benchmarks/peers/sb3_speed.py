"""Steps per second of Stable-Baselines3 and sb3-contrib; run in an environment that has them, asked as in `protocol.py`."""

import sb3_contrib
import stable_baselines3
import torch
from protocol import Learn, serve
from sb3_contrib import TQC, CrossQ, RecurrentPPO
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.vec_env import VecEnv, VecFrameStack

KINDS = {kind.__name__: kind for kind in (PPO, DQN, SAC, TD3, TQC, CrossQ, RecurrentPPO)}


def make_env(name: str, n_envs: int, vector_env: str | None) -> VecEnv:
    if not name.startswith("ALE/"):
        return make_vec_env(name, n_envs=n_envs, seed=0)
    if vector_env == "ale":
        from sb3_atari import SB3AtariVecEnv

        return SB3AtariVecEnv(name, n_envs)
    import ale_py
    import gymnasium

    gymnasium.register_envs(ale_py)
    game = name.removeprefix("ALE/").removesuffix("-v5")
    return VecFrameStack(make_atari_env(f"{game}NoFrameskip-v4", n_envs=n_envs, seed=0), 4)


def build(work: dict) -> Learn:
    torch.set_num_threads(work["threads"])
    env = make_env(work["env"], work["n_envs"], work.get("vector_env"))
    network = {key: work[key] for key in ("net_arch", "lstm_hidden_size") if key in work}
    other = {"algorithm", "env", "n_envs", "threads", "critic_net_arch", "vector_env", *network}
    settings = {key: value for key, value in work.items() if key not in other}
    if "train_freq" in settings:  # steps of all environments together, which ours counts one by one
        settings["train_freq"] //= work["n_envs"]
    if "critic_net_arch" in work:
        network["net_arch"] = {"pi": work["net_arch"], "qf": work["critic_net_arch"]}
    recurrent = work["algorithm"] == "RecurrentPPO"
    network |= {"enable_critic_lstm": True} if recurrent else {}
    policy = ("Cnn" if work["env"].startswith("ALE/") else "Mlp") + ("LstmPolicy" if recurrent else "Policy")
    model = KINDS[work["algorithm"]](policy, env, seed=0, policy_kwargs=network, **settings)
    return lambda num_steps: model.learn(num_steps, reset_num_timesteps=False)


if __name__ == "__main__":
    versions = {"sb3": stable_baselines3.__version__, "sb3_contrib": sb3_contrib.__version__}
    serve(dict.fromkeys(KINDS, build), versions, devices=("cpu", "cuda"))
