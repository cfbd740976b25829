"""Steps per second with everything on one GPU, and whether learning is intact. Prints one line per measurement.

python benchmarks/gpu.py ppo --envs 4096 --steps 32 --minibatches 4 --precision tf32     # native CartPole, iterations as graphs
python benchmarks/gpu.py learn --envs 4096 --steps 32 --minibatches 4 --seeds 3             # the same to --total steps, then evaluated
python benchmarks/gpu.py solve [--compile auto]                                           # seconds until CartPole is solved
python benchmarks/gpu.py replay --algorithm SAC --env Pendulum-v1 [--backend gymnasium]    # one environment, one update per step
python benchmarks/gpu.py block --algorithm SAC --env Pendulum-v1 [--updates 20]           # drawing and updates alone, as one graph
python benchmarks/gpu.py sb3                                                              # Stable-Baselines3's SAC on Pendulum
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import torch
import yaml

import rl_training
from rl_training.api.training import build_run
from rl_training.experience import Replay
from rl_training.runtime import Trainer
from rl_training.runtime.executors import RecordedUpdates, WholeIteration

WARM_UP = 6  # iterations: compilation and recording
NEVER = 10**12
HIDDEN = [64, 64]


def build_ppo(
    options: argparse.Namespace, *, total: int, learning_rate: str, seed: int = 0, **settings: object
) -> rl_training.PPO:
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
        compile=options.compile,
        total_timesteps=total,
        log_interval=NEVER,
        seed=seed,
        **settings,
    )


def ppo(options: argparse.Namespace) -> None:
    trainer = build_run(build_ppo(options, total=NEVER, learning_rate="3e-3")).trainer
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
    recordings = getattr(trainer.executor(trainer.plan.phases[0]), "recordings", {}).values()
    recorded = bool(recordings) and all(r.graph is not None for r in recordings)
    shown = ", ".join(f"{rate:.2f}" for rate in rates)
    print(
        f"ppo {options.envs} x {options.steps}, {options.minibatches} minibatches, {options.precision}: {shown} M steps/s, "
        f"compile {compiled:.0f} s, recorded {recorded}",
        flush=True,
    )


def learn(options: argparse.Namespace) -> None:
    for seed in range(options.seeds):
        agent = build_ppo(options, total=options.total, learning_rate="lin_3e-3", seed=seed)
        start = time.perf_counter()
        agent.learn(progress=False)
        seconds = time.perf_counter() - start
        mean = agent.evaluate(64).mean
        print(
            f"ppo {options.envs} x {options.steps}, {options.precision}, seed {seed} learned: return {mean:.1f} after "
            f"{options.total / 1e6:.0f} M steps, {seconds:.0f} s",
            flush=True,
        )


def solve(options: argparse.Namespace) -> None:
    """From the start of the process, imports included, to an evaluated return of 475 over 64 episodes."""
    marks = [("import", since_start())]
    watched = {"interval": options.interval, "episodes": 64, "stop_at_return": 475.0} if options.interval else {}
    agent = build_ppo(options, total=options.total, learning_rate="lin_3e-3", evaluation=watched)
    marks.append(("build", since_start()))
    agent.learn(progress=False)
    marks.append(("learn", since_start()))
    mean = agent.evaluate(64).mean
    marks.append(("evaluate", since_start()))
    parts = ", ".join(
        f"{name} {end - begin:.1f}" for (name, end), begin in zip(marks, (0.0, *(t for _, t in marks)), strict=False)
    )
    print(
        f"solve {options.envs} x {options.steps}, {options.precision}, compile {agent.config.training.compile}: return "
        f"{mean:.1f} after {agent.num_timesteps / 1e6:.1f} M steps, {marks[-1][1]:.1f} s from process start ({parts})",
        flush=True,
    )


def since_start() -> float:
    """Seconds since this process began."""
    began = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return float(Path("/proc/uptime").read_text().split()[0]) - began


def build_replay(options: argparse.Namespace) -> rl_training.Agent:
    settings: dict = {"train_freq": 1, "gradient_steps": options.updates, "learning_starts": 100}
    if options.algorithm == "DQN":
        settings |= {"batch_size": 128, "net_arch": [128, 128], "target_update_interval": 500}
    if options.algorithm == "REDQ":
        settings |= {"policy_delay": options.updates}
    return getattr(rl_training, options.algorithm)(
        options.env,
        backend=options.backend,
        device=options.device,
        precision=options.precision,
        compile=options.compile,
        total_timesteps=10**7,
        log_interval=10**6,
        seed=0,
        **settings,
    )


def replay(options: argparse.Namespace) -> None:
    agent = build_replay(options)
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


def block(options: argparse.Namespace) -> None:
    agent = build_replay(options)
    agent.learn(stop_at=600, progress=False)
    run = block_of(agent.trainer)
    with agent.trainer.session():
        for _ in range(WARM_UP):
            run()
        times = []
        for _ in range(options.repeats):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(options.count):
                run()
            torch.cuda.synchronize()
            times.append(1e3 * (time.perf_counter() - start) / options.count)
        if options.profile:
            print_kernels(run)
    shown = ", ".join(f"{ms:.3f}" for ms in times)
    print(f"{options.algorithm} block of {options.updates} updates, {options.precision}: {shown} ms", flush=True)


def block_of(trainer: Trainer) -> Callable[[], object]:
    """An iteration's updates with their draws, as one graph."""
    assert isinstance(trainer.experience, Replay)
    (a_pass,) = trainer.algorithm.passes()
    executor = trainer.executor(trainer.plan.phases[0])
    assert isinstance(executor, WholeIteration)
    assert isinstance(executor.parts, RecordedUpdates)
    due = tuple(trainer.progress.due(a_pass, number + 1) for number in range(a_pass.rounds))
    run = executor.parts.block_for(due, a_pass)
    storage, _ = trainer.experience.prepare(trainer.algorithm)
    return lambda: run(storage)


