"""The cells of `bench speed`: the same work for every library."""

from __future__ import annotations

from dataclasses import dataclass, field

CARTPOLE = {"env": "CartPole-v1", "n_envs": 8, "n_steps": 128, "batch_size": 256, "n_epochs": 4}
HALFCHEETAH = {"env": "HalfCheetah-v5", "n_envs": 8, "n_steps": 256, "batch_size": 512, "n_epochs": 10}
RECURRENT = {
    "algorithm": "RecurrentPPO",
    "env": "CartPole-v1",
    "n_envs": 8,
    "n_steps": 128,
    "batch_size": 128,
    "n_epochs": 10,
    "lstm_hidden_size": 64,
}
DQN = {
    "algorithm": "DQN",
    "env": "CartPole-v1",
    "n_envs": 1,
    "net_arch": [128, 128],
    "batch_size": 128,
    "train_freq": 1,
    "gradient_steps": 1,
    "buffer_size": 50_000,
    "learning_starts": 1_000,
    "target_update_interval": 500,
    "exploration_initial_eps": 0.05,  # the same at all times: a random action costs less than one of the network
    "exploration_final_eps": 0.05,
}
CONTINUOUS = {
    "env": "HalfCheetah-v5",
    "n_envs": 1,
    "net_arch": [256, 256],
    "batch_size": 256,
    "train_freq": 1,
    "gradient_steps": 1,
    "buffer_size": 100_000,
    "learning_starts": 500,
}
SAC, TD3, TQC = ({"algorithm": name, **CONTINUOUS} for name in ("SAC", "TD3", "TQC"))
CROSSQ = {"algorithm": "CrossQ", **CONTINUOUS, "critic_net_arch": [1024, 1024]}
# SBX has REDQ's critics and updates, but no random subset of them in the targets.
REDQ = {"algorithm": "REDQ", **CONTINUOUS, "gradient_steps": 20}
# From data of Hopper's sizes, with the networks of d3rlpy's reproductions; steps are updates.
HOPPER = {"rows": 100_000, "obs_size": 11, "action_size": 3, "episode_length": 500}
FROM_DATA = {"data": HOPPER, "net_arch": [256, 256], "batch_size": 256}
IQL = {"algorithm": "IQL", **FROM_DATA}
TD3_BC = {"algorithm": "TD3BC", **FROM_DATA, "normalize_observation": True}
CQL = {"algorithm": "CQL", **FROM_DATA, "net_arch": [256, 256, 256]}
FULL = 1_000_000  # rows
MILLION = DQN | {"buffer_size": FULL, "learning_starts": FULL}
NATIVE = {"backend": "native"}
# Three agents; steps are those of the environment. In the second, epochs, minibatches and networks are BenchMARL's defaults.
SPREAD = {"algorithm": "IPPO", "env": "mpe/simple_spread"}
SHORT_SPREAD = SPREAD | {"n_envs": 32, "n_steps": 128, "batch_size": 1_024, "n_epochs": 4}
SPREAD_GPU = SPREAD | {"n_envs": 4_096, "n_steps": 32, "batch_size": 32_768, "n_epochs": 4, "device": "cuda"}
# The network and the settings of JaxMARL's example. It knows no number of an agent, and clips values, too.
AS_JAXMARL = {"agent_id": False, "ent_coef": 0.01, "learning_rate": "lin_2.5e-4", "precision": "tf32"}
LONG_SPREAD = SPREAD | {"n_envs": 10, "n_steps": 200, "batch_size": 400, "n_epochs": 45, "net_arch": [256, 256]}
# Short runs as users start them: both libraries' own defaults, which are the same numbers.
LEARN = {"compile": "auto"}  # ours as it runs when nothing is asked for
# Pong from pictures, by the protocol of Mnih et al. (2015); SB3's own wrappers and ours.
PONG = {"env": "ALE/Pong-v5", "net_arch": []}
PPO_PONG = {"algorithm": "PPO", **PONG, "n_envs": 8, "n_steps": 128, "batch_size": 256, "n_epochs": 4}
DQN_PONG = {"algorithm": "DQN", **PONG, "n_envs": 1, "buffer_size": 10_000, "learning_starts": 1_000}
# pgx's example with shorter rollouts.
MINATAR_GPU = {"algorithm": "PPO", "env": "MinAtar/Breakout-v1", "n_envs": 4_096, "n_steps": 32, "device": "cuda"}
MINATAR_GPU |= {"batch_size": 4_096, "n_epochs": 3, "encoder": "small"}
# On a GPU all libraries step ale-py's vector environment: Stable-Baselines3's wrappers would be slower and need OpenCV.
ON_GPU = {"device": "cuda", "vector_env": "ale"}
PPO_PONG_GPU = PPO_PONG | {"n_envs": 64, "batch_size": 2_048, **ON_GPU}
DQN_PONG_GPU = DQN_PONG | {"n_envs": 8, "train_freq": 8, "gradient_steps": 2, **ON_GPU}
DQN_PROTOCOL = {"kwargs": {"protocol": "dqn"}}
TAXI = {"algorithm": "DQN", "env": "Taxi-v4", "n_envs": 1}  # 500 inputs: which of so many states it is


