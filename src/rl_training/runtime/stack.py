"""Stacks: several trainers of one method, each with its own run, whose iterations run as one program."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
from torch import nn

from rl_training.core import Metrics, Pass, Policy, Transition, UniformPolicy
from rl_training.core.members import take_out
from rl_training.experience import Rollout
from rl_training.experience.base import Prepare
from rl_training.experience.replay import Replay
from rl_training.runtime.collector import Collector
from rl_training.runtime.executors import Due, Executor, Learned, WholeIteration, why_not_recorded
from rl_training.runtime.native_collector import Counts, NativeCollector
from rl_training.runtime.phases import Phase
from rl_training.runtime.progress import Progress
from rl_training.runtime.stacked_algorithm import StackedAlgorithm, StackedExecutor, StackedPolicy
from rl_training.runtime.stacked_collector import StackedCollector
from rl_training.runtime.stacked_numbers import HashedNumbers, MemberNumbers, OwnNumbers
from rl_training.runtime.stacked_replay import StackedReplay
from rl_training.runtime.stacked_rollout import StackedRollout
from rl_training.runtime.torch_context import OwnStream
from rl_training.runtime.trainer import MAX_CHUNK, Trainer
from rl_training.runtime.worth_compiling import CompileMode

MAX_ITERATIONS = 16  # between looks at the stop flag


class Taken(NamedTuple):
    """The iterations that a stack took for a member at once: their env steps, number of updates, and metrics."""

    steps: list[int]  # of each iteration
    updates: int
    learned: Learned
    share_done: float  # that schedules saw in the last of them


class Stack:
    """Several trainers, the members, whose iterations run as one program; every trainer gets its own part of the results.

    All members stand at the same step, and no member begins an iteration before all have ended the last one. Between
    its first iteration and its leaving, a member's networks, environments and store are views of the stack's.
    """

    def __init__(
        self, trainers: Sequence[Trainer], mode: CompileMode, fuse: Callable[[nn.Module], object] | None = None
    ) -> None:
        """`fuse` switches the small networks of the stack, and not those of its members, to kernels of their own."""
        self.trainers, self.mode, self.fuse = list(trainers), mode, fuse
        self.number, self.device = len(trainers), trainers[0].device
        self.going, self.joined = set(range(self.number)), False
        self.left: list[int] = []  # before the last iteration, and whose store is still a part of the stack's
        self.phase = trainers[0].plan.current(trainers[0].progress).phase
        self.streams = [MemberStream(trainer.random, self.device) for trainer in trainers]
        self.collectors = [collector_of(trainer) for trainer in trainers]
        self.results: dict[int, Taken] = {}  # by member, which have not been taken yet
        self.state: torch.Tensor | None = None  # of the environments, when it was handed out last
        for index, trainer in enumerate(trainers):
            trainer.random = self.streams[index]
            trainer.execute(False)
            mine = trainer.plan.current(trainer.progress).phase
            trainer.executors[mine.executor_key] = MemberExecutor(self, index, trainer.executor(mine))

    def join(self) -> None:
        """Stacks what the members are made of, as it is now."""
        self.joined = True
        self.algorithm = StackedAlgorithm([trainer.algorithm for trainer in self.trainers])
        if self.fuse is not None:
            self.fuse(self.algorithm.one)
        first, stores = self.collectors[0], [store_of(trainer) for trainer in self.trainers]
        numbers = self.build_numbers(stores)
        self.algorithm.together.draw = numbers.for_loss
        self.collector = StackedCollector(self.collectors, self.algorithm.policy, numbers)
        self.collector.execute(self.mode)
        self.random_policy = StackedPolicy(UniformPolicy(first.spec).to(self.device), self.algorithm.together)
        for policy in (self.algorithm.policy, self.random_policy):
            policy.note_requests(self.collector.obs)
        self.experience = stacked_store(stores, numbers, self.going)
        together = Phase(self.experience, self.collector, self.phase.budget)
        execution = self.trainers[0].execution._replace(mode=self.mode)
        self.executor: Executor = StackedExecutor(self.algorithm, together, execution)
        if execution.records and why_not_recorded(self.algorithm, together) is None:
            self.executor = WholeIteration(self.executor, self.collector)

    def build_numbers(self, stores: Sequence[Rollout | Replay]) -> MemberNumbers:
        """Returns the source of random numbers: on the CPU as single runs draw them, on a GPU all in one go."""
        envs, generators = [collector.env for collector in self.collectors], [s.generator for s in self.streams]
        if self.device.type == "cpu":
            choose = [store.shuffled if isinstance(store, Rollout) else store.draw for store in stores]
            return OwnNumbers(envs, generators, choose)
        numbers = HashedNumbers(envs, generators)
        for member, stream in enumerate(self.streams):
            stream.store, stream.load_back = partial(numbers.store, member), partial(numbers.load, member)
        return numbers

    def take(self, member: int, iterations: int) -> Taken:
        """Returns what a member's next iterations, so many, gave; the first member that asks has all take them."""
        if member not in self.results:
            self.iterate(self.trainers[member].progress, iterations)
        return self.results.pop(member)

    def iterate(self, progress: Progress, iterations: int) -> None:
        """Takes iterations of all members; `progress` is that of one of them, with the env steps of the first counted."""
        if not self.joined:
            self.join()
        if isinstance(self.experience, StackedReplay):
            for member in self.left:
                self.experience.take_out(member)
            self.left.clear()
        passes, clock, num_envs = self.algorithm.passes(), replace(progress), self.collectors[0].num_envs
        numbers, history, metrics, steps, share = [0] * self.number, list[Metrics](), Metrics(), list[int](), 0.0
        for number in range(iterations):
            steps.append(self.experience.wanted_steps * num_envs)
            if number:
                clock.env_steps += steps[-1]
            share = self.share_done(clock)
            self.algorithm.set_progress(share)
            said, metrics = self.take_one(clock)
            self.experience.count_learned(passes)
            taken = self.updates_taken()
            numbers = [before + now for before, now in zip(numbers, taken, strict=True)]
            history += said if self.executor.fixed_shapes or not self.experience.on_policy else [means(said, taken)]
            clock.updated_at = clock.timesteps
        if self.collector.env.state is not self.state:
            self.state = self.collector.env.state
            self.collector.hand_out()
        if isinstance(self.experience, StackedReplay):
            self.experience.hand_out()
        results = zip(numbers, divided(averages(history), self.number), divided(metrics, self.number), strict=True)
        for member, (updates, average, about) in enumerate(results):
            if member in self.going:
                self.results[member] = Taken(steps, updates, ([average], about), share)

    def share_done(self, clock: Progress) -> float:
        """Returns the progress, 0 to 1, that schedules see in an iteration, as `Trainer` computes it."""
        at = clock.updated_at if self.experience.on_policy else clock.timesteps
        return min(at / max(self.trainers[0].plan.horizon, 1), 1.0)

    def take_one(self, clock: Progress) -> Learned:
        if self.executor.full_iteration_steps(sys.maxsize):
            return self.executor.iterate(clock.due)
        policy = self.random_policy if self.experience.warming_up else self.algorithm.policy
        wanted = self.experience.wanted_steps
        for start in range(0, wanted, MAX_CHUNK):
            self.experience.add(self.collector.collect(policy, min(MAX_CHUNK, wanted - start)))
        return self.executor.learn(self.algorithm.passes(), clock.due)

    def updates_taken(self) -> list[int]:
        """Returns every member's number of updates in the last iteration."""
        if isinstance(self.experience, StackedReplay):
            return [sum(a_pass.rounds for a_pass in self.algorithm.passes())] * self.number
        (a_pass,) = self.algorithm.passes()
        rounds = self.experience.num_batches(a_pass, self.experience.num_samples * self.number) // a_pass.rounds
        whole = self.executor.fixed_shapes
        return [(a_pass.rounds if whole else epochs) * rounds for epochs in self.experience.epochs]

    def release_all(self) -> None:
        for member in list(self.going):
            self.release(member)

    def release(self, member: int) -> None:
        """Gives a member all that is its own, so that it goes on alone."""
        self.going.remove(member)
        trainer, collector, counts = self.trainers[member], self.collectors[member], self.collectors[member].counts
        if self.joined:
            self.left.append(member)
            take_out(trainer.algorithm)
            env = collector.env
            env.state, env.elapsed, collector.first = (x.clone() for x in (env.state, env.elapsed, collector.first))
            collector.counts = None if counts is None else Counts(*(x.clone() for x in counts))
        trainer.random = self.streams[member].alone(self.device)
        trainer.execute(False)


