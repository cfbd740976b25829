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


class DQN(Agent):
    """Deep Q-learning; every improvement is a keyword. Keywords are the fields of `DQNConfig`."""

    name = "dqn"


class DoubleDQN(Agent):
    """DQN whose next action is chosen by the online network and valued by the target. Keywords are the fields of `DoubleDQNConfig`."""

    name = "double_dqn"


class DuelingDQN(Agent):
    """DQN with separate streams for value and advantages. Keywords are the fields of `DuelingDQNConfig`."""

    name = "dueling_dqn"


class PrioritizedDQN(Agent):
    """DQN that replays surprising steps more often. Keywords are the fields of `PrioritizedDQNConfig`."""

    name = "prioritized_dqn"


class NStepDQN(Agent):
    """DQN with returns over several steps. Keywords are the fields of `NStepDQNConfig`."""

    name = "n_step_dqn"


class NoisyDQN(Agent):
    """DQN that explores by noise in its weights. Keywords are the fields of `NoisyDQNConfig`."""

    name = "noisy_dqn"


class C51(Agent):
    """DQN that learns the return's distribution over fixed atoms. Keywords are the fields of `C51Config`."""

    name = "c51"


class QRDQN(Agent):
    """DQN that learns fixed quantiles of the return. Keywords are the fields of `QRDQNConfig`."""

    name = "qr_dqn"


class IQN(Agent):
    """DQN that learns all quantiles of the return. Keywords are the fields of `IQNConfig`."""

    name = "iqn"


class RainbowDQN(Agent):
    """DQN with double, dueling, prioritised, n-step, noisy and C51. Keywords are the fields of `RainbowDQNConfig`."""

    name = "rainbow_dqn"


class DiscreteSAC(Agent):
    """Soft Actor-Critic for discrete actions. Keywords are the fields of `DiscreteSACConfig`."""

    name = "discrete_sac"


class PQN(Agent):
    """Q-learning from many parallel environments, without replay or target network. Keywords are the fields of `PQNConfig`."""

    name = "pqn"


class DDPG(Agent):
    """Deep Deterministic Policy Gradient. Keywords are the fields of `DDPGConfig`."""

    name = "ddpg"


class TD3(Agent):
    """Twin Delayed DDPG. Keywords are the fields of `TD3Config`."""

    name = "td3"


class SAC(Agent):
    """Soft Actor-Critic. Keywords are the fields of `SACConfig`."""

    name = "sac"


class REDQ(Agent):
    """SAC with many critics and many updates per step. Keywords are the fields of `REDQConfig`."""

    name = "redq"


class TQC(Agent):
    """SAC whose critics learn truncated quantiles of the return. Keywords are the fields of `TQCConfig`."""

    name = "tqc"


class CrossQ(Agent):
    """SAC with batch normalisation instead of target networks. Keywords are the fields of `CrossQConfig`."""

    name = "crossq"


class BC(Agent):
    """Behaviour cloning from a dataset. Keywords are the fields of `BCConfig`."""

    name = "bc"


class DiscreteCQL(Agent):
    """Conservative Q-learning for discrete actions. Keywords are the fields of `DiscreteCQLConfig`."""

    name = "discrete_cql"


class RLPD(Agent):
    """SAC from a dataset and the agent's own steps, half and half. Keywords are the fields of `RLPDConfig`."""

    name = "rlpd"
