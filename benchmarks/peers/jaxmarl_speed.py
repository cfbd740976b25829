"""Steps per second of JaxMARL's IPPO; run in an environment that has JAX, flax, optax, distrax and gymnax, asked as in `protocol.py`.

The environment variable JAXMARL names a checkout of github.com/FLAIROx/JaxMARL. Its example baselines/IPPO/ippo_ff_mpe.py runs
as it is, all iterations of a measurement as one call, except that it does not log: a log of every update waits for the host.
What it imports to draw, to log and to read its settings may be missing.
"""

import os
import sys
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("JAX_TRACEBACK_FILTERING", "off")  # or its last line would be a note, and not the error

import jax
import jax.experimental  # the example uses it without importing it
from protocol import Learn, serve
from stand_ins import stand_in_for

ENVS = {"mpe/simple_spread": "MPE_simple_spread_v3"}


def build(work: dict) -> Learn:
    assert work.get("net_arch", [64, 64]) == [64, 64], "the example has its own network"
    jax.config.update("jax_platforms", work["device"])
    jax.devices()  # an error now if it is missing
    checkout = Path(os.environ["JAXMARL"])
    sys.path[:0] = [str(checkout), str(checkout / "baselines" / "IPPO")]
    stand_in_for("hydra", "imageio", "matplotlib", "omegaconf", "PIL", "seaborn", "wandb")
    import ippo_ff_mpe  # its own settings are a file beside it, which the values below are those of, but for the sizes

    jax.experimental.io_callback = lambda *_: None
    rows = work["n_envs"] * work["n_steps"]
    settings = {
        "ENV_NAME": ENVS[work["env"]],
        "ENV_KWARGS": {},
        "NUM_ENVS": work["n_envs"],
        "NUM_STEPS": work["n_steps"],
        "NUM_MINIBATCHES": rows // work["batch_size"],
        "UPDATE_EPOCHS": work["n_epochs"],
        "LR": 2.5e-4,
        "ANNEAL_LR": True,
        "GAMMA": 0.99,
        "GAE_LAMBDA": 0.95,
        "CLIP_EPS": 0.2,
        "ENT_COEF": 0.01,
        "VF_COEF": 0.5,
        "MAX_GRAD_NORM": 0.5,
        "ACTIVATION": "tanh",
    }
    compiled, calls = {}, iter(range(1_000_000))

    def learn(num_steps: int) -> None:
        if num_steps not in compiled:
            compiled[num_steps] = jax.jit(ippo_ff_mpe.make_train(settings | {"TOTAL_TIMESTEPS": num_steps}))
        jax.block_until_ready(compiled[num_steps](jax.random.PRNGKey(next(calls))))

    return learn


if __name__ == "__main__":
    versions = {name: version(name) for name in ("jax", "flax", "optax")}
    serve({"IPPO": build}, versions, devices=("cpu", "cuda"))