class MemberExecutor(Executor):
    """The executor of a member: the stack takes whole iterations, and the member those of which only a part is left."""

    def __init__(self, stack: Stack, member: int, alone: Executor) -> None:
        super().__init__(alone.algorithm, alone.phase, alone.execution)
        self.stack, self.member = stack, member
        self.num_envs = stack.collectors[member].num_envs
        self.num_steps = self.experience.steps_between(self.num_envs) * self.num_envs
        self.iterations = 1  # of the next turn

    @property
    def trainer(self) -> Trainer:
        return self.stack.trainers[self.member]

    def full_iteration_steps(self, budget: int) -> int:
        if self.member in self.stack.results:
            return self.stack.results[self.member].steps[0]
        first = self.experience.wanted_steps * self.num_envs
        if first > budget or (self.experience.on_policy and first != self.num_steps):
            return 0
        self.iterations = self.iterations_to_event(first, budget)
        return first

    def iterations_to_event(self, first: int, budget: int) -> int:
        """Returns how many iterations fit into `budget` env steps until an event falls due; the first takes `first`."""
        trainer = self.trainer
        position = trainer.plan.current(trainer.progress)
        event = trainer.steps_to_event(position, trainer.progress.timesteps + budget, trainer.log_interval)
        wanted = -(-(event - first) // self.num_steps)
        most = min(budget - first, MAX_CHUNK * self.num_envs) // self.num_steps
        return 1 + max(0, min(wanted, most, MAX_ITERATIONS - 1))

    def iterate(self, due: Due) -> Learned:
        """Counts what the trainer does not, for which it is one iteration."""
        taken, progress = self.stack.take(self.member, self.iterations), self.trainer.progress
        first, *others = taken.steps
        self.experience.count_added(first)
        for num_steps in others:
            self.experience.count_learned(self.phase.passes(self.algorithm))
            self.experience.count_added(num_steps)
        progress.env_steps += sum(others)
        progress.iterations += len(others)
        progress.gradient_steps += taken.updates
        self.algorithm.set_progress(taken.share_done)
        return taken.learned

    def collect(self, collector: Collector, policy: Policy, num_steps: int) -> Transition:
        with self.trainer.random.used(self.execution.device):
            return super().collect(collector, policy, num_steps)

    def learn(self, passes: Sequence[Pass], due: Due, run: Prepare | None = None) -> Learned:
        with self.trainer.random.used(self.execution.device):
            return super().learn(passes, due, run)


class MemberStream(OwnStream):
    """A member's stream of random numbers as a generator of its own, which many members use at the same time."""

    def __init__(self, own: OwnStream, device: torch.device) -> None:
        super().__init__(own.seed)
        self.saved = own.state(device)
        self.generator = torch.Generator(device)
        self.generator.set_state(self.saved[device.type])
        self.store: Callable[[], None] = lambda: None  # brings the generator to where the stack stands
        self.load_back: Callable[[], None] = lambda: None  # and the stack to where the generator stands

    @contextmanager
    def used(self, device: torch.device) -> Iterator[None]:
        with super().used(device):
            yield
        self.generator.set_state(self.saved[device.type])
        self.load_back()

    def state(self, device: torch.device) -> dict[str, torch.Tensor]:
        if self.in_use:
            return super().state(device)
        self.store()
        return self.saved | {device.type: self.generator.get_state()}

    def alone(self, device: torch.device) -> OwnStream:
        """Returns a stream that goes on from here without the stack."""
        stream = OwnStream(self.seed)
        stream.load(self.state(device), device)
        return stream


def collector_of(trainer: Trainer) -> NativeCollector:
    assert isinstance(trainer.collector, NativeCollector)
    return trainer.collector


def store_of(trainer: Trainer) -> Rollout | Replay:
    assert isinstance(trainer.experience, Rollout | Replay)
    return trainer.experience


def stacked_store(
    stores: Sequence[Rollout | Replay], numbers: MemberNumbers, going: set[int]
) -> StackedRollout | StackedReplay:
    replays = [store for store in stores if isinstance(store, Replay)]
    if replays:
        return StackedReplay(replays, numbers, going)
    return StackedRollout([store for store in stores if isinstance(store, Rollout)], numbers)


def means(history: list[Metrics], taken: Sequence[int]) -> Metrics:
    """Returns the mean of every metric [member] over the first updates of each member, of which it took `taken`."""
    counts = torch.tensor(taken, device=next(iter(history[0].values())).device)
    going = torch.arange(len(history), device=counts.device).unsqueeze(1) < counts
    columns = {name: torch.stack([one[name] for one in history]) for name in history[0]}
    return {name: torch.where(going, column, 0.0).sum(0) / counts for name, column in columns.items()}


def averages(history: list[Metrics]) -> Metrics:
    """Returns the mean of every metric over those that have it."""
    names = dict.fromkeys(name for one in history for name in one)
    columns = {name: [one[name] for one in history if name in one] for name in names}
    return {name: column[0] if len(column) == 1 else torch.stack(column).mean(0) for name, column in columns.items()}


def divided(metrics: Metrics, number: int) -> list[Metrics]:
    """Returns every member's part of metrics [member]."""
    columns = {name: column.unbind() for name, column in metrics.items()}
    return [{name: column[member] for name, column in columns.items()} for member in range(number)]
