"""Learning results: one JSON per (cell, seed), finished ones are skipped, so it can be stopped and started at will.

    .venv/bin/python benchmarks/learn.py run --cells ppo-cartpole ppo-hopper --seeds 0 1 2 3 4
    .venv/bin/python benchmarks/learn.py report

A score is the mean of the last 10 evaluations (10 deterministic episodes each, on environments of their own, at every
20th of the budget); where the reference is a curve's value at a step, it is the evaluation at that step. The mean
return of the last 100 training episodes stands beside it, because CleanRL's reference numbers are training returns.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from rl_training import Agent, Callback, RunConfig
from rl_training.evaluation import iqm
from rl_training.experiment import load_config_values
from rl_training.experiment.config import apply_override
from rl_training.experiment.run_directory import collect_metadata, write_atomically

FOLDER = Path(__file__).parent / "results" / "learning"


@dataclass(frozen=True)
class Cell:
    """A preset with its gate: the mean over seeds must reach it."""

    preset: str
    gate: float | None
    reference: str
    overrides: tuple[str, ...] = field(default=())
    last: int = 10  # evaluations that count


THREE_HUNDRED_K = "training.total_timesteps=300000"
# The feed-forward control has everything of the recurrent preset but the memory.
FORGETFUL = (
    "env={id: CartPoleNoVel-v1, n_envs: 8, backend: native}",
    "algorithm.normalize_observation=true",
    "algorithm.normalize_reward=true",
    "algorithm.activation_fn=relu",
)
ZOO_TRPO = ("env.n_envs=2", "algorithm.n_steps=512", "algorithm.batch_size=512")
FIRST_TMAZE = ("training.total_timesteps=150000", "algorithm.learning_rate=3e-3")
NOMINAL_TRPO = (THREE_HUNDRED_K, "algorithm.target_kl=0.01", "algorithm.cg_damping=0.1")

# Every variant of DQN beside DQN itself, same numbers: only what the variant adds differs.
COMPILED = ("training.compile=true",)
PLAIN_DQN = ("algorithm.name=dqn", *COMPILED)
CLEANRL_PQN = ("env={id: CartPole-v1, n_envs: 4}", "algorithm.n_steps=128")
VARIANTS = (
    "double_dqn",
    "dueling_dqn",
    "prioritized_dqn",
    "n_step_dqn",
    "noisy_dqn",
    "qr_dqn",
    "iqn",
    "rainbow_dqn",
)

HUNDRED_K = ("training.total_timesteps=100000", "training.compile=true")
AS_GOOD = "not worse than dqn-cartpole-100k by more than 2.33 standard errors"

CELLS = {
    "ppo-cartpole": Cell("ppo/cartpole_cleanrl", 475, "CleanRL 490.04 +- 6.12 (3 seeds, training return)"),
    "ppo-acrobot": Cell("ppo/acrobot", -92, "CleanRL -86.36 +- 1.32 (3 seeds, training return)"),
    "a2c-cartpole": Cell("a2c/cartpole", 475, "RL Baselines3 Zoo 500.0 +- 0.0 (one run)"),
    "ppo-hopper": Cell("ppo/hopper", 1900, "CleanRL 2382.86 +- 271.74 (Hopper-v4, 3 seeds, training return)"),
    "ppo-pendulum": Cell("ppo/pendulum", None, "Stable-Baselines3, same settings, same batch: see ppo-pendulum-sb3"),
    "ppo-cartpole-zoo": Cell("ppo/cartpole", None, "RL Baselines3 Zoo 500.0 +- 0.0 (one run)"),
    "ppo-halfcheetah": Cell(
        "ppo/halfcheetah", None, "CleanRL 1442.64 +- 46.03 (HalfCheetah-v4, 3 seeds, training return)"
    ),
    "ppo-mountaincar-continuous": Cell(
        "ppo/mountaincar_continuous", None, "RL Baselines3 Zoo 88.3 +- 2.6 (one run, with gSDE)"
    ),
    "ppo-lunarlander": Cell("ppo/lunarlander", None, "RL Baselines3 Zoo 242.1 +- 31.8 (LunarLander-v2, one run)"),
    "a2c-acrobot": Cell("a2c/acrobot", None, "RL Baselines3 Zoo -83.4 +- 17.2 (one run)"),
    "a2c-pendulum": Cell("a2c/pendulum", None, "RL Baselines3 Zoo -163.0 +- 103.2 (one run, with gSDE)"),
    "trpo-cartpole": Cell("trpo/cartpole", 475, "RL Baselines3 Zoo 500.0 +- 0.0 (100k, one run)"),
    "trpo-cartpole-zoo": Cell(
        "trpo/cartpole", None, "the settings of RL Baselines3 Zoo, made for 100k steps", ZOO_TRPO
    ),
    "trpo-pendulum": Cell("trpo/pendulum", -260, "RL Baselines3 Zoo -174.6 +- 127.6 (one run, with gSDE)"),
    "trpo-hopper-300k": Cell(
        "trpo/hopper",
        None,
        "sb3-contrib, same settings in its units, same batch: see trpo-hopper-300k-sb3",
        (THREE_HUNDRED_K,),
    ),
    "trpo-hopper-300k-nominal": Cell(
        "trpo/hopper",
        None,
        "sb3-contrib's numbers without converting its units: a third of its trust region",
        NOMINAL_TRPO,
    ),
    "recurrent-ppo-cartpole-novel": Cell(
        "recurrent_ppo/cartpole_novel", 450, "RL Baselines3 Zoo 500.0 +- 0.0 (one run); see ppo-cartpole-novel"
    ),
    "ppo-cartpole-novel": Cell(
        "ppo/cartpole", None, "feed-forward control, same budget: at most half of recurrent", FORGETFUL
    ),
    "recurrent-ppo-tmaze": Cell("recurrent_ppo/tmaze", 0.95, "best without memory: 0.5 exactly"),
    "recurrent-ppo-tmaze-150k": Cell(
        "recurrent_ppo/tmaze", None, "first attempt: half the budget, constant learning rate 3e-3", FIRST_TMAZE
    ),
    "recurrent-ppo-pendulum-novel": Cell(
        "recurrent_ppo/pendulum_novel", None, "RL Baselines3 Zoo -217.9 +- 140.1 (one run)"
    ),
    "dqn-cartpole": Cell("dqn/cartpole", 460, "CleanRL 488.69 +- 16.11 (3 seeds, training return)"),
    "c51-cartpole": Cell("c51/cartpole", 460, "CleanRL 481.20 +- 20.53 (3 seeds, training return)"),
    "dqn-acrobot": Cell("dqn/acrobot", -105, "CleanRL -91.54 +- 7.20 (3 seeds, training return)"),
    "c51-acrobot": Cell("c51/acrobot", -105, "CleanRL -87.70 +- 5.52 (3 seeds, training return)"),
    "dqn-lunarlander": Cell("dqn/lunarlander", 220, "SLM-Lab 265.90 (4 sessions, training return)"),
    "dqn-cartpole-100k": Cell("double_dqn/cartpole", None, "what the variants are compared with", PLAIN_DQN),
    **{
        f"{name.replace('_', '-')}-cartpole-100k": Cell(f"{name}/cartpole", None, AS_GOOD, COMPILED)
        for name in VARIANTS
    },
    "discrete-sac-cartpole": Cell("discrete_sac/cartpole", 380, "SLM-Lab 406.09 (4 sessions, training return)"),
    "pqn-cartpole": Cell("pqn/cartpole", 480, "CleanRL 495.13 +- 6.89 (3 seeds, training return)"),
    "pqn-cartpole-cleanrl": Cell(
        "pqn/cartpole", None, "first attempt: CleanRL's settings, 4 environments x 128 steps", CLEANRL_PQN
    ),
    "ddpg-pendulum": Cell("ddpg/pendulum", -200, "RL Baselines3 Zoo -152.1 +- 94.3 (one run)", COMPILED),
    "td3-pendulum": Cell("td3/pendulum", -200, "RL Baselines3 Zoo -151.9 +- 90.2 (one run)", COMPILED),
    "sac-pendulum": Cell("sac/pendulum", -200, "RL Baselines3 Zoo -157.0 +- 88.7 (one run)", COMPILED),
    "sac-pendulum-10k": Cell(
        "sac/pendulum",
        -180,
        "RL Baselines3 Zoo -129 at 10k (one run)",
        ("training.total_timesteps=10000", *COMPILED),
    ),
    "tqc-pendulum": Cell("tqc/pendulum", -200, "RL Baselines3 Zoo -151.3 +- 87.9 (one run)", COMPILED),
    "crossq-pendulum": Cell("crossq/pendulum", -200, "SLM-Lab -145.66 (300k, 4 sessions)", COMPILED),
    "redq-pendulum": Cell("redq/pendulum", -250, "none published at 5k steps", COMPILED),
    "td3-inverted-pendulum": Cell(
        "td3/inverted_pendulum", None, "1000 at 50k on 4 of 5 seeds; Tianshou 1000 +- 0 (1M, 10 seeds)", COMPILED, 1
    ),
    "td3-halfcheetah-100k": Cell(
        "td3/halfcheetah", 4664, "TD3's author 5514 +- 554 (at 100k, HalfCheetah-v1, 10 seeds)", HUNDRED_K, 1
    ),
    "td3-halfcheetah-100k-slow": Cell(
        "td3/halfcheetah",
        None,
        "first attempt: CleanRL's learning rate 3e-4 and 256 x 2",
        (*HUNDRED_K, "algorithm.learning_rate=3e-4", "algorithm.net_arch=[256,256]"),
        1,
    ),
    "crossq-halfcheetah-100k": Cell(
        "crossq/halfcheetah",
        6739,
        "SimbaV2's runs 8112 +- 895 (at 100k, HalfCheetah-v4, 10 seeds)",
        HUNDRED_K,
        1,
    ),
    "redq-halfcheetah-50k": Cell(
        "redq/halfcheetah",
        None,
        "above sac-halfcheetah-100k at 50k",
        ("training.total_timesteps=50000", "training.compile=true"),
        1,
    ),
    "sac-halfcheetah-100k": Cell(
        "sac/halfcheetah_fast", 5084, "SimbaV2's runs 6156 +- 699 (at 100k, HalfCheetah-v4, 10 seeds)", HUNDRED_K, 1
    ),
}


class Evaluations(Callback):
    """Keeps every evaluation."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, float]] = []

    def on_evaluation(self, trainer, result) -> None:
        self.rows.append((trainer.progress.timesteps, result.mean))


