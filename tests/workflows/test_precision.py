"""Products may be rounded; everything that is kept stays in float32."""

import pytest
import torch

from rl_training import Agent, RunConfig

SMALL = {"net_arch": [16], "batch_size": 16}
REPLAY = SMALL | {"buffer_size": 200, "learning_starts": 32}
CASES = {
    "ppo": SMALL | {"n_steps": 32},
    "dqn": REPLAY | {"train_freq": 4},
    "rainbow_dqn": REPLAY | {"train_freq": 4},
    "sac": REPLAY,
    "td3": REPLAY,
    "crossq": REPLAY | {"critic_net_arch": [16]},
}


def learned(name: str, precision: str) -> dict[str, torch.Tensor]:
    env = "Pendulum-v1" if name in ("sac", "td3", "crossq") else "CartPole-v1"
    training = {"precision": precision, "compile": False, "total_timesteps": 64, "seed": 0}
    agent = Agent(
        RunConfig.from_mapping({"algorithm": {"name": name} | CASES[name], "env": {"id": env}, "training": training})
    )
    agent.learn(progress=False)
    state = dict(agent.algorithm.state_dict())
    agent.close()
    return state


@pytest.mark.parametrize("name", CASES)
def test_bf16_products_change_a_little_and_only_the_products(name: str) -> None:
    exact, rounded = learned(name, "float32"), learned(name, "bf16")
    assert all(value.dtype == exact[key].dtype for key, value in rounded.items())
    assert all(torch.isfinite(value).all() for value in rounded.values() if value.is_floating_point())
    assert any(not torch.equal(value, exact[key]) for key, value in rounded.items())


def test_a_run_gives_the_caller_its_precision_back() -> None:
    before = torch.get_float32_matmul_precision()
    learned("sac", "tf32")
    assert torch.get_float32_matmul_precision() == before
