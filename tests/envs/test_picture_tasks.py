"""PixelPendulum: its pictures, whose pixels are known, and its steps, which are Pendulum's."""

from __future__ import annotations

import math

import pytest
import torch

from rl_training.envs import NATIVE, EnvConfig, check, make_env
from rl_training.envs.classic import Pendulum
from rl_training.envs.picture_tasks import PixelPendulum, draw_rods


def test_a_rod_that_stands_upright_covers_the_middle_of_the_upper_half() -> None:
    (picture,) = draw_rods(torch.zeros(1, 1), 8)
    # Pixels are 0.25 wide, with centres at 0.125, 0.375 ...: the two columns in the middle are 0.125 from the rod, whose
    # half width is 0.12, so they are covered by (0.12 - 0.125) / 0.25 + 0.5 = 0.48. The lowest row is 0.125 below the
    # start, and its distance to it sqrt(2) * 0.125.
    below = 255 * ((0.12 - math.sqrt(2) * 0.125) / 0.25 + 0.5)
    expected = torch.zeros(8, 8)
    expected[:4, 3:5], expected[4, 3:5] = 255 * 0.48, below
    torch.testing.assert_close(picture[..., 0].float(), expected, rtol=0, atol=0.51)


def test_a_quarter_turn_counterclockwise_turns_the_picture() -> None:
    angles = torch.tensor([[0.3], [0.3 + math.pi / 2]])
    first, second = draw_rods(angles, 16)[..., 0].int()
    assert first.max() > 200
    assert (first.rot90() - second).abs().max() <= 1


def test_the_second_channel_is_now_and_the_first_is_one_action_before() -> None:
    task = PixelPendulum()
    start = task.initial(torch.tensor([[0.8, 0.9]]))
    angle, velocity = (0.8 * 2 - 1) * math.pi, 0.8
    torch.testing.assert_close(start, torch.tensor([[angle, velocity, angle - 0.1 * velocity]]))
    state, _, _ = task.step(start, torch.ones(1, 1))
    before, after = task.observe(start), task.observe(state)
    assert after.dtype == torch.uint8
    assert torch.equal(after[..., 0], before[..., 1])
    assert not torch.equal(after[..., 1], before[..., 1])
    assert torch.equal(after[..., 1], draw_rods(state[:, :1], 16)[..., 0])


@pytest.mark.parametrize("action_repeat", [1, 3])
def test_steps_are_those_of_pendulum(action_repeat: int) -> None:
    task, plain = PixelPendulum(action_repeat=action_repeat), Pendulum()
    state = task.initial(torch.rand(5, 2, generator=torch.Generator().manual_seed(0)))
    action = torch.linspace(-3, 3, 5).unsqueeze(-1)
    physical, total = state[:, :2], torch.zeros(5)
    for _ in range(action_repeat):
        physical, reward, _ = plain.step(physical, action)
        total += reward
    following, reward, terminated = task.step(state, action)
    torch.testing.assert_close(following, torch.cat([physical, state[:, :1]], -1))
    torch.testing.assert_close(reward, total)
    assert not terminated.any()
    assert task.max_episode_steps == {1: 200, 3: 67}[action_repeat]


def test_blank_pictures_show_nothing_and_change_nothing_else() -> None:
    blank, seeing = PixelPendulum(blank=True), PixelPendulum()
    assert blank.spec == seeing.spec
    state = blank.initial(torch.rand(3, 2))
    obs = blank.observe(state)
    assert obs.shape == seeing.observe(state).shape
    assert obs.dtype == torch.uint8
    assert not obs.any()
    for one, other in zip(blank.step(state, torch.ones(3, 1)), seeing.step(state, torch.ones(3, 1)), strict=True):
        assert torch.equal(one, other)


def test_the_environment_keeps_the_contract() -> None:
    assert NATIVE["PixelPendulum-v1"] is PixelPendulum
    check(EnvConfig(id="PixelPendulum-v1", backend="native", kwargs={"size": 8}))


@pytest.mark.parametrize(("name", "value"), [("size", 7), ("size", 257), ("action_repeat", 0), ("action_repeat", 201)])
def test_settings_out_of_range_are_refused_by_name(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"env.kwargs.{name}={value} must be from"):
        make_env(EnvConfig(id="PixelPendulum-v1", backend="native", kwargs={name: value}), num_envs=1)