@dataclass(frozen=True)
class SpeedCell:
    """A plan of a speed measurement: settings that all libraries share, settings of ours alone, and numbers of steps.

    Where there is no environment, steps are updates.
    """

    work: dict
    warm_up: int
    steps: int
    ours: dict = field(default_factory=dict)
    threads: int = 1
    wanted: tuple[float, ...] = ()  # steps/s of ours: must, target, goal
    whole: bool = False  # True: each measurement makes an agent and trains it, all of it on the clock


@dataclass(frozen=True)
class OptionCell:
    """A plan of a measurement of our own speed with an option and without it.

    For prioritised replay both buffers of a million rows are first filled to the last row by random steps through the
    same environment, so that draws and new priorities fall on memory that is not in the cache. Then both learn for a
    while before the first measurement.
    """

    work: dict
    warm_up: int
    steps: int
    option: dict


def on_gpu(
    n_envs: int, n_steps: int, minibatches: int, wanted: tuple[float, ...], precision: str = "tf32"
) -> SpeedCell:
    """Returns a plan to measure PPO on native CartPole with 4 epochs per rollout, all of it on the GPU.

    `wanted` are the speeds that it must, should and may reach, in steps per second.
    """
    frames = n_envs * n_steps
    work = {"algorithm": "PPO", "env": "CartPole-v1", "n_envs": n_envs, "n_steps": n_steps, "device": "cuda"}
    work |= {"batch_size": frames // minibatches, "n_epochs": 4}
    iterations = max(50, 8_000_000 // frames)
    ours = NATIVE | {"precision": precision, "log_interval": 20 * frames}  # a log waits for the device
    return SpeedCell(work, 20 * frames, iterations * frames, ours, wanted=wanted)


SPEED: dict[str, SpeedCell | OptionCell] = {
    "ppo-cartpole-gymnasium": SpeedCell({"algorithm": "PPO", **CARTPOLE}, 2 * 1024, 30 * 1024),
    "ppo-cartpole-native": SpeedCell({"algorithm": "PPO", **CARTPOLE}, 2 * 1024, 30 * 1024, NATIVE),
    "ppo-halfcheetah-gymnasium": SpeedCell({"algorithm": "PPO", **HALFCHEETAH}, 2 * 2048, 8 * 2048),
    "recurrent-ppo-cartpole-gymnasium": SpeedCell(RECURRENT, 2 * 1024, 4 * 1024),
    "recurrent-ppo-cartpole-native": SpeedCell(RECURRENT, 2 * 1024, 4 * 1024, NATIVE),
    "dqn-cartpole-gymnasium": SpeedCell(DQN, 3_000, 5_000),
    "sac-halfcheetah": SpeedCell(SAC, 900, 600, threads=2),
    "td3-halfcheetah": SpeedCell(TD3, 900, 1_000, threads=2),
    "tqc-halfcheetah": SpeedCell(TQC, 900, 400, threads=2),
    "crossq-halfcheetah": SpeedCell(CROSSQ, 900, 300, threads=2),
    "redq-halfcheetah": SpeedCell(REDQ, 540, 40, threads=2),
    "ippo-spread": SpeedCell(SHORT_SPREAD, 2 * 4_096, 20 * 4_096),
    "ippo-spread-45-epochs": SpeedCell(LONG_SPREAD, 2_000, 2_000),
    "dqn-cartpole-learn": SpeedCell(TAXI | {"env": "CartPole-v1"}, 500, 20_000, LEARN, whole=True),
    "dqn-taxi-learn": SpeedCell(TAXI, 500, 15_000, LEARN, whole=True),
    "sac-halfcheetah-learn": SpeedCell(
        {"algorithm": "SAC", "env": "HalfCheetah-v5", "n_envs": 1}, 200, 2_000, LEARN, whole=True
    ),
    "ppo-pong-learn": SpeedCell(PPO_PONG, 1_024, 20_480, LEARN | DQN_PROTOCOL, threads=2, whole=True),
    "dqn-pong-learn": SpeedCell(DQN_PONG, 1_200, 10_000, LEARN | DQN_PROTOCOL, threads=2, whole=True),
    "ppo-pong-gpu": SpeedCell(PPO_PONG_GPU, 8 * 8_192, 10 * 8_192, LEARN | DQN_PROTOCOL | {"precision": "tf32"}),
    "dqn-pong-gpu": SpeedCell(DQN_PONG_GPU, 3_200, 8_000, LEARN | DQN_PROTOCOL | {"precision": "tf32"}),
    "ppo-minatar-breakout-gpu": SpeedCell(
        MINATAR_GPU, 10 * 131_072, 40 * 131_072, NATIVE | {"precision": "tf32"}, wanted=(1.5e6,)
    ),
    # As many steps to warm up as to measure: JaxMARL compiles for a number of steps.
    "ippo-spread-gpu": SpeedCell(SPREAD_GPU, 400 * 131_072, 400 * 131_072, AS_JAXMARL | {"log_interval": 20 * 131_072}),
    "iql-data": SpeedCell(IQL, 100, 400, threads=2),
    "td3-bc-data": SpeedCell(TD3_BC, 100, 400, threads=2),
    "cql-data": SpeedCell(CQL, 20, 60, threads=2),
    "cql-data-bf16": SpeedCell(CQL, 20, 60, {"precision": "bf16"}, threads=2),  # ours alone in bf16
    "dqn-prioritized-1m": OptionCell(MILLION, FULL + 3_000, 10_000, {"prioritized": True}),
    "ppo-cartpole-gpu-4096": on_gpu(4_096, 32, 4, (18e6, 24.5e6, 60e6)),
    "ppo-cartpole-gpu-65536": on_gpu(65_536, 32, 4, (55e6, 77e6, 150e6)),
    "ppo-cartpole-gpu-2048": on_gpu(2_048, 16, 8, (5e6, 6.7e6, 15e6)),
    "ppo-cartpole-gpu-4096-bf16": on_gpu(4_096, 32, 4, (18e6, 24.5e6, 60e6), "bf16"),
    "ppo-cartpole-gpu-65536-bf16": on_gpu(65_536, 32, 4, (55e6, 77e6, 150e6), "bf16"),
    "ppo-cartpole-gpu-2048-bf16": on_gpu(2_048, 16, 8, (5e6, 6.7e6, 15e6), "bf16"),
    "sac-pendulum-gpu": SpeedCell(SAC | {"env": "Pendulum-v1", "device": "cuda"}, 2_000, 4_000, NATIVE),
    "sac-halfcheetah-gpu": SpeedCell(SAC | {"device": "cuda"}, 2_000, 4_000),
}
# What is in no suite can be asked for with --cells.
SPEED_SUITES = {
    "cpu": (
        "ppo-cartpole-gymnasium",
        "ppo-cartpole-native",
        "ppo-halfcheetah-gymnasium",
        "dqn-cartpole-gymnasium",
        "sac-halfcheetah",
        "td3-halfcheetah",
    ),
    "learn": tuple(name for name in SPEED if name.endswith("-learn") and "pong" not in name),
    "pictures": ("ppo-pong-learn", "dqn-pong-learn"),
    "data": ("iql-data", "td3-bc-data", "cql-data", "cql-data-bf16"),
    "gpu": tuple(name for name in SPEED if "gpu" in name and "pong" not in name),
}
