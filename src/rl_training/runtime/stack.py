"""Stacks: several trainers of one method, each with its own run, whose iterations run as one program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch

from rl_training.core import Metrics, Pass, Transition
from rl_training.core.members import take_out
from rl_training.core.policy import Policy
from rl_training.experience import Rollout
from rl_training.experience.base import Prepare
from rl_training.runtime.collector import Collector
from rl_training.runtime.executors import Due, Executor, Learned, WholeIteration, why_not_recorded
from rl_training.runtime.native_collector import Counts, NativeCollector
from rl_training.runtime.phases import Phase
from rl_training.runtime.progress import Methods
from rl_training.runtime.stacked_algorithm import StackedAlgorithm
from rl_training.runtime.stacked_collector import StackedCollector
from rl_training.runtime.stacked_numbers import HashedNumbers, MemberNumbers, OwnNumbers
from rl_training.runtime.stacked_rollout import StackedRollout
from rl_training.runtime.torch_context import OwnStream
from rl_training.runtime.trainer import Trainer
from rl_training.runtime.worth_compiling import CompileMode


class Stack:
    """The members' trainers, whose whole iterations it takes together: every trainer gets its own part of the results.

    Members must take turns: each of them one iteration, then each the next. Until a member leaves, its networks and
    environments are views of those of the stack.
    """

    def __init__(self, trainers: Sequence[Trainer], mode: CompileMode) -> None:
        self.trainers = list(trainers)
        self.number, self.device = len(trainers), trainers[0].device
        self.going = set(range(self.number))
        phase = trainers[0].plan.current(trainers[0].progress).phase
        self.streams = [MemberStream(trainer.random, self.device) for trainer in trainers]
        self.collectors = [collector_of(trainer) for trainer in trainers]
        self.algorithm = StackedAlgorithm([trainer.algorithm for trainer in trainers])
        first = self.collectors[0]
        self.algorithm.policy.note_requests(trainers[0].algorithm.policy, first.env.dynamics.observe(first.env.state))
        rollouts = [rollout_of(trainer) for trainer in trainers]
        numbers = self.build_numbers(rollouts)
        self.collector = StackedCollector(self.collectors, self.algorithm.policy, numbers)
        self.collector.execute(mode)
        self.rollout = StackedRollout(rollouts, numbers)
        together = Phase(self.rollout, self.collector, phase.budget)
        execution = trainers[0].execution._replace(mode=mode)
        self.executor = Executor(self.algorithm, together, execution)
        if execution.records and why_not_recorded(self.algorithm, together) is None:
            self.executor = WholeIteration(self.executor, self.collector)
        self.results: dict[int, tuple[int, Learned]] = {}  # by member, which have not been taken yet
        self.state: torch.Tensor | None = None  # of the environments, when it was handed out last
        for index, trainer in enumerate(trainers):
            trainer.random = self.streams[index]
            trainer.execute(False)
            mine = trainer.plan.current(trainer.progress).phase
            trainer.executors[mine.executor_key] = MemberExecutor(self, index, trainer.executor(mine))

    def build_numbers(self, rollouts: Sequence[Rollout]) -> MemberNumbers:
        """Returns the source of random numbers: on the CPU as single runs draw them, on a GPU all in one go."""
        envs, asked = [collector.env for collector in self.collectors], self.algorithm.policy.asked
        generators = [stream.generator for stream in self.streams]
        if self.device.type == "cpu":
            return OwnNumbers(envs, rollouts, generators, asked)
        numbers = HashedNumbers(envs, generators, asked)
        for member, stream in enumerate(self.streams):
            stream.store, stream.load_back = partial(numbers.store, member), partial(numbers.load, member)
        return numbers

    def take(self, member: int) -> tuple[int, Learned]:
        """Returns how many updates a member took in its next iteration, and their metrics.

        The first member that asks for an iteration has all take it.
        """
        if member not in self.results:
            self.iterate()
        return self.results.pop(member)

    def iterate(self) -> None:
        for trainer in (self.trainers[member] for member in self.going):
            trainer.move_schedules(trainer.progress.updated_at)
        if isinstance(self.executor, WholeIteration):
            history, metrics = self.executor.iterate(one_method)
        else:
            self.rollout.add(self.collector.collect(self.algorithm.policy, self.rollout.wanted_steps))
            history, metrics = self.executor.learn(self.algorithm.passes(), one_method)
        if self.collector.env.state is not self.state:
            self.state = self.collector.env.state
            self.collector.hand_out()
        for member, result in enumerate(self.divided(history, metrics)):
            if member in self.going:
                self.results[member] = result

    def divided(self, history: list[Metrics], metrics: Metrics) -> Iterator[tuple[int, Learned]]:
        """Yields every member's number of updates and metrics; those of its updates are their means."""
        (a_pass,), whole = self.algorithm.passes(), isinstance(self.executor, WholeIteration)
        rounds = self.rollout.num_batches(a_pass, self.rollout.num_samples * self.number) // a_pass.rounds
        taken = [(a_pass.rounds if whole else epochs) * rounds for epochs in self.rollout.epochs]
        groups = history if whole else [means(history, taken)]
        parts = [{name: values.unbind() for name, values in group.items()} for group in (*groups, metrics)]
        for member, number in enumerate(taken):
            *mine, about = ({name: values[member] for name, values in part.items()} for part in parts)
            yield number, (mine, about)

    def release_all(self) -> None:
        for member in list(self.going):
            self.release(member)

    def release(self, member: int) -> None:
        """Gives a member all that is its own, so that it goes on alone."""
        self.going.remove(member)
        trainer, collector, counts = self.trainers[member], self.collectors[member], self.collectors[member].counts
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
        self.num_steps = stack.rollout.steps_between(0) * stack.collectors[member].num_envs

    @property
    def trainer(self) -> Trainer:
        return self.stack.trainers[self.member]

    def full_iteration_steps(self, budget: int) -> int:
        at_start = self.experience.wanted_steps == self.stack.rollout.steps_between(0)
        return self.num_steps if at_start and budget >= self.num_steps else 0

    def iterate(self, due: Due) -> Learned:
        number, learned = self.stack.take(self.member)
        (a_pass,) = self.phase.passes(self.algorithm)
        for update in range(number):
            due(a_pass, update + 1)
        return learned

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


def one_method(a_pass: Pass, number: int) -> Methods:
    return (a_pass.method,)


def collector_of(trainer: Trainer) -> NativeCollector:
    assert isinstance(trainer.collector, NativeCollector)
    return trainer.collector


def rollout_of(trainer: Trainer) -> Rollout:
    assert isinstance(trainer.experience, Rollout)
    return trainer.experience


def means(history: list[Metrics], taken: Sequence[int]) -> Metrics:
    """Returns the mean of every metric [member] over the first updates of each member, of which it took `taken`."""
    counts = torch.tensor(taken, device=next(iter(history[0].values())).device)
    going = torch.arange(len(history), device=counts.device).unsqueeze(1) < counts
    columns = {name: torch.stack([one[name] for one in history]) for name in history[0]}
    return {name: torch.where(going, column, 0.0).sum(0) / counts for name, column in columns.items()}
