"""Every state of the filmed episodes is shown once, the last ones too, whatever kind of environment it is."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor

from rl_training.core import Box, Dict, Discrete, Spec, TeamSpec, Tree
from rl_training.envs import NATIVE, EnvConfig, EnvStep, GymnasiumEnv, NativeEnv, VectorEnv, make_env
from rl_training.envs.check import sample
from rl_training.envs.filming import FilmedEnv, drawing_config
from rl_training.envs.make import FACTORIES
from rl_training.envs.pictures import check_picture, newest_frame
from tests.envs.counting import CountingDynamics, CountingEnv, CountingVector

EPISODES = [0, 1, 2, 3, 0, 1, 2, 3, 4, 5]  # the counts of the first two: one terminates, one is truncated


def grey(count: float) -> np.ndarray:
    return np.full((2, 3, 3), int(count), dtype=np.uint8)


class Drawn(CountingEnv):
    """The counting environment, which draws its count."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 12}

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()
        self.render_mode = render_mode

    def render(self) -> Any:
        return grey(self.count)


class DrawnDynamics(CountingDynamics):
    render_fps = 7

    def initial(self, uniform: Tensor) -> Tensor:
        return torch.zeros_like(uniform).repeat(1, 2)

    def render(self, state: Tensor) -> np.ndarray:
        return grey(float(state[1]))


class PictureVector(CountingVector):
    """Observes its count as the newest of four frames, and draws nothing."""

    spec = Spec(Box((4, 42, 84), 0.0, 255.0, "uint8"), Discrete(2))

    def reset(self, seed: int) -> Tensor:
        return self.frames(super().reset(seed))

    def step(self, action: Tensor) -> EnvStep:
        step = super().step(action)
        assert isinstance(step.next_obs, Tensor)
        assert isinstance(step.obs, Tensor)
        return step._replace(next_obs=self.frames(step.next_obs), obs=self.frames(step.obs))

    def frames(self, count: Tensor) -> Tensor:
        frames = torch.full((self.num_envs, 4, 42, 84), 200, dtype=torch.uint8)
        frames[:, -1] = count.to(torch.uint8).reshape(-1, 1, 1)
        return frames


def shown(env: VectorEnv, num_episodes: int, num_steps: int = 20) -> list[np.ndarray]:
    film, pictures = FilmedEnv(env, "it", num_episodes), list[np.ndarray]()
    film.show = pictures.append
    film.reset(0)
    for _ in range(num_steps):
        film.step(torch.zeros(1, dtype=torch.int64))
    return pictures


def counts(pictures: list[np.ndarray]) -> list[int]:
    assert all((picture == picture[0, 0, 0]).all() for picture in pictures)
    return [int(picture[0, 0, 0]) for picture in pictures]


def test_a_gymnasium_environment_shows_every_state_of_so_many_episodes(monkeypatch) -> None:
    monkeypatch.setitem(FACTORIES, "drawn", Drawn)
    config = drawing_config(EnvConfig(id="drawn", vectorization="async", n_envs=3))
    assert (config.vectorization, config.kwargs) == ("sync", {"render_mode": "rgb_array"})
    env = make_env(config)
    assert env.render_fps == 12
    pictures = shown(env, 2)
    assert counts(pictures) == EPISODES
    assert pictures[0].shape == (224, 336, 3)  # enlarged


def test_native_dynamics_show_the_state_before_the_restart() -> None:
    env = NativeEnv(DrawnDynamics(), 1)
    assert env.render_fps == 7
    assert counts(shown(env, 2)) == [0, 1, 2, 3] * 2


def test_pictures_that_are_observed_are_shown_where_nothing_is_drawn() -> None:
    pictures = shown(PictureVector(1), 2)
    assert counts(pictures) == [0, 1, 2, 3] * 2
    assert pictures[0].shape == (168, 336, 3)


def test_a_vector_environment_that_was_handed_over_lacks_the_last_picture() -> None:
    env = GymnasiumEnv(gym.vector.SyncVectorEnv([lambda: Drawn("rgb_array")]))
    assert counts(shown(env, 1)) == [0, 1, 2]
    with pytest.raises(ValueError, match="it was handed over with 2 environments, and a video shows one"):
        FilmedEnv(CountingVector(2), "it", 1)


@pytest.mark.parametrize("env", [CountingVector(1), NativeEnv(CountingDynamics(), 1)], ids=["vector", "native"])
def test_an_environment_that_shows_nothing_is_refused_at_its_reset(env: VectorEnv) -> None:
    with pytest.raises(
        ValueError, match=r"it cannot be filmed: it draws nothing, and its observations are no pictures"
    ):
        FilmedEnv(env, "it", 1).reset(0)


