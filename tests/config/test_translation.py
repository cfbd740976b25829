"""What users of Stable-Baselines3 and its Zoo write is read, or answered with what to write."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from rl_training import DQN, PPO, SAC, Agent, ConfigError
from rl_training.algorithms.on_policy import NetArch
from rl_training.config import RunConfig, load_config_values
from rl_training.config.run_config import diff

PPO_ENTRY = """
CartPole-v1:
  n_envs: 8
  n_timesteps: !!float 1e5
  policy: 'MlpPolicy'
  n_steps: 32
  batch_size: 256
  learning_rate: lin_0.001
  normalize: "{'norm_obs': True, 'norm_reward': False}"
  policy_kwargs: "dict(net_arch=[dict(pi=[16], vf=[32])], activation_fn=nn.ReLU)"
"""
TD3_ENTRY = """
Pendulum-v1:
  n_envs: 2
  n_timesteps: 20000
  policy: 'MlpPolicy'
  noise_type: 'ornstein-uhlenbeck'
  noise_std: 0.5
  train_freq: 1
  gradient_steps: 1
  policy_kwargs: "dict(net_arch=[400, 300])"
"""
QR_DQN_ENTRY = """
LunarLander-v3:
  n_timesteps: !!float 1e5
  policy: 'MlpPolicy'
  learning_rate: lin_1.5e-3
  batch_size: 128
  buffer_size: 100000
  learning_starts: 10000
  gamma: 0.995
  target_update_interval: 1
  train_freq: 256
  gradient_steps: -1
  exploration_fraction: 0.24
  exploration_final_eps: 0.18
  policy_kwargs: "dict(net_arch=[256, 256], n_quantiles=170)"
"""
TRPO_ENTRY = """
LunarLander-v3:
  n_timesteps: 200000
  policy: 'MlpPolicy'
  n_envs: 2
  n_steps: 512
  sub_sampling_factor: 1
  cg_damping: 0.01
  gae_lambda: 0.98
  n_critic_updates: 15
"""
BARE_ENTRY = """
Pendulum-v1:
  n_timesteps: 20000
  policy: 'MlpPolicy'
