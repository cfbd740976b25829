"""Executors of an iteration: update by update, eager or as CUDA graphs, several as one graph, or all of it as one.

An iteration is defined once, in `Executor.learn` and `WholeIteration.body` around it. Nothing here counts steps, moves
schedules or logs: that is the trainer's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from rl_training.core import ALONE, Algorithm, Metrics, Pass, Policy, Ranks, Transition, tree_leaves, tree_map
from rl_training.experience.base import Prepare, SampledExperience, drawn_rows
from rl_training.runtime.collector import Collector
from rl_training.runtime.compilation import (
    Precision,
    UpdateBlock,
    UpdateStep,
    block_size,
    build_update,
    compile_graph,
    record_block,
)
from rl_training.runtime.cuda_graph import CudaGraph
from rl_training.runtime.native_collector import NativeCollector
from rl_training.runtime.overlap import Overlap
from rl_training.runtime.phases import Phase
from rl_training.runtime.progress import Methods
from rl_training.runtime.transfer import copy_all
from rl_training.runtime.worth_compiling import CompileMode

log = logging.getLogger(__name__)
Due = Callable[[Pass, int], Methods]  # counts an update of a pass and says which methods take its batch
Learned = tuple[list[Metrics], Metrics]  # what was said of the updates, and of the iteration


class ExecutionMode(NamedTuple):
    """The device, precision and compile mode of a run, and the ranks (processes) that take every update together."""

    device: torch.device
    precision: Precision
    mode: CompileMode
    ranks: Ranks = ALONE  # that take every update together
    acting: bool = True  # False: collectors run eagerly in any mode

    @property
    def collecting(self) -> CompileMode:
        """The mode of collectors."""
        return self.mode if self.acting else False

    @property
    def compiled(self) -> bool:
        return self.mode is True

    @property
    def records(self) -> bool:
        """True if updates are recorded as CUDA graphs: on a GPU, with `mode` not False, and with one rank."""
        return self.mode is not False and self.device.type == "cuda" and self.ranks.number == 1


class Executor:
    """The plain executor of iterations (env steps, then updates): update by update, each of them eager or compiled."""

    fixed_shapes = False  # True: other iterations of the phase are recorded whole, and must give the same numbers

    def __init__(
        self, algorithm: Algorithm, phase: Phase, execution: ExecutionMode, overlap: Overlap | None = None
    ) -> None:
        self.algorithm, self.phase, self.experience, self.execution = algorithm, phase, phase.experience, execution
        self.overlap = overlap
        self.steps: dict[Methods, UpdateStep] = {}  # each set of methods that fall due together once

    def collect(self, collector: Collector, policy: Policy, num_steps: int) -> Transition:
        if self.overlap is not None:
            return self.overlap.collect(collector, policy, num_steps)
        return collector.collect(policy, num_steps)

    def full_iteration_steps(self, budget: int) -> int:
        """Returns the env steps of the next iteration if `iterate` can take it within `budget` env steps; else 0.

        In an executor that takes iterations in parts, such as this one, it is always 0.
        """
        return 0

    def iterate(self, due: Due) -> Learned:
        """Takes env steps and updates as a whole; returns the list of the updates' metrics and the iteration's own.

        `due` counts an update and names the methods that take its batch. Raises TypeError in executors that take
        iterations in parts, such as this one.
        """
        raise TypeError("this iteration is taken in parts: collect, then learn")

    def learn(self, passes: Sequence[Pass], due: Due, run: Prepare | None = None) -> Learned:
        """Takes the updates of all passes from stored steps; returns the list of their metrics and the iteration's own.

        `due` counts each update and names the methods that take its batch; `run` replaces `algorithm.prepare` by
        compiled code.
        """
        if self.overlap is not None:
            self.overlap.take_copy()
        self.algorithm.stop.fill_(False)
        self.algorithm.fixed_shapes = self.fixed_shapes
        self.algorithm.ranks = self.execution.ranks  # only here: what one of them evaluates or diagnoses, it does alone
        try:
            storage, metrics = self.experience.prepare(self.algorithm, run)
            history = [said for a_pass in passes for said in self.take(a_pass, storage, due)]
            self.experience.settle(self.algorithm)
        finally:
            self.algorithm.ranks = ALONE
        return history, metrics

    def take(self, a_pass: Pass, storage: tuple, due: Due) -> Iterator[Metrics]:
        number = 0
        for epoch in self.experience.draws(a_pass):
            for draw in epoch:
                step = self.step_for(due(a_pass, number := number + 1), a_pass)
                yield step(storage, draw.to(self.experience.device))
            # Target KL reached, or a number not finite: the rest would change nothing.
            if self.experience.on_policy and self.algorithm.stop.all():
                break

    def step_for(self, methods: Methods, a_pass: Pass) -> UpdateStep:
        if methods not in self.steps:
            compiled = self.execution.compiled and a_pass.one_graph
            self.steps[methods] = build_update(
                self.algorithm,
                self.experience,
                methods,
                compiled=compiled,
                device=self.execution.device,
                precision=self.execution.precision,
                before=self.prepare_acting,
            )
        return self.steps[methods]

    def prepare_acting(self) -> None:
        """Has the collector's code traced, so that a C++ compiler builds it while the updates are traced."""
        if self.phase.collector is not None:
            self.phase.collector.prepare(self.algorithm.policy)


