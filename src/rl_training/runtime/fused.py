"""A whole iteration on the GPU - steps, storage, updates - recorded as one CUDA graph, for environments that run there.

It is the code that runs step by step elsewhere, without looking at the numbers in between: whether a value was not
finite is seen when metrics are logged, and episodes are counted on the device.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from rl_training.core import Metrics, Transition, tree_map
from rl_training.envs import NativeEnv
from rl_training.envs.episode_columns import Columns
from rl_training.experience import Replay, Rollout
from rl_training.runtime.collector import EnvCollector
from rl_training.runtime.compilation import compile_graph
from rl_training.runtime.cuda_graph import CudaGraph
from rl_training.runtime.episodes import column_metrics

if TYPE_CHECKING:
    from rl_training.runtime.trainer import Trainer

log = logging.getLogger("rl_training")
Due = tuple[tuple[str, ...], ...]  # for every update of an iteration, the methods that take its batch


class Episodes(NamedTuple):
    """Running returns and lengths of every environment, and of those that ended the number and sums of all columns."""

    returns: Tensor
    lengths: Tensor
    ended: Tensor  # number, returns and lengths; for each column that environments give, how many had it and the sum


class FusedPath:
    """Takes a trainer's iterations as a whole where that can be done, and says once where it cannot."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.iteration: FusedIteration | None = None
        self.active = False  # whether the device's counts are the newest
        reason = why_not_fused(trainer)
        self.possible = reason is None
        if reason:
            log.warning("iterations are not recorded as one CUDA graph, and are slower: %s", reason)

    def ready(self, stop_at: int) -> bool:
        """Whether the next iteration can be taken: the run does not end within it, and none is half done."""
        if not self.possible:
            return False
        self.iteration = self.iteration or FusedIteration(self.trainer)
        ends_within = stop_at - self.trainer.progress.timesteps < self.iteration.num_steps
        if ends_within or not self.iteration.at_its_start:
            self.leave()
            return False
        return True

    def take(self) -> bool:
        """One iteration; events that fall into it wait for its end. Returns whether a log is due."""
        iteration, trainer = self.iteration, self.trainer
        assert iteration is not None
        if not self.active:
            iteration.hand_over()
            self.active = True
        progress = trainer.progress
        before, progress.timesteps = progress.timesteps, progress.timesteps + iteration.num_steps
        trainer.move_schedules(before if isinstance(iteration.experience, Rollout) else progress.timesteps)
        trainer.history += iteration()
        trainer.fold_history()
        log_due = progress.timesteps // trainer.log_interval > progress.updated_at // trainer.log_interval
        progress.iterations += 1
        progress.updated_at = progress.timesteps
        return log_due

    def leave(self) -> None:
        """Brings what was counted on the device back to where single steps and checkpoints expect it."""
        if self.active:
            assert self.iteration is not None
            self.pop_episodes()
            self.iteration.hand_back()
            self.active = False

    def pop_episodes(self) -> dict[str, float]:
        """What to log of the episodes that ended since the last call; waits for the device."""
        assert self.iteration is not None
        ended = self.iteration.episodes.ended
        number, returns, lengths, *sums = ended.tolist()
        ended.zero_()
        self.trainer.progress.episodes += int(number)
        if not number:
            return {}
        said = zip(self.iteration.env.column_names, sums[0::2], sums[1::2], strict=True)
        means = {name: total / given for name, given, total in said if given}
        metrics = {"rollout/ep_rew_mean": returns / number, "rollout/ep_len_mean": lengths / number}
        return metrics | column_metrics("rollout", means)


