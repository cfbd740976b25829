"""One name per algorithm."""

from rl_training.api.agent import Agent


class PPO(Agent):
    """Proximal Policy Optimization; keywords are the fields of `PPOConfig`."""

    name = "ppo"


class A2C(Agent):
    """Advantage Actor-Critic; keywords are the fields of `A2CConfig`."""

    name = "a2c"


class TRPO(Agent):
    """Trust Region Policy Optimization; keywords are the fields of `TRPOConfig`."""

    name = "trpo"


class RecurrentPPO(Agent):
    """PPO with an LSTM or GRU; keywords are the fields of `RecurrentPPOConfig`."""

    name = "recurrent_ppo"
