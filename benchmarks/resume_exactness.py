"""Whether a run that stops and goes on ends as one that never stopped, bit for bit, over random cases.

OMP_NUM_THREADS=1 .venv/bin/python benchmarks/resume_exactness.py

Every draw is an environment, an algorithm with some of its settings, a number of environments, how they are run, and the
step at which the run stops; all follow from --seed and the draw's number. The run is stopped, loaded from what it saved
and finished, and its last state compared with that of a run without the stop, as `rl-training resume --verify` does. One
JSON line per draw goes to benchmarks/results/resume_exactness.jsonl (or --out); draws that are there are skipped, so a
killed command goes on. `--part 1/2` takes every second draw, for two processes at a time. `--teams` draws methods of
several agents, each in its turn. It exits with 1 if a draw differs whose environment promises `exact` or `replayed`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import random
import sys
import tempfile
import time
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import rl_training
from rl_training import Agent, RunConfig
from rl_training.envs.catalogue import NATIVE
from rl_training.experiment.checkpoint import checkpoint_difference

OUT = Path(__file__).parent / "results" / "resume_exactness.jsonl"
DISCRETE = {"CartPole-v1": None, "Acrobot-v1": None, "MountainCar-v0": None, "LunarLander-v3": "Box2D"}
MUJOCO = (
    "Hopper-v5", "HalfCheetah-v5", "Walker2d-v5", "Ant-v5", "Humanoid-v5", "Pusher-v5", "Reacher-v5", "Swimmer-v5",
    "InvertedPendulum-v5", "InvertedDoublePendulum-v5",
)  # fmt: skip
CONTINUOUS = {"MountainCarContinuous-v0": None, "Pendulum-v1": None}
CONTINUOUS |= {"LunarLanderContinuous-v3": "Box2D", "BipedalWalker-v3": "Box2D"} | dict.fromkeys(MUJOCO, "mujoco")
NATIVE_ONLY = ("CartPoleNoVel-v1", "PendulumNoVel-v1", "RepeatPrevious-v0")
ON_POLICY = ("ppo", "a2c", "trpo", "recurrent_ppo")
Q_LEARNING = ("dqn", "rainbow_dqn", "c51", "qr_dqn", "iqn", "discrete_sac", "pqn")
ACTOR_CRITIC = ("sac", "td3", "ddpg", "tqc", "crossq", "redq")
TEAM_ROLLOUT = ("ippo", "mappo", "recurrent_ippo", "recurrent_mappo")
TEAM_METHODS = (*TEAM_ROLLOUT, "independent_q", "vdn", "qmix")
TEAM_GAMES = ("mpe/simple_spread", "mpe/simple_speaker_listener", "matrix/two_step", "matrix/climbing")
TEAM_ON_HOST = ("pettingzoo:mpe2.simple_spread_v3", "pettingzoo:mpe2.simple_speaker_listener_v4")
PROMISED = ("exact", "replayed")
CHEAP = ("CartPole-v1", "Pendulum-v1", "MountainCar-v0", "MountainCarContinuous-v0", *NATIVE_ONLY)


def draw_case(seed: int, number: int, *, cheap: bool = False) -> dict:
    """The case of a number: a config, the step to stop at, and whether it goes through a run directory."""
    rng = random.Random(f"{seed}/{number}")
    env_id = rng.choice(CHEAP if cheap else (*DISCRETE, *CONTINUOUS, *NATIVE_ONLY))
    native = env_id in NATIVE_ONLY or (env_id in NATIVE and rng.random() < 0.35)
    env = {"id": env_id, "backend": "native"} if native else draw_host(rng, env_id, cheap=cheap)
    if env.get("vectorization") != "vector_entry_point":
        env["max_episode_steps"] = rng.choice((7, 30) if cheap else (7, 30, 80))  # episodes and evaluations are short
    env["n_envs"] = rng.choice((1, 1, 2, 3, 4))
    continuous = env_id in CONTINUOUS or env_id == "PendulumNoVel-v1"
    name = rng.choice((*ON_POLICY, *(ACTOR_CRITIC if continuous else Q_LEARNING)))
    on_policy = name in (*ON_POLICY, "pqn")
    algorithm = draw_rollout(rng, name, env["n_envs"]) if on_policy else draw_replay(rng, name, env["n_envs"])
    total = rng.randrange(40, 70) if cheap else rng.randrange(120, 320)
    training = {"seed": rng.randrange(1000), "total_timesteps": total, "compile": False, "threads": 1}
    evaluation = {"episodes": 1, "interval": rng.choice((0, 0, 0, total // 3)), "deterministic": rng.random() < 0.5}
    values = {"algorithm": {"name": name} | algorithm, "env": env, "training": training, "evaluation": evaluation}
    run_directory = rng.random() < 0.2 and not cheap
    return {"config": values, "stop_at": rng.randrange(1, total), "run_directory": run_directory}


def draw_team(seed: int, number: int) -> dict:
    """The case of a number with several agents; as many successive numbers as there are methods are one of each."""
    rng = random.Random(f"{seed}/{number}")
    name = TEAM_METHODS[number % len(TEAM_METHODS)]
    env: dict = {"id": rng.choice((*TEAM_GAMES, *TEAM_ON_HOST)), "n_envs": rng.choice((1, 2, 3, 4))}
    limit = rng.choice((7, 20))  # episodes and evaluations are short
    if env["id"] in TEAM_ON_HOST:
        env["kwargs"] = {"max_cycles": limit}
    elif env["id"].startswith("mpe/"):
        env["max_episode_steps"] = limit
    if name in TEAM_ROLLOUT:
        settings: dict = {"n_steps": rng.choice((4, 8, 16)), "n_epochs": rng.choice((1, 2))}
        settings["batch_size"] = min(rng.choice((8, 32)), settings["n_steps"] * env["n_envs"])
        if name.startswith("recurrent"):
            settings |= {"lstm_hidden_size": rng.choice((8, 17)), "cell": rng.choice(("lstm", "gru"))}
    else:
        settings = {"learning_starts": rng.choice((10, 40)), "buffer_size": rng.choice((64, 1_000))}
        settings |= {"train_freq": env["n_envs"] * rng.choice((1, 2, 4)), "batch_size": rng.choice((8, 32))}
        settings["exploration_fraction"] = 0.5
    settings["normalize_observation"] = rng.random() < 0.4
    total = rng.randrange(80, 200)
    training = {"seed": rng.randrange(1000), "total_timesteps": total, "compile": False, "threads": 1}
    evaluation = {"episodes": 1, "interval": rng.choice((0, 0, total // 3)), "deterministic": rng.random() < 0.5}
    values = {"algorithm": {"name": name} | settings, "env": env, "training": training, "evaluation": evaluation}
    return {"config": values, "stop_at": rng.randrange(1, total), "run_directory": rng.random() < 0.2}


def draw_host(rng: random.Random, env_id: str, *, cheap: bool) -> dict:
    vectorization = rng.choices(("sync", "async"), (3, 0 if cheap else 1))[0]
    if env_id == "CartPole-v1" and rng.random() < 0.2:
        return {"id": env_id, "vectorization": "vector_entry_point"}
    return {"id": env_id, "vectorization": vectorization, "frame_stack": rng.choice((1, 1, 1, 3))}


def draw_rollout(rng: random.Random, name: str, num_envs: int) -> dict:
    settings: dict = {"n_steps": rng.choice((4, 8, 16, 35)), "normalize_observation": rng.random() < 0.4}
    settings["normalize_reward"] = rng.random() < 0.3
    if name != "a2c":
        settings["batch_size"] = min(rng.choice((16, 32)), settings["n_steps"] * num_envs)
    if name in ("ppo", "recurrent_ppo", "pqn"):
        settings["n_epochs"] = rng.choice((1, 2))
    if name == "recurrent_ppo":
        settings |= {"lstm_hidden_size": rng.choice((8, 17)), "cell": rng.choice(("lstm", "gru"))}
        settings["shared_lstm"] = rng.random() < 0.3
    return settings


def draw_replay(rng: random.Random, name: str, num_envs: int) -> dict:
    starts, every = rng.choice((10, 40)), num_envs * rng.choice((1, 1, 2, 4))
    settings: dict = {"learning_starts": starts, "buffer_size": rng.choice((64, 1_000)), "train_freq": every}
    settings |= {
        "batch_size": rng.choice((8, 32)),
        "n_steps": rng.choice((1, 1, 3)),
        "net_arch": rng.choice(([32], [64, 64])),
    }
    settings |= {"normalize_observation": rng.random() < 0.3, "gradient_steps": rng.choice((1, 1, 2))}
    if name in ACTOR_CRITIC:
        settings["critic_net_arch"] = settings["net_arch"]  # CrossQ's own is wide
    if name == "redq":
        settings["n_critics"] = 4
    if name != "rainbow_dqn":
        settings["prioritized"] = rng.random() < 0.4
    if name in ("dqn", "c51", "qr_dqn", "iqn"):
        settings["exploration_fraction"] = 0.5
    return settings


def missing_package(case: dict) -> str | None:
    env_id = case["config"]["env"]["id"]
    package = "mpe2" if env_id in TEAM_ON_HOST else (DISCRETE | CONTINUOUS).get(env_id)
    return package if package and importlib.util.find_spec(package) is None else None


def compare(case: dict) -> tuple[str, str | None]:
    """What the environment promises, and where the run that stopped differs from one that did not: None, nowhere."""
    config = RunConfig.from_mapping(case["config"])
    total = config.training.total_timesteps
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("paused", "resumed", "undisturbed")]
        run_dir = Path(folder) / "run" if case["run_directory"] else None
        paused = Agent(config, run_dir=run_dir)
        finish(paused, case["stop_at"], paths[0])
        resumed = Agent.resume(run_dir) if run_dir else rl_training.load(paths[0])
        promise = finish(resumed, total, paths[1])
        finish(Agent(config, run_dir=Path(folder) / "twin" if run_dir else None), total, paths[2])
        return promise, checkpoint_difference(paths[1], paths[2])


def finish(agent: Agent, stop_at: int, path: Path) -> str:
    try:
        result = agent.learn(stop_at=stop_at, progress=False)
        agent.save(path)
    finally:
        agent.close()
    if result.reason in ("SIGINT", "SIGTERM"):  # a run directory takes them as a request to pause
        sys.exit(f"interrupted by {result.reason}: this draw is not recorded")
    return result.resume


def run_draw(seed: int, number: int, *, teams: bool) -> dict:
    start = time.perf_counter()
    case = draw_team(seed, number) if teams else draw_case(seed, number)
    row = {"seed": seed, "draw": number, **case}
    package = missing_package(case)
    if package:
        return row | {"skipped": f"{package} is not installed"}
    promise, found = compare(case)
    return row | {"promise": promise, "difference": found, "seconds": round(time.perf_counter() - start, 1)}


def read_rows(out: Path) -> list[dict]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def failures(rows: list[dict]) -> list[dict]:
    return [row for row in rows if row.get("difference") and row["promise"] in PROMISED]


def run_as(env: dict) -> str:
    return "pettingzoo" if env["id"] in TEAM_ON_HOST else env.get("vectorization", "native")


def summarise(rows: list[dict]) -> str:
    """What was tried how often, and every draw that differs."""
    done = [row for row in rows if "promise" in row]
    promised, bad = [row for row in done if row["promise"] in PROMISED], failures(done)
    lines = [f"{len(promised)} draws promise exactness: {len(promised) - len(bad)} are exact, {len(bad)} are not"]
    lines += [f"{len(done) - len(promised)} promise a boundary alone, {len(rows) - len(done)} were skipped"]
    counts = {
        "promise": Counter(row["promise"] for row in done),
        "algorithm": Counter(row["config"]["algorithm"]["name"] for row in done),
        "environment": Counter(row["config"]["env"]["id"] for row in done),
        "run as": Counter(run_as(row["config"]["env"]) for row in done),
    }
    lines += [f"{what}: " + ", ".join(f"{k} {n}" for k, n in sorted(count.items())) for what, count in counts.items()]
    lines += [f"NOT exact: draw {row['draw']} differs in {row['difference']}" for row in bad]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=424)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", default="1/1", help="K/N: every N-th draw, from the K-th")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--teams", action="store_true", help="draw methods of several agents; give --out, too")
    options = parser.parse_args()
    if options.teams and options.out == OUT:
        parser.error("--teams needs an --out of its own: draws are told apart by seed and number alone")
    part, parts = (int(number) for number in options.part.split("/"))
    machine = {"python": platform.python_version(), "torch": version("torch"), "machine": platform.machine()}
    finished = {(row["seed"], row["draw"]) for row in read_rows(options.out)}
    for number in range(part - 1, options.draws, parts):
        if (options.seed, number) in finished:
            continue
        row = run_draw(options.seed, number, teams=options.teams)
        with options.out.open("a") as file:
            file.write(json.dumps(row | machine) + "\n")
        if row.get("difference"):
            print(f"draw {number}: {row['promise']}, differs in {row['difference']}", flush=True)
    rows = sorted(read_rows(options.out), key=lambda row: (row["seed"], row["draw"]))
    print(summarise(rows))
    return 1 if failures(rows) else 0


if __name__ == "__main__":
    sys.exit(main())