"""


@pytest.mark.parametrize("given", [nn.ReLU, nn.ReLU(), torch.relu, F.relu, "nn.ReLU", "torch.nn.ReLU", "relu"])
def test_activations_of_torch_are_named(given: object) -> None:
    assert PPO("CartPole-v1", activation_fn=given).config.algorithm.activation_fn == "relu"


def test_layers_are_read() -> None:
    own = [{"pi": [8], "vf": [4]}]
    assert PPO("CartPole-v1", net_arch=own).config.algorithm.net_arch == NetArch((8,), (4,))
    assert PPO("CartPole-v1", net_arch=[16, *own]).config.algorithm.net_arch == NetArch((8,), (4,), (16,))
    twin = SAC("Pendulum-v1", net_arch={"pi": [8], "qf": [4]}).config.algorithm
    assert (twin.net_arch, twin.critic_net_arch) == ((8,), (4,))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: PPO("CartPole-v1", activation_fn=nn.Mish), "Mish.*is not one of 'tanh', 'relu'"),
        (lambda: DQN("CartPole-v1", net_arch=[{"pi": [8]}]), r"net_arch=\{'pi': \[8\]\} must be a list"),
        (
            lambda: PPO("CartPole-v1", policy_kwargs={"net_arch": [{"pi": [8], "vf": [4]}], "activation_fn": nn.ReLU}),
            r"write net_arch=\{'pi': \[8\], 'vf': \[4\]\}, activation_fn='relu'$",
        ),
        (
            lambda: SAC("Pendulum-v1", policy_kwargs="dict(net_arch=dict(pi=[8], qf=[4]), n_critics=3)"),
            r"write net_arch=\[8\], n_critics=3, critic_net_arch=\[4\]$",
        ),
        (lambda: PPO("CartPole-v1", policy_kwargs="__import__('os')"), "cannot be read: write a mapping"),
    ],
)
def test_what_is_not_read_is_answered_with_what_to_write(call, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        call()


def test_an_entry_of_the_zoo_is_a_config(tmp_path) -> None:
    (tmp_path / "ppo.yml").write_text(PPO_ENTRY)
    config = Agent.from_preset(tmp_path / "ppo.yml", overrides=["training.seed=3"]).config
    found = (config.env.id, config.env.n_envs, config.training.total_timesteps, config.experience.n_steps)
    assert found == ("CartPole-v1", 8, 100_000, 32)
    assert (config.algorithm.net_arch, config.algorithm.activation_fn) == (NetArch((16,), (32,)), "relu")
    assert (config.algorithm.normalize_observation, config.experience.normalize_reward) == (True, False)
    assert config.training.seed == 3
    (tmp_path / "td3.yml").write_text(TD3_ENTRY)
    td3 = Agent.from_preset(tmp_path / "td3.yml").config
    assert (td3.algorithm.action_noise, td3.algorithm.action_noise_std) == ("ou", 0.5)
    assert (td3.experience.train_freq, td3.algorithm.net_arch) == (2, (400, 300))


def test_divergences_of_the_zoos_trpo_are_said_to_be_means(tmp_path, told) -> None:
    (tmp_path / "trpo.yml").write_text(
        "Pendulum-v1:\n  n_timesteps: !!float 1e5\n  policy: 'MlpPolicy'\n  target_kl: 0.02\n"
    )
    assert Agent.from_preset(tmp_path / "trpo.yml").config.algorithm.target_kl == 0.02
    assert "target_kl=0.02 and cg_damping=0.1 are means over the components of Gaussian actions" in told()


@pytest.mark.parametrize(
    ("file", "text", "preset"),
    [("qrdqn", QR_DQN_ENTRY, "qr_dqn/lunarlander"), ("trpo", TRPO_ENTRY, "trpo/lunarlander")],
)
def test_presets_of_the_zoo_say_what_its_entries_say(file: str, text: str, preset: str, tmp_path) -> None:
    (tmp_path / f"{file}.yml").write_text(text)
    both = (load_config_values(name) for name in (str(tmp_path / f"{file}.yml"), preset))
    found = diff(*map(RunConfig.from_mapping, both))
    assert [row for row in found if not row[0].startswith(("evaluation.", "checkpoint."))] == []


def test_defaults_that_differ_from_ours_are_theirs(tmp_path) -> None:
    (tmp_path / "td3.yml").write_text(BARE_ENTRY)
    td3 = RunConfig.from_mapping(load_config_values(str(tmp_path / "td3.yml"))).algorithm
    assert (td3.net_arch, td3.action_noise) == ((400, 300), "none")
    (tmp_path / "qrdqn.yml").write_text(BARE_ENTRY.replace("Pendulum", "CartPole"))
    found = RunConfig.from_mapping(load_config_values(str(tmp_path / "qrdqn.yml"))).algorithm
    assert (found.max_grad_norm, found.adam_eps, found.exploration_fraction) == (None, 0.01 / 32, 0.005)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("ppo", PPO_ENTRY + TD3_ENTRY, "with 2 environments .*: copy the entry of one into a file of its own"),
        ("mine", PPO_ENTRY, "does not name its algorithm: call the file after it, e.g. ppo.yml"),
        ("ppo", PPO_ENTRY + "  use_sde: true\n", "state-dependent exploration is not available"),
        (
            "ppo",
            PPO_ENTRY + "  env_wrapper: gymnasium.wrappers.X\n",
            "env_wrapper='gymnasium.wrappers.X' is not a setting",
        ),
    ],
)
def test_an_entry_of_the_zoo_that_cannot_be_read_is_a_sentence(name: str, text: str, sentence: str, tmp_path) -> None:
    (tmp_path / f"{name}.yml").write_text(text)
    with pytest.raises(ConfigError, match=sentence):
        Agent.from_preset(tmp_path / f"{name}.yml")
