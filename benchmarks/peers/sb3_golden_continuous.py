"""Two gradient steps of SB3's SAC and TD3 and of contrib's TQC and CrossQ, for `test_golden_parity_continuous.py`.

/path/to/python-with-sb3-and-contrib benchmarks/peers/sb3_golden_continuous.py

Writes tests/golden/sb3_continuous.json (or --out). Batches, noise, losses, gradients and weights are what the libraries'
own `train` drew and computed: it is watched, not copied. Two steps, because the first of Adam does not show its betas.
The numbers are single precision with nine digits, which is exact.
"""

from collections.abc import Callable
from pathlib import Path

import gymnasium
import numpy as np
import torch
from sb3_contrib import TQC, CrossQ
from sb3_contrib.common.torch_layers import BatchRenorm
from sb3_golden import VERSIONS, batch_numbers
from stable_baselines3 import SAC, TD3
from stable_baselines3.common.logger import configure
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from torch import Tensor, nn

from golden import numbers, watch, write_golden

GOLDEN = Path(__file__).parent.parent.parent / "tests" / "golden" / "sb3_continuous.json"
SEED = 9  # one with which the assertions below hold for all four
NUM_STEPS = 2
BATCH_SIZE = 16
NUM_ROWS = 48  # in the buffer
OBS_SIZE, ACTION_SIZE = 3, 2
COMMON = {"learning_rate": 0.01, "batch_size": BATCH_SIZE, "gamma": 0.97, "buffer_size": NUM_ROWS, "device": "cpu"}
SOFT = {"ent_coef": "auto_0.3"}  # learned, from where its logarithm, and with it its loss, is not 0
NETWORK = {"net_arch": [8, 8], "n_critics": 2}
LOSSES = ("critic_loss", "actor_loss", "ent_coef_loss")