def override(values: dict, assignment: str) -> dict:
    """Like `--set`, but a whole section may be replaced."""
    key, _, text = assignment.partition("=")
    return apply_override(values, assignment) if "." in key else values | {key: yaml.safe_load(text)}


def run_one(name: str, seed: int, settings: Sequence[str] = ()) -> None:
    target = FOLDER / name / f"seed{seed}.json"
    if target.exists():
        return
    cell = CELLS[name]
    values = load_config_values(cell.preset)
    for assignment in (*cell.overrides, *settings):
        values = override(values, assignment)
    total = int(values["training"]["total_timesteps"])
    for assignment in (f"training.seed={seed}", f"evaluation.interval={total // 20}", "evaluation.episodes=10"):
        values = apply_override(values, assignment)
    agent = Agent(RunConfig.from_mapping(values))
    evaluations = Evaluations()
    start = time.perf_counter()
    result = agent.learn(callbacks=[evaluations], progress=False)
    assert agent.trainer is not None
    training = statistics.fmean(episode.ret for episode in agent.trainer.recent)
    record = {
        "cell": name,
        "seed": seed,
        "score": statistics.fmean(mean for _, mean in evaluations.rows[-cell.last :]),
        "best_evaluation": max(mean for _, mean in evaluations.rows),
        "training_return_last_100": training,
        "evaluations_counted": cell.last,
        "evaluations": evaluations.rows,
        "total_timesteps": result.total_timesteps,
        "gradient_steps": result.gradient_steps,
        "wall_time_s": round(time.perf_counter() - start, 1),
        "config": agent.config.to_mapping(),
        "metadata": collect_metadata() | {"command": "benchmarks/learn.py run"},
    }
    agent.close()
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, json.dumps(record, indent=1) + "\n")
    print(
        f"{name} seed {seed}: score {record['score']:.1f}, training {training:.1f}, {record['wall_time_s']} s",
        flush=True,
    )