class RecordedUpdates(Executor):
    """An executor that takes several updates, each with its draw, as one CUDA graph, and stores steps by another."""

    experience: SampledExperience  # pyrefly: ignore (narrower than the base, and never reassigned)

    def __init__(
        self, algorithm: Algorithm, phase: Phase, execution: ExecutionMode, overlap: Overlap | None = None
    ) -> None:
        super().__init__(algorithm, phase, execution, overlap)
        self.experience.record(CudaGraph)
        self.blocks: dict[tuple[Methods, ...], UpdateBlock] = {}  # each sequence of updates once

    def take(self, a_pass: Pass, storage: tuple, due: Due) -> Iterator[Metrics]:
        size = block_size(a_pass)
        for done in range(0, a_pass.rounds, size):
            block = tuple(due(a_pass, done + number + 1) for number in range(size))
            yield self.block_for(block, a_pass)(storage)

    def block_for(self, block: tuple[Methods, ...], a_pass: Pass) -> UpdateBlock:
        if block not in self.blocks:
            steps = [self.step_for(methods, a_pass) for methods in block]
            self.blocks[block] = record_block(steps, self.experience, drawn_rows(a_pass))
        return self.blocks[block]


class RecordedMinibatches(Executor):
    """An executor that takes each update of a rollout as a CUDA graph, where steps come from the host.

    The rollout is copied into lasting tensors, which the graphs read; they differ in the size of the minibatch.
    """

    def __init__(
        self, algorithm: Algorithm, phase: Phase, execution: ExecutionMode, overlap: Overlap | None = None
    ) -> None:
        super().__init__(algorithm, phase, execution, overlap)
        self.kept: tuple = ()
        self.recordings: dict[tuple[Methods, int], CudaGraph[Metrics]] = {}

    def take(self, a_pass: Pass, storage: tuple, due: Due) -> Iterator[Metrics]:
        if a_pass.one_graph and not a_pass.sequences:
            self.keep(storage)
        yield from super().take(a_pass, storage, due)

    def keep(self, storage: tuple) -> None:
        """Copies a rollout into the tensors that the graphs read, or makes new ones if its shapes have changed."""
        shapes = [leaf.shape for leaf in tree_leaves(storage)]
        if shapes != [leaf.shape for leaf in tree_leaves(self.kept)]:
            self.kept, self.recordings = tree_map(Tensor.clone, storage), {}
        else:
            copy_all(list(tree_leaves(self.kept)), tree_leaves(storage))

    def step_for(self, methods: Methods, a_pass: Pass) -> UpdateStep:
        step = super().step_for(methods, a_pass)
        if not a_pass.one_graph or a_pass.sequences:
            return step

        def replay(storage: tuple, draw: Tensor) -> Metrics:
            key = (methods, len(draw))
            if key not in self.recordings:
                self.recordings[key] = CudaGraph(lambda rows: step(self.kept, rows))
            return self.recordings[key](draw)

        return replay


