"""The only training loop. Online and offline runs differ in what it is given, never in what runs."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice

import numpy as np
import torch

from rl_training.core import Algorithm, Metrics, Pass, UniformPolicy
from rl_training.experience import Experience
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.collector import Collector, Episode
from rl_training.runtime.compilation import Precision, UpdateBlock, UpdateStep, block_size, build_block, build_update
from rl_training.runtime.evaluator import EvalResult
from rl_training.runtime.finite import check_steps, explain_failure

MAX_CHUNK = 512  # steps of every environment between looks at the stop flag


@dataclass
class Progress:
    """Where a run stands."""

    timesteps: int = 0
    updated_at: int = 0  # timesteps when the last update ended: what schedules see
    iterations: int = 0
    gradient_steps: int = 0
    episodes: int = 0
    wall_time: float = 0.0
    best_return: float | None = None  # of all evaluations so far


class Trainer:
    """Collects, learns, and tells callbacks; everything it holds is one state tree."""

    def __init__(
        self,
        algorithm: Algorithm,
        experience: Experience,
        collector: Collector,
        *,
        total_timesteps: int,
        seed: int,
        compiled: bool = False,
        threads: int = 1,
        log_interval: int = 1,
        device: torch.device | str = "cpu",
        precision: Precision = "float32",
    ) -> None:
        self.algorithm, self.experience, self.collector = algorithm, experience, collector
        self.total_timesteps, self.threads, self.log_interval = total_timesteps, threads, log_interval
        self.device = torch.device(device)
        self.compiled, self.precision = compiled, precision
        self.updates: dict[tuple[str, ...], UpdateStep] = {}  # each set of methods that fall due together, once
        self.blocks: dict[tuple[tuple[str, ...], ...], UpdateBlock] = {}  # each sequence of them
        self.random_policy = UniformPolicy(collector.spec) if algorithm.learns_from == "replay" else algorithm.policy
        self.progress = Progress()
        self.rng = self.seeded_rng(seed)
        self.callbacks: Sequence[Callback] = ()
        self.recent: deque[Episode] = deque(maxlen=100)
        self.history: list[Metrics] = []
        self.iteration_metrics: Metrics = {}
        self.stop_reason: str | None = None
        self.running = False
        self.mark = (0.0, 0)  # clock and timesteps at the last log

    def run(self, stop_at: int | None = None, callbacks: Sequence[Callback] = ()) -> str:
        """Trains until `stop_at` env steps in all (default: the whole budget); returns why it stopped."""
        stop_at = self.total_timesteps if stop_at is None else stop_at
        self.callbacks, self.stop_reason = tuple(callbacks), None
        with self.session():
            try:
                self.tell("on_start")
                while self.stop_reason is None and self.progress.timesteps < stop_at:
                    self.advance(stop_at)
                self.log()
                self.tell("on_end")
            finally:
                for callback in self.callbacks:
                    callback.close()
        return self.stop_reason or "budget"

    def advance(self, stop_at: int) -> None:
        """Collects up to the next event and, when there is enough, learns from it."""
        num_steps = min(self.experience.wanted_steps, self.steps_until_event(stop_at), MAX_CHUNK)
        policy = self.random_policy if self.experience.warming_up else self.algorithm.policy
        steps = self.collector.collect(policy, num_steps)
        check_steps(steps, self.progress.timesteps)
        self.experience.add(steps)
        self.progress.timesteps += num_steps * self.collector.num_envs
        log_due = False
        if self.experience.wanted_steps == 0:
            # Counted from the last update, which a pause does not move: a resumed run logs at the same steps.
            log_due = self.progress.timesteps // self.log_interval > self.progress.updated_at // self.log_interval
            self.learn()
        episodes = self.collector.pop_episodes()
        self.progress.episodes += len(episodes)
        self.recent.extend(episodes)
        self.tell("on_steps", episodes)
        if log_due:
            self.log()
        for callback in self.callbacks:
            if callback.interval and self.crossed(callback.interval, num_steps * self.collector.num_envs):
                callback.on_interval(self)

    def learn(self) -> None:
        """One iteration of the algorithm over what was collected."""
        # A rollout is learned from with the numbers it began with, a replay with those of now.
        rollout = self.algorithm.learns_from == "rollout"
        at = self.progress.updated_at if rollout else self.progress.timesteps
        self.algorithm.set_progress(min(at / max(self.total_timesteps, 1), 1.0))
        self.algorithm.stop.fill_(False)
        storage, self.iteration_metrics = self.experience.prepare(self.algorithm)
        start = len(self.history)
        for a_pass in self.algorithm.passes():
            # CUDA graphs of updates from a rollout come with its fused collection.
            graphed = self.compiled and not rollout and self.device.type == self.experience.device.type == "cuda"
            number, size = 0, block_size(a_pass) if graphed else 1
            for epoch in self.experience.rows(a_pass):
                for draws in in_blocks(epoch, size):
                    block = tuple(self.due(a_pass, number := number + 1) for _ in draws)
                    if block not in self.blocks:
                        steps = [self.step_for(methods, a_pass) for methods in block]
                        self.blocks[block] = build_block(steps, graphed=graphed)
                    self.history += self.blocks[block](storage, [draw.to(self.experience.device) for draw in draws])
                # Target KL reached, or a number not finite: the rest would change nothing. A replay has one epoch.
                if rollout and self.algorithm.stop:
                    break
        if self.algorithm.failed:
            raise explain_failure(self.history[start:], self.progress.timesteps)
        self.experience.finish(self.algorithm)
        self.progress.iterations += 1
        self.progress.updated_at = self.progress.timesteps

    def due(self, a_pass: Pass, number: int) -> tuple[str, ...]:
        """Counts an update, the iteration's of that number (from 1), and returns the methods that take its batch.

        Updates are thought of as spread evenly over the steps since the last iteration.
        """
        self.progress.gradient_steps += 1
        done, before = self.progress.gradient_steps, self.progress.updated_at
        new = self.progress.timesteps - before
        now, then = (before + new * n // a_pass.epochs for n in (number, number - 1))
        return (
            a_pass.method,
            *(
                also.method
                for also in a_pass.also
                if (done % also.every == 0 if also.unit == "updates" else now // also.every > then // also.every)
            ),
        )

    def step_for(self, methods: tuple[str, ...], a_pass: Pass) -> UpdateStep:
        if methods not in self.updates:
            self.updates[methods] = build_update(
                self.algorithm,
                self.experience,
                methods,
                compiled=self.compiled and a_pass.one_graph,
                device=self.device,
                precision=self.precision,
            )
        return self.updates[methods]

    def steps_until_event(self, stop_at: int) -> int:
        """Vector steps until the budget or the next multiple of a callback's interval: events fall on exact steps."""
        now = self.progress.timesteps
        ends = [stop_at, *((now // c.interval + 1) * c.interval for c in self.callbacks if c.interval)]
        return max(1, math.ceil((min(ends) - now) / self.collector.num_envs))

    def crossed(self, interval: int, num_new: int) -> bool:
        return self.progress.timesteps // interval > (self.progress.timesteps - num_new) // interval

    def log(self) -> None:
        """Reads the metrics from the device, once, and hands them to the callbacks."""
        if not self.history:
            return
        names = dict.fromkeys(name for metrics in self.history for name in metrics)
        columns = {name: [m[name] for m in self.history if name in m] for name in names}
        train = {name: torch.stack(column).mean() for name, column in columns.items()} | self.iteration_metrics
        clock, mark = time.perf_counter(), self.mark
        progress = self.progress
        metrics = {f"train/{name}": float(value) for name, value in train.items()}
        metrics["train/n_updates"] = progress.gradient_steps
        if self.recent:
            metrics["rollout/ep_rew_mean"] = float(np.mean([e.ret for e in self.recent]))
            metrics["rollout/ep_len_mean"] = float(np.mean([e.length for e in self.recent]))
        metrics |= {
            "time/fps": (progress.timesteps - mark[1]) / max(clock - mark[0], 1e-9),
            "time/total_timesteps": progress.timesteps,
            "time/iterations": progress.iterations,
            "time/episodes": progress.episodes,
            "time/time_elapsed": self.elapsed(),
        }
        self.history, self.mark = [], (clock, progress.timesteps)
        self.tell("on_log", metrics)

    def elapsed(self) -> float:
        """Seconds of training so far, earlier parts of a resumed run included."""
        return self.progress.wall_time + (time.perf_counter() - self.started if self.running else 0.0)

    def report_evaluation(self, result: EvalResult) -> None:
        """Tells every callback of an evaluation that one of them made."""
        self.tell("on_evaluation", result)
        best = self.progress.best_return
        self.progress.best_return = result.mean if best is None else max(best, result.mean)

    def request_stop(self, reason: str) -> None:
        """Ends the run after the current chunk of steps."""
        self.stop_reason = self.stop_reason or reason

    def tell(self, event: str, *arguments: object) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(self, *arguments)

    @contextmanager
    def session(self) -> Iterator[None]:
        """Installs the run's threads and random numbers, and gives the caller's back afterwards."""
        threads, products, outside = torch.get_num_threads(), torch.get_float32_matmul_precision(), self.get_rng()
        torch.set_num_threads(self.threads)
        torch.set_float32_matmul_precision("high" if self.precision == "tf32" else "highest")
        self.set_rng(self.rng)
        self.running, self.started = True, time.perf_counter()
        self.mark = (self.started, self.progress.timesteps)
        try:
            yield
        finally:
            self.progress.wall_time, self.running = self.elapsed(), False
            self.rng = self.get_rng()
            self.set_rng(outside)
            torch.set_num_threads(threads)
            torch.set_float32_matmul_precision(products)

    def seeded_rng(self, seed: int) -> dict[str, torch.Tensor]:
        rng = {"cpu": torch.Generator().manual_seed(seed).get_state()}
        if self.device.type == "cuda":
            rng["cuda"] = torch.Generator(self.device).manual_seed(seed).get_state()
        return rng

    def get_rng(self) -> dict[str, torch.Tensor]:
        rng = {"cpu": torch.get_rng_state()}
        return rng | {"cuda": torch.cuda.get_rng_state(self.device)} if self.device.type == "cuda" else rng

    def set_rng(self, rng: dict[str, torch.Tensor]) -> None:
        torch.set_rng_state(rng["cpu"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(rng["cuda"], self.device)

    def state_dict(self) -> dict:
        progress = asdict(self.progress) | {"wall_time": self.elapsed()}
        return {
            "algorithm": dict(self.algorithm.state_dict()),
            "experience": self.experience.state_dict(),
            "collector": self.collector.state_dict(),
            "progress": progress | {"recent": [list(episode) for episode in self.recent]},
            "rng": self.get_rng() if self.running else self.rng,
        }

    def load_state_dict(self, state: dict) -> None:
        """Continues exactly where `state_dict` was taken, as far as the environments can."""
        self.algorithm.load_state_dict(state["algorithm"])
        self.experience.load_state_dict(state["experience"])
        if not self.collector.load_state_dict(state["collector"]):
            self.experience.cut()
        progress = dict(state["progress"])
        self.recent = deque((Episode(*episode) for episode in progress.pop("recent")), maxlen=100)
        self.progress = Progress(**progress)
        self.history = []
        self.rng = state["rng"]


def in_blocks(draws: Iterator[torch.Tensor], size: int) -> Iterator[list[torch.Tensor]]:
    return iter(lambda: list(islice(draws, size)), [])
