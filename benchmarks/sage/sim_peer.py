"""sb3-contrib's MaskablePPO on the environment of `sim_ppo.py`: the same tasks, steps and score; its results lie beside ours.

python benchmarks/sage/sim_peer.py --tables tables.npz --seeds 0 1 2 [--device cuda]      (needs sb3-contrib)

Its episodes are stepped in one batch, as ours are, so that its speed is that of the library and not of 256 environments in turn.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from sb3_contrib import MaskablePPO
from sim_ppo import SPLITS, target_of
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from rl_training.experiment.run_directory import collect_metadata, write_atomically
from sage.sim.environment import rules
from sage.sim.environment.dynamics import SoftwareTaskDynamics
from sage.sim.environment.packed import Packed, load_packed
from sage.sim.scoring import Judge

STEPS = 1_000_000
SETTINGS = {"n_steps": 32, "batch_size": 2048, "n_epochs": 10, "gamma": 0.99, "gae_lambda": 0.95, "ent_coef": 0.01}
NETWORK = {"net_arch": [256, 256]}


class Batch(VecEnv):
    """A batch of episodes as SB3 wants it."""

    def __init__(self, tasks: Packed, num_envs: int, device: str, seed: int) -> None:
        self.dynamics, self.device = SoftwareTaskDynamics(tasks), device
        self.generator = torch.Generator(device).manual_seed(seed)
        self.state = self.fresh(num_envs)
        self.elapsed = torch.zeros(num_envs, dtype=torch.long, device=device)
        parts: dict[str, gymnasium.Space] = {
            name: gymnasium.spaces.Box(*rules.BOUNDS, tuple(value.shape[1:]), np.float32)
            for name, value in self.dynamics.observe(self.state).items()
            if name != "action_mask"
        }
        super().__init__(num_envs, gymnasium.spaces.Dict(parts), gymnasium.spaces.Discrete(rules.NUM_ACTIONS))

    def fresh(self, rows: int) -> Tensor:
        return self.dynamics.initial(
            torch.rand(rows, self.dynamics.num_random, generator=self.generator, device=self.device)
        )

    def observation(self, state: Tensor) -> dict[str, np.ndarray]:
        return {
            name: value.cpu().numpy() for name, value in self.dynamics.observe(state).items() if name != "action_mask"
        }

    def reset(self) -> dict[str, np.ndarray]:
        self.state = self.fresh(self.num_envs)
        self.elapsed.zero_()
        return self.observation(self.state)

    def step_async(self, actions: np.ndarray) -> None:
        self.actions = torch.as_tensor(actions, device=self.device)

    def step_wait(self) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, list[dict]]:
        after, reward, terminated = self.dynamics.step(self.state, self.actions)
        self.elapsed += 1
        truncated = ~terminated & (self.elapsed >= rules.HORIZON)
        done = terminated | truncated
        infos: list[dict] = [{} for _ in range(self.num_envs)]
        if done.any():
            last, cut = self.observation(after), truncated.cpu().numpy()
            for i in done.nonzero().flatten().tolist():
                infos[i] = {
                    "terminal_observation": {k: v[i] for k, v in last.items()},
                    "TimeLimit.truncated": bool(cut[i]),
                }
        self.state = torch.where(done.unsqueeze(-1), self.fresh(self.num_envs), after)
        self.elapsed.masked_fill_(done, 0)
        return self.observation(self.state), reward.cpu().numpy(), done.cpu().numpy(), infos

    def env_method(self, method_name: str, *_: Any, indices: Any = None, **__: Any) -> list:
        assert method_name == "action_masks"
        return list(self.dynamics.observe(self.state)["action_mask"].cpu().numpy().astype(bool))

    def has_attr(self, attr_name: str) -> bool:
        return attr_name == "action_masks"

    def get_attr(self, attr_name: str, indices: Any = None) -> list:
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise AttributeError(f"the episodes of a batch have no {attr_name} of their own")

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs

    def close(self) -> None:
        pass


def run(tables: Path, seed: int, device: str, steps: int) -> None:
    tasks = load_packed(tables)
    env = Batch(tasks.of_split("train"), 256, device, seed)
    model = MaskablePPO(
        "MultiInputPolicy",
        env,
        learning_rate=lambda left: 1e-3 * left,
        policy_kwargs=NETWORK,
        seed=seed,
        device=device,
        **SETTINGS,  # type: ignore[arg-type]
    )
    start = time.perf_counter()
    model.learn(steps)
    wall = time.perf_counter() - start

    def play(deterministic: bool) -> Any:
        @torch.no_grad()
        def choose(obs: dict[str, Tensor]) -> Tensor:
            seen = {name: value.to(model.device) for name, value in obs.items() if name != "action_mask"}
            masks = obs["action_mask"].cpu().numpy().astype(bool)
            action = model.policy._predict(seen, deterministic=deterministic, action_masks=masks)  # type: ignore[arg-type]
            return action.to(obs["task"].device)

        return choose

    scores = {}
    for name, splits in SPLITS.items():
        judge = Judge(tasks.of_split(*splits), device=device)
        scores[name] = {how: asdict(judge.score(play(how == "greedy"))) for how in ("sampled", "greedy")}
    record = {
        "cell": "sb3_maskable_ppo",
        "seed": seed,
        "scores": scores,
        "tasks": len(tasks),
        "wall_time_s": round(wall, 1),
        "settings": SETTINGS | NETWORK | {"learning_rate": "lin_1e-3", "n_envs": 256, "steps": steps, "device": device},
        "metadata": collect_metadata() | {"command": "benchmarks/sage/sim_peer.py"},
    }
    target = target_of("sb3_maskable_ppo", seed)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, json.dumps(record, indent=1) + "\n")
    found = ", ".join(
        f"{n} {s['sampled']['normalised']:.3f}/{s['greedy']['normalised']:.3f}" for n, s in scores.items()
    )
    print(f"sb3_maskable_ppo seed {seed}: {found}; {wall:.0f} s", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, required=True)
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args(arguments)
    for seed in options.seeds:
        if not target_of("sb3_maskable_ppo", seed).exists():
            run(options.tables, seed, options.device, options.steps)


if __name__ == "__main__":
    main()
