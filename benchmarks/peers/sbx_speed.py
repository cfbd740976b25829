"""Steps per second of SBX (Stable-Baselines3 in JAX); run in an environment that has it, answers in JSON lines.

The protocol is in `protocol.py`. JAX takes what threads it wants from the cores it may use.
"""

import json
import sys

import jax
import sbx
from protocol import serve
from sbx import SAC, TD3, TQC, CrossQ
from stable_baselines3.common.env_util import make_vec_env

KINDS = {"SAC": SAC, "REDQ": SAC, "TD3": TD3, "TQC": TQC, "CrossQ": CrossQ}


def build(work: dict) -> SAC | TD3 | TQC | CrossQ:
    env = make_vec_env(work["env"], n_envs=work["n_envs"], seed=0)
    pi, qf = work["net_arch"], work.get("critic_net_arch", work["net_arch"])
    network: dict = {"net_arch": {"pi": pi, "qf": qf}}
    other = {"algorithm", "env", "n_envs", "threads", "net_arch", "critic_net_arch"}
    settings = {key: value for key, value in work.items() if key not in other}
    if work["algorithm"] == "REDQ":
        network["n_critics"] = 10
        settings["policy_delay"] = work["gradient_steps"]
    return KINDS[work["algorithm"]]("MlpPolicy", env, seed=0, policy_kwargs=network, **settings)


def main() -> None:
    work = json.loads(sys.argv[1])
    serve(build(work), {"sbx": sbx.__version__, "jax": jax.__version__})


if __name__ == "__main__":
    main()
