"""Whether a run of Atari games that is killed and goes on ends as one that never stopped, bit for bit.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/resume_pictures.py

There are 40 draws from --seed 20261119: each of five games eight times, as often by the backend `ale` (a vector of one to
three games) as by gymnasium's own environment (`sync`), sticky and not, with PPO and with DQN. The run is killed by SIGKILL
at a random step, in a process of its own, and resumed from the last checkpoint that it wrote; or it is stopped at that
step, saved and loaded. Its last state, emulators included, is compared with that of a run without the stop. One JSON line
per draw goes to benchmarks/results/resume_pictures.jsonl (or --out); draws that are there are skipped. It exits with 1 if a
draw differs. `--cost` says, for eight games of Pong after 5,000 steps each, how large their saved state is and how many
seconds of CPU time it takes to bring them back.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import torch
from resume_exactness import finish, read_rows  # pyrefly: ignore[missing-import]  (beside this file)

import rl_training
from rl_training import Agent, Callback, RunConfig
from rl_training.core import tree_leaves
from rl_training.envs import EnvConfig, make_env
from rl_training.experiment.checkpoint import checkpoint_difference

OUT = Path(__file__).parent / "results" / "resume_pictures.jsonl"
GAMES = ("Pong", "Breakout", "Seaquest", "Qbert", "Tetris")
SEED, DRAWS = 20261119, 40


def draw_case(seed: int, number: int) -> dict:
    """The case of a number: a config, the step at which the run ends early, and whether it is killed there."""
    rng = random.Random(f"{seed}/{number}")
    game, rest = GAMES[number % 5], number // 5
    vector, sticky, on_policy = rest % 2 == 0, rest // 2 % 2 == 0, rest // 4 % 2 == 0
    num_envs = rng.choice((1, 2, 3))
    env = draw_vector(rng, game, sticky=sticky) if vector else draw_sync(rng, game, sticky=sticky)
    env |= {"n_envs": num_envs, "max_episode_steps": rng.choice((40, 150, 400))}
    algorithm = draw_rollout(rng, num_envs) if on_policy else draw_replay(rng, num_envs)
    total = rng.randrange(600, 1_200)
    training = {"seed": rng.randrange(1_000), "total_timesteps": total, "compile": False, "threads": 1}
    values = {"algorithm": algorithm | {"encoder": "small"}, "env": env, "training": training}
    values |= {"evaluation": {"episodes": 1}, "checkpoint": {"interval": rng.randrange(60, 200)}}
    return {"config": values, "stop_at": rng.randrange(200, total), "killed": rng.random() < 0.5}


def draw_vector(rng: random.Random, game: str, *, sticky: bool) -> dict:
    kwargs = {"protocol": rng.choice(("machado", "dqn")), "sticky": 0.25 if sticky else 0.0, "size": 42}
    kwargs |= {"reseed_steps": rng.choice((50, 300, 20_000))}
    return {"id": f"ALE/{game}-v5", "kwargs": kwargs, "frame_stack": rng.choice((1, 4))}


def draw_sync(rng: random.Random, game: str, *, sticky: bool) -> dict:
    kwargs = {"repeat_action_probability": 0.25 if sticky else 0.0, "frameskip": rng.choice((4, 3))}
    if rng.random() < 0.5:
        return {"id": f"ale_py:ALE/{game}-v5", "backend": "gymnasium", "kwargs": kwargs}
    kwargs |= {"obs_type": "grayscale"}
    return {"id": f"ale_py:ALE/{game}-v5", "backend": "gymnasium", "kwargs": kwargs, "frame_stack": 3}


def draw_rollout(rng: random.Random, num_envs: int) -> dict:
    steps = rng.choice((16, 32, 50))
    return {"name": "ppo", "n_steps": steps, "batch_size": steps * num_envs, "n_epochs": rng.choice((1, 2))}


def draw_replay(rng: random.Random, num_envs: int) -> dict:
    every = num_envs * rng.choice((4, 8, 16))
    settings = {"name": "dqn", "learning_starts": rng.choice((50, 150)), "buffer_size": rng.choice((200, 2_000))}
    settings |= {"batch_size": 8, "train_freq": every, "n_steps": rng.choice((1, 3))}
    return settings | {"prioritized": rng.random() < 0.4, "exploration_fraction": 0.5}


class Die(Callback):
    """Ends the process at an exact step, as the system does when memory is short."""

    def __init__(self, step: int) -> None:
        self.interval = step

    def on_interval(self, trainer: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def learn_and_die(case: dict, run_dir: str) -> None:
    Agent(RunConfig.from_mapping(case["config"]), run_dir=run_dir).learn(
        progress=False, callbacks=[Die(case["stop_at"])]
    )


def compare(case: dict) -> dict:
    """Runs a case with and without the stop; returns what was promised and found, and what the way back cost."""
    config = RunConfig.from_mapping(case["config"])
    total = config.training.total_timesteps
    with tempfile.TemporaryDirectory() as folder:
        resumed_at, undisturbed, run_dir = Path(folder) / "resumed", Path(folder) / "undisturbed", Path(folder) / "run"
        if case["killed"]:
            me = [sys.executable, __file__, "--die", json.dumps(case), str(run_dir)]
            done = subprocess.run(me, capture_output=True, text=True, check=False)
            assert done.returncode == -signal.SIGKILL, done.stderr
            agent = Agent.resume(run_dir, trust=["ale_py"])
        else:
            finish(Agent(config), case["stop_at"], Path(folder) / "paused")
            agent = rl_training.load(Path(folder) / "paused", trust=["ale_py"])
        went_on_at = agent.progress.env_steps
        state = agent.state["collector"]["env"] if "collector" in agent.state else {}
        size = sum(leaf.numel() * leaf.element_size() for leaf in tensors_in(state))
        start = time.perf_counter()
        promise = finish(agent, total, resumed_at)
        took = time.perf_counter() - start
        finish(Agent(config, run_dir=Path(folder) / "twin" if case["killed"] else None), total, undisturbed)
        difference = checkpoint_difference(resumed_at, undisturbed)
    return {
        "promise": promise,
        "went_on_at": went_on_at,
        "difference": difference,
        "env_state_bytes": size,
        "seconds_to_the_end": round(took, 1),
    }


def tensors_in(state: object) -> list:
    return [leaf for leaf in tree_leaves(state) if hasattr(leaf, "element_size")] if isinstance(state, dict) else []


def cost(num_envs: int = 8, num_steps: int = 5_000) -> dict:
    """Returns what it takes to bring games of Pong back from seeds and actions, and how fast plain steps are."""
    config = EnvConfig(id="ALE/Pong-v5", n_envs=num_envs, kwargs={"protocol": "dqn"})
    env, copy = make_env(config), make_env(config)
    env.reset(0)
    actions = torch.randint(6, (num_steps, num_envs), generator=torch.Generator().manual_seed(0))
    start = time.process_time()
    for action in actions:
        env.step(action)
    stepping, state, start = time.process_time() - start, env.get_state(), time.process_time()
    assert copy.set_state(state) is None
    found = {"games": num_envs, "steps_of_each": num_steps, "log_bytes": state["log"].numel()}
    found |= {"cpu_s_to_bring_back": round(time.process_time() - start, 2), "cpu_s_of_playing": round(stepping, 2)}
    env.close()
    copy.close()
    return found


def summarise(rows: list[dict]) -> str:
    exact = [row for row in rows if row["difference"] is None and row["promise"] == "replayed"]
    lines = [f"{len(exact)} of {len(rows)} draws are exact, {sum(row['killed'] for row in rows)} of them killed"]
    count = Counter(
        (
            row["config"]["env"]["id"].removeprefix("ale_py:"),
            "sync" if "backend" in row["config"]["env"] else "vector",
        )
        for row in rows
    )
    lines += [", ".join(f"{game} {kind} {number}" for (game, kind), number in sorted(count.items()))]
    lines += [
        f"NOT exact: draw {row['draw']}, {row['promise']}, differs in {row['difference']}"
        for row in rows
        if row not in exact
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--die", nargs=2, metavar=("CASE", "RUN"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.die:
        learn_and_die(json.loads(options.die[0]), options.die[1])
        return 1
    if options.cost:
        print(json.dumps(cost()))
        return 0
    machine = {name: version(name) for name in ("torch", "ale-py", "gymnasium")} | {"machine": platform.machine()}
    finished = {(row["seed"], row["draw"]) for row in read_rows(options.out)}
    for number in range(options.draws):
        if (options.seed, number) in finished:
            continue
        case, start = draw_case(options.seed, number), time.perf_counter()
        row = {"seed": options.seed, "draw": number, **case} | compare(case)
        row |= {"seconds": round(time.perf_counter() - start, 1)}
        with options.out.open("a") as file:
            file.write(json.dumps(row | machine) + "\n")
        print(f"draw {number}: {row['promise']}, {row['difference'] or 'exact'}, {row['seconds']} s", flush=True)
    rows = sorted(read_rows(options.out), key=lambda row: (row["seed"], row["draw"]))
    print(summarise(rows))
    return 1 if any(row["difference"] or row["promise"] != "replayed" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
