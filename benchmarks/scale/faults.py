"""170 injected failures of samplers, and learners that are killed: no run is lost, and no step is invented.

python benchmarks/scale/faults.py      # writes benchmarks/results/scale/faults.json

Failures come at random moments: a sampler is killed, is stopped (it hangs), its environment raises, or somebody fills Ray's
object store. Of environments that can be re-run, the final state is compared bit by bit with that of a run without failures.
Of environments that cannot, every step that is learned from is checked: it follows from the one before it, or that one was
marked as the end of its episode.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import ray
from counted import Counted
from machine import described
from small_cluster import Hoarder, small_cluster

from rl_training import APPO, PPO, Agent, Callback
from rl_training.api.training import build_run
from rl_training.core import Transition
from rl_training.distributed import processes, ray_engine
from rl_training.experiment.checkpoint import difference
from rl_training.experiment.run_directory import write_atomically

OUT = Path(__file__).parents[1] / "results" / "scale" / "faults.json"
LOST = ("kill", "stop", "raise")
FULL = ("store full", "store full but for weights")
SETTINGS = {
    "n_envs": 8, "n_steps": 16, "n_epochs": 1, "seed": 1, "threads": 1, "compile": False, "net_arch": [4], "timeout_s": 1.0,
}  # fmt: skip
BULK = 4000  # numbers in an observation on Ray: what a sampler returns is then too large to go past the store


class Injector(Callback):
    """Lets samplers fail at random moments."""

    interval = 80  # env steps: most moments are in the middle of a rollout

    def __init__(self, num: int, kinds: tuple[str, ...], order: Path) -> None:
        self.left, self.kinds, self.order, self.moments = num, kinds, order, random.Random(0)
        self.injected: Counter[str] = Counter()
        self.hoarder = ray.remote(Hoarder).options(num_cpus=0).remote() if set(kinds) & set(FULL) else None

    def on_interval(self, trainer) -> None:
        if not self.left or self.moments.random() < 0.3:
            return
        kind = self.kinds[self.left % len(self.kinds)]
        if kind == "raise":
            self.order.touch()
        elif kind in FULL:
            ray.get(self.hoarder.fill.remote(hole=kind != FULL[0]))
            self.hoarder.free_after.remote(self.moments.uniform(0.5, 2.0))
        else:
            pid = pid_of(trainer.collector.env.pool.engine, self.moments.randrange(4))
            if pid is None:
                return
            os.kill(pid, signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
        self.injected[kind] += 1
        self.left -= 1


def pid_of(engine: processes.Processes | ray_engine.RayEngine, index: int) -> int | None:
    """The process of a sampler; None of one that has failed already, which with a lag is noticed later."""
    if isinstance(engine, processes.Processes):
        return engine.processes[index].pid
    try:
        return ray.get(engine.actors[index].__ray_call__.remote(lambda actor: os.getpid()), timeout=2)
    except ray.exceptions.RayError:
        return None


class Heard(logging.Handler):
    """Counts how often a sampler was replaced, and how often something had to wait for room in the store."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.replaced, self.waits = 0, Counter({"weights": 0, "steps": 0})

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage()
        self.replaced += "it is replaced" in said
        self.waits["weights"] += "no room for what all samplers get" in said
        self.waits["steps"] += "answers" in said


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


def agent_for(
    folder: Path, total: int, run_dir: Path | None = None, *, bulk: int = 0, lag: int = 0, **sampling: object
) -> Agent:
    files = {"run_dir": run_dir, "evaluation": {"episodes": 1}, "checkpoint": {"interval": 256}} if run_dir else {}
    own = {"kwargs": {"order": str(folder / "order"), "bulk": bulk}, "total_timesteps": total}
    own["sampling"] = {"restarts": 10_000, "lag": lag} | sampling
    return APPO(Counted, **SETTINGS, **own, **files) if lag else PPO(Counted, **SETTINGS, **own, **files, batch_size=32)


def final_state(agent: Agent) -> dict:
    state = agent.snapshot().state
    agent.close()
    return state | {"progress": state["progress"] | {"wall_time": 0}}


