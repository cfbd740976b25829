"""The only training loop. Online and offline runs differ in what it is given, never in what runs."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace

import numpy as np
import torch

from rl_training.core import Algorithm, Metrics, Pass, Transition, UniformPolicy
from rl_training.experience import Experience, LoggedSteps
from rl_training.experience.base import Drawn
from rl_training.runtime.averages import MANY, Averages, read
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.collector import Collector
from rl_training.runtime.compilation import Precision, UpdateBlock, UpdateStep, block_size, build_update, record_block
from rl_training.runtime.cuda_graph import CudaGraph
from rl_training.runtime.episodes import Episode, column_means, column_metrics
from rl_training.runtime.evaluator import EvalResult
from rl_training.runtime.finite import check_steps, explain_failure
from rl_training.runtime.fused import FusedPath
from rl_training.runtime.overlap import Overlap
from rl_training.runtime.progress import Progress
from rl_training.runtime.seeding import checked_rng, get_rng, seeded_rng, set_rng
from rl_training.runtime.surroundings import plain_torch
from rl_training.runtime.worth_compiling import CompileMode

MAX_CHUNK = 512  # steps of every environment between looks at the stop flag
OFFLINE_CHUNK = 100  # updates from data alone between looks; schedules move at its multiples


class Trainer:
    """Collects, learns, and tells callbacks; everything it holds is one state tree.

    With `data`, a run first takes `total_updates` from it alone; without a collector, that is all.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        experience: Experience | None,
        collector: Collector | None,
        *,
        data: LoggedSteps | None = None,
        total_timesteps: int = 0,
        total_updates: int = 0,
        seed: int,
        threads: int = 1,
        log_interval: int = 1,
        device: torch.device | str = "cpu",
        precision: Precision = "float32",
        overlap: bool = False,
    ) -> None:
        self.algorithm, self.experience, self.collector, self.data = algorithm, experience, collector, data
        self.total_timesteps, self.total_updates = total_timesteps, total_updates
        self.threads, self.log_interval = threads, log_interval
        self.device = torch.device(device)
        self.precision: Precision = precision
        # Each set of methods that fall due together once, and each sequence of them, for either source.
        self.updates: dict[tuple[bool, tuple[str, ...]], UpdateStep] = {}
        self.blocks: dict[tuple[bool, tuple[tuple[str, ...], ...]], UpdateBlock] = {}
        self.random_policy = UniformPolicy(algorithm.spec) if algorithm.learns_from == "replay" else algorithm.policy
        self.progress = Progress()
        self.rng = seeded_rng(seed, self.device)
        self.execute(False)
        self.overlap = Overlap(algorithm.policy, self.device) if overlap else None
        self.callbacks: Sequence[Callback] = ()
        self.recent: deque[Episode] = deque(maxlen=100)
        self.history: list[Metrics] = []  # of the latest updates; what came before is in the averages
        self.averages = Averages()
        self.iteration_metrics: Metrics = {}
        self.stop_reason: str | None = None
        self.running = False
        self.mark = (0.0, 0)  # clock and timesteps at the last log

    @property
    def horizon(self) -> int:
        """What the clock shows when the run is finished."""
        return self.total_updates + self.total_timesteps

    @property
    def offline(self) -> bool:
        """Whether the next updates are taken from data alone."""
        return self.progress.offline_updates < self.total_updates

    @property
    def source(self) -> Experience:
        """What the last updates were drawn from."""
        source = self.data if self.data is not None and self.progress.env_steps == 0 else self.experience
        assert source is not None
        return source

    def go_online(self, experience: Experience, collector: Collector) -> None:
        """Gives a run that has learned from data alone the means to collect."""
        self.experience, self.collector = experience, collector
        self.execute(self.mode)

    def change_mode(self, mode: CompileMode) -> None:
        """Goes on in another way, with the same state."""
        self.fused.leave()
        self.execute(mode)

    def execute(self, mode: CompileMode) -> None:
        """Chooses how steps and updates run from here on; what was built for another way is dropped."""
        self.mode, self.compiled = mode, mode is True
        self.records = mode is not False and self.device.type == "cuda"  # as CUDA graphs, of compiled or of eager code
        self.updates.clear()
        self.blocks.clear()
        if self.collector is not None:
            self.collector.execute(mode)
        self.record_writing()
        self.fused = FusedPath(self)

    def record_writing(self) -> None:
        if self.experience is not None and self.recorded(self.experience):
            self.experience.record(CudaGraph)

    def run(self, stop_at: int | None = None, callbacks: Sequence[Callback] = ()) -> str:
        """Trains until the clock shows `stop_at` (default: the whole budget); returns why it stopped."""
        stop_at = self.horizon if stop_at is None else stop_at
        self.callbacks, self.stop_reason = tuple(callbacks), None
        with plain_torch(), self.session():
            try:
                if self.overlap is not None:
                    self.overlap.take_copy()
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
        """Learns from data, or collects up to the next event and, when there is enough, learns from it."""
        before = self.progress.timesteps
        log_due, episodes = self.take_offline(stop_at) if self.offline else self.take_online(stop_at)
        self.progress.episodes += len(episodes)
        self.recent.extend(episodes)
        self.tell("on_steps", episodes)
        if log_due:
            self.log()
        for callback in self.callbacks:
            if callback.interval and self.progress.timesteps // callback.interval > before // callback.interval:
                callback.on_interval(self)
        if before < self.total_updates == self.progress.timesteps and self.total_timesteps:
            self.tell("on_switch")

    def take_offline(self, stop_at: int) -> tuple[bool, list[Episode]]:
        """Some updates from data alone: up to the next event, and no further than schedules stand still."""
        assert self.data is not None, "a run from data needs data"
        now = self.progress.timesteps
        ends = [
            stop_at,
            *((now // every + 1) * every for every in (OFFLINE_CHUNK, self.log_interval, *self.intervals())),
        ]
        num_updates = min(min(ends) - now, self.total_updates - self.progress.offline_updates)
        self.move_schedules(now // OFFLINE_CHUNK * OFFLINE_CHUNK)
        self.progress.updated_at = now  # env steps that were not learned from are no part of this
        self.progress.timesteps += num_updates
        self.progress.offline_updates += num_updates
        self.learn(self.data, num_updates)
        return self.progress.timesteps % self.log_interval == 0, []

    def take_online(self, stop_at: int) -> tuple[bool, list[Episode]]:
        assert self.experience is not None, "collected steps need a place"
        assert self.collector is not None
        if self.fused.ready(stop_at):
            return self.fused.take(), []
        num_envs, wanted = self.collector.num_envs, self.experience.wanted_steps
        num_steps = min(wanted, self.steps_until_event(stop_at, num_envs), MAX_CHUNK)
        # What acts and what learns from it see the same: of a rollout the numbers it began with, of a replay those of
        # the iteration's end, wherever events cut it.
        rollout = self.algorithm.learns_from == "rollout"
        self.move_schedules(self.progress.updated_at if rollout else self.progress.timesteps + wanted * num_envs)
        self.experience.add(self.collect(self.experience, self.collector, num_steps))
        self.progress.timesteps += num_steps * num_envs
        log_due = False
        if self.experience.wanted_steps == 0:
            # Counted from the last update, which a pause does not move: a resumed run logs at the same steps.
            log_due = self.progress.timesteps // self.log_interval > self.progress.updated_at // self.log_interval
            self.learn(self.experience)
        offline = self.progress.offline_updates  # the collector counts env steps, the run's clock these too
        return log_due, [e._replace(timesteps=e.timesteps + offline) for e in self.collector.pop_episodes()]

    def collect(self, experience: Experience, collector: Collector, num_steps: int) -> Transition:
        untaught = experience.warming_up and not self.progress.offline_updates
        policy = self.random_policy if untaught else self.algorithm.policy
        ahead = self.overlap
        steps = ahead.collect(collector, policy, num_steps) if ahead else collector.collect(policy, num_steps)
        check_steps(collector.latest, self.progress.timesteps)
        return steps

    def learn(self, experience: Experience, num_updates: int | None = None) -> None:
        """One iteration of the algorithm over what was collected, or so many updates from data."""
        if self.overlap is not None:
            self.overlap.take_copy()
        self.algorithm.stop.fill_(False)
        storage, self.iteration_metrics = experience.prepare(self.algorithm)
        start = len(self.history)
        for a_pass in self.algorithm.passes():
            if num_updates is not None:
                a_pass = replace(a_pass, epochs=num_updates)
            if self.recorded(experience):
                assert isinstance(experience, Drawn)
                self.history += self.take_recorded(a_pass, experience, storage)
            else:
                self.take_pass(a_pass, experience, storage)
        if self.device.type == "cpu" and self.algorithm.failed:
            raise explain_failure(self.history[start:], f"of the iteration at step {self.progress.timesteps}")
        self.fold_history()
        experience.finish(self.algorithm)
        # Data are gone through in chunks that a pause may cut: only whole ones count, so that it changes nothing.
        self.progress.iterations += num_updates is None or self.progress.timesteps % OFFLINE_CHUNK == 0
        self.progress.updated_at = self.progress.timesteps

    def take_pass(self, a_pass: Pass, experience: Experience, storage: tuple) -> None:
        number = 0
        for epoch in experience.rows(a_pass):
            for draw in epoch:
                step = self.step_for(self.due(a_pass, number := number + 1), a_pass, experience)
                self.history.append(step(storage, draw.to(experience.device)))
            # Target KL reached, or a number not finite: the rest would change nothing. A replay has one epoch.
            if self.algorithm.learns_from == "rollout" and self.algorithm.stop:
                break

    def take_recorded(self, a_pass: Pass, experience: Drawn, storage: tuple) -> list[Metrics]:
        """The same with several updates, and what they draw, in one CUDA graph."""
        assert a_pass.batch_size is not None
        experience.count_drawn(a_pass.epochs, a_pass.batch_size)
        size, history = block_size(a_pass), []
        for done in range(0, a_pass.epochs, size):
            block = tuple(self.due(a_pass, done + number + 1) for number in range(size))
            history.append(self.block_for(block, a_pass, experience)(storage))
        return history

    def recorded(self, experience: Experience) -> bool:
        """Whether its updates are CUDA graphs; those from a rollout come with its fused collection."""
        return self.records and experience.device.type == "cuda" and isinstance(experience, Drawn)

    def fold_history(self) -> None:
        """Keeps of many updates no more than the averages; now and then is often enough to wait for a GPU."""
        if len(self.history) >= MANY:
            self.check_updates()
            self.averages.add(self.history)
            self.history = []

    def check_updates(self) -> None:
        """Raises if a number was not finite."""
        if self.algorithm.failed:
            last = f"of the last {len(self.history)}, up to step {self.progress.timesteps}"
            raise explain_failure(self.history, last)

    def move_schedules(self, at: int) -> None:
        self.algorithm.set_progress(min(at / max(self.horizon, 1), 1.0))

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

    def block_for(self, block: tuple[tuple[str, ...], ...], a_pass: Pass, experience: Drawn) -> UpdateBlock:
        key = (experience is self.data, block)
        if key not in self.blocks:
            assert a_pass.batch_size is not None
            steps = [self.step_for(methods, a_pass, experience) for methods in block]
            self.blocks[key] = record_block(steps, experience, a_pass.batch_size)
        return self.blocks[key]

    def step_for(self, methods: tuple[str, ...], a_pass: Pass, experience: Experience) -> UpdateStep:
        key = (experience is self.data, methods)
        if key not in self.updates:
            self.updates[key] = build_update(
                self.algorithm,
                experience,
                methods,
                compiled=self.compiled and a_pass.one_graph,
                device=self.device,
                precision=self.precision,
            )
        return self.updates[key]

    def intervals(self) -> list[int]:
        return [callback.interval for callback in self.callbacks if callback.interval]

    def steps_until_event(self, stop_at: int, num_envs: int) -> int:
        """Vector steps until the budget or the next multiple of a callback's interval: events fall on exact steps."""
        now = self.progress.timesteps
        ends = [stop_at, *((now // interval + 1) * interval for interval in self.intervals())]
        return max(1, math.ceil((min(ends) - now) / num_envs))

    def log(self) -> None:
        """Reads the metrics from the device, once, and hands them to the callbacks."""
        self.averages.add(self.history)
        if not self.averages.sums:
            return
        train = self.averages.pop() | self.iteration_metrics
        self.check_updates()
        clock, mark = time.perf_counter(), self.mark
        progress = self.progress
        metrics = {f"train/{name}": value for name, value in read(train).items()}
        metrics["train/n_updates"] = progress.gradient_steps
        if self.fused.active:
            metrics |= self.fused.pop_episodes()
        elif self.recent:
            metrics["rollout/ep_rew_mean"] = float(np.mean([e.ret for e in self.recent]))
            metrics["rollout/ep_len_mean"] = float(np.mean([e.length for e in self.recent]))
            metrics |= column_metrics("rollout", column_means(e.columns for e in self.recent))
        metrics |= {
            "time/fps": (progress.timesteps - mark[1]) / max(clock - mark[0], 1e-9),
            "time/total_timesteps": progress.env_steps,
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
        self.progress.count_evaluation(result.mean)

    def request_stop(self, reason: str) -> None:
        """Ends the run after the current chunk of steps."""
        self.stop_reason = self.stop_reason or reason

    def tell(self, event: str, *arguments: object) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(self, *arguments)

    @contextmanager
    def session(self) -> Iterator[None]:
        """Installs the run's threads and random numbers, and gives the caller's back afterwards."""
        threads, products, outside = torch.get_num_threads(), torch.get_float32_matmul_precision(), get_rng(self.device)
        torch.set_num_threads(self.threads)
        torch.set_float32_matmul_precision("high" if self.precision == "tf32" else "highest")
        set_rng(self.rng, self.device)
        self.running, self.started = True, time.perf_counter()
        self.mark = (self.started, self.progress.timesteps)
        try:
            yield
        finally:
            self.progress.wall_time, self.running = self.elapsed(), False
            self.rng = get_rng(self.device)
            set_rng(outside, self.device)
            torch.set_num_threads(threads)
            torch.set_float32_matmul_precision(products)

    def state_dict(self) -> dict:
        self.fused.leave()
        progress = asdict(self.progress) | {"wall_time": self.elapsed()}
        return {
            "algorithm": dict(self.algorithm.state_dict()),
            "experience": self.experience.state_dict() if self.experience else {},
            "collector": self.collector.state_dict() if self.collector else {},
            "data": self.data.state_dict() if self.data else {},
            "progress": progress | {"recent": [list(episode) for episode in self.recent]},
            "rng": get_rng(self.device) if self.running else self.rng,
        }

    def load_state_dict(self, state: dict) -> None:
        """Continues exactly where `state_dict` was taken, as far as the environments can."""
        self.algorithm.load_state_dict(state["algorithm"])
        if self.data is not None and state.get("data"):  # older checkpoints have none
            self.data.load_state_dict(state["data"])
        if self.experience is not None and self.collector is not None and state["collector"]:
            self.experience.load_state_dict(state["experience"])
            if not self.collector.load_state_dict(state["collector"]):
                self.experience.cut()
        self.recent = deque((Episode.from_state(episode) for episode in state["progress"]["recent"]), maxlen=100)
        self.progress = Progress.from_state(state["progress"])
        self.history, self.averages = [], Averages()
        self.rng = self.rng | checked_rng(state["rng"], self.device)
