"""Steps per second of SBX (Stable-Baselines3 in JAX); run in an environment that has it, asked as in `protocol.py`.

JAX takes what threads it wants from the cores it may use. REDQ is its SAC with ten critics, without the random subset
of them in the targets.
"""

import jax
import sbx
from protocol import Learn, serve
from sbx import DQN, PPO, SAC, TD3, TQC, CrossQ
from stable_baselines3.common.env_util import make_vec_env

KINDS = {"PPO": PPO, "DQN": DQN, "SAC": SAC, "REDQ": SAC, "TD3": TD3, "TQC": TQC, "CrossQ": CrossQ}


def build(work: dict) -> Learn:
    env = make_vec_env(work["env"], n_envs=work["n_envs"], seed=0)
    network: dict = {}
    if "net_arch" in work:
        actor_critic = {"pi": work["net_arch"], "qf": work.get("critic_net_arch", work["net_arch"])}
        network["net_arch"] = work["net_arch"] if work["algorithm"] == "DQN" else actor_critic
    other = {"algorithm", "env", "n_envs", "threads", "device", "net_arch", "critic_net_arch"}
    settings = {key: value for key, value in work.items() if key not in other}
    if work["algorithm"] == "REDQ":
        network["n_critics"] = 10
        settings["policy_delay"] = work["gradient_steps"]
    model = KINDS[work["algorithm"]]("MlpPolicy", env, seed=0, policy_kwargs=network, **settings)
    return lambda num_steps: model.learn(num_steps, reset_num_timesteps=False)


if __name__ == "__main__":
    serve(dict.fromkeys(KINDS, build), {"sbx": sbx.__version__, "jax": jax.__version__})
