"""Steps per second of Tianshou 2; run in an environment that has it, asked as in `protocol.py`.

Its own trainer, collector and buffer; one epoch as long as what is asked, without tests, logger and progress bar. The
replay is first filled by its collector with random actions, on the first request, as its examples do.
"""

import gymnasium as gym
import numpy as np
import tianshou
import torch
from gymnasium.spaces import Discrete
from protocol import Learn, serve
from tianshou.algorithm import DQN, PPO, SAC, TD3
from tianshou.algorithm.algorithm_base import Algorithm, OffPolicyAlgorithm
from tianshou.algorithm.modelfree.ddpg import ContinuousDeterministicPolicy
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy, ProbabilisticActorPolicy
from tianshou.algorithm.modelfree.sac import AutoAlpha, SACPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.exploration import GaussianNoise
from tianshou.trainer import OffPolicyTrainerParams, OnPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorDeterministic, ContinuousActorProbabilistic, ContinuousCritic
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic
from torch import Tensor, nn
from torch.distributions import Distribution, Independent, Normal


class Parts:
    """Environments, sizes, and networks of the work's widths."""

    def __init__(self, work: dict) -> None:
        torch.set_num_threads(work["threads"])
        torch.manual_seed(0)
        self.envs = DummyVectorEnv([lambda: gym.make(work["env"])] * work["n_envs"])
        self.envs.seed(0)
        one = gym.make(work["env"])
        self.action_space = one.action_space
        self.state_shape = one.observation_space.shape
        self.action_shape = self.action_space.n if isinstance(self.action_space, Discrete) else self.action_space.shape
        self.widths = work.get("net_arch", [64, 64])

    def net(self, *, concat: bool = False, activation: type[nn.Module] = nn.ReLU, actions: bool = False) -> Net:
        return Net(
            state_shape=self.state_shape,
            action_shape=self.action_shape if concat or actions else 0,
            hidden_sizes=self.widths,
            activation=activation,
            concat=concat,
        )

    def critic(self) -> ContinuousCritic:
        return ContinuousCritic(preprocess_net=self.net(concat=True))


def normal(location_and_scale: tuple[Tensor, Tensor]) -> Distribution:
    location, scale = location_and_scale
    return Independent(Normal(location, scale), 1)


def build_ppo(work: dict) -> Learn:
    parts = Parts(work)
    body = parts.net(activation=nn.Tanh)
    if isinstance(parts.action_space, Discrete):
        actor = DiscreteActor(preprocess_net=body, action_shape=parts.action_shape, softmax_output=False)
        policy = DiscreteActorPolicy(actor=actor, action_space=parts.action_space)
        critic = DiscreteCritic(preprocess_net=parts.net(activation=nn.Tanh))
    else:
        actor = ContinuousActorProbabilistic(preprocess_net=body, action_shape=parts.action_shape, unbounded=True)
        policy = ProbabilisticActorPolicy(actor=actor, dist_fn=normal, action_space=parts.action_space)
        critic = ContinuousCritic(preprocess_net=parts.net(activation=nn.Tanh))
    algorithm = PPO(policy=policy, critic=critic, optim=AdamOptimizerFactory(lr=3e-4), max_grad_norm=0.5)
    per_collection = work["n_envs"] * work["n_steps"]
    collector = Collector(algorithm, parts.envs, VectorReplayBuffer(per_collection, work["n_envs"]))

    def learn(num_steps: int) -> None:
        params = OnPolicyTrainerParams(
            training_collector=collector,
            max_epochs=1,
            epoch_num_steps=num_steps,
            collection_step_num_env_steps=per_collection,
            batch_size=work["batch_size"],
            update_step_num_repetitions=work["n_epochs"],
            verbose=False,
            show_progress=False,
        )
        algorithm.run_training(params)

    return learn


def off_policy(work: dict, parts: Parts, algorithm: OffPolicyAlgorithm) -> Learn:
    buffer = VectorReplayBuffer(work["buffer_size"], work["n_envs"])
    collector = Collector[Algorithm](algorithm, parts.envs, buffer, exploration_noise=True)

    def learn(num_steps: int) -> None:
        if not len(buffer):
            collector.reset()
            collector.collect(n_step=work["learning_starts"], random=True)
        params = OffPolicyTrainerParams(
            training_collector=collector,
            max_epochs=1,
            epoch_num_steps=num_steps,
            collection_step_num_env_steps=work["train_freq"],
            update_step_num_gradient_steps_per_sample=work["gradient_steps"] / work["train_freq"],
            batch_size=work["batch_size"],
            verbose=False,
            show_progress=False,
        )
        algorithm.run_training(params)

    return learn


def build_dqn(work: dict) -> Learn:
    parts = Parts(work)
    policy = DiscreteQLearningPolicy(
        model=parts.net(actions=True), action_space=parts.action_space, eps_training=work["exploration_final_eps"]
    )
    algorithm = DQN(
        policy=policy,
        optim=AdamOptimizerFactory(lr=1e-4),
        target_update_freq=work["target_update_interval"],
        is_double=False,
    )
    return off_policy(work, parts, algorithm)


def build_sac(work: dict) -> Learn:
    parts, adam = Parts(work), AdamOptimizerFactory(lr=3e-4)
    actor = ContinuousActorProbabilistic(
        preprocess_net=parts.net(), action_shape=parts.action_shape, unbounded=True, conditioned_sigma=True
    )
    algorithm = SAC(
        policy=SACPolicy(actor=actor, action_space=parts.action_space),
        policy_optim=adam,
        critic=parts.critic(),
        critic_optim=adam,
        critic2=parts.critic(),
        critic2_optim=adam,
        alpha=AutoAlpha(-float(np.prod(parts.action_shape or 1)), 0.0, adam),
    )
    return off_policy(work, parts, algorithm)


def build_td3(work: dict) -> Learn:
    parts, adam = Parts(work), AdamOptimizerFactory(lr=1e-3)
    actor = ContinuousActorDeterministic(preprocess_net=parts.net(), action_shape=parts.action_shape)
    policy = ContinuousDeterministicPolicy(
        actor=actor, action_space=parts.action_space, exploration_noise=GaussianNoise(sigma=0.1)
    )
    algorithm = TD3(
        policy=policy,
        policy_optim=adam,
        critic=parts.critic(),
        critic_optim=adam,
        critic2=parts.critic(),
        critic2_optim=adam,
    )
    return off_policy(work, parts, algorithm)


if __name__ == "__main__":
    kinds = {"PPO": build_ppo, "DQN": build_dqn, "SAC": build_sac, "TD3": build_td3}
    serve(kinds, {"tianshou": tianshou.__version__, "torch": torch.__version__, "gymnasium": gym.__version__})