def print_kernels(call: Callable[[], object], num: int = 20) -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(num):
            call()
        torch.cuda.synchronize()
    rows = sorted(profile.key_averages(), key=lambda row: -row.self_device_time_total)
    total = sum(row.self_device_time_total for row in rows)
    print(f"{sum(row.count for row in rows) / num:.0f} kernels, {total / num / 1e3:.3f} ms in them")
    for row in rows:
        share, mean = row.self_device_time_total / total, row.self_device_time_total / row.count
        print(f"{share:6.1%} {row.count / num:6.1f} x {mean:6.1f} us  {row.key[:120]}")


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
    parser.add_argument("action", choices=["ppo", "learn", "solve", "replay", "block", "sb3"])
    parser.add_argument("--envs", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--minibatches", type=int, default=4)
    parser.add_argument("--precision", default="tf32")
    parser.add_argument("--algorithm", default="SAC")
    parser.add_argument("--env", default="Pendulum-v1")
    parser.add_argument("--backend", default="native")
    parser.add_argument("--updates", type=int, default=1)
    parser.add_argument("--count", type=int, default=2_000, help="steps or blocks per repeat")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--profile", action="store_true", help="list the kernels of a block")
    parser.add_argument("--total", type=int, default=20_000_000, help="steps of learn")
    parser.add_argument(
        "--interval", type=int, default=2_000_000, help="steps between evaluations of solve; 0: at the end"
    )
    parser.add_argument("--seeds", type=int, default=1, help="how many, of learn")
    parser.add_argument("--compile", type=yaml.safe_load, default=True, help="true, record, false or auto")
    parser.add_argument("--device", default="cuda")
    chosen = parser.parse_args()
    {"ppo": ppo, "learn": learn, "solve": solve, "replay": replay, "block": block, "sb3": sb3}[chosen.action](chosen)
