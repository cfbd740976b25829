"""The only training loop. Runs differ in the phases that it is given, never in what runs."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch

from rl_training.core import Algorithm, UniformPolicy
from rl_training.experience import Experience
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.collector import Collector
from rl_training.runtime.compilation import Precision
from rl_training.runtime.episodes import Episode
from rl_training.runtime.evaluator import EvalResult
from rl_training.runtime.executors import Executor, How, Learned, executor_for
from rl_training.runtime.finite import check_steps
from rl_training.runtime.journal import Journal
from rl_training.runtime.overlap import Overlap
from rl_training.runtime.phases import Phase, Place, begun, current, places
from rl_training.runtime.progress import Progress
from rl_training.runtime.seeding import checked_rng, get_rng, seeded_rng, set_rng
from rl_training.runtime.surroundings import plain_torch
from rl_training.runtime.worth_compiling import CompileMode

MAX_CHUNK = 512  # steps of every environment between looks at the stop flag
MAX_UPDATES = 100  # without env steps between looks; schedules move at its multiples


class Trainer:
    """Collects, learns, and tells callbacks; everything it holds is one state tree.

    `stores` are what the phases learn from, by the name under which each is saved.
    """

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
    ) -> None:
        self.algorithm, self.device = algorithm, torch.device(device)
        self.threads, self.log_interval = threads, log_interval
        self.precision: Precision = precision
        self.random_policy: UniformPolicy | None = None
        self.progress = Progress()
        self.rng = seeded_rng(seed, self.device)
        self.overlap = Overlap(algorithm.policy, self.device) if overlap else None
        self.callbacks: Sequence[Callback] = ()
        self.journal = Journal()
        self.stop_reason: str | None = None
        self.running = False
        self.mode: CompileMode = False
        self.executors: dict[tuple, Executor] = {}
        self.plan(phases, stores)

    def plan(self, phases: Sequence[Phase], stores: Mapping[str, Experience]) -> None:
        """Goes on with other phases: more of the same, or what comes next."""
        self.phases, self.stores = tuple(phases), dict(stores)
        for phase in self.phases:
            if phase.collector is not None and phase.parts not in self.executors:
                phase.collector.execute(self.mode)

    def execute(self, mode: CompileMode) -> None:
        """Chooses how steps and updates run from here on; what was built for another way is dropped."""
        self.mode = mode
        self.executors.clear()
        self.plan(self.phases, self.stores)

    @property
    def horizon(self) -> int:
        """What both clocks show together when the run is finished."""
        return sum(phase.budget for phase in self.phases)

    @property
    def experience(self) -> Experience | None:
        """Where env steps go."""
        return self.stores.get("experience")

    @property
    def recent(self) -> Sequence[Episode]:
        """The last hundred episodes."""
        return self.journal.recent

    @property
    def source(self) -> Experience:
        """What the last updates were drawn from."""
        return begun(self.phases, self.progress).phase.experience

    @property
    def collector(self) -> Collector | None:
        """Of the phase that runs, or else the one used last, or else the first to be used."""
        found = [place for place in places(self.phases, self.progress) if place.phase.collector is not None]
        now = current(self.phases, self.progress).number
        before = [place.phase.collector for place in found if place.number <= now]
        return before[-1] if before else next((place.phase.collector for place in found), None)

    def executor(self, phase: Phase) -> Executor:
        if phase.parts not in self.executors:
            how = How(self.device, self.precision, self.mode)
            self.executors[phase.parts] = executor_for(self.algorithm, phase, how, self.overlap)
        return self.executors[phase.parts]

    def run(self, stop_at: int | None = None, callbacks: Sequence[Callback] = ()) -> str:
        """Trains until both clocks together show `stop_at` (default: the whole budget); returns why it stopped."""
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
        """Collects, or not, up to the next event and, when there is enough, learns from it."""
        place, before = current(self.phases, self.progress), self.progress.timesteps
        collector = place.phase.collector
        episodes: list[Episode] = []
        if collector is None:
            log_due = self.take_updates(place, stop_at)
        else:
            log_due = self.take_steps(place, collector, stop_at)
            offline = self.progress.offline_updates  # the collector counts env steps, an episode is told by both clocks
            episodes = [e._replace(timesteps=e.timesteps + offline) for e in collector.pop_episodes()]
        self.progress.episodes += len(episodes)
        self.journal.recent.extend(episodes)
        self.tell("on_steps", episodes)
        if log_due:
            self.log()
        for callback in self.callbacks:
            if callback.interval and self.progress.timesteps // callback.interval > before // callback.interval:
                callback.on_interval(self)
        if place.left and self.progress.timesteps < self.horizon:
            self.change_phase(place.phase, current(self.phases, self.progress).phase)

    def change_phase(self, last: Phase, following: Phase) -> None:
        """At a seam, the episodes of environments that are left end where they are."""
        if following is last:
            return
        if last.collector is not None and following.collector not in (None, last.collector):
            last.experience.cut()
        self.tell("on_switch")

    def take_updates(self, place: Place, stop_at: int) -> bool:
        """Some updates without env steps: up to the next event, and no further than schedules stand still."""
        phase, progress = place.phase, self.progress
        now = progress.timesteps
        events = self.events(stop_at, MAX_UPDATES, self.log_interval)
        num_updates = min(min(events) - now, place.left)
        self.move_schedules(now // MAX_UPDATES * MAX_UPDATES)
        progress.updated_at = now  # env steps that were not learned from are no part of this
        progress.offline_updates += num_updates
        passes = phase.passes(self.algorithm, num_updates)
        self.finish(phase, passes, self.executor(phase).learn(passes, progress.due))
        # They are cut into chunks by pauses too: only whole ones count, so that it changes nothing.
        progress.iterations += progress.timesteps % MAX_UPDATES == 0
        return progress.timesteps % self.log_interval == 0

    def take_steps(self, place: Place, collector: Collector, stop_at: int) -> bool:
        """Some steps of every environment and, when the store has enough, an iteration of the algorithm."""
        phase, progress, executor = place.phase, self.progress, self.executor(place.phase)
        experience, num_envs = phase.experience, collector.num_envs
        passes = phase.passes(self.algorithm)
        # What acts and what learns from it see the same: of a rollout the numbers it began with, of a replay those of
        # the iteration's end, wherever events cut it.
        ends = progress.timesteps + experience.wanted_steps * num_envs
        self.move_schedules(progress.updated_at if experience.on_policy else ends)
        whole = executor.whole(min(stop_at - progress.timesteps, place.left))
        if whole:  # events that fall into it wait for its end
            progress.env_steps += whole
            learned = executor.iterate(progress.due)
        else:
            room = min(min(self.events(stop_at)) - progress.timesteps, place.left)
            num_steps = min(experience.wanted_steps, max(1, math.ceil(room / num_envs)), MAX_CHUNK)
            self.collect(phase, collector, num_steps)
            progress.env_steps += num_steps * num_envs
            if experience.wanted_steps:
                return False
            learned = executor.learn(passes, progress.due)
        # Counted from the last update, which a pause does not move: a resumed run logs at the same steps.
        log_due = progress.timesteps // self.log_interval > progress.updated_at // self.log_interval
        self.finish(phase, passes, learned)
        progress.iterations += 1
        return log_due

    def collect(self, phase: Phase, collector: Collector, num_steps: int) -> None:
        policy = self.algorithm.policy
        if phase.experience.warming_up and not self.progress.offline_updates:
            self.random_policy = self.random_policy or UniformPolicy(self.algorithm.spec)
            policy = self.random_policy
        steps = self.executor(phase).collect(policy, num_steps)
        check_steps(collector.latest, self.progress.timesteps)
        phase.experience.add(steps)

    def finish(self, phase: Phase, passes: Sequence, learned: Learned) -> None:
        """Keeps the books of an iteration."""
        phase.experience.count_learned(passes)
        self.journal.add(*learned, self.algorithm, self.progress.timesteps)
        self.progress.updated_at = self.progress.timesteps

    def move_schedules(self, at: int) -> None:
        self.algorithm.set_progress(min(at / max(self.horizon, 1), 1.0))

    def events(self, stop_at: int, *every: int) -> list[int]:
        """When to stop and look next: the end, and the next multiple of these numbers and of callbacks' intervals."""
        now = self.progress.timesteps
        intervals = (callback.interval for callback in self.callbacks if callback.interval)
        return [stop_at, *((now // interval + 1) * interval for interval in (*every, *intervals))]

    def log(self) -> None:
        """Reads the metrics from the device, once, and hands them to the callbacks."""
        ended: dict[str, float] = {}
        if self.collector is not None:
            number, ended = self.collector.pop_ended()
            self.progress.episodes += number
        metrics = self.journal.pop(self.algorithm, self.progress, self.elapsed(), ended)
        if metrics:
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
        self.journal.mark = (self.started, self.progress.timesteps)
        try:
            yield
        finally:
            self.progress.wall_time, self.running = self.elapsed(), False
            self.rng = get_rng(self.device)
            set_rng(outside, self.device)
            torch.set_num_threads(threads)
            torch.set_float32_matmul_precision(products)

    def state_dict(self) -> dict:
        collector, progress = self.collector, self.progress.to_state() | {"wall_time": self.elapsed()}
        if collector is not None:
            progress["episodes"] += collector.uncounted_episodes
        state = {name: store.state_dict() for name, store in self.stores.items()}
        return (
            {"experience": {}, "data": {}}
            | state
            | {
                "algorithm": dict(self.algorithm.state_dict()),
                "collector": collector.state_dict() if collector is not None else {},
                "progress": progress | {"recent": [list(episode) for episode in self.journal.recent]},
                "rng": get_rng(self.device) if self.running else self.rng,
            }
        )

    def load_state_dict(self, state: dict) -> None:
        """Continues exactly where `state_dict` was taken, as far as the environments can."""
        self.algorithm.load_state_dict(state["algorithm"])
        self.progress = Progress.from_state(state["progress"])
        for name, store in self.stores.items():
            if state.get(name):  # what comes later has no state yet
                store.load_state_dict(state[name])
        collector = self.collector
        if collector is not None and state["collector"] and not collector.load_state_dict(state["collector"]):
            for phase in self.phases:
                if phase.collector is collector:
                    phase.experience.cut()
        self.journal = Journal()
        self.journal.recent = deque(
            (Episode.from_state(episode) for episode in state["progress"]["recent"]), maxlen=100
        )
        self.rng = self.rng | checked_rng(state["rng"], self.device)
