"""Tasks with goals: what pays, what ends an episode, and that any step can be judged by any goal."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from rl_training.core.goals import ACHIEVED, DESIRED, OBSERVATION
from rl_training.envs import EnvConfig, NativeEnv, check, make_env
from rl_training.envs.goal_tasks import BitFlip, PointReach


def towards_goal(obs: dict[str, Tensor]) -> Tensor:
    """Flips the first bit that is wrong, or goes straight to the goal."""
    if obs[OBSERVATION].shape[-1] > 2:
        return (obs[OBSERVATION] != obs[DESIRED]).float().argmax(-1)
    return ((obs[DESIRED] - obs[OBSERVATION]) / PointReach.speed).clamp(-1, 1)


@pytest.mark.parametrize("name", ["BitFlip-v0", "PointReach-v0"])
def test_they_keep_the_contract_of_environments(name: str) -> None:
    check(EnvConfig(id=name, backend="native", n_envs=3), num_steps=120)


def test_flipping_the_wrong_bits_reaches_the_goal_in_as_many_steps() -> None:
    env = NativeEnv(BitFlip(6), 500)
    obs = env.reset(seed=0)
    wrong = (obs[OBSERVATION] != obs[DESIRED]).sum(-1)
    total, ended = torch.zeros(500), torch.zeros(500)
    for time in range(6):
        step = env.step(towards_goal(obs))
        alive = ended == 0
        total += torch.where(alive, step.reward, 0.0)
        ended = torch.where(alive & (step.terminated | step.truncated), time + 1.0, ended)
        assert torch.equal(step.terminated, (step.next_obs[ACHIEVED] == step.next_obs[DESIRED]).all(-1))
        assert torch.equal(step.columns["is_success"] > 0, step.terminated)
        obs = step.obs
    begun = wrong > 0  # else the first flip leaves the goal
    assert torch.equal(ended[begun], wrong[begun].float())
    assert torch.equal(total[begun], 1.0 - wrong[begun])
    assert abs(float(wrong.float().mean()) - 3) < 5 * (6 / 4 / 500) ** 0.5  # every bit is as often wrong as right


def test_the_point_arrives_stays_and_never_terminates() -> None:
    env = NativeEnv(PointReach(), 200)
    obs = env.reset(seed=0)
    for _ in range(50):
        step = env.step(towards_goal(obs))
        assert not step.terminated.any()
        last, obs = step, step.obs
    assert last.truncated.all()
    assert (last.columns["is_success"] == 1).all()
    assert (last.reward == 0).all()


@pytest.mark.parametrize("dynamics", [BitFlip(4), PointReach()])
def test_steps_are_rewarded_as_judged(dynamics: BitFlip | PointReach) -> None:
    env = NativeEnv(dynamics, 300)
    obs = env.reset(seed=1)
    for _ in range(30):
        step = env.step(towards_goal(obs))
        reward, terminated = env.judge(step.next_obs[ACHIEVED], step.next_obs[DESIRED])
        assert torch.equal(reward, step.reward)
        assert torch.equal(terminated, step.terminated)
        own, _ = env.judge(step.next_obs[ACHIEVED], step.next_obs[ACHIEVED])
        assert (own == 0).all()
        obs = step.obs


def test_a_judge_that_contradicts_the_steps_is_found() -> None:
    class Generous(BitFlip):
        def step(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            state, reward, terminated = super().step(state, action)
            return state, reward + 1, terminated

    with pytest.raises(ValueError, match="`judge` gave another reward or end than `step`"):
        check(lambda: Generous(4), num_steps=20)


def test_the_number_of_bits_and_the_threshold_are_settings() -> None:
    assert make_env(EnvConfig(id="BitFlip-v0", backend="native")).spec.action.num == 15
    assert make_env(EnvConfig(id="BitFlip-v0", backend="native", kwargs={"num_bits": 3})).max_episode_steps == 3
    near = make_env(EnvConfig(id="PointReach-v0", backend="native", kwargs={"threshold": 0.5}))
    assert near.judge(torch.tensor([0.0, 0.0]), torch.tensor([0.4, 0.0]))[0] == 0
    for name, kwargs in (("BitFlip-v0", {"num_bits": 0}), ("PointReach-v0", {"threshold": "far"})):
        with pytest.raises(ValueError, match=rf"env\.kwargs\.{next(iter(kwargs))}=.* must be a"):
            make_env(EnvConfig(id=name, backend="native", kwargs=kwargs))
