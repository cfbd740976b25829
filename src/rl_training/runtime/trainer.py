"""The only training loop; runs differ in the phases that it is given."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch

from rl_training.core import ALONE, Algorithm, Ranks, UniformPolicy
from rl_training.core.joint_actions import uniform_policy
from rl_training.experience import Experience
from rl_training.runtime.bounds import BoundsCheck
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.collector import Collector, EndedEpisodes, Episode
from rl_training.runtime.compilation import Precision
from rl_training.runtime.evaluator import EvalResult
from rl_training.runtime.executors import ExecutionMode, Executor, Learned, executor_for
from rl_training.runtime.finite import check_steps
from rl_training.runtime.journal import Journal, Log, episode_metrics
from rl_training.runtime.overlap import Overlap
from rl_training.runtime.phases import Phase, PhasePosition, Plan
from rl_training.runtime.progress import Progress, Unit
from rl_training.runtime.state_tree import load_state, own_part, state_of
from rl_training.runtime.taking_turns import take_all_turns
from rl_training.runtime.torch_context import OwnStream, plain_torch, threads_and_precision
from rl_training.runtime.worth_compiling import CompileMode

MAX_CHUNK = 512  # steps of every environment between looks at the stop flag
MAX_UPDATES = 100  # without env steps between looks; schedules move at its multiples


class Trainer:
    """The training loop of a run: it collects steps, learns from them and calls callbacks; its state is one tree."""

    def __init__(
        self,
        algorithm: Algorithm,
        phases: Sequence[Phase],
        stores: Mapping[str, Experience],
        *,
        seed: int,
        threads: int = 1,
        log_interval: int = 1,
        device: torch.device | str = "cpu",
        precision: Precision = "float32",
        overlap: bool = False,
        ranks: Ranks = ALONE,
    ) -> None:
        self.algorithm, self.device = algorithm, torch.device(device)
        self.plan = Plan(phases, stores)
        self.threads, self.log_interval = threads, log_interval
        self.random_policy: UniformPolicy | None = None
        self.bounds = BoundsCheck(algorithm.spec.obs)
        self.progress = Progress()
        self.random = OwnStream(seed)
        self.overlap = Overlap(algorithm.policy, self.device) if overlap else None
        self.callbacks: Sequence[Callback] = ()
        self.journal = Journal()
        self.pending: Log | None = None  # asked for, and not told yet
        self.logs_later = self.device.type == "cuda"
        self.logged_at = 0  # timesteps of the log that callbacks are told of
        self.recent: deque[Episode] = deque(maxlen=100)
        self.stop_reason: str | None = None
        self.running = False
        self.ranks = ranks
        self.untold: list[Episode] = []  # of this rank, since `told_at`
        self.told_at = 0  # timesteps up to which callbacks were told of episodes
        self.execution = ExecutionMode(self.device, precision, mode=False, ranks=ranks)
        self.executors: dict[tuple, Executor] = {}

    def execute(self, mode: CompileMode, *, acting: bool = True) -> None:
        """Sets how later steps and updates run, and drops what was built before.

        `mode` is False (eager), True (compiled) or "record" (eager code that a GPU replays as CUDA graphs). Without
        `acting`, collectors run eagerly.
        """
        self.execution = self.execution._replace(mode=mode, acting=acting)
        self.executors.clear()
        for collector in self.plan.collectors.values():
            collector.execute(self.execution.collecting)

    @property
    def experience(self) -> Experience | None:
        """The store that env steps are added to; None if the run has none."""
        return self.plan.stores.get("experience")

    @property
    def collector(self) -> Collector | None:
        """The collector of the current phase, else of the nearest earlier, else later one; None without any."""
        return self.plan.collector(self.progress)

    def executor(self, phase: Phase) -> Executor:
        if phase.executor_key not in self.executors:
            self.executors[phase.executor_key] = executor_for(self.algorithm, phase, self.execution, self.overlap)
        return self.executors[phase.executor_key]

    def run(self, stop_at: int | None = None, callbacks: Sequence[Callback] = ()) -> str:
        """Trains until env steps plus updates without env steps reach `stop_at` (None: the whole budget).

        Returns the reason why it stopped: "budget" at `stop_at`, else that of `request_stop`. Calls the callbacks, and
        closes them at the end, also after an error.
        """
        with plain_torch(), self.settings():
            return take_all_turns(self.turns(stop_at, callbacks))

    def turns(self, stop_at: int | None, callbacks: Sequence[Callback]) -> Generator[None, None, str]:
        """Trains as `run` does, within `settings`; yields before every turn, so that several trainers can take turns."""
        stop_at = self.plan.horizon if stop_at is None else stop_at
        self.callbacks, self.stop_reason, self.pending = tuple(callbacks), None, None
        self.told_at = self.progress.timesteps
        with self.clock():
            try:
                if self.overlap is not None:
                    self.overlap.take_copy()
                self.ranks.broadcast(self.algorithm.state_dict().values())  # other machines may round them differently
                self.tell("on_start")
                self.synchronize()
                while self.stop_reason is None and self.progress.timesteps < stop_at:
                    yield
                    self.advance(stop_at)
                if self.told_at < self.progress.timesteps:  # several ranks wait for events with it
                    self.tell_episodes()
                self.log()
                self.tell_log()
                self.tell("on_end")
                self.synchronize()
            finally:
                for callback in self.callbacks:
                    callback.close()
        return self.stop_reason or "budget"

    def advance(self, stop_at: int) -> None:
        """Takes steps or updates up to the next event, learns from enough steps, and calls callbacks that are due."""
        position = self.plan.current(self.progress)
        before = self.progress.shown(position.phase.unit)
        collector = position.phase.collector
        if collector is None:
            log_due = self.take_updates(position, stop_at)
        else:
            log_due = self.take_steps(position, collector, stop_at)
            self.untold += self.with_run_numbers(collector.pop_episodes(), collector.num_envs)
        now = self.progress.shown(position.phase.unit)
        due = [c for c, interval in self.intervals(position.phase.unit) if now // interval > before // interval]
        switches = now - before >= position.left and self.progress.timesteps < self.plan.horizon
        if self.ranks.exchange_is_free or log_due or due or switches:
            self.tell_episodes()
        if log_due:
            self.log()
        if due or switches:
            self.tell_log()
        for callback in due:
            callback.on_interval(self)
        if switches:
            self.tell("on_switch")
        self.synchronize()

    def with_run_numbers(self, episodes: list[Episode], num_envs: int) -> list[Episode]:
        """Returns this rank's episodes with the run's timesteps and environment indices, which count all ranks.

        `num_envs` is the number of this rank's environments.
        """
        total, updates = self.ranks.total, self.progress.offline_updates
        envs = self.ranks.rows(total(num_envs))
        return [one._replace(timesteps=total(one.timesteps) + updates, env=envs[one.env]) for one in episodes]

    def tell_episodes(self) -> None:
        """Calls `on_steps` with the episodes of all ranks that ended since the last call, and counts them."""
        episodes, self.untold = self.ranks.exchange_episodes(self.untold), []
        self.told_at = self.progress.timesteps
        self.progress.episodes += len(episodes)
        self.recent.extend(episodes)
        self.tell("on_steps", episodes)

    def synchronize(self) -> None:
        """Waits for the other ranks, and sets `stop_reason` if the first rank is to stop."""
        if self.ranks.synchronize(self.stop_reason is not None, lambda: own_part(self)):
            self.stop_reason = self.stop_reason or "the first rank stopped"

    def take_updates(self, position: PhasePosition, stop_at: int) -> bool:
        """Takes updates without env steps, at most 100 and up to the next event; returns True if a log is due.

        An event is `stop_at`, the phase's end, or a multiple of an interval.
        """
        phase, progress = position.phase, self.progress
        now = progress.timesteps
        num_updates = min(self.steps_to_event(position, stop_at, self.log_interval), MAX_UPDATES - now % MAX_UPDATES)
        self.move_schedules(now // MAX_UPDATES * MAX_UPDATES)
        progress.updated_at = now  # env steps that were not learned from are no part of this
        progress.offline_updates += num_updates
        passes = phase.passes(self.algorithm, num_updates)
        self.finish(phase, passes, self.executor(phase).learn(passes, progress.due))
        # They are cut into chunks by pauses too: only whole ones count, so that it changes nothing.
        progress.iterations += progress.timesteps % MAX_UPDATES == 0
        return progress.offline_updates % self.log_interval == 0

    def take_steps(self, position: PhasePosition, collector: Collector, stop_at: int) -> bool:
        """Takes env steps up to `stop_at` or the next event and, if the store then has enough, an iteration's updates.

        Returns True if a log is due.
        """
        phase, progress, executor = position.phase, self.progress, self.executor(position.phase)
        experience, num_envs = phase.experience, self.ranks.total(collector.num_envs)
        if progress.env_key not in (None, phase.env_key):  # the steps do not follow from episodes left open elsewhere
            experience.cut()
        progress.env_key = phase.env_key
        passes = phase.passes(self.algorithm)
        # What acts and what learns from it see the same: of a rollout the numbers it began with, of a replay those of
        # the iteration's end, wherever events cut it.
        ends = progress.timesteps + experience.wanted_steps * num_envs
        self.move_schedules(progress.updated_at if experience.on_policy else ends)
        full_iteration = executor.full_iteration_steps(min(stop_at - progress.timesteps, position.left))
        if full_iteration:  # events that fall into it wait for its end
            progress.env_steps += full_iteration
            learned = executor.iterate(progress.due)
        else:
            budget = self.steps_to_event(position, stop_at)
            num_steps = min(experience.wanted_steps, max(1, math.ceil(budget / num_envs)), MAX_CHUNK)
            self.collect(phase, collector, num_steps)
            progress.env_steps += num_steps * num_envs
            if experience.wanted_steps:
                return False
            learned = executor.learn(passes, progress.due)
        # Counted from the last update, which a pause does not move: a resumed run logs at the same steps.
        updated_at = progress.updated_at - progress.offline_updates  # on the clock of env steps
        log_due = progress.env_steps // self.log_interval > updated_at // self.log_interval
        self.finish(phase, passes, learned)
        progress.iterations += 1
        return log_due

    def collect(self, phase: Phase, collector: Collector, num_steps: int) -> None:
        policy = self.algorithm.policy
        if phase.experience.warming_up and not self.progress.offline_updates:
            self.random_policy = self.random_policy or uniform_policy(self.algorithm.spec)
            policy = self.random_policy
        steps = self.executor(phase).collect(collector, policy, num_steps)
        check_steps(collector.latest, self.progress.timesteps)
        self.bounds.look(collector.latest)
        if (lost := collector.pop_lost()) is not None:
            phase.experience.cut(lost)
        phase.experience.add(steps)

    def finish(self, phase: Phase, passes: Sequence, learned: Learned) -> None:
        """Adds an iteration to the counts of the store and the progress, and its metrics to the journal.

        `learned` is the list of the updates' metrics and the other metrics of the iteration.
        """
        phase.experience.count_learned(passes)
        self.journal.add(*learned, self.algorithm, self.progress.timesteps)
        self.progress.updated_at = self.progress.timesteps

    def move_schedules(self, at: int) -> None:
        self.algorithm.set_progress(min(at / max(self.plan.horizon, 1), 1.0))

    def steps_to_event(self, position: PhasePosition, stop_at: int, *every: int) -> int:
        """Returns the env steps or updates to the next event: `stop_at`, the phase's end, or a multiple of an interval.

        The intervals are those in `every` and those of callbacks.
        """
        now, intervals = self.progress.shown(position.phase.unit), self.intervals(position.phase.unit)
        events = (interval - now % interval for interval in (*every, *(interval for _, interval in intervals)))
        return min(stop_at - self.progress.timesteps, position.left, *events)

    def intervals(self, unit: Unit) -> list[tuple[Callback, int]]:
        """Returns the callbacks whose interval is counted in this unit, each with its interval."""
        return [(c, c.interval) for c in self.callbacks if c.interval and c.unit in ("auto", unit)]

    def log(self) -> None:
        """Takes all metrics since the last log and gives them to `on_log`: at once on the CPU, later on a GPU."""
        self.tell_log()
        ended, others = EndedEpisodes(), episode_metrics(self.recent)
        if self.collector is not None:
            ended = self.collector.pop_ended()
            others |= self.collector.pop_metrics()
        self.pending = self.journal.pop(self.algorithm, self.progress, self.elapsed(), ended, others)
        if self.pending is None:
            self.progress.episodes += ended.describe(() if ended.sums is None else ended.sums.tolist())[0]
        elif not self.logs_later:
            self.tell_log()

    def tell_log(self) -> None:
        """Waits for the metrics that `log` took last and calls `on_log` with them; does nothing if there are none."""
        log, self.pending = self.pending, None
        if log is not None:
            number, metrics = log.read()
            self.progress.episodes += number
            self.logged_at = log.timesteps
            self.tell("on_log", metrics)

    def elapsed(self) -> float:
        """Returns the seconds of training so far, earlier parts of a resumed run included."""
        return self.progress.wall_time + (time.perf_counter() - self.started if self.running else 0.0)

    def report_evaluation(self, result: EvalResult) -> None:
        """Calls `on_evaluation` of every callback with the result, and adds its mean return to the progress."""
        self.tell("on_evaluation", result)
        self.progress.count_evaluation(result.mean)

    def request_stop(self, reason: str) -> None:
        """Ends the run after the current chunk of steps; of several reasons, `run` returns the first."""
        self.stop_reason = self.stop_reason or reason

    def tell(self, event: str, *arguments: object) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(self, *arguments)

    @contextmanager
    def session(self) -> Iterator[None]:
        """Installs the run's settings in the block, and counts its time."""
        with self.settings(), self.clock():
            yield

    @contextmanager
    def settings(self) -> Iterator[None]:
        """Installs the run's threads, precision and random numbers in the block, and restores the caller's."""
        with (
            threads_and_precision(self.threads, tf32=self.execution.precision == "tf32"),
            self.random.used(self.device),
        ):
            yield

    @contextmanager
    def clock(self) -> Iterator[None]:
        """Counts the time in the block as the run's."""
        self.running, self.started = True, time.perf_counter()
        self.journal.mark = (self.started, self.progress.timesteps)
        try:
            yield
        finally:
            self.progress.wall_time, self.running = self.elapsed(), False

    def state_dict(self) -> dict:
        self.tell_log()  # which knows of episodes that nothing else counts
        return state_of(self)

    def load_state_dict(self, state: dict) -> None:
        """Restores the state of a run exactly, except that environments that cannot continue begin new episodes.

        Raises ValueError if another number of ranks saved it.
        """
        load_state(self, state)