class Spaces(gymnasium.Env):
    """Spaces only: nothing is stepped."""

    observation_space = gymnasium.spaces.Box(-5.0, 5.0, (OBS_SIZE,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (ACTION_SIZE,))


def fill(model: OffPolicyAlgorithm, seed: int) -> None:
    """Random steps, of which some end an episode."""
    rng = np.random.default_rng(seed)
    for _ in range(NUM_ROWS):
        obs, next_obs = rng.normal(size=(2, 1, OBS_SIZE)).astype(np.float32)
        action = rng.uniform(-1, 1, size=(1, ACTION_SIZE)).astype(np.float32)
        reward, done = 3 * rng.normal(size=1), rng.random(1) < 0.3
        model.replay_buffer.add(obs, next_obs, action, reward, done, [{}])


@torch.no_grad()
def unsettle(model: OffPolicyAlgorithm, seed: int) -> None:
    """Targets away from what they follow, statistics and scales away from 0 and 1, so that each of them matters."""
    generator = torch.Generator().manual_seed(seed)

    def noise(like: Tensor) -> Tensor:
        return 0.3 * torch.randn(like.shape, generator=generator)

    for name in ("critic_target", "actor_target"):
        for parameter in getattr(model, name, nn.Module()).parameters():
            parameter.add_(noise(parameter))
    for module in model.policy.modules():
        if isinstance(module, BatchRenorm):
            for tensor in (module.scale, module.bias, module.ra_mean):
                tensor.add_(noise(tensor))
            module.ra_var.mul_(noise(module.ra_var).exp())
    if isinstance(model, SAC | TQC | CrossQ):
        model.actor.log_std.bias.sub_(1.0)  # actions far enough from 1: see `soft_noise`


def state(model: OffPolicyAlgorithm) -> dict:
    """Every tensor that learns or is averaged, under the library's names."""
    found = {name: getattr(model, name, None) for name in ("critic", "actor", "critic_target", "actor_target")}
    networks = {name: network.state_dict() for name, network in found.items() if network is not None}
    if isinstance(model, SAC | TQC | CrossQ):
        networks["ent_coef"] = {"log_ent_coef": model.log_ent_coef}
    return {name: {key: numbers(torch.atleast_1d(t)) for key, t in n.items()} for name, n in networks.items()}


def watch_gradients(model: OffPolicyAlgorithm, seen: dict) -> None:
    """Keeps every gradient as its optimizer finds it: later losses add to the critics' gradients."""

    def keep(name: str, parameters: dict[str, Tensor]) -> Callable[..., None]:
        def call(*_: object) -> None:
            sizes = torch.cat([p.grad.flatten() for p in parameters.values()]).abs()
            assert not ((sizes > 0) & (sizes < 1e-6)).any()  # Adam would take steps in a direction that rounding chose
            seen[name] = {key: numbers(p.grad) for key, p in parameters.items()}

        return call

    for name in ("critic", "actor"):
        network = getattr(model, name)
        network.optimizer.register_step_pre_hook(keep(name, dict(network.named_parameters())))
    if isinstance(model, SAC | TQC | CrossQ):
        model.ent_coef_optimizer.register_step_pre_hook(keep("ent_coef", {"log_ent_coef": model.log_ent_coef}))


def soft_noise(model: OffPolicyAlgorithm) -> tuple[Callable[[], None], Callable[..., dict]]:
    """Watches which observations actions are drawn for, and the standard normal numbers that are drawn for them."""
    drawn, asked = [], []
    ends = [
        watch(torch.distributions.normal, "_standard_normal", drawn),
        watch(model.actor, "action_log_prob", asked),
    ]

    def found(batch: object) -> dict:
        noise = {}
        for (_, normal), ((obs,), (action, _)) in zip(drawn, asked, strict=True):
            assert action.abs().max() < 0.97  # nearer to 1 the 1e-6 in the library's logarithm shows
            noise["next" if obs is batch.next_observations else "now"] = numbers(normal)
        assert set(noise) == {"next", "now"}
        return noise

    return lambda: [end() for end in ends], found


def target_noise(model: TD3) -> tuple[Callable[[], None], Callable[..., dict]]:
    """Watches the noise at the target actor's actions, of which some must be clipped, as must some noisy actions."""
    drawn, asked = [], []
    ends = [watch(Tensor, "normal_", drawn), watch(model.critic_target, "forward", asked)]

    def found(batch: object) -> dict:
        ((_, noise),) = drawn
        (((_, action), _),) = asked
        for clipped in (noise.abs() > model.target_noise_clip, action.abs() == 1):
            assert 0 < clipped.sum() < BATCH_SIZE
        return {"next": numbers(noise / model.target_policy_noise)}

    return lambda: [end() for end in ends], found


def steps(model: OffPolicyAlgorithm, settings: dict) -> dict:
    """Fills the buffer and lets `train` take the steps."""
    model.set_logger(configure(None, []))
    unsettle(model, SEED)
    fill(model, SEED + 1)
    before, taken, gradients, batches = state(model), [], {}, []
    watch_gradients(model, gradients)
    watch(model.replay_buffer, "sample", batches)
    for _ in range(NUM_STEPS):
        end, noise_of = target_noise(model) if isinstance(model, TD3) else soft_noise(model)
        model.train(gradient_steps=1, batch_size=BATCH_SIZE)
        end()
        _, batch = batches[-1]
        assert 0 < batch.dones.sum() < BATCH_SIZE
        logged = model.logger.name_to_value
        taken.append(
            {
                "batch": batch_numbers(batch, numbers(batch.actions)),
                "noise": noise_of(batch),
                "losses": {n: float(f"{logged[f'train/{n}']:.9g}") for n in LOSSES if f"train/{n}" in logged},
                "gradients": dict(gradients),
            }
        )
    group = model.critic.optimizer.param_groups[0]
    common = {"gamma": model.gamma, "learning_rate": group["lr"], "adam_eps": group["eps"], **NETWORK}
    return {"settings": common | settings, "before": before, "steps": taken, "after": state(model)}


def run_sac() -> dict:
    settings = SOFT | {"tau": 0.05}
    return steps(SAC("MlpPolicy", Spaces(), policy_kwargs=dict(NETWORK), seed=0, **COMMON, **settings), settings)


def run_td3() -> dict:
    """More noise than by default, so that its clipping is compared too."""
    settings = {"tau": 0.05, "policy_delay": 1, "target_policy_noise": 0.6, "target_noise_clip": 0.8}
    return steps(TD3("MlpPolicy", Spaces(), policy_kwargs=dict(NETWORK), seed=0, **COMMON, **settings), settings)


def run_tqc() -> dict:
    settings = SOFT | {"tau": 0.05, "top_quantiles_to_drop_per_net": 2}
    network = {"n_quantiles": 5}
    model = TQC("MlpPolicy", Spaces(), policy_kwargs=NETWORK | network, seed=0, **COMMON, **settings)
    return steps(model, settings | network)


def run_crossq() -> dict:
    """Batch renormalisation as in its first 100,000 steps: batch normalisation."""
    settings = SOFT | {"policy_delay": 1}
    model = CrossQ("MlpPolicy", Spaces(), policy_kwargs=dict(NETWORK), seed=0, **COMMON, **settings)
    return steps(model, settings | {"critic_net_arch": NETWORK["net_arch"]})


if __name__ == "__main__":
    cases = {"sac": run_sac, "td3": run_td3, "tqc": run_tqc, "crossq": run_crossq}
    for name, peer in write_golden(GOLDEN, __doc__, VERSIONS, cases).items():
        print(name, [step["losses"] for step in peer["steps"]])
