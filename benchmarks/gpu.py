"""Steps per second with everything on one GPU, and whether learning is intact. Prints one line per measurement.

python benchmarks/gpu.py ppo --envs 4096 --steps 32 --minibatches 4 --precision tf32     # native CartPole, iterations as graphs
python benchmarks/gpu.py learn --envs 4096 --steps 32 --minibatches 4 --seeds 3             # the same to 20 M steps, then evaluated
python benchmarks/gpu.py replay --algorithm SAC --env Pendulum-v1 [--backend gymnasium]    # one environment, one update per step
python benchmarks/gpu.py sb3                                                              # Stable-Baselines3's SAC on Pendulum
"""

from __future__ import annotations

import argparse
import time

import torch

import rl_training

WARM_UP = 6  # iterations: compilation and recording
NEVER = 10**12
HIDDEN = [64, 64]


def build_ppo(options: argparse.Namespace, *, total: int, learning_rate: str, seed: int = 0) -> rl_training.PPO:
    return rl_training.PPO(
        "CartPole-v1",
        backend="native",
        n_envs=options.envs,
        n_steps=options.steps,
        batch_size=options.envs * options.steps // options.minibatches,
        n_epochs=4,
        net_arch=HIDDEN,
        learning_rate=learning_rate,
        device=options.device,
        precision=options.precision,
        compile=True,
        total_timesteps=total,
        log_interval=NEVER,
        seed=seed,
    )


def ppo(options: argparse.Namespace) -> None:
    trainer = build_ppo(options, total=NEVER, learning_rate="3e-3").prepare_trainer()
    per_iteration = options.envs * options.steps
    num = max(20, 20_000_000 // per_iteration)
    with trainer.session():
        start = time.perf_counter()
        for _ in range(WARM_UP):
            trainer.advance(NEVER)
        torch.cuda.synchronize()
        compiled = time.perf_counter() - start
        rates = []
        for _ in range(options.repeats):
            start = time.perf_counter()
            for _ in range(num):
                trainer.advance(NEVER)
            torch.cuda.synchronize()
            rates.append(num * per_iteration / (time.perf_counter() - start) / 1e6)
    iteration = trainer.fused.iteration
    recorded = iteration is not None and all(r.graph is not None for r in iteration.recordings.values())
    shown = ", ".join(f"{rate:.2f}" for rate in rates)
    print(
        f"ppo {options.envs} x {options.steps}, {options.minibatches} minibatches, {options.precision}: {shown} M steps/s, "
        f"compile {compiled:.0f} s, recorded {recorded}",
        flush=True,
    )


def learn(options: argparse.Namespace) -> None:
    for seed in range(options.seeds):
        agent = build_ppo(options, total=20_000_000, learning_rate="lin_3e-3", seed=seed)
        start = time.perf_counter()
        agent.learn(progress=False)
        seconds = time.perf_counter() - start
        mean = agent.evaluate(64).mean
        print(
            f"ppo {options.envs} x {options.steps}, {options.precision}, seed {seed} learned: return {mean:.1f} after 20 M "
            f"steps, {seconds:.0f} s",
            flush=True,
        )


def replay(options: argparse.Namespace) -> None:
    settings: dict = {"train_freq": 1, "gradient_steps": options.updates, "learning_starts": 100}
    if options.algorithm == "DQN":
        settings |= {"batch_size": 128, "net_arch": [128, 128], "target_update_interval": 500}
    if options.algorithm == "REDQ":
        settings |= {"policy_delay": options.updates}
    agent = getattr(rl_training, options.algorithm)(
        options.env,
        backend=options.backend,
        device=options.device,
        precision=options.precision,
        compile=True,
        total_timesteps=10**7,
        log_interval=10**6,
        seed=0,
        **settings,
    )
    agent.learn(stop_at=600, progress=False)
    rates = []
    for part in range(options.repeats):
        start = time.perf_counter()
        agent.learn(stop_at=600 + (part + 1) * options.count, progress=False)
        torch.cuda.synchronize()
        rates.append(options.count / (time.perf_counter() - start))
    shown = ", ".join(f"{rate:.0f}" for rate in rates)
    print(
        f"{options.algorithm} {options.env} {options.backend}: {shown} steps/s, {options.updates} updates each",
        flush=True,
    )


def sb3(options: argparse.Namespace) -> None:
    import stable_baselines3

    model = stable_baselines3.SAC("MlpPolicy", "Pendulum-v1", device=options.device, learning_starts=100, seed=0)
    model.learn(300)
    start = time.perf_counter()
    model.learn(options.count, reset_num_timesteps=False)
    torch.cuda.synchronize()
    print(f"Stable-Baselines3 SAC Pendulum-v1: {options.count / (time.perf_counter() - start):.0f} steps/s", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["ppo", "learn", "replay", "sb3"])
    parser.add_argument("--envs", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--minibatches", type=int, default=4)
    parser.add_argument("--precision", default="tf32")
    parser.add_argument("--algorithm", default="SAC")
    parser.add_argument("--env", default="Pendulum-v1")
    parser.add_argument("--backend", default="native")
    parser.add_argument("--updates", type=int, default=1)
    parser.add_argument("--count", type=int, default=2_000, help="steps per repeat of replay and sb3")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=1, help="how many, of learn")
    parser.add_argument("--device", default="cuda")
    chosen = parser.parse_args()
    {"ppo": ppo, "learn": learn, "replay": replay, "sb3": sb3}[chosen.action](chosen)
