"""The cells of `bench learn`: frozen presets, the gates they must reach, and what the numbers are compared with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class LearningCell:
    """A benchmark of learning: a preset with changes, a score that the mean of seeds must reach, a published result."""

    preset: str
    gate: float | None
    reference: str
    overrides: tuple[str, ...] = field(default=())
    last: int = 10  # evaluations that count
    of: Literal["return", "success", "training"] = "return"  # what the score is the mean of
    episodes: int = 10  # of one evaluation
    evaluations: int = 20  # of a run, at equal distances


THREE_HUNDRED_K = "training.total_timesteps=300000"
# The feed-forward control has everything of the recurrent preset but the memory.
FORGETFUL = (
    "env={id: CartPoleNoVel-v1, n_envs: 8, backend: native}",
    "algorithm.normalize_observation=true",
    "experience.normalize_reward=true",
    "algorithm.activation_fn=relu",
)
ZOO_TRPO = ("env.n_envs=2", "experience.n_steps=512", "algorithm.batch_size=512")
IN_STEP_APPO = ("sampling.lag=0", "algorithm.learning_rate=lin_3e-4", "algorithm.vf_learning_rate=null")
EIGHT = ("env.n_envs=8", "experience.n_steps=256")
ONE_PASS_IMPALA = ("algorithm.n_epochs=1", "algorithm.learning_rate=lin_3e-4")
FIRST_IMPALA = (*ONE_PASS_IMPALA, "algorithm.vf_learning_rate=null")
ADAM_IMPALA = (
    "experience.n_steps=20",
    "algorithm={name: impala, learning_rate: 1e-3, use_rms_prop: false}",
)
FIRST_TMAZE = ("training.total_timesteps=150000", "algorithm.learning_rate=3e-3")
NOMINAL_TRPO = (THREE_HUNDRED_K, "algorithm.target_kl=0.01", "algorithm.cg_damping=0.1")

# Every variant of DQN beside DQN itself, same numbers: only what the variant adds differs.
COMPILED = ("training.compile=true",)
UNCLIPPED = ("algorithm.max_grad_norm=null", *COMPILED)
PLAIN_DQN = ("algorithm.name=dqn", *COMPILED)
CLEANRL_PQN = ("env={id: CartPole-v1, n_envs: 4}", "experience.n_steps=128")
VARIANTS = ("double_dqn", "dueling_dqn", "prioritized_dqn", "n_step_dqn", "noisy_dqn", "qr_dqn", "iqn", "rainbow_dqn")

# MinAtar: sampled actions, 128 episodes, the last evaluation. The cells for a GPU have the numbers of pgx's example;
# add --set training.device=cuda.
PGX = (
    "training={total_timesteps: 20000000, log_interval: 524288}",
    "env.n_envs=4096",
    "algorithm.encoder=small",
    "algorithm.batch_size=4096",
    "algorithm.n_epochs=3",
    "algorithm.learning_rate=3e-4",
)
MINATAR = {  # the score to reach after 20M steps, and pgx's, read off its plots
    "freeway": (60, "63.5"),
    "space_invaders": (120, "145 to 150"),
    "asterix": (18, "22 to 25"),
    "seaquest": (30, "54 +- 10"),
}
PONG_ON_GPU = (
    "training={total_timesteps: 4000000}",
    "env={id: ALE/Pong-v5, n_envs: 64, kwargs: {protocol: dqn}}",
)
QR_PONG_ON_GPU = (
    "training={total_timesteps: 500000}",
    "env={id: ALE/Pong-v5, n_envs: 8, kwargs: {protocol: machado}}",
    "experience.train_freq=8",
    "algorithm.gradient_steps=2",
    "algorithm.exploration_fraction=0.5",  # of 500,000 steps: the preset's 250,000
)

HUNDRED_K = ("training.total_timesteps=100000", "training.compile=true")
ALONE = ("experience.hindsight.k=0",)  # nothing is relabelled, and networks see the same
AS_GOOD = "not worse than dqn-cartpole-100k by more than 2.33 standard errors"

JAXMARL_1M = "JaxMARL's IPPO, run here: -68.2 +- 4.8 (2 seeds, training return)"
JAXMARL_6M = "JaxMARL's IPPO, run here: -61.8 (one seed, training return)"
SIX_MILLION = ("training.total_timesteps=6000000",)
TWENTY_MILLION = ("training.total_timesteps=20000000",)

LEARNING: dict[str, LearningCell] = {
    "ppo-cartpole": LearningCell("ppo/cartpole_cleanrl", 475, "CleanRL 490.04 +- 6.12 (3 seeds, training return)"),
    "ppo-acrobot": LearningCell("ppo/acrobot", -92, "CleanRL -86.36 +- 1.32 (3 seeds, training return)"),
    "a2c-cartpole": LearningCell("a2c/cartpole", 475, "RL Baselines3 Zoo 500.0 +- 0.0 (one run)"),
    "ppo-hopper": LearningCell("ppo/hopper", 1900, "CleanRL 2382.86 +- 271.74 (Hopper-v4, 3 seeds, training return)"),
    "ppo-pendulum": LearningCell(
        "ppo/pendulum", None, "Stable-Baselines3, same settings, same batch: see ppo-pendulum-sb3"
    ),
    "ppo-cartpole-zoo": LearningCell("ppo/cartpole", None, "RL Baselines3 Zoo 500.0 +- 0.0 (one run)"),
    "ppo-halfcheetah": LearningCell(
        "ppo/halfcheetah",
        None,
        "CleanRL 1442.64 +- 46.03 (HalfCheetah-v4, 3 seeds, training return)",
        ("env.n_envs=1", "experience.n_steps=2048"),
    ),
    "ppo-halfcheetah-16": LearningCell(
        "ppo/halfcheetah", None, "ppo-halfcheetah with 16 environments, for its one, and rollouts as long"
    ),
    "ppo-mountaincar-continuous": LearningCell(
        "ppo/mountaincar_continuous", None, "RL Baselines3 Zoo 88.3 +- 2.6 (one run, with gSDE)"
    ),
    "ppo-lunarlander": LearningCell(
        "ppo/lunarlander", None, "RL Baselines3 Zoo 242.1 +- 31.8 (LunarLander-v2, one run)"
    ),
    "a2c-acrobot": LearningCell("a2c/acrobot", None, "RL Baselines3 Zoo -83.4 +- 17.2 (one run)"),
    "a2c-pendulum": LearningCell("a2c/pendulum", None, "RL Baselines3 Zoo -163.0 +- 103.2 (one run, with gSDE)"),
    "a2c-pendulum-zoo": LearningCell(
        "a2c/pendulum",
        None,
        "first attempt: the Zoo's numbers, for gSDE; Stable-Baselines3 with them, without gSDE: -1018 (3 seeds)",
        ("algorithm.log_std_init=-2", "algorithm.learning_rate=lin_7e-4"),
    ),
    "ippo-spread": LearningCell("ippo/spread", -72, JAXMARL_1M, of="training"),
    "ippo-spread-6m": LearningCell("ippo/spread", -65, JAXMARL_6M, SIX_MILLION, of="training"),
    "mappo-spread": LearningCell("mappo/spread", -72, JAXMARL_1M, of="training"),
    "mappo-spread-6m": LearningCell("mappo/spread", -65, JAXMARL_6M, SIX_MILLION, of="training"),
    "mappo-speaker_listener": LearningCell(
        "mappo/speaker_listener",
        -13.1,
        "85 % of the way from random, -42.8, to a scripted listener, -7.9; EPyMARL's MAPPO -10.7 +- 0.3 (5 seeds)",
        TWENTY_MILLION,
        episodes=100,
    ),
    "ippo-speaker_listener": LearningCell(
        "ippo/speaker_listener", None, "mappo-speaker_listener", TWENTY_MILLION, episodes=100
    ),
    "qmix-speaker_listener": LearningCell(
        "qmix/speaker_listener", None, "EPyMARL's QMIX -11.6 +- 0.5 (2M, 5 seeds)", episodes=100
    ),
    "appo-cartpole": LearningCell("appo/cartpole", 475, "the settings of ppo-cartpole-zoo"),
    "appo-hopper": LearningCell(
        "appo/hopper", 2928, "85 % of ppo-hopper, at as many steps; with a lag of one iteration"
    ),
    "appo-hopper-in-step": LearningCell(
        "appo/hopper", 2928, "85 % of ppo-hopper, at as many steps; without lag", (*IN_STEP_APPO, *EIGHT)
    ),
    "appo-hopper-first": LearningCell(
        "appo/hopper", None, "first attempt without lag, below the gate: 16 environments x 128 steps", IN_STEP_APPO
    ),
    "appo-hopper-short": LearningCell(
        "appo/hopper",
        None,
        "rollouts of 512 steps",
        (*IN_STEP_APPO, "env.n_envs=8", "experience.n_steps=64"),
    ),
    "impala-cartpole": LearningCell("impala/cartpole", 475, "the settings of a2c-cartpole"),
    "impala-cartpole-first": LearningCell(
        "impala/cartpole", None, "first attempt: 20 steps, Adam at 1e-3", ADAM_IMPALA
    ),
    "impala-cartpole-second": LearningCell(
        "impala/cartpole",
        None,
        "second attempt: the same, Adam from 1e-3 to 0",
        (*ADAM_IMPALA, "algorithm.learning_rate=lin_1e-3"),
    ),
    "impala-hopper": LearningCell("impala/hopper", 1900, "none published at this budget"),
    "impala-hopper-first": LearningCell(
        "impala/hopper", None, "first attempt, below the gate: rollouts of 128 steps, one learning rate", FIRST_IMPALA
    ),
    "impala-hopper-first-fast": LearningCell(
        "impala/hopper", None, "the same from 5e-4 instead of 3e-4", (*FIRST_IMPALA, "algorithm.learning_rate=lin_5e-4")
    ),
    "impala-hopper-second": LearningCell(
        "impala/hopper",
        None,
        "second attempt, below the gate: rollouts of 32 steps, a faster value function",
        (*ONE_PASS_IMPALA, "experience.n_steps=32"),
    ),
    "trpo-cartpole": LearningCell("trpo/cartpole", 475, "RL Baselines3 Zoo 500.0 +- 0.0 (100k, one run)"),
    "trpo-cartpole-zoo": LearningCell(
        "trpo/cartpole", None, "the settings of RL Baselines3 Zoo, made for 100k steps", ZOO_TRPO
    ),
    "trpo-pendulum": LearningCell("trpo/pendulum", -260, "RL Baselines3 Zoo -174.6 +- 127.6 (one run, with gSDE)"),
    "trpo-hopper-300k": LearningCell(
        "trpo/hopper",
        None,
        "sb3-contrib, same settings in its units, same batch: see trpo-hopper-300k-sb3",
        (THREE_HUNDRED_K,),
    ),
    "trpo-hopper-300k-nominal": LearningCell(
        "trpo/hopper",
        None,
        "sb3-contrib's numbers without converting its units: a third of its trust region",
        NOMINAL_TRPO,
    ),
    "recurrent-ppo-cartpole-novel": LearningCell(
        "recurrent_ppo/cartpole_novel", 450, "RL Baselines3 Zoo 500.0 +- 0.0 (one run); see ppo-cartpole-novel"
    ),
    "ppo-cartpole-novel": LearningCell(
        "ppo/cartpole", None, "feed-forward control, same budget: at most half of recurrent", FORGETFUL
    ),
    "recurrent-ppo-tmaze": LearningCell("recurrent_ppo/tmaze", 0.95, "best without memory: 0.5 exactly"),
    "recurrent-ppo-tmaze-150k": LearningCell(
        "recurrent_ppo/tmaze", None, "first attempt: half the budget, constant learning rate 3e-3", FIRST_TMAZE
    ),
    "recurrent-ppo-pendulum-novel": LearningCell(
        "recurrent_ppo/pendulum_novel", None, "RL Baselines3 Zoo -217.9 +- 140.1 (one run, with gSDE)"
    ),
    "recurrent-ppo-pendulum-novel-zoo": LearningCell(
        "recurrent_ppo/pendulum_novel",
        None,
        "first attempt: the Zoo's 10 epochs; sb3-contrib with them, without gSDE: -293 (3 seeds, training return), "
        "1.4 times as many updates, because it cuts episodes where batches end",
        ("algorithm.n_epochs=10",),
    ),
    "dqn-cartpole": LearningCell("dqn/cartpole", 460, "CleanRL 488.69 +- 16.11 (3 seeds, training return)"),
    "c51-cartpole": LearningCell("c51/cartpole", 460, "CleanRL 481.20 +- 20.53 (3 seeds, training return)"),
    "dqn-acrobot": LearningCell("dqn/acrobot", -105, "CleanRL -91.54 +- 7.20 (3 seeds, training return)"),
    "c51-acrobot": LearningCell("c51/acrobot", -105, "CleanRL -87.70 +- 5.52 (3 seeds, training return)"),
    "dqn-lunarlander": LearningCell(
        "dqn/lunarlander", 220, "SLM-Lab's Double DQN with PER 265.90 (4 sessions, training return)"
    ),
    "dqn-cartpole-100k": LearningCell("double_dqn/cartpole", None, "what the variants are compared with", PLAIN_DQN),
    **{
        f"{name.replace('_', '-')}-cartpole-100k": LearningCell(f"{name}/cartpole", None, AS_GOOD, COMPILED)
        for name in VARIANTS
    },
    **{
        f"{name}-cartpole-100k-unclipped": LearningCell(
            f"{name.replace('-', '_')}/cartpole", None, f"{name}-cartpole-100k without a gradient clip", UNCLIPPED
        )
        for name in ("qr-dqn", "iqn")
    },
    "discrete-sac-cartpole": LearningCell("discrete_sac/cartpole", 380, "SLM-Lab 406.09 (4 sessions, training return)"),
    "pqn-cartpole": LearningCell("pqn/cartpole", 480, "CleanRL 495.13 +- 6.89 (3 seeds, training return)"),
    "pqn-cartpole-cleanrl": LearningCell(
        "pqn/cartpole", None, "first attempt: CleanRL's settings, 4 environments x 128 steps", CLEANRL_PQN
    ),
    "ddpg-pendulum": LearningCell("ddpg/pendulum", -200, "RL Baselines3 Zoo -152.1 +- 94.3 (one run)", COMPILED),
    "td3-pendulum": LearningCell("td3/pendulum", -200, "RL Baselines3 Zoo -151.9 +- 90.2 (one run)", COMPILED),
    "sac-pendulum": LearningCell("sac/pendulum", -200, "RL Baselines3 Zoo -157.0 +- 88.7 (one run)", COMPILED),
    "sac-pendulum-10k": LearningCell(
        "sac/pendulum", -180, "RL Baselines3 Zoo -129 at 10k (one run)", ("training.total_timesteps=10000", *COMPILED)
    ),
    "tqc-pendulum": LearningCell("tqc/pendulum", -200, "RL Baselines3 Zoo -151.3 +- 87.9 (one run)", COMPILED),
    "crossq-pendulum": LearningCell("crossq/pendulum", -200, "SLM-Lab -145.66 (300k, 4 sessions)", COMPILED),
    "bc-cartpole": LearningCell("bc/cartpole", None, "above the data's mean: see benchmarks/results/offline.json"),
    "discrete-cql-cartpole": LearningCell(
        "discrete_cql/cartpole", None, "above BC and offline DQN: see benchmarks/results/offline.json"
    ),
    "discrete-cql-cartpole-dqn": LearningCell(
        "discrete_cql/cartpole",
        None,
        "plain DQN with the same numbers on the same data",
        (
            "algorithm={name: dqn, learning_rate: lin_5e-4, batch_size: 256, target_update_interval: 500, net_arch: [128, 128]}",
        ),
    ),
    "rlpd-pendulum": LearningCell(
        "rlpd/pendulum", None, "above SAC with the same updates: see benchmarks/results/offline.json"
    ),
    "rlpd-pendulum-sac": LearningCell(
        "rlpd/pendulum",
        None,
        "SAC with the same updates per step, network and learning rate, without data",
        ("algorithm={name: sac, learning_rate: 1e-3, gradient_steps: 5, net_arch: [64, 64]}", "data={}"),
    ),
    "dqn-bitflip-hindsight": LearningCell(
        "dqn/bitflip", 0.95, "share of successes; DI-engine's readme: solved within 150k steps", of="success"
    ),
    "dqn-bitflip-alone": LearningCell(
        "dqn/bitflip", None, "control without hindsight: at most 0.05 of the episodes succeed", ALONE, of="success"
    ),
    "sac-fetch-reach": LearningCell(
        "sac/fetch_reach",
        0.95,
        "share of successes; Stable-Baselines3's HER with the same settings: see sac-fetch-reach-sb3",
        COMPILED,
        of="success",
    ),
    "tqc-fetch-push": LearningCell(
        "tqc/fetch_push", None, "share of successes; RL Baselines3 Zoo: return -8.8 +- 5.4 (1M, one run)", of="success"
    ),
    "redq-pendulum": LearningCell("redq/pendulum", -250, "none published at 5k steps", COMPILED),
    "td3-inverted-pendulum": LearningCell(
        "td3/inverted_pendulum", None, "1000 at 50k on 4 of 5 seeds; Tianshou 1000 +- 0 (1M, 10 seeds)", COMPILED, 1
    ),
    "td3-halfcheetah-100k": LearningCell(
        "td3/halfcheetah", 4664, "TD3's author 5514 +- 554 (at 100k, HalfCheetah-v1, 10 seeds)", HUNDRED_K, 1
    ),
    "td3-halfcheetah-100k-slow": LearningCell(
        "td3/halfcheetah",
        None,
        "first attempt: CleanRL's learning rate 3e-4 and 256 x 2",
        (*HUNDRED_K, "algorithm.learning_rate=3e-4", "algorithm.net_arch=[256,256]"),
        1,
    ),
    "crossq-halfcheetah-100k": LearningCell(
        "crossq/halfcheetah", 6739, "SimbaV2's runs 8112 +- 895 (at 100k, HalfCheetah-v4, 10 seeds)", HUNDRED_K, 1
    ),
    "ppo-minatar-breakout": LearningCell(
        "ppo/minatar_breakout", 10, "PureJaxRL about 42 at 10M (plot)", last=1, episodes=128
    ),
    "ppo-minatar-breakout-gpu": LearningCell(
        "ppo/minatar_breakout",
        40,
        "pgx 50 +- 7 at 20M (plot)",
        ("training.total_timesteps=20000000",),
        last=1,
        episodes=128,
        evaluations=4,
    ),
    "ppo-minatar-breakout-gpu-first": LearningCell(
        "ppo/minatar_breakout",
        None,
        "first attempt: pgx's batches and learning rate, as for the other games",
        PGX,
        last=1,
        episodes=128,
        evaluations=4,
    ),
    **{
        f"ppo-minatar-{game.replace('_', '-')}-gpu": LearningCell(
            f"ppo/minatar_{game}", gate, f"pgx {theirs} at 20M (plot)", PGX, last=1, episodes=128, evaluations=4
        )
        for game, (gate, theirs) in MINATAR.items()
    },
    "ppo-pong-gpu": LearningCell(
        "ppo/atari",
        18,
        "CleanRL 20.36 +- 0.20 (10M, 3 seeds, training return)",
        PONG_ON_GPU,
        of="training",
        evaluations=2,
    ),
    "qr-dqn-pong-gpu": LearningCell(
        "qr_dqn/atari",
        -17,
        "Dopamine -14.7 at 500k (5 seeds, training return)",
        QR_PONG_ON_GPU,
        of="training",
        evaluations=2,
    ),
    "redq-halfcheetah-50k": LearningCell(
        "redq/halfcheetah",
        4318,
        "our SAC at 50k (sac-halfcheetah-100k): 4503, 4286, 4165",
        ("training.total_timesteps=50000", "training.compile=true"),
        1,
    ),
    "sac-pixel-pendulum": LearningCell(
        "sac/pixel_pendulum", -250, "none published; 50,000 actions are 100,000 steps of the simulator", last=3
    ),
    "sac-pixel-pendulum-blank": LearningCell(
        "sac/pixel_pendulum",
        None,
        "the control, whose pictures are blank: at most -900 is expected",
        ("env.kwargs={blank: true}",),
        3,
    ),
    "sac-halfcheetah-100k": LearningCell(
        "sac/halfcheetah_fast", 5084, "SimbaV2's runs 6156 +- 699 (at 100k, HalfCheetah-v4, 10 seeds)", HUNDRED_K, 1
    ),
}

CONTROL = ("pendulum", "hopper", "halfcheetah", "mountaincar", "lunarlander")
ATTEMPTS = (
    "-cleanrl",
    "-zoo",
    "-nominal",
    "-slow",
    "-150k",
    "-first",
    "-second",
    "-fast",
    "-short",
    "-unclipped",
)  # kept beside what was learned from them


def suite(kind: str) -> tuple[str, ...]:
    return tuple(name for name in LEARNING if not name.endswith(ATTEMPTS) and suite_of(name) == kind)


def suite_of(name: str) -> str:
    if name.endswith("-gpu"):
        return "gpu"
    if "minatar" in name:
        return "pictures"
    return "control" if any(word in name for word in CONTROL) else "classic"


LEARNING_SUITES = {kind: suite(kind) for kind in ("classic", "control", "pictures", "gpu")}
