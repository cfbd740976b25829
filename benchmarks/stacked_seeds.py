"""Several seeds as a stack compared with one after the other.

python benchmarks/stacked_seeds.py cpu [--threads 1]        # 8 seeds of PPO on CartPole and of SAC on Pendulum, alternated
python benchmarks/stacked_seeds.py train ppo-64              # a case of purejaxrl.py, on a GPU
python benchmarks/stacked_seeds.py train ppo-64 --device cpu --small

`cpu` runs both ways in one process, eager, and adds a line per case to results/stacked_seeds.jsonl: wall and CPU seconds
of `learn`, with `--threads` threads. `train` prints the wall time from the start of the process to the end of `learn`, that of
a second `learn` of as many steps, its rate, and the mean return.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

START = time.time()
OUT = Path(__file__).parent / "results" / "stacked_seeds.jsonl"
PPO_ZOO = {"n_envs": 8, "n_steps": 32, "batch_size": 256, "n_epochs": 20, "gae_lambda": 0.8, "gamma": 0.98}
PPO_ZOO |= {"learning_rate": "lin_1e-3", "clip_range": "lin_0.2"}  # of the preset ppo/cartpole
ON_CPU = {
    "ppo": ("PPO", "CartPole-v1", PPO_ZOO, 8, 256 * 20),
    "sac": ("SAC", "Pendulum-v1", {}, 8, 500),
}
PPO_MANY = {"n_envs": 64, "n_steps": 128, "batch_size": 2048, "n_epochs": 4, "learning_rate": "lin_2.5e-4"}
PPO_MANY |= {"ent_coef": 0.01, "precision": "tf32"}
ON_GPU = {  # the number of seeds, and the env steps of each
    "ppo-64": ("PPO", "CartPole-v1", PPO_MANY, 64, 409_600),
    "ppo-256": ("PPO", "CartPole-v1", PPO_MANY, 256, 409_600),
    "sac-32": ("SAC", "Pendulum-v1", {"precision": "tf32"}, 32, 5_000),
    "sac-alone": ("SAC", "Pendulum-v1", {"precision": "tf32"}, 1, 5_000),
}


def compare(name: str, repeats: int, threads: int | None) -> dict:
    """Trains all seeds as a stack and one after the other, `repeats` times in turns, after a first stack."""
    import rl_training

    kind, env, settings, number, steps = ON_CPU[name]
    method = getattr(rl_training, kind)
    settings = settings | {"backend": "native", "compile": False, "threads": threads, "total_timesteps": steps}

    def together() -> Callable[[], object]:
        stack = rl_training.stacked(method, env, seeds=range(number), **settings)
        return lambda: stack.learn(progress=False)

    def one_by_one() -> Callable[[], object]:
        agents = [method(env, seed=seed, **settings) for seed in range(number)]
        return lambda: [agent.learn(progress=False) for agent in agents]

    together()()
    runs = {"stack": together, "one_by_one": one_by_one}
    taken: dict[str, list[tuple[float, float]]] = {side: [] for side in runs}
    for _ in range(repeats):
        for side, build in runs.items():
            learn = build()
            wall, cpu = time.perf_counter(), time.process_time()
            learn()
            taken[side].append((round(time.perf_counter() - wall, 2), round(time.process_time() - cpu, 2)))
    middle = {
        side: [sorted(column)[repeats // 2] for column in zip(*pairs, strict=True)] for side, pairs in taken.items()
    }
    ratios = [round(a / b, 2) for a, b in zip(middle["one_by_one"], middle["stack"], strict=True)]
    return {"case": name, "seeds": number, "steps": steps, "threads": threads, "wall_and_cpu_s": taken} | {
        "ratio_wall": ratios[0],
        "ratio_cpu": ratios[1],
        "load": round(os.getloadavg()[0], 1),
    }


def train(name: str, device: str, small: bool) -> dict:
    """Trains one of the GPU's cases in this process, and then as many steps again."""
    import torch

    import rl_training

    kind, env, settings, number, steps = ON_GPU[name]
    number, steps = (min(number, 3), 2 * 64 * 128 if kind == "PPO" else 200) if small else (number, steps)
    settings = settings | {"backend": "native", "device": device, "precision": "float32" if small else "tf32"}
    method = getattr(rl_training, kind)
    agents = [method(env, seed=seed, **settings) for seed in range(number)]
    learner = rl_training.Stacked(agents) if number > 1 else agents[0]
    learner.learn(steps, progress=False)
    done = time.time() - START
    begin = time.perf_counter()
    learner.learn(steps, progress=False)
    if device == "cuda":
        torch.cuda.synchronize()
    again = time.perf_counter() - begin
    returns = [agent.evaluate(16).mean for agent in agents[:: max(1, number // 64)]]
    return {
        "case": name,
        "seeds": number,
        "steps": steps,
        "from_start_s": round(done, 2),
        "again_s": round(again, 2),
    } | {
        "steps_per_s": round(number * steps / again),
        "mean_return": round(sum(returns) / len(returns), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["cpu", "train"])
    parser.add_argument("case", nargs="*")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, help="of both ways; without it, what each takes by default")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    if options.what == "train":
        print(json.dumps(train(options.case[0], options.device, options.small)))
    else:
        for name in options.case or ON_CPU:
            line = json.dumps(compare(name, options.repeats, options.threads))
            print(line, flush=True)
            with OUT.open("a", encoding="utf-8") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
