"""100 injected failures of samplers, and a learner that is killed ten times: no run is lost, and no step is invented.

python benchmarks/scale/faults.py      # writes benchmarks/results/scale/faults.json

Failures come at random moments: a sampler is killed, is stopped (it hangs), or its environment raises. Of environments that
can be re-run, the final state is compared bit by bit with that of a run without failures. Of environments that cannot, every
step that is learned from is checked: it follows from the one before it, or that one was marked as the end of its episode.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import gymnasium as gym
import numpy as np
from machine import described

from rl_training import PPO, Agent, Callback
from rl_training.core import Transition
from rl_training.distributed import processes
from rl_training.experiment.checkpoint import difference
from rl_training.experiment.run_directory import write_atomically

OUT = Path(__file__).parents[1] / "results" / "scale" / "faults.json"
KINDS = ("kill", "stop", "raise")
SETTINGS = {
    "n_envs": 8, "n_steps": 16, "batch_size": 32, "n_epochs": 1, "seed": 1, "threads": 1, "compile": False,
    "net_arch": [16], "timeout_s": 1.0,
}  # fmt: skip


class Counted(gym.Env):
    """Observes a number of its own for every episode, and how many steps it has; raises if a file asks it to."""

    def __init__(self, order: str) -> None:
        self.observation_space = gym.spaces.Box(0, np.inf, (2,), np.float64)
        self.action_space, self.order = gym.spaces.Discrete(2), Path(order)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple:
        super().reset(seed=seed)
        self.episode, self.count = float(self.np_random.integers(2**20)), 0
        self.length = int(self.np_random.integers(5, 40))
        return self.observe(), {}

    def step(self, action: int) -> tuple:
        if self.order.exists():
            self.order.unlink(missing_ok=True)
            raise OSError("the simulator is gone")
        self.count += 1
        return self.observe(), float(action), self.count == self.length, False, {}

    def observe(self) -> np.ndarray:
        return np.array([self.episode, self.count])


class Injector(Callback):
    """Lets samplers fail at random moments."""

    interval = 80  # env steps: most moments are in the middle of a rollout

    def __init__(self, num: int, order: Path) -> None:
        self.left, self.order, self.moments = num, order, random.Random(0)
        self.injected: Counter[str] = Counter()

    def on_interval(self, trainer) -> None:
        if not self.left or self.moments.random() < 0.3:
            return
        self.left -= 1
        kind = KINDS[self.left % len(KINDS)]
        self.injected[kind] += 1
        if kind == "raise":
            self.order.touch()
            return
        process = self.moments.choice(trainer.collector.env.crew.engine.processes)
        os.kill(process.pid, signal.SIGKILL if kind == "kill" else signal.SIGSTOP)


class Witness(Callback):
    """Checks every iteration's steps before they are learned from."""

    def __init__(self) -> None:
        self.steps = self.cut = self.invented = 0

    def watch(self, prepare: Callable) -> Callable:
        def looked_at(steps: Transition):
            self.look(steps)
            return prepare(steps)

        return looked_at

    def look(self, steps: Transition) -> None:
        ended = steps.terminated | steps.truncated
        within = (steps.next_obs[:-1] == steps.obs[1:]).all(-1) | ended[:-1]
        counts = (steps.next_obs[..., 1] == steps.obs[..., 1] + 1) & (steps.next_obs[..., 0] == steps.obs[..., 0])
        self.invented += int((~within).sum()) + int((~counts).sum())
        self.steps, self.cut = self.steps + ended.numel(), self.cut + int(steps.truncated.sum())


def agent_for(folder: Path, total: int, workers: int, run_dir: Path | None = None) -> Agent:
    files = {"run_dir": run_dir, "evaluation": {"episodes": 1}, "checkpoint": {"interval": 256}} if run_dir else {}
    sampling = {"workers": workers, "restarts": 10_000}
    kwargs = {"order": str(folder / "order")}
    return PPO(Counted, **SETTINGS, kwargs=kwargs, total_timesteps=total, sampling=sampling, **files)


def final_state(agent: Agent) -> dict:
    state = agent.snapshot().state
    agent.close()
    return state | {"progress": state["progress"] | {"wall_time": 0}}


def with_failures(folder: Path, num: int, *, boundary: bool) -> dict:
    total = num * 2 * SETTINGS["n_envs"] * SETTINGS["n_steps"]
    agent, witness, injector = agent_for(folder, total, 4), Witness(), Injector(num, folder / "order")
    trainer = agent.prepare_trainer()
    if boundary:
        trainer.collector.env.state_kind = "boundary"
    agent.algorithm.prepare = witness.watch(agent.algorithm.prepare)
    started = time.monotonic()
    agent.learn(progress=False, callbacks=injector)
    row = {
        "environments": "cannot be re-run" if boundary else "re-run",
        "injected": dict(injector.injected),
        "seconds": time.monotonic() - started,
        "env_steps": agent.num_timesteps,
        "planned_env_steps": total,
        "steps_seen": witness.steps,
        "episodes_marked_as_cut": witness.cut,
        "steps_invented": witness.invented,
    }
    found = final_state(agent)
    if not boundary:
        undisturbed = agent_for(folder, total, 1)
        undisturbed.learn(progress=False)
        row["first_difference_to_undisturbed"] = difference(final_state(undisturbed), found)
    return row


def learn_in(folder: Path, run_dir: Path, total: int) -> None:
    begun = (run_dir / "config.yaml").exists()
    agent = Agent.resume(run_dir, env=Counted) if begun else agent_for(folder, total, 2, run_dir)
    agent.learn(progress=False)
    agent.close()


def newest(run_dir: Path) -> int:
    return max((int(path.name[5:]) for path in run_dir.glob("checkpoints/step-*")), default=0)


def learner_killed(folder: Path, num: int) -> dict:
    """Kills the learner at random moments after its checkpoints; whoever comes next goes on from the last one."""
    context, moments, total = multiprocessing.get_context("forkserver"), random.Random(1), 128 * 100
    reference = agent_for(folder, total, 1, folder / "reference")
    reference.learn(progress=False)
    run_dir, kills = folder / "killed", 0
    for _ in range(10 * num):
        process = context.Process(target=learn_in, args=(folder, run_dir, total))
        before = newest(run_dir)
        process.start()
        for _ in range(60_000):
            if kills == num or newest(run_dir) > before or not process.is_alive():
                break
            time.sleep(0.002)
        if kills == num or not process.is_alive():
            process.join()
            break
        time.sleep(moments.uniform(0, 0.05))
        process.kill()
        process.join()
        kills += 1
    resumed = Agent.resume(run_dir, env=Counted)
    found, wanted = final_state(resumed), final_state(reference)
    return {"kills": kills, "checkpoint_interval": 256, "first_difference_to_undisturbed": difference(wanted, found)}


def main() -> int:
    processes.MARGIN_S = 0.5  # a sampler that hangs is waited for 1.5 s
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [with_failures(folder, 50, boundary=boundary) for boundary in (False, True)]
        print(json.dumps(rows, indent=1), flush=True)
        learner = learner_killed(folder, 10)
        print(json.dumps(learner, indent=1), flush=True)
    write_atomically(OUT, json.dumps({"machine": described(), "samplers": rows, "learner": learner}, indent=1) + "\n")
    differences = [row.get("first_difference_to_undisturbed") for row in (*rows, learner)]
    return int(any(differences) or any(row["steps_invented"] for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
