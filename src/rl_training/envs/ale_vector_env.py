"""Atari games, stepped by the threads of ale-py's vector environment and resumed by seeds and logged actions."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from rl_training.core import Tree
from rl_training.envs.ale_protocol import AleSettings
from rl_training.envs.spaces import convert_spec
from rl_training.envs.vector import EnvStep, Lesson, StateKind, VectorEnv, following_seed, same_trees, seeds_for

if TYPE_CHECKING:
    from ale_py.vector_env import AtariVectorEnv

UNSEEDED = -1  # the seed of a reset that goes on with the random numbers that a game has
NEVER = 2**30  # frames: steps are counted here, so that a limit is one of steps
RESEED_STEPS, RESEED_STEPS_PER_GAME = 20_000, 1_000
SAID_STEPS = 5_000  # a longer replay is announced
FRAMES_PER_SECOND = 60  # of the console
log = logging.getLogger(__name__)


class AleEnv(VectorEnv):
    """A batch of games of one cartridge, whose observations are the last `frame_stack` pictures, uint8.

    At the start of a game its first picture fills the stack. A game continues from a checkpoint exactly: its actions
    since it was last seeded are logged, one byte each, and played again. Seeding a game takes far longer than a step,
    so a game is seeded anew at the first end after `reseed_steps` steps, and the log then begins again.
    """

    state_kind: StateKind = "replayed"
    proven = True

    def __init__(self, env: AtariVectorEnv, settings: AleSettings, frame_stack: int, *, start: int = 0) -> None:
        self.env, self.settings, self.protocol = env, settings, settings.protocol
        self.num_envs, self.stack, self.start = env.num_envs, frame_stack, start
        self.spec = convert_spec(picture_space(env, grayscale=self.protocol.grayscale), env.single_action_space)
        usual = RESEED_STEPS + RESEED_STEPS_PER_GAME * self.num_envs
        self.reseed_steps = settings.reseed_steps or usual
        self.render_fps = FRAMES_PER_SECOND / self.protocol.frame_skip
        self.teaches = self.protocol.clip_reward or self.protocol.life_loss_terminal
        self.all_valid = torch.ones(self.num_envs, dtype=torch.bool)
        self.none_lost = torch.zeros(self.num_envs, dtype=torch.bool)
        self.seed, self.obs = 0, torch.empty(0)
        self.begin_log(1_024)

    def begin_log(self, room: int) -> None:
        self.log = np.zeros((room, self.num_envs), np.uint8)
        self.time = 0  # rows of the log that are filled
        self.begins = np.zeros(self.num_envs, np.int64)  # the row at which each game was seeded
        self.seeds = np.zeros(self.num_envs, np.int64)
        self.seedings = np.zeros(self.num_envs, np.int64)
        self.age = np.zeros(self.num_envs, np.int64)  # steps of the open games
        self.lives = np.zeros(self.num_envs, np.int32)

    def reset(self, seed: int) -> Tree:
        self.seed = seed
        self.begin_log(len(self.log))
        self.seeds[:] = self.draw_seeds(seed)
        frames, facts = self.env.reset(seed=self.seeds)
        self.lives, self.obs = facts["lives"], self.observe(frames, self.age)
        return self.obs

    def draw_seeds(self, seed: int) -> np.ndarray:
        drawn = seeds_for(seed, self.start + self.num_envs)[self.start :]
        return np.array(drawn, np.int64) & 0x7FFFFFFF  # the emulator takes 31 bits

    def step(self, action: Tensor) -> EnvStep:
        actions = action.numpy()
        if self.time == len(self.log):
            self.make_room()
        self.log[self.time] = actions
        self.time += 1
        return self.advance(actions, reseeds=True)

    def advance(self, actions: np.ndarray, *, reseeds: bool) -> EnvStep:
        """Steps all games and starts new ones where they end, with a new seed where `reseeds` and the log is long."""
        frames, gains, terminated, _, facts = self.env.step(actions)
        self.age += 1
        truncated = (self.age >= self.protocol.max_steps) & ~terminated
        ended = terminated | truncated
        lives, lost = facts["lives"], None
        if self.protocol.life_loss_terminal:
            lost = (lives < self.lives) & (lives > 0) & ~ended  # some games go on a little with no life left
        self.lives = lives
        next_obs = self.obs = self.observe(frames, self.age)
        if ended.any():
            self.obs = self.restart(ended, next_obs, reseeds=reseeds)
        reward = torch.from_numpy(gains.astype(np.float32))
        return EnvStep(
            reward,
            torch.from_numpy(terminated),
            torch.from_numpy(truncated),
            next_obs,
            self.obs,
            self.all_valid,
            lesson=self.lesson(reward, lost) if self.teaches else None,
        )

    def lesson(self, reward: Tensor, lost: np.ndarray | None) -> Lesson:
        learned = reward.sign() if self.protocol.clip_reward else reward
        return Lesson(learned, self.none_lost if lost is None else torch.from_numpy(lost))

    def restart(self, ended: np.ndarray, obs: Tensor, *, reseeds: bool) -> Tensor:
        """Starts new games where `ended` says so; returns `obs` with their first stacks, as a new tensor."""
        rows = np.flatnonzero(ended)
        seeds = np.full(len(rows), UNSEEDED, np.int64)
        due = self.time - self.begins[rows] >= self.reseed_steps if reseeds else np.zeros(len(rows), bool)
        for place in np.flatnonzero(due):
            row = rows[place]
            self.seedings[row] += 1
            words = [self.seed, self.start + int(row), int(self.seedings[row])]
            seeds[place] = self.seeds[row] = np.random.SeedSequence(words).generate_state(1)[0] & 0x7FFFFFFF
            self.begins[row] = self.time
        return self.begin_games(ended, seeds, obs)

    def begin_games(self, chosen: np.ndarray, seeds: np.ndarray, obs: Tensor) -> Tensor:
        frames, facts = self.env.reset(seed=seeds, options={"reset_mask": chosen})
        self.lives = np.where(chosen, facts["lives"], self.lives)
        self.age[chosen] = 0
        rows = np.flatnonzero(chosen)
        first = self.observe(frames[rows], self.age[rows])
        return obs.index_copy(0, torch.from_numpy(rows), first)

    def observe(self, frames: np.ndarray, ages: np.ndarray) -> Tensor:
        """Returns the emulators' stacks as observations; those of games `ages` steps old may lack their first pictures."""
        if self.stack > 1 and ages.min() < self.stack - 1:
            repeat_first(frames, ages)
        return torch.from_numpy(frames if self.protocol.grayscale else frames[:, 0])

    def make_room(self) -> None:
        """Drops the rows of the log that no game needs any more, and doubles it if that is less than half."""
        oldest = int(self.begins.min())
        kept = self.log[oldest:]
        self.log = np.zeros((len(self.log) * (1 if oldest >= len(self.log) // 2 else 2), self.num_envs), np.uint8)
        self.log[: len(kept)] = kept
        self.time -= oldest
        self.begins -= oldest

    def get_state(self) -> dict:
        oldest = int(self.begins.min())
        arrays = {
            "log": self.log[oldest : self.time],
            "begins": self.begins - oldest,
            "seeds": self.seeds,
            "seedings": self.seedings,
            "lives": self.lives,
            "age": self.age,
        }
        return {name: torch.tensor(array) for name, array in arrays.items()} | {"obs": self.obs, "seed": self.seed}

    def set_state(self, state: dict) -> Tree | None:
        if self.state_kind != "boundary" and "log" in state:
            self.replay(state)
            again = self.get_state()
            if all(same_trees(again[name], state[name]) for name in ("obs", "lives", "age")):
                return None
            self.state_kind = "boundary"
        return self.reset(following_seed(state["seed"]))

    def replay(self, state: dict) -> None:
        """Plays the logged actions of `state` again, so that all games arrive at its last step together.

        Until its own log begins, a game plays on with actions that do not count.
        """
        actions, begins, seeds = (state[name].numpy() for name in ("log", "begins", "seeds"))
        if len(actions) > SAID_STEPS:
            log.info(f"the games are brought back by {len(actions)} steps each, as they were played")
        self.seed = state["seed"]
        self.begin_log(max(len(self.log), 2 * len(actions)))
        frames, facts = self.env.reset()
        self.lives, self.obs = facts["lives"], self.observe(frames, self.age)
        for time in range(len(actions) + 1):
            due = begins == time
            if due.any():
                self.obs = self.begin_games(due, seeds[due], self.obs)
            if time < len(actions):
                self.advance(actions[time].astype(np.int64), reseeds=False)
        self.log[: len(actions)], self.time = actions, len(actions)
        self.begins, self.seeds = begins.copy(), seeds.copy()
        self.seedings = state["seedings"].numpy().copy()

    def close(self) -> None:
        self.env.close()


def repeat_first(frames: np.ndarray, ages: np.ndarray) -> None:
    """Overwrites the zeros before the first picture of young games by that picture, in stacks [games, stack, ...].

    `ages` are the steps since the games began.
    """
    stack = frames.shape[1]
    for age in range(stack - 1):
        rows, missing = np.flatnonzero(ages == age), stack - 1 - age
        frames[rows, :missing] = frames[rows, missing : missing + 1]


def picture_space(env: AtariVectorEnv, *, grayscale: bool) -> gym.Space:
    """Returns the space of one observation: a stack of grey pictures, or one coloured picture [height, width, 3]."""
    space = env.single_observation_space
    assert isinstance(space, gym.spaces.Box)
    return space if grayscale else gym.spaces.Box(0, 255, space.shape[1:], np.uint8)
