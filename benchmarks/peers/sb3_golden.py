"""One gradient step of Stable-Baselines3's DQN and of sb3-contrib's QR-DQN, written down for `test_golden_parity.py`.

/path/to/python-with-sb3-and-contrib benchmarks/peers/sb3_golden.py

Writes tests/golden/sb3_dqn.json (or --out). Batch, loss, targets, gradient and step are what the libraries' own `train`
drew and computed: it is watched, not copied. The numbers are single precision with nine digits, which is exact.
"""

from pathlib import Path

import gymnasium
import numpy as np
import sb3_contrib
import stable_baselines3
import torch
from sb3_contrib import QRDQN
from sb3_contrib.qrdqn import qrdqn
from stable_baselines3 import DQN
from stable_baselines3.common.logger import configure
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.dqn import dqn
from torch import nn

from golden import numbers, watch, write_golden

GOLDEN = Path(__file__).parent.parent.parent / "tests" / "golden" / "sb3_dqn.json"
BATCH_SIZE = 32
NUM_ROWS = 64  # in the buffer
NUM_ACTIONS = 3
COMMON = {"learning_rate": 0.01, "batch_size": BATCH_SIZE, "gamma": 0.97, "buffer_size": NUM_ROWS, "device": "cpu"}
NETWORK = {"net_arch": [16, 16]}
VERSIONS = {"sb3": stable_baselines3.__version__, "sb3_contrib": sb3_contrib.__version__}


class Spaces(gymnasium.Env):
    """Spaces only: nothing is stepped."""

    observation_space = gymnasium.spaces.Box(-5.0, 5.0, (4,))
    action_space = gymnasium.spaces.Discrete(NUM_ACTIONS)


def layers(network: nn.Module) -> list[list]:
    """Weight and bias of every layer, in order."""
    return [numbers(parameter) for parameter in network.parameters()]


def fill(model: DQN | QRDQN, seed: int) -> None:
    """Random steps, of which some end an episode."""
    rng = np.random.default_rng(seed)
    for _ in range(NUM_ROWS):
        obs, next_obs = rng.normal(size=(2, 1, 4)).astype(np.float32)
        action, reward, done = rng.integers(NUM_ACTIONS, size=(1, 1)), 3 * rng.normal(size=1), rng.random(1) < 0.3
        model.replay_buffer.add(obs, next_obs, action, reward, done, [{}])


def batch_numbers(batch: ReplayBufferSamples, action: list) -> dict[str, list]:
    """The rows that `train` drew."""
    return {
        "obs": numbers(batch.observations),
        "action": action,
        "reward": numbers(batch.rewards.flatten()),
        "done": batch.dones.flatten().tolist(),  # 1 where nothing is bootstrapped
        "next_obs": numbers(batch.next_observations),
    }


def one_step(model: DQN | QRDQN, online: nn.Module, target: nn.Module, loss_at: tuple[object, str]) -> dict:
    """Moves the target away from the online network, fills the buffer, and lets `train` take one step."""
    model.set_logger(configure(None, []))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in target.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    fill(model, seed=2)
    before = {"online": layers(online), "target": layers(target)}
    losses, batches = [], []
    restore = watch(*loss_at, losses)
    watch(model.replay_buffer, "sample", batches)
    model.train(gradient_steps=1, batch_size=BATCH_SIZE)
    restore()
    (((current, targets), loss),) = losses
    ((_, batch),) = batches
    assert 0 < batch.dones.sum() < BATCH_SIZE
    group = model.policy.optimizer.param_groups[0]
    return {
        "settings": {
            "net_arch": NETWORK["net_arch"],
            "gamma": model.gamma,
            "learning_rate": group["lr"],
            "adam_eps": group["eps"],
            "max_grad_norm": model.max_grad_norm,
            **({"n_quantiles": model.n_quantiles} if isinstance(model, QRDQN) else {}),
        },
        "batch": batch_numbers(batch, batch.actions.flatten().tolist()),
        "before": before,
        "current": numbers(current),
        "targets": numbers(targets),
        "loss": float(f"{loss.item():.9g}"),
        "gradient": [numbers(parameter.grad) for parameter in online.parameters()],  # as clipped
        "after": layers(online),
    }


def run_dqn() -> dict:
    """A norm that is exceeded, so that the clipped gradient is compared too."""
    model = DQN("MlpPolicy", Spaces(), policy_kwargs=dict(NETWORK), max_grad_norm=0.1, seed=0, **COMMON)
    return one_step(model, model.q_net, model.q_net_target, (dqn.F, "smooth_l1_loss"))


def run_qrdqn() -> dict:
    """The library's own optimizer: Adam with eps 0.01 / batch_size, and no clipping."""
    model = QRDQN("MlpPolicy", Spaces(), policy_kwargs=NETWORK | {"n_quantiles": 5}, seed=0, **COMMON)
    return one_step(model, model.quantile_net, model.quantile_net_target, (qrdqn, "quantile_huber_loss"))


if __name__ == "__main__":
    for name, peer in write_golden(GOLDEN, __doc__, VERSIONS, {"dqn": run_dqn, "qrdqn": run_qrdqn}).items():
        print(name, peer["loss"])
