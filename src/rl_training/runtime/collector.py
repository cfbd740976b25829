"""Collectors, which step environments with a policy; outside of `envs`, only native_collector.py does so, too."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rl_training.core import Act, Column, Policy, Spec, Transition, Tree, UniformPolicy, tree_map
from rl_training.core.policy import Memory
from rl_training.core.tree import saved_tensors
from rl_training.envs import EnvStep, Lesson, VectorEnv
from rl_training.envs.episode_columns import EpisodeColumns, column_metrics, columns_of
from rl_training.envs.vector import StateKind
from rl_training.experience.declared_columns import LIFE_LOST
from rl_training.runtime.compilation import ByShape, compile_graph
from rl_training.runtime.cuda_graph import CudaGraph
from rl_training.runtime.sent_pictures import SentPictures
from rl_training.runtime.transfer import Packed
from rl_training.runtime.worth_compiling import CompileMode


class Episode(NamedTuple):
    """A finished episode: sum of the environment's own rewards, length, environment index and `info` columns.

    `timesteps` are the run's env steps when it ended.
    """

    timesteps: int  # of the whole run, when it ended
    env: int
    ret: float
    length: int
    columns: Mapping[str, float] = {}  # `is_success` and `env.info_keys`, as its last step gave them

    @classmethod
    def from_state(cls, state: list) -> Episode:
        """Builds an episode from a list in a checkpoint: timesteps, environment index, return, length, `info` columns.

        Raises TypeError if one of the three counts is no integer.
        """
        timesteps, env, ret, length, *columns = state
        return cls(operator.index(timesteps), operator.index(env), float(ret), operator.index(length), *columns)


class Score(NamedTuple):
    """The rewards and ends of one step of all environments, [env], as the game counts them."""

    reward: Tensor
    done: Tensor


class EndedEpisodes(NamedTuple):
    """Counts and sums of episodes that ended in steps replayed as CUDA graphs, where they are not listed one by one."""

    number: int = 0  # of those that are not in the sums
    sums: Tensor | None = None  # number, returns and lengths; for each column, how many episodes had it and their sum
    columns: Sequence[str] = ()

    def describe(self, sums: Sequence[float]) -> tuple[int, dict[str, float]]:
        """Returns the number of ended episodes, and their mean return, length and `info` columns by metric name.

        `sums` are the numbers of the tensor `self.sums`, read from the device. The metrics, such as
        "rollout/ep_rew_mean", are {} if `sums` is empty or counts no episode.
        """
        number, returns, lengths, *others = sums or (0, 0, 0)
        if not number:
            return self.number, {}
        said = zip(self.columns, others[0::2], others[1::2], strict=True)
        means = {name: total / given for name, given, total in said if given}
        metrics = {"rollout/ep_rew_mean": returns / number, "rollout/ep_len_mean": lengths / number}
        return self.number + int(number), metrics | column_metrics("rollout", means)


class Collector(ABC):
    """The source of a run's env steps: environments with their open episodes, in this process or in others."""

    num_envs: int
    spec: Spec
    latest: Transition  # the last steps; what was born on the host is here as it is there, not as it was sent on
    why_not_recorded: str | None = "the steps are taken elsewhere"  # as part of a CUDA graph; None: they can be

    @property
    @abstractmethod
    def state_kind(self) -> StateKind:
        """The exactness with which environments continue from a checkpoint.

        "exact": their state is saved; "replayed": the episode is run again from its random state and actions;
        "boundary": new episodes begin.
        """

    @abstractmethod
    def collect(self, policy: Policy, num_steps: int) -> Transition:
        """Steps every environment `num_steps` times with actions of the policy; returns the steps [time, env].

        They are one Transition, every leaf [time, env, ...].
        """

    @abstractmethod
    def pop_episodes(self) -> list[Episode]:
        """Returns the episodes that ended since the last call, and forgets them."""

    def pop_metrics(self) -> dict[str, float]:
        """Returns metrics about collecting steps since the last call, by name, and resets them; {} by default."""
        return {}

    def pop_lost(self) -> Tensor | None:
        """Returns a bool [env], True for environments that lost an episode and began a new one; None if there are none.

        An episode is lost when the process that steps it dies; this happened before the last collected steps.
        """
        return None

    def execute(self, mode: CompileMode) -> None:
        """Sets how later steps run: eagerly (False), compiled (True) or as CUDA graphs of eager code ("record").

        On a GPU, True uses CUDA graphs, too; on the CPU, "record" is eager. Does nothing by default.
        """

    def prepare(self, policy: Policy) -> None:
        """Starts to compile the policy's actions, where `execute` asks for it. Does nothing by default."""

    @property
    def uncounted_episodes(self) -> int:
        """The number of episodes that ended in steps replayed as CUDA graphs since the last `pop_ended`."""
        return 0

    def pop_ended(self) -> EndedEpisodes:
        """Returns the counts of episodes that ended in steps replayed as CUDA graphs, and resets them.

        Others are listed by `pop_episodes`. By default there are none.
        """
        return EndedEpisodes()

    @abstractmethod
    def state_dict(self) -> dict: ...

    @abstractmethod
    def load_state_dict(self, state: dict) -> bool:
        """Restores the dict of `state_dict`; returns False if the environments could not continue.

        New episodes have begun then.
        """