class FusedIteration:
    """Collects and learns in one call; for every set of updates that falls due, one recording."""

    def __init__(self, trainer: Trainer, *, record: bool = True) -> None:
        collector, experience = trainer.collector, trainer.experience
        assert isinstance(collector, EnvCollector)
        assert isinstance(collector.env, NativeEnv)
        assert isinstance(experience, Rollout | Replay)
        self.trainer, self.collector, self.experience, self.env = trainer, collector, experience, collector.env
        self.record = record
        self.time = (
            experience.n_steps if isinstance(experience, Rollout) else experience.train_freq // self.env.num_envs
        )
        self.num_steps = self.time * self.env.num_envs
        self.names: dict[Due, list[tuple[str, ...]]] = {}  # of the metrics, group by group
        compiled = trainer.compiled
        self.count = compile_graph(count_episodes, trainer.device) if compiled else count_episodes
        rollout = isinstance(experience, Rollout)
        self.prepare = compile_graph(trainer.algorithm.prepare, trainer.device) if compiled and rollout else None
        self.carry = tree_map(Tensor.clone, self.current_carry())  # what one iteration leaves to the next, in place
        ended = torch.zeros(3 + 2 * len(self.env.column_names), dtype=torch.float64, device=trainer.device)
        self.episodes = Episodes(*self.current_counts(), ended)
        self.recordings: dict[Due, CudaGraph[Tensor]] = {}

    @property
    def at_its_start(self) -> bool:
        experience = self.experience
        return not experience.warming_up and experience.wanted_steps == self.time

    def current_carry(self) -> tuple:
        first = (self.experience.first,) if isinstance(self.experience, Replay) else ()
        return (self.env.state, self.env.elapsed, self.collector.memory, self.collector.first, *first)

    def set_carry(self, carry: tuple) -> None:
        self.env.state, self.env.elapsed, self.collector.memory, self.collector.first, *first = carry
        if isinstance(self.experience, Replay):
            self.experience.first = first[0]

    def current_counts(self) -> tuple[Tensor, Tensor]:
        counts = (self.collector.returns, self.collector.lengths)
        returns, lengths = (torch.tensor(count, device=self.trainer.device) for count in counts)
        return returns, lengths

    def __call__(self) -> list[Metrics]:
        due = self.find_due()
        if due not in self.recordings:
            generators = (self.env.generator, self.experience.order)
            self.recordings[due] = CudaGraph(lambda: self.iterate(due), generators)
        averages = self.recordings[due]() if self.record else self.iterate(due)
        self.collector.timesteps += self.num_steps
        if isinstance(self.experience, Replay):
            self.experience.count(self.num_steps, sum(p.epochs * (p.batch_size or 0) for p in self.passes()))
        groups = averages.split([len(names) for names in self.names[due]])
        return [dict(zip(names, g.unbind(), strict=True)) for names, g in zip(self.names[due], groups, strict=True)]

    def passes(self) -> tuple:
        return self.trainer.algorithm.passes()

    def find_due(self) -> Due:
        """Counts the iteration's updates, and says which methods take their batches."""
        due = []
        for a_pass in self.passes():
            rollout = isinstance(self.experience, Rollout)
            batches = math.ceil(self.num_steps / (a_pass.batch_size or self.num_steps)) if rollout else 1
            due += [self.trainer.due(a_pass, number + 1) for number in range(a_pass.epochs * batches)]
        return tuple(due)

    def iterate(self, due: Due) -> Tensor:
        """One iteration; what lasts beyond it is written in place."""
        trainer, experience, algorithm = self.trainer, self.experience, self.trainer.algorithm
        with torch.no_grad():
            parts = self.collector.collect_native(self.env, algorithm.policy, self.time)
            steps, columns = tree_map(lambda *chunks: torch.cat(chunks), *parts)
            counted = self.count(self.episodes, steps, columns)
        algorithm.stop.fill_(False)
        if isinstance(experience, Rollout):
            experience.parts = [steps]
            storage, metrics = experience.prepare(algorithm, self.prepare)
        else:
            experience.first = experience.write(experience.first, steps)
            storage, metrics = experience.prepare(algorithm)
        draws = ((p, draw) for p in self.passes() for epoch in experience.draws(p) for draw in epoch)
        history = [
            trainer.step_for(methods, a_pass, experience)(storage, draw)
            for methods, (a_pass, draw) in zip(due, draws, strict=True)
        ]
        if isinstance(experience, Rollout):
            experience.finish(algorithm)
        keep(self.carry, self.current_carry())
        keep(self.episodes, counted)
        self.set_carry(self.carry)
        return self.average(due, history, metrics)

    def average(self, due: Due, history: list[Metrics], metrics: Metrics) -> Tensor:
        """The means of the metrics, in few kernels: updates that say the same are stacked together."""
        groups: dict[tuple[str, ...], list[Tensor]] = {}
        for one in [*history, metrics]:
            groups.setdefault(tuple(one), []).extend(one.values())
        groups.pop((), None)
        self.names[due] = list(groups)
        return torch.cat([torch.stack(values).view(-1, len(names)).mean(0) for names, values in groups.items()])

    def hand_over(self) -> None:
        """Goes on from where single steps have come to."""
        keep(self.carry, self.current_carry())
        keep(self.episodes[:2], self.current_counts())
        self.set_carry(self.carry)

    def hand_back(self) -> None:
        """Lets single steps go on: on tensors of their own."""
        self.set_carry(tree_map(Tensor.clone, self.carry))
        self.collector.obs = self.env.dynamics.observe(self.env.state)
        self.collector.returns = self.episodes.returns.cpu().numpy().copy()
        self.collector.lengths = self.episodes.lengths.cpu().numpy().copy()


def why_not_fused(trainer: Trainer) -> str | None:
    """What keeps an iteration from being recorded; None if nothing does. Empty: it was not asked for."""
    collector, experience, algorithm = trainer.collector, trainer.experience, trainer.algorithm
    if not trainer.records or collector is None:
        return ""
    if not (isinstance(collector, EnvCollector) and isinstance(collector.env, NativeEnv)):
        return "the environment runs on the host; one with env.backend=native runs on the device"
    if not isinstance(experience, Rollout | Replay) or experience.device.type != "cuda":
        return "the steps are not kept on the device alone"
    if any(p.sequences or not p.one_graph for p in algorithm.passes()):
        return f"{type(algorithm).__name__} has updates whose shapes vary"
    if algorithm.observes or (isinstance(experience, Rollout) and experience.reward_scaling is not None):
        return "running statistics (normalize_observation, normalize_reward) are kept"
    return None


def count_episodes(episodes: Episodes, steps: Transition, columns: Columns) -> Episodes:
    """Adds [time, env] steps to the running counts: pure tensor code."""
    returns, lengths, ended = episodes
    number = torch.zeros_like(returns)
    total, steps_taken = torch.zeros_like(returns), torch.zeros_like(returns)
    for reward, terminated, truncated in zip(steps.reward, steps.terminated, steps.truncated, strict=True):
        done = terminated | truncated
        returns, lengths = returns + reward, lengths + 1
        number = number + done
        total, steps_taken = total + returns * done, steps_taken + lengths * done
        returns, lengths = torch.where(done, 0.0, returns), torch.where(done, 0, lengths)
    said = []
    for column in columns.values():
        given = (steps.terminated | steps.truncated) & ~column.isnan()
        said += [given.sum(), torch.where(given, column, 0.0).sum()]
    return Episodes(returns, lengths, ended + torch.stack([number.sum(), total.sum(), steps_taken.sum(), *said]))


def keep(static: object, new: object) -> None:
    """Writes a tree's tensors into those of another, which keep their address."""
    if isinstance(static, Tensor):
        static.copy_(new)  # pyrefly: ignore
    else:
        for old, fresh in zip(static, new, strict=True):  # pyrefly: ignore
            keep(old, fresh)