def report() -> None:
    """Prints one Markdown row per cell; a gate that is missed is said so."""
    print("| cell | seeds | score: mean +- std | IQM | min | training return | gate | reference |")
    print("|---|---|---|---|---|---|---|---|")
    for folder in sorted(path for path in FOLDER.iterdir() if path.is_dir()):
        records = [json.loads(path.read_text()) for path in sorted(folder.glob("seed*.json"))]
        scores = [r["score"] for r in records]
        training = statistics.fmean(r["training_return_last_100"] for r in records)
        spread = statistics.stdev(scores) if len(scores) > 1 else math.nan
        mean = statistics.fmean(scores)
        cell = CELLS.get(folder.name)
        gate = "-" if cell is None or cell.gate is None else f"{cell.gate:g} {'met' if mean >= cell.gate else 'MISSED'}"
        print(
            f"| {folder.name} | {len(scores)} | {mean:.1f} +- {spread:.1f} | {iqm(scores):.1f} | {min(scores):.1f} | "
            f"{training:.1f} | {gate} | {cell.reference if cell else records[0].get('reference', '')} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["run", "report"])
    parser.add_argument("--cells", nargs="*", default=list(CELLS), choices=list(CELLS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--set", nargs="*", default=[], dest="settings", help="e.g. training.device=cuda")
    options = parser.parse_args()
    if options.action == "report":
        report()
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in options.cells:
        for seed in options.seeds:
            run_one(name, seed, options.settings)


if __name__ == "__main__":
    main()
