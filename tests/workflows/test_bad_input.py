"""Everything people get wrong: one clear sentence each, and nothing is written."""

from __future__ import annotations

import dataclasses

import gymnasium as gym
import numpy as np
import pytest
import torch

from rl_training import (
    A2C,
    BC,
    C51,
    DQN,
    IQN,
    PPO,
    PQN,
    QRDQN,
    REDQ,
    SAC,
    TD3,
    TQC,
    Agent,
    ConfigError,
    CrossQ,
    DiscreteSAC,
    NonFiniteError,
    RainbowDQN,
    RecurrentPPO,
    load,
)
from rl_training.config.names_of_others import SETTINGS, SETTINGS_ADVICE
from rl_training.config.registry import ALGORITHMS
from rl_training.experience.settings import STORES
from tests.bad_environments import SMALL, altered, discrete_with_mask, listing
from tests.envs.counting import CountingEnv


def not_an_env() -> str:
    return "CartPole-v1"


class SeveralAgents:
    """What tells PettingZoo's environments."""

    possible_agents = ("a", "b")


BOX = gym.spaces.Box(-1, 1, (2,))
NESTED = gym.spaces.Dict({"outer": gym.spaces.Dict({"inner": BOX})})

# what is done, and the parts of the sentence: field, value, fix
PYTHON = {
    "unknown key": (lambda: PPO("CartPole-v1", n_stepz=8), "n_stepz=8 is not a setting of ppo: did you mean 'n_steps'?"),
    "wrong type": (lambda: PPO("CartPole-v1", n_steps="many"), "experience.n_steps='many' must be a whole number"),
    "fraction for a count": (lambda: PPO("CartPole-v1", n_envs=1.5), "env.n_envs=1.5 must be a whole number"),
    "out of range": (lambda: PPO("CartPole-v1", gamma=1.5), "algorithm.gamma=1.5 must be at most 1"),
    "zero": (lambda: PPO("CartPole-v1", n_envs=0), "env.n_envs=0 must be at least 1"),
    "nan": (lambda: PPO("CartPole-v1", vf_coef=float("nan")), "algorithm.vf_coef=nan must be finite"),
    "infinite": (lambda: PPO("CartPole-v1", learning_rate=float("inf")), "algorithm.learning_rate=inf"),
    "negative seed": (lambda: PPO("CartPole-v1", seed=-1), "training.seed=-1 must be at least 0"),
    "more layers than anybody needs": (
        lambda: PPO("CartPole-v1", net_arch=[64] * 2_000),
        "algorithm.net_arch asks for 2,000 layers: use at most 1,000",
    ),
    "recurrent layers": (
        lambda: RecurrentPPO("CartPole-v1", n_lstm_layers=10**9), "algorithm.n_lstm_layers asks for 1,000,000,000 layers",
    ),
    "more draws than memory": (
        lambda: IQN("CartPole-v1", n_target_samples=10**9),
        "algorithm.n_target_samples=1000000000, in layers of 64 units, needs",
        "choose a smaller one",
    ),
    "more quantiles to act on than memory": (
        lambda: IQN("CartPole-v1", n_quantiles=10**9),
        "algorithm.n_quantiles=1000000000, in layers of 64 units, needs 256.00 GB",
    ),
    "pairs of quantiles": (
        lambda: QRDQN("CartPole-v1", n_quantiles=10**6), "comparing every pair of quantiles (algorithm.n_quantiles=1000000)",
    ),
    "layer larger than memory": (
        lambda: PPO("CartPole-v1", net_arch=[10**11]),
        "algorithm.net_arch={'pi': [100000000000]",
        "weights of the shape (100000000000, 4)",
        "bring the networks to 6,400.00 GB",
        "choose smaller ones",
    ),
    "gates larger than memory": (
        lambda: RecurrentPPO("CartPole-v1", lstm_hidden_size=10**11),
        "algorithm.lstm_hidden_size=100000000000: weights of the shape (400000000000, 4)",
    ),
    "quantiles larger than memory": (
        lambda: QRDQN("CartPole-v1", n_quantiles=10**12), "algorithm.n_quantiles=1000000000000", "GB",
    ),
    "environments larger than memory": (lambda: PPO("CartPole-v1", n_envs=10**12), "env.n_envs=1000000000000 needs", "GB"),
    "frames larger than memory": (lambda: PPO("CartPole-v1", frame_stack=10**12), "env.frame_stack=1000000000000 needs"),
    "threads that no system starts": (lambda: PPO("CartPole-v1", threads=10**6), "training.threads=1000000 must be at most 1024"),
    "empty layer": (lambda: PPO("CartPole-v1", net_arch=[64, 0]), "algorithm.net_arch.pi[1]=0 must be at least 1"),
    "choice": (lambda: PPO("CartPole-v1", activation_fn="rellu"), "algorithm.activation_fn='rellu' is not one of", "'relu'?"),
    "cleanrl spelling": (lambda: PPO("CartPole-v1", num_envs=4), "num_envs=4", "here it is called n_envs"),
    "cleanrl clipping": (lambda: PPO("CartPole-v1", clip_coef=0.1), "clip_coef=0.1", "here it is called clip_range"),
    "sb3 policy_kwargs": (lambda: PPO("CartPole-v1", policy_kwargs={}), "policy_kwargs={}", "give net_arch, activation_fn"),
    "sb3 verbose": (lambda: PPO("CartPole-v1", verbose=1), "verbose=1", "progress=False in learn()"),
    "tianshou spelling": (lambda: A2C("CartPole-v1", discount_factor=0.9), "discount_factor=0.9", "called gamma"),
    "callable schedule": (
        lambda: PPO("CartPole-v1", learning_rate=lambda progress: 1e-3 * progress),
        "algorithm.learning_rate at progress 0",
        "=0.0 must be above 0",
    ),
    "unknown schedule": (lambda: PPO("CartPole-v1", clip_range="sin_0.2"), "algorithm.clip_range='sin_0.2'"),
    "unknown preset": (lambda: PPO.from_preset("ppo/cartpol"), "'ppo/cartpol' is not a preset: did you mean 'ppo/cartpole'?"),
    "preset of a task that has none": (
        lambda: PPO.from_preset("ppo/pusher"),
        "'ppo/pusher' is not a preset: copy one of ppo, `rl-training presets copy ppo/hopper my.yaml`",
        "set env.id: Pusher-v5 in it",
    ),
    "preset of the Zoo with gSDE": (
        lambda: PPO.from_preset("sac/bipedalwalker"),
        "'sac/bipedalwalker' is not a preset: RL Baselines3 Zoo uses gSDE (use_sde) there, which is not available yet",
        "train sac/hopper --set env.id=BipedalWalker-v3",  # sac/lunarlander_continuous has arguments of its environment
    ),
    "unknown algorithm": (
        lambda: PPO.from_preset("ppo/cartpole", overrides=["algorithm.name=pppo"]),
        "algorithm.name='pppo' is not an algorithm: did you mean 'ppo'?",
    ),
    "unknown env": (lambda: PPO("CartPol-v1"), "env.id='CartPol-v1' is not a registered environment", "CartPole-v1"),
    "Atari through gymnasium": (
        lambda: PPO("ALE/Nothing-v5", backend="gymnasium"), "'ALE/Nothing-v5'", "leave env.backend='gymnasium' out", "'ale_py:ALE/",
    ),
    "layers that are a number": (lambda: PPO("CartPole-v1", net_arch=64), "net_arch=64 must be a list, for example [64, 64]"),
    "layers that are text": (lambda: PPO("CartPole-v1", net_arch="64,64"), "net_arch='64,64' must be a list, for example [64, 64]"),
    "compile": (lambda: PPO("CartPole-v1", compile="yes"), "training.compile='yes' is not one of true, false, 'auto', 'record'"),
    "what reset returns": (
        lambda: PPO("CartPole-v1").predict(gym.make("CartPole-v1").reset()), "a tuple", "reset returns (obs, info)", "pass obs",
    ),
    "old env version": (lambda: PPO("LunarLander-v2"), "env.id='LunarLander-v2'", "LunarLander-v3"),
    "malformed env": (lambda: PPO("Cart Pole!"), "env.id='Cart Pole!'"),
    "env kwargs": (lambda: PPO("CartPole-v1", kwargs={"gravity": 1}), "env.kwargs={'gravity': 1} was refused by CartPole-v1"),
    "missing factory": (
        lambda: PPO("no_such_module:make"), "env.id='no_such_module:make' cannot be imported", "install it, or start in the folder of",
    ),
    "factory without env": (lambda: PPO(not_an_env), "returned str: a factory must return a gymnasium.Env"),
    "several agents": (
        lambda: PPO(SeveralAgents()), "SeveralAgents has several agents (('a', 'b'))", "pass its id, IPPO(",
    ),
    "a function of several agents": (lambda: PPO(lambda: SeveralAgents()), "pass its id, IPPO("),
    "no env at all": (lambda: PPO(42), "env=42 is not an environment: pass an id"),
    "env without spec": (lambda: PPO(CountingEnv()), "CountingEnv was handed over as an object without a spec", "pass a function"),
    "batch larger than rollout": (
        lambda: PPO("CartPole-v1", n_steps=8, n_envs=2, batch_size=64),
        "algorithm.batch_size=64 is larger than a rollout (n_steps 8 x n_envs 2 = 16): lower batch_size or raise n_steps",
    ),
    "minibatch of one": (
        lambda: PPO("CartPole-v1", n_steps=9, batch_size=8),
        "algorithm.batch_size=8 leaves a minibatch of one sample out of 9",
        "normalize_advantage=false",
    ),
    "tf without rmsprop": (
        lambda: A2C("CartPole-v1", rms_prop_tf=True, use_rms_prop=False),
        "algorithm.rms_prop_tf=true has no effect with use_rms_prop=false: set use_rms_prop=true",
    ),
    "steps between updates": (
        lambda: DQN("CartPole-v1", n_envs=3),
        "experience.train_freq=4 must be a multiple of env.n_envs=3", "use 6",
    ),
    "no updates": (lambda: DQN("CartPole-v1", gradient_steps=0), "algorithm.gradient_steps=0 never learns: use 1, or -1"),
    "fewer than no updates": (lambda: DQN("CartPole-v1", gradient_steps=-2), "algorithm.gradient_steps=-2 must be at least -1"),
    "start before the start": (lambda: DQN("CartPole-v1", learning_starts=-1), "experience.learning_starts=-1 must be at least 0"),
    "batch larger than the buffer": (
        lambda: DQN("CartPole-v1", batch_size=64, buffer_size=32),
        "algorithm.batch_size=64 is larger than buffer_size=32: lower batch_size or raise buffer_size",
    ),
    "buffer shorter than a return": (
        lambda: DQN("CartPole-v1", n_steps=20, n_envs=4, buffer_size=64),
        "experience.buffer_size=64 holds fewer than n_steps=20 steps of 4 environments: raise it",
    ),
    "buffer larger than memory": (
        lambda: DQN("CartPole-v1", buffer_size=10**12).learn(10, progress=False),
        "experience.buffer_size=1000000000000 needs 29000.00 GB", "free on cpu: choose a smaller one", "experience.buffer_folder",
    ),
    "buffer in a folder that is not there": (
        lambda: DQN("CartPole-v1", buffer_folder="nowhere").learn(10, progress=False),
        "experience.buffer_folder='nowhere' is not a folder: make it, or name another",
    ),
    "target that stands still": (lambda: DQN("CartPole-v1", tau=0), "algorithm.tau=0.0 must be above 0"),
    "correction above one": (lambda: DQN("CartPole-v1", per_beta=2.0), "algorithm.per_beta=2.0 must be at most 1"),
    "noise without noisy layers": (
        lambda: DQN("CartPole-v1", exploration="noisy"), "algorithm.exploration='noisy' needs noisy layers: set noisy=true",
    ),
    "loss of another head": (
        lambda: C51("CartPole-v1", loss="mse"), "algorithm.loss='mse' is for head='mean': head='c51' has a loss of its own",
    ),
    "head": (lambda: DQN("CartPole-v1", head="c52"), "algorithm.head='c52' is not one of", "did you mean 'c51'?"),
    "returns without room": (lambda: C51("CartPole-v1", v_min=1, v_max=1), "algorithm.v_min=1.0 must be below v_max=1.0"),
    "returns that are not numbers": (lambda: C51("CartPole-v1", v_min=float("nan")), "algorithm.v_min=nan must be finite"),
    "one atom": (lambda: RainbowDQN("CartPole-v1", n_atoms=1), "algorithm.n_atoms=1 must be at least 2"),
    "no fractions": (lambda: IQN("CartPole-v1", n_samples=0), "algorithm.n_samples=0 must be at least 1"),
    "temperature that vanishes": (
        lambda: DQN("CartPole-v1", exploration="boltzmann", temperature="lin_1.0"),
        "algorithm.temperature must stay above 0: give the schedule a small final value",
    ),
    "networks of another family": (
        lambda: DQN("CartPole-v1", net_arch={"pi": [64]}), "algorithm.net_arch={'pi': [64]} must be a list",
    ),
    "rewards are not scaled in a replay": (
        lambda: DQN("CartPole-v1", normalize_reward=True), "normalize_reward=True is not a setting of dqn",
    ),
    "batch larger than q-learning's rollout": (
        lambda: PQN("CartPole-v1", n_steps=8, batch_size=64),
        "algorithm.batch_size=64 is larger than a rollout (n_steps 8 x n_envs 1 = 8)",
    ),
    "q-values of a continuum": (lambda: DQN("Pendulum-v1"), "DQN needs Discrete actions, but this environment has Box: use PPO"),
    "discrete sac in a continuum": (lambda: DiscreteSAC("Pendulum-v1"), "DiscreteSAC needs Discrete actions", "has Box"),
    "pqn in a continuum": (lambda: PQN("Pendulum-v1"), "PQN needs Discrete actions", "has Box"),
    "q-values of several choices": (
        lambda: DQN(altered(action_space=gym.spaces.MultiDiscrete([2, 2]))), "DQN needs Discrete actions", "has MultiDiscrete",
    ),
    "continuous actions of a choice": (
        lambda: SAC("CartPole-v1"), "SAC needs Box actions, but this environment has Discrete: use DQN, DiscreteSAC or PPO",
    ),
    "actions without bounds": (
        lambda: TD3(altered(action_space=gym.spaces.Box(-np.inf, np.inf, (1,)))),
        "TD3 acts between two bounds", "action 0 of this environment has low=-inf and high=inf: give its Box both", "TransformAction",
    ),
    "actions with half a bound": (
        lambda: SAC(altered(action_space=gym.spaces.Box(0, np.inf, (1,)))),
        "action 0 of this environment has low=0 and high=inf: give its Box both", "or use PPO",
    ),
    "temperature in words": (
        lambda: SAC("Pendulum-v1", ent_coef="warm"), "algorithm.ent_coef='warm' is not understood: use 'auto', 'auto_0.1'",
    ),
    "no temperature": (lambda: SAC("Pendulum-v1", ent_coef=0), "algorithm.ent_coef=0", "above 0"),
    "wanted entropy in words": (lambda: SAC("Pendulum-v1", target_entropy="low"), "algorithm.target_entropy='low'"),
    "more critics than there are": (
        lambda: REDQ("Pendulum-v1", n_critics=1), "algorithm.critic_subset=2 is more than n_critics=1: lower it",
    ),
    "no quantiles left": (
        lambda: TQC("Pendulum-v1", n_quantiles=2), "algorithm.top_quantiles_to_drop_per_net=2 leaves nothing of n_quantiles=2",
    ),
    "targets where there are none": (
        lambda: CrossQ("Pendulum-v1", tau=0.01), "algorithm.tau=0.01 has no effect in CrossQ, because it has no target networks",
    ),
    "noise of another kind": (lambda: TD3("Pendulum-v1", action_noise="uo"), "algorithm.action_noise='uo'", "did you mean 'ou'?"),
    "negative noise": (lambda: TD3("Pendulum-v1", action_noise_std=-0.1), "algorithm.action_noise_std=-0.1 must be at least 0"),
    "cleanrl delay": (lambda: TD3("Pendulum-v1", policy_frequency=2), "policy_frequency=2", "here it is called policy_delay"),
    "no native version": (
        lambda: PPO("LunarLander-v3", backend="native"),
        "env.id='LunarLander-v3' has no native version: use one of CartPole-v1",
        "env.backend='gymnasium'",
    ),
    "native with workers": (
        lambda: PPO("CartPole-v1", backend="native", vectorization="async"),
        "env.vectorization='async' is for gymnasium: native environments need none",
    ),
    "no vector entry point": (lambda: PPO("Pendulum-v1", vectorization="vector_entry_point"), "env.id='Pendulum-v1'"),
    "early stop without evaluations": (
        lambda: PPO("CartPole-v1", evaluation={"stop_at_return": 1.0}),
        "evaluation.stop_at_return needs evaluations during training: set evaluation.interval",
    ),
    "tuple observation": (
        lambda: PPO(altered(observation_space=gym.spaces.Tuple([BOX]))),
        "the observation space Tuple(", "is not supported: wrap the environment",
    ),
    "text observation": (
        lambda: PPO(altered(observation_space=gym.spaces.Text(5))),
        "the observation space Text(", "is not supported: wrap the environment",
    ),
    "nested dictionary": (
        lambda: PPO(altered(observation_space=NESTED)), "the observation 'outer' is nested", "flatten the dictionary",
    ),
    "dictionary of actions": (
        lambda: PPO(altered(action_space=gym.spaces.Dict({"a": BOX}))),
        "the action space Dict(", "is not supported: use Box, Discrete, MultiDiscrete or MultiBinary",
    ),
    "mask of wrong size": (
        lambda: PPO(discrete_with_mask(3)), "observation 'action_mask' has 3 entries", "it needs 2",
    ),
    "lambda encoder": (
        lambda: PPO("CartPole-v1", encoder="<lambda>"),
        "encoder='<lambda>' names no code", "package.module:name",
    ),
    "encoder of another kind": (
        lambda: PPO("CartPole-v1", encoder="builtins:str"), "encoder='builtins:str' must return a torch module",
    ),
    "vector env of another size": (
        lambda: PPO(gym.make_vec("CartPole-v1", 2, vectorization_mode="sync"), n_envs=3),
        "n_envs=3, but the vector environment has 2",
    ),
    "settings beside a config": (
        lambda: PPO(PPO("CartPole-v1").config, n_steps=8), "n_steps is given beside a RunConfig, which is the whole run: change",
    ),
    "unknown device": (lambda: PPO("CartPole-v1", device="gpu"),
        "training.device='gpu' is not a device to train on: use 'cpu', 'cuda' or 'auto'"),
    "negative budget": (lambda: PPO("CartPole-v1").learn(-5), "total_timesteps=-5 must be at least 1"),
    "budget that is no number": (lambda: PPO("CartPole-v1").learn("long"), "total_timesteps='long' must be a whole number"),
    "pause before the start": (lambda: PPO("CartPole-v1").learn(10, stop_at=0), "stop_at=0 must be at least 1"),
    "no episodes": (lambda: PPO("CartPole-v1").evaluate(0), "num_episodes=0 must be at least 1"),
    "evaluation seed": (lambda: PPO("CartPole-v1").evaluate(1, seed=-1), "seed=-1 must be at least 0"),
    "observation of wrong shape": (
        lambda: PPO("CartPole-v1").predict([0.0, 1.0]), "the observation has shape (2,): it must be (4,)", "'batch', 4",
    ),
    "observation of words": (lambda: PPO("CartPole-v1").predict(["a", "b", "c", "d"]), "the observation is not numeric"),
    "observation not finite": (lambda: PPO("CartPole-v1").predict([0, 0, 0, np.nan]), "the observation is not finite"),
    "observation out of range": (
        lambda: PPO(altered(observation_space=gym.spaces.Discrete(5, start=10))).predict(3),
        "the observation=3 must be whole numbers in 10 to 14",
    ),
    "observation between choices": (
        lambda: PPO(altered(observation_space=gym.spaces.Discrete(5))).predict(0.5),
        "the observation=0.5 must be whole numbers in 0 to 4",
    ),
    "missing model": (lambda: load("nowhere"), "nowhere does not exist: give a saved model, a checkpoint or a run directory"),
    "no environment and no data": (lambda: BC(), "BC() has no environment: begin with one", "take dataset= too, or instead"),
    "layers by another name": (lambda: PPO("CartPole-v1", net_arch={"policy": [8]}),
        "algorithm.net_arch.policy is not a setting: did you mean 'pi'?"),
    "resume of nothing": (lambda: Agent.resume("nowhere"), "nowhere does not exist: give the run directory that `train`"),
}  # fmt: skip