class LocalCollector(Collector):
    """A collector whose environments are in this process, with their observations, policy memory and open episodes."""

    def __init__(
        self,
        env: VectorEnv,
        policy: Policy,
        *,
        seed: int,
        explore: bool = True,
        mode: CompileMode = False,
        columns: Sequence[Column] = (),
    ) -> None:
        self.env, self.num_envs, self.spec = env, env.num_envs, env.spec
        self.act = partial(act, explore=explore)
        self.device = policy.device  # host environments stay on the CPU
        self.convert = policy.to_env.on(env.device).forward  # without what a call of a module costs
        self.obs: Tree = env.reset(seed)
        self.memory: Memory = policy.initial_memory(env.num_envs)
        self.kept = kept_columns(columns, self.memory)
        self.first = torch.ones(env.num_envs, dtype=torch.bool, device=env.device)
        self.episodes: list[Episode] = []
        self.columns: dict[int, EpisodeColumns] = {}  # by step of the last collection: what was said of ended episodes
        self.timesteps = 0
        self.returns = np.zeros(env.num_envs)
        self.lengths = np.zeros(env.num_envs, dtype=np.int64)
        self.execute(mode)

    @property
    def state_kind(self) -> StateKind:
        return self.env.state_kind

    def track_episodes(self, steps: Transition, game: Sequence[Score] = ()) -> None:
        """Adds [time, env] steps to the running returns and lengths, and appends the episodes that ended to `episodes`.

        Rewards are added step after step, so the sums do not depend on how steps are cut into blocks. `game` has one
        entry per step if learning sees other rewards and ends than those of the environment.
        """
        reward, valid = steps.reward.cpu().numpy(), steps.valid.cpu().numpy()
        done = steps.terminated.cpu().numpy() | steps.truncated.cpu().numpy()
        if game:
            reward, done = (torch.stack(rows).numpy() for rows in zip(*game, strict=True))
        returns, lengths = self.returns.copy(), self.lengths.copy()
        ending = set(np.flatnonzero(done.any(1)).tolist())
        for time in range(len(done)):
            returns += reward[time]
            lengths += valid[time]
            if time in ending:
                columns, when = self.columns.get(time, {}), self.timesteps + (time + 1) * self.num_envs
                for env in np.flatnonzero(done[time]).tolist():
                    ret, length = float(returns[env]), int(lengths[env])
                    self.episodes.append(Episode(when, env, ret, length, columns_of(columns, env)))
                    returns[env] = lengths[env] = 0
        self.returns, self.lengths = returns, lengths
        self.timesteps += done.size

    def pop_episodes(self) -> list[Episode]:
        episodes, self.episodes = sorted(self.episodes, key=operator.itemgetter(0, 1)), []
        return episodes

    def open_episodes(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns two arrays [env]: the summed rewards and the steps so far of every environment's open episode."""
        return self.returns, self.lengths

    def state_dict(self) -> dict:
        returns, lengths = (torch.from_numpy(count.copy()) for count in self.open_episodes())
        return {
            "env": self.env.get_state(),
            "obs": self.obs,
            "memory": list(self.memory),
            "first": self.first,
            "returns": returns,
            "lengths": lengths,
            "timesteps": self.timesteps,
        }

    def load_state_dict(self, state: dict) -> bool:
        fresh = self.env.set_state(state["env"])
        self.timesteps = operator.index(state["timesteps"])
        if fresh is not None:  # the environment could not continue: new episodes, and nothing carried over
            self.obs = fresh
            self.first = torch.ones_like(self.first)
            self.returns, self.lengths = np.zeros_like(self.returns), np.zeros_like(self.lengths)
            return False
        self.obs = tree_map(lambda x: x.to(self.env.device), saved_tensors(state["obs"], "collector.obs"))
        self.first = state["first"].to(self.first.device)
        self.memory = tuple(state["memory"][index].to(self.device) for index in range(len(self.memory)))
        self.returns, self.lengths = state["returns"].numpy().copy(), state["lengths"].numpy().copy()
        return True


class EnvCollector(LocalCollector):
    """A collector for environments that step on the host; the policy may be on a GPU.

    Where an environment gives a `Lesson`, steps have its rewards and ends, and a column "life_lost", [time, env] bool,
    for those after which the game goes on; episodes are counted by the game's own rewards and ends.
    """

    why_not_recorded = "the environment runs on the host; one with env.backend=native runs on the device"

    def execute(self, mode: CompileMode) -> None:
        self.records = mode is not False and self.device.type == "cuda"
        compiled = mode is True and self.device.type == "cpu"
        self.run_act = compile_graph(self.act, self.device) if compiled else self.act
        self.recordings: dict[Policy, CudaGraph] = {}  # of acting
        # What acting needs, and what a step gave, leave the host as one copy each.
        away = self.device.type != "cpu"
        self.send_seen, self.send_steps = (Packed(self.device) if away else None for _ in range(2))
        pictures = SentPictures(self.spec.obs, Packed(self.device), Packed(self.device))
        self.pictures = pictures if away and pictures.names else None

    @torch.no_grad()
    def collect(self, policy: Policy, num_steps: int) -> Transition:
        self.columns, self.game = {}, []
        if self.pictures is not None:
            self.pictures.begin()
        rows = [self.step(policy, time) for time in range(num_steps)]
        steps = tree_map(lambda *row: torch.stack(row) if num_steps > 1 else row[0].unsqueeze(0), *rows)
        if self.pictures is not None:
            steps = self.pictures.finish(steps, self.obs)
        self.latest = steps
        if self.send_steps is not None:
            steps = self.send_steps(steps)
        self.track_episodes(self.latest, self.game)
        return steps

    def step(self, policy: Policy, time: int) -> Transition:
        obs, first, remembered = self.obs, self.first, remember(self.kept, self.memory, self.first)
        if self.pictures is not None:  # only its other leaves are on the host from here on
            obs = self.pictures.place_in(obs, self.pictures.of(obs))
        seen, begins = (obs, first) if self.send_seen is None else self.send_seen((obs, first))
        act = self.choose(policy, seen, self.memory, begins)
        action = act.action  # the one wait for the device
        step = self.env.step(self.convert(action.cpu() if isinstance(action, Tensor) else tree_map(Tensor.cpu, action)))
        if step.values:
            remembered = remembered | step.values
        if step.columns:
            self.columns[time] = step.columns
        if step.lesson is not None:
            self.game.append(Score(step.reward, step.terminated | step.truncated))
            step = as_learned(step, step.lesson)
            remembered = remembered | {LIFE_LOST: step.terminated & ~self.game[-1].done}
        done = step.terminated | step.truncated
        if not self.env.always_valid:
            done = done | ~step.valid  # an episode starts after a row that only reset
        self.obs, self.memory, self.first = step.obs, act.memory, done
        if self.pictures is not None:
            step = step._replace(next_obs=self.pictures.note_end(time, done, step.next_obs))
        return transition(obs, act, step, remembered)

    @torch.no_grad()
    def prepare(self, policy: Policy) -> None:
        if isinstance(self.run_act, ByShape):
            self.run_act.begin(policy, self.obs, self.memory, self.first)

    def choose(self, policy: Policy, seen: Tree, memory: Memory, first: Tensor) -> Act:
        if isinstance(policy, UniformPolicy):
            return self.act(policy, seen, memory, first)
        if not self.records:
            return self.run_act(policy, seen, memory, first)
        if policy not in self.recordings:
            self.recordings[policy] = CudaGraph(partial(self.act, policy))
        return self.recordings[policy](seen, memory, first)


def act(policy: Policy, obs: Tree, memory: Memory, first: Tensor, *, explore: bool) -> Act:
    """Returns the policy's action; no method of a collector, which would be compiled with its environments."""
    return policy.act(obs, memory, first, explore=explore)


def kept_columns(columns: Sequence[Column], memory: Memory) -> dict[str, int]:
    """Returns the index in the tuple `memory` of every column with source "policy", by name; -1 stands for "first".

    Raises ValueError if the policy does not give a column; leaves out "log_prob", which every step has anyway.
    """
    able = {"first": -1} | {f"memory{i}": i for i in range(len(memory))}
    for column in columns:
        if column.source == "policy" and column.name not in (*able, "log_prob"):
            raise ValueError(
                f"the algorithm needs the column {column.name!r} of every step, which its policy does not give: it gives "
                + ", ".join(("log_prob", *able))
            )
    return {column.name: able[column.name] for column in columns if column.source == "policy" and column.name in able}


def remember(kept: dict[str, int], memory: Memory, first: Tensor) -> dict[str, Tensor]:
    """Returns the tensors of `kept` by name: `memory[index]` or, for index -1, the mask `first`.

    `memory` is the policy's before a step; `first` is a bool [env], True where an episode begins.
    """
    return {name: first if part < 0 else memory[part] for name, part in kept.items()}


def as_learned(step: EnvStep, lesson: Lesson) -> EnvStep:
    """Returns the step with the rewards that are learned from; a lost life is a termination, unless the game ended."""
    terminated = step.terminated | (lesson.life_lost & ~step.truncated)
    return step._replace(reward=lesson.reward, terminated=terminated, lesson=None)


def transition(obs: Tree, act: Act, step: EnvStep, columns: dict[str, Tensor]) -> Transition:
    return Transition(
        obs, act.action, act.log_prob, step.reward, step.next_obs, step.terminated, step.truncated, step.valid, columns
    )