def test_graphics_that_fail_are_a_sentence() -> None:
    class Screenless(Drawn):
        def render(self) -> Any:
            raise gym.error.DependencyNotInstalled("no OpenGL")

    env = GymnasiumEnv(gym.vector.SyncVectorEnv([lambda: Screenless("rgb_array")]))
    with pytest.raises(ValueError, match=r"drawing it failed with DependencyNotInstalled \(no OpenGL\).*MUJOCO_GL=egl"):
        FilmedEnv(env, "it", 1).reset(0)


def test_what_is_no_picture_is_refused() -> None:
    assert check_picture(None) is None
    with pytest.raises(ValueError, match=r"drew float64 \(2, 2, 3\) as a picture"):
        check_picture(np.zeros((2, 2, 3)))
    with pytest.raises(ValueError, match="drew list as a picture"):
        check_picture([[0]])


@pytest.mark.parametrize(
    ("shape", "value", "pixel"),
    [
        ((4, 6, 1), lambda h, w, c: h * 10 + w, (13, 13, 13)),
        ((4, 6, 3), lambda h, w, c: h * 10 + w + 100 * (c == 2), (13, 13, 113)),
        ((3, 4, 6), lambda c, h, w: h * 10 + w + 100 * (c == 2), (13, 13, 113)),
        ((2, 4, 6), lambda c, h, w: h * 10 + w + 100 * c, (113, 113, 113)),
        ((4, 6, 2), lambda h, w, c: h * 10 + w + 100 * c, (113, 113, 113)),
        ((2, 4, 6, 3), lambda t, h, w, c: h * 10 + w + 100 * t + c, (113, 114, 115)),
        ((4, 6), lambda h, w: h * 10 + w, (13, 13, 13)),
    ],
    ids=["grey", "colours", "colours first", "frames first", "frames last", "frames of colours", "flat"],
)
def test_the_newest_frame_of_an_observation(shape, value, pixel) -> None:
    obs = torch.from_numpy(np.fromfunction(value, shape).astype(np.uint8))
    space = Box(shape, 0.0, 255.0, "uint8")
    frame = newest_frame(obs.unsqueeze(0), space)
    assert frame is not None
    assert frame.shape == (4, 6, 3)
    assert tuple(frame[1, 3]) == pixel
    vector = Box((2,), 0.0, 1.0)
    both = newest_frame({"v": torch.zeros(1, 2), "p": obs.unsqueeze(0)}, Dict({"v": vector, "p": space}))
    assert both is not None
    assert (both == frame).all()
    assert newest_frame(torch.zeros(1, 2), vector) is None


def drawn_action(env: VectorEnv, generator: torch.Generator) -> Tree:
    """Returns an action drawn at random: a tensor, or a dict of them for a team."""
    if isinstance(env.spec, TeamSpec):
        return {group.name: sample(group.action, len(group.agents), generator)[None] for group in env.spec.members}
    return sample(env.spec.action, 1, generator)


def drawn_tasks() -> list[str]:
    """Returns the ids of this package's tasks, without games that have nothing to draw."""
    own = (name for name in NATIVE if NATIVE[name].__module__.startswith("rl_training"))
    return [name for name in own if not name.startswith("matrix/")]


@pytest.mark.parametrize("name", drawn_tasks())
def test_every_native_task_draws_its_state(name: str) -> None:
    env = make_env(EnvConfig(id=name, backend="native"))
    env.reset(0)
    first = env.render()
    generator = torch.Generator().manual_seed(0)
    for _ in range(12):
        env.step(drawn_action(env, generator))
    second = env.render()
    assert first is not None
    assert second is not None
    assert first.dtype == np.uint8
    assert first.shape == second.shape == (*first.shape[:2], 3)
    assert len(np.unique(second.reshape(-1, 3), axis=0)) > 2
    if name != "TMaze-v0":  # which may have run into a wall
        assert (first != second).any()


def test_training_environments_keep_no_pictures(monkeypatch) -> None:
    env = make_env(drawing_config(EnvConfig(id="tests.envs.test_filming:Drawn")))
    monkeypatch.setattr(sys.modules[__name__], "grey", lambda count: pytest.fail("drawn"))
    env.reset(0)
    for _ in range(4):
        env.step(torch.zeros(1, dtype=torch.int64))
    assert env.render_end() is None