@pytest.mark.parametrize("kind", PYTHON)
def test_python(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    act, *parts = PYTHON[kind]
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        act()
    message = str(caught.value)
    for part in parts:
        assert part in message
    assert "\n" not in message
    assert listing(tmp_path) == {}


@pytest.mark.parametrize("device", ["gpu", "mps", "auto", "meta"])
def test_unknown_buffer_device(device):
    sentence = rf"experience\.buffer_device='{device}' is not a device to train on: use 'cpu' or 'cuda'"
    with pytest.raises(ConfigError, match=sentence):
        DQN("CartPole-v1", buffer_device=device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU: CUDA_VISIBLE_DEVICES= make test")
def test_cuda_without_a_gpu():
    with pytest.raises(ConfigError, match=r"training\.device='cuda', but this machine has no usable GPU: use 'cpu'"):
        PPO("CartPole-v1", device="cuda")


def test_a_loss_that_is_not_finite_names_itself():
    agent = PPO(altered(reward=1e30), **SMALL, vf_coef=1e10)
    with pytest.raises(NonFiniteError, match=r"loss became \w+ in update \d+ .*lower algorithm.learning_rate"):
        agent.learn(64, progress=False)


def test_hints_for_other_libraries_names_exist_here():
    fields = {field.name for entry in ALGORITHMS.values() for field in dataclasses.fields(entry.config)}
    fields |= {field.name for store in STORES.values() for field in dataclasses.fields(store)}
    fields |= {"n_envs", "total_timesteps", "info_keys"}
    assert set(SETTINGS.values()) <= fields
    assert fields & {*SETTINGS, *SETTINGS_ADVICE} == {"alpha"}  # TD3+BC's own, SAC's temperature in other libraries


def test_the_mistakes_of_habit_get_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"names a policy first: begin with the environment, PPO\('CartPole-v1'\)"):
        PPO("MlpPolicy", "CartPole-v1")
    with pytest.raises(ConfigError, match="must be a list"):
        PPO.from_preset("ppo/cartpole", overrides="training.seed=1")
    agent = PPO("CartPole-v1", n_steps=np.int64(8), batch_size=8, compile=False)
    with pytest.raises(ConfigError, match="is not a Callback"):
        agent.learn(8, callbacks=[print], progress=False)
    with pytest.raises(ConfigError, match=r"num_episodes=1\.5"):
        agent.evaluate(1.5)