class WholeIteration(Executor):
    """An executor that takes env steps, storage and updates as one CUDA graph, for environments that run on the device.

    Numbers are not read in between: a value that is not finite is noticed when metrics are logged, and episodes are
    counted on the device. The executor `parts` takes iterations that are not complete.
    """

    def __init__(self, parts: Executor, collector: NativeCollector, *, record: bool = True) -> None:
        super().__init__(parts.algorithm, parts.phase, parts.execution, parts.overlap)
        self.parts, self.collector, self.record = parts, collector, record
        self.fixed_shapes = parts.fixed_shapes = True
        self.time = self.experience.steps_between(collector.num_envs)
        self.num_steps = self.time * collector.num_envs
        self.passes = self.phase.passes(self.algorithm)
        compiled = self.execution.compiled and self.experience.on_policy
        self.prepare = compile_graph(self.algorithm.prepare, self.execution.device) if compiled else None
        self.names: dict[tuple[Methods, ...], list[tuple[str, ...]]] = {}  # of the metrics, group by group
        self.kept = tree_map(Tensor.clone, self.carry())  # what one iteration leaves to the next, in place
        self.recordings: dict[tuple[Methods, ...], CudaGraph[Tensor]] = {}

    def full_iteration_steps(self, budget: int) -> int:
        at_start = not self.experience.warming_up and self.experience.wanted_steps == self.time
        return self.num_steps if at_start and budget >= self.num_steps else 0

    def learn(self, passes: Sequence[Pass], due: Due, run: Prepare | None = None) -> Learned:
        return self.parts.learn(passes, due, run)

    def iterate(self, due: Due) -> Learned:
        self.copy_carry()
        methods = tuple(
            due(a_pass, number + 1)
            for a_pass in self.passes
            for number in range(self.experience.num_batches(a_pass, self.num_steps))
        )
        if methods not in self.recordings:
            generators = (*self.collector.generators, *self.experience.generators)
            self.recordings[methods] = CudaGraph(lambda: self.body(methods), generators)
        averages = self.recordings[methods]() if self.record else self.body(methods)
        self.collector.count_traced(self.time)
        self.experience.count_added(self.num_steps)
        groups = averages.split([len(names) for names in self.names[methods]])
        named = zip(self.names[methods], groups, strict=True)
        return [dict(zip(names, group.unbind(), strict=True)) for names, group in named], {}

    def body(self, methods: tuple[Methods, ...]) -> Tensor:
        """Takes one iteration as it is recorded and returns `average` of its metrics; writes lasting tensors in place.

        `methods` holds, for each update, the names of the algorithm's methods that take its batch.
        """
        self.experience.write(self.collector.trace(self.algorithm.policy, self.time))
        following = iter(methods)
        history, metrics = super().learn(self.passes, lambda a_pass, number: next(following), self.prepare)
        self.copy_carry()
        return self.average(methods, [*history, metrics])

    def take(self, a_pass: Pass, storage: tuple, due: Due) -> Iterator[Metrics]:
        draws = (draw for epoch in self.experience.draws(a_pass) for draw in epoch)
        return (
            self.parts.step_for(due(a_pass, number + 1), a_pass)(storage, draw) for number, draw in enumerate(draws)
        )

    def average(self, methods: tuple[Methods, ...], history: list[Metrics]) -> Tensor:
        """Returns the mean of every metric in one tensor [metrics], and stores the names by `methods`.

        Updates with the same metric names form a group, whose means stand together.
        """
        groups: dict[tuple[str, ...], list[Tensor]] = {}
        for one in history:
            groups.setdefault(tuple(one), []).extend(one.values())
        groups.pop((), None)
        self.names[methods] = list(groups)
        stacked = {names: torch.stack(values) for names, values in groups.items()}  # [update * metric, ...]
        return torch.cat([values.unflatten(0, (-1, len(names))).mean(0) for names, values in stacked.items()])

    def carry(self) -> tuple:
        return self.collector.carry(), self.experience.carry()

    def copy_carry(self) -> None:
        """Copies the state of collector and store into the graph's tensors, and makes these the state of both."""
        new = self.carry()
        for old, fresh in zip(tree_leaves(self.kept), tree_leaves(new), strict=True):
            if old is not fresh:
                old.copy_(fresh)
        self.collector.set_carry(self.kept[0])
        self.experience.set_carry(self.kept[1])


def executor_for(algorithm: Algorithm, phase: Phase, execution: ExecutionMode, overlap: Overlap | None) -> Executor:
    """Returns the fastest executor of a phase; on a GPU, logs a warning if iterations cannot be recorded as a whole."""
    records = execution.records and phase.experience.device.type == "cuda"
    parts = (RecordedUpdates if records and not phase.experience.on_policy else Executor)(
        algorithm, phase, execution, overlap
    )
    if not execution.records or phase.collector is None:
        return parts
    reason = why_not_recorded(algorithm, phase)
    if reason is None:
        return WholeIteration(parts, phase.collector)  # pyrefly: ignore (one that can be recorded)
    log.warning("iterations are not recorded as one CUDA graph, and are slower: %s", reason)
    return (
        RecordedMinibatches(algorithm, phase, execution, overlap) if records and phase.experience.on_policy else parts
    )


def why_not_recorded(algorithm: Algorithm, phase: Phase) -> str | None:
    """Returns the reason why an iteration cannot be recorded as one CUDA graph; None if it can."""
    parts = (phase.collector, phase.experience, algorithm)
    reason = next((part.why_not_recorded for part in parts if part is not None and part.why_not_recorded), None)
    if reason is None and phase.experience.device.type != "cuda":
        return "the steps are not kept on the device alone"
    return reason