def with_failures(
    folder: Path, engine: str, num: int, kinds: tuple[str, ...] = LOST, *, boundary: bool = False, lag: int = 0
) -> dict:
    total, settings = num * 2 * SETTINGS["n_envs"] * SETTINGS["n_steps"], {"lag": lag, "bulk": BULK * (engine == "ray")}
    agent = agent_for(folder, total, workers=4, engine=engine, **settings)
    witness, injector, heard = Witness(), Injector(num, kinds, folder / "order"), Heard()
    trainer = build_run(agent).trainer
    if boundary:
        trainer.collector.env.state_kind = "boundary"
    agent.algorithm.prepare = witness.watch(agent.algorithm.prepare)
    started = time.monotonic()
    logging.getLogger("rl_training").addHandler(heard)
    agent.learn(progress=False, callbacks=injector)
    logging.getLogger("rl_training").removeHandler(heard)
    row = {
        "engine": engine,
        "lag": lag,
        "environments": "cannot be re-run" if boundary else "re-run",
        "injected": dict(injector.injected),
        "samplers_replaced": heard.replaced,
        "waits_for_room": dict(heard.waits),
        "seconds": time.monotonic() - started,
        "env_steps": agent.num_timesteps,
        "planned_env_steps": total,
        "steps_seen": witness.steps,
        "episodes_marked_as_cut": witness.cut,
        "steps_invented": witness.invented,
    }
    found = final_state(agent)
    if not boundary:
        undisturbed = agent_for(folder, total, workers=1, **settings)
        undisturbed.learn(progress=False)
        row["first_difference_to_undisturbed"] = difference(final_state(undisturbed), found)
    print(json.dumps(row, indent=1), flush=True)
    return row


def learn_in(folder: Path, run_dir: Path, total: int, engine: str) -> None:
    begun = (run_dir / "config.yaml").exists()
    agent = Agent.resume(run_dir, env=Counted) if begun else agent_for(folder, total, run_dir, workers=2, engine=engine)
    agent.learn(progress=False)
    agent.close()


def newest(run_dir: Path) -> int:
    return max((int(path.name[5:]) for path in run_dir.glob("checkpoints/step-*")), default=0)


def learner_killed(folder: Path, engine: str, num: int) -> dict:
    """Kills the learner at random moments after its checkpoints; whoever comes next goes on from the last one."""
    context, moments, total = multiprocessing.get_context("forkserver"), random.Random(1), 128 * 100
    reference = agent_for(folder, total, folder / f"reference {engine}")
    reference.learn(progress=False)
    run_dir, kills = folder / f"killed {engine}", 0
    for _ in range(10 * num):
        process = context.Process(target=learn_in, args=(folder, run_dir, total, engine))
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
    resumed = Agent.resume(run_dir, env=Counted, sampling={"workers": 1, "engine": "processes"})
    parted = difference(final_state(reference), final_state(resumed))
    row = {"engine": engine, "kills": kills, "checkpoint_interval": 256, "first_difference_to_undisturbed": parted}
    print(json.dumps(row, indent=1), flush=True)
    return row


def main() -> int:
    processes.MARGIN_S = ray_engine.MARGIN_S = 0.5  # a sampler that hangs is waited for 1.5 s
    ray_engine.LOOK_S = 0.25
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [with_failures(folder, "processes", 50, boundary=boundary) for boundary in (False, True)]
        with small_cluster(4, disk_full=True):
            cells = [{"boundary": False}, {"boundary": True}, {"lag": 1}]
            rows += [{"disk_full": True} | with_failures(folder, "ray", 20, LOST + FULL, **cell) for cell in cells]
        with small_cluster(4, disk_full=False):
            rows += [{"disk_full": False} | with_failures(folder, "ray", 10, FULL)]
        learners = [learner_killed(folder, "processes", 10), learner_killed(folder, "ray", 3)]
    write_atomically(OUT, json.dumps({"machine": described(), "samplers": rows, "learners": learners}, indent=1) + "\n")
    differences = [row.get("first_difference_to_undisturbed") for row in (*rows, *learners)]
    return int(any(differences) or any(row["steps_invented"] for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
