"""One process of PureJaxRL's PPO on CartPole; run in an environment that has JAX, flax, optax, distrax and gymnax below 1.

The environment variable PUREJAXRL names the folder purejaxrl of a checkout of github.com/luchris429/purejaxrl, whose ppo.py
runs as it is. With --seeds, as many are vmapped. Prints a line of JSON: seconds from the start of the process to the end of the
first call, compilation included, then the env steps per second of further calls, and the return of those that were learned.
"""

import argparse
import json
import os
import sys
import time
from types import ModuleType

from stand_ins import stand_in_for

START = time.time()


def load_ppo() -> ModuleType:
    stand_in_for("brax", "matplotlib", "navix", "pandas", "seaborn")  # for other environments, and to draw
    sys.path.insert(0, os.environ["PUREJAXRL"])
    import ppo

    return ppo


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--total", type=float, default=20e6)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--ent-coef", type=float, default=0.0)
    parser.add_argument("--seeds", type=int, default=0, help="0: one run, without vmap")
    parser.add_argument("--again", type=int, default=2, help="further calls")
    options = parser.parse_args()
    import jax

    ppo = load_ppo()
    config = {"LR": options.lr, "NUM_ENVS": options.envs, "NUM_STEPS": options.steps, "ENT_COEF": options.ent_coef}
    config |= {"TOTAL_TIMESTEPS": int(options.total), "UPDATE_EPOCHS": 4, "NUM_MINIBATCHES": 4, "VF_COEF": 0.5}
    config |= {"GAMMA": 0.99, "GAE_LAMBDA": 0.95, "CLIP_EPS": 0.2, "MAX_GRAD_NORM": 0.5, "ACTIVATION": "tanh"}
    config |= {"ENV_NAME": "CartPole-v1", "ANNEAL_LR": True, "DEBUG": False}
    train = ppo.make_train(config)
    call = jax.jit(jax.vmap(train) if options.seeds else train)

    def run(number: int) -> dict:
        key = jax.random.PRNGKey(number)
        return jax.block_until_ready(call(jax.random.split(key, options.seeds) if options.seeds else key))

    out = run(0)
    first, rates = time.time() - START, []
    steps = config["NUM_UPDATES"] * options.envs * options.steps  # of a seed, in complete rollouts
    for number in range(options.again):
        begin = time.perf_counter()
        out = run(1 + number)
        rates.append(round(max(options.seeds, 1) * steps / (time.perf_counter() - begin)))
    said = {"seeds": options.seeds or 1, "steps": steps, "from_start_s": round(first, 2), "steps_per_s": rates}
    # Of the last tenth of the updates, as its own wrapper counts them
    returns = out["metrics"]["returned_episode_returns"]
    axis = 1 if options.seeds else 0
    last = returns.shape[axis] - max(1, returns.shape[axis] // 10)
    said["mean_return"] = round(float(returns.take(jax.numpy.arange(last, returns.shape[axis]), axis).mean()), 1)
    print(json.dumps(said | {"platform": jax.devices()[0].platform, "jax": jax.__version__}))


if __name__ == "__main__":
    main()
