"""Every step of our particle tasks equals mpe2's from the same state, with the same actions."""

import numpy as np
import pytest
import torch

from rl_training.core.joint_actions import uniform_policy
from rl_training.core.teams import AGENT_REWARD
from rl_training.envs import EnvConfig, make_env
from rl_training.envs.mpe import SimpleSpeakerListener, SimpleSpread
from rl_training.envs.teams import NativeTeamEnv
from tests.needs import import_package

EPISODES = 12


def states_of(world, ours) -> torch.Tensor:
    """The state of mpe2's world as ours."""
    agents, landmarks = [one.state for one in world.agents], [one.state for one in world.landmarks]
    if isinstance(ours, SimpleSpread):
        parts = [*(a.p_pos for a in agents), *(a.p_vel for a in agents), *(m.p_pos for m in landmarks)]
    else:
        goal = np.eye(3)[world.landmarks.index(world.agents[0].goal_b)]
        parts = [agents[1].p_pos, agents[1].p_vel, *(m.p_pos for m in landmarks), goal, agents[0].c]
    return torch.from_numpy(np.concatenate(parts)).float()[None]


@pytest.mark.parametrize(
    ("module", "ours"),
    [("simple_spread_v3", SimpleSpread()), ("simple_speaker_listener_v4", SimpleSpeakerListener())],
    ids=["spread", "speaker_listener"],
)
def test_steps_equal_those_of_mpe2(module: str, ours: SimpleSpread | SimpleSpeakerListener) -> None:
    env = import_package(f"mpe2.{module}").parallel_env()
    rng, touched = np.random.default_rng(0), 0.0
    for episode in range(EPISODES):
        seen, _ = env.reset(seed=episode)
        world, agents = env.aec_env.unwrapped.world, list(env.possible_agents)
        if episode % 2 and isinstance(ours, SimpleSpread):  # agents on top of each other, which push
            for agent in world.agents:
                agent.state.p_pos = rng.uniform(-0.2, 0.2, 2)
            seen = {name: env.aec_env.unwrapped.observe(name) for name in agents}
        assert env.aec_env.unwrapped.max_cycles == ours.max_episode_steps
        state = states_of(world, ours)
        for _ in range(ours.max_episode_steps):
            joint = ours.observe(state)
            both = torch.cat([joint[group.name][0].flatten() for group in ours.spec.members])
            np.testing.assert_allclose(both, np.concatenate([seen[name] for name in agents]), atol=2e-4)
            np.testing.assert_allclose(joint["state"][0], env.state(), atol=2e-4)
            action = {name: int(rng.integers(env.action_space(name).n)) for name in agents}
            seen, rewards, terminated, truncated, _ = env.step(action)
            taken = {g.name: torch.tensor([[action[a] for a in g.agents]]) for g in ours.spec.members}
            step = ours.step(state, taken, torch.empty(1, 0))
            expected = np.array([rewards[name] for name in agents])
            np.testing.assert_allclose(step.reward[0].expand(len(agents)), expected, atol=2e-4)
            assert not step.over.any()
            assert not any(terminated.values())
            state = states_of(world, ours)  # rounding would grow: every step starts from mpe2's state
            np.testing.assert_allclose(step.state, state, atol=2e-4)
            touched += (step.reward[0] - step.reward[0].mean()).abs().sum().item()
        assert all(truncated.values())
    assert (touched > 0) == isinstance(ours, SimpleSpread)  # collisions took place


def test_a_teams_return_is_the_sum_or_mean_over_its_agents() -> None:
    totals = {}
    for kind in ("sum", "mean"):
        env = make_env(EnvConfig(id="mpe/simple_spread", n_envs=3, kwargs={"team_reward": kind}))
        env.reset(0)
        policy = uniform_policy(env.spec)
        torch.manual_seed(0)
        rewards = torch.zeros(3, 3)
        for _ in range(25):
            step = env.step(policy.act(env.dynamics.observe(env.state)).action)  # pyrefly: ignore (a NativeTeamEnv)
            rewards += step.values[AGENT_REWARD]
        assert step.truncated.all()
        for index in range(3):
            torch.testing.assert_close(step.columns[f"return_agent_{index}"].float(), rewards[:, index])
        totals[kind] = rewards
        expected = step.values[AGENT_REWARD].sum(-1) if kind == "sum" else step.values[AGENT_REWARD].mean(-1)
        torch.testing.assert_close(step.reward, expected)
    torch.testing.assert_close(totals["sum"], totals["mean"])


def test_team_environments_on_the_native_backend_are_found_by_their_prefix() -> None:
    for name in ("mpe/simple_spread", "matrix/two_step"):
        assert isinstance(make_env(EnvConfig(id=name)), NativeTeamEnv)


@pytest.mark.parametrize(
    ("kwargs", "named"),
    [({"num_agents": 1}, "num_agents=1"), ({"local_ratio": 2.0}, "local_ratio=2.0"), ({"team_reward": "max"}, "'max'")],
)
def test_settings_of_spread_that_make_no_sense_are_refused(kwargs: dict[str, object], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        make_env(EnvConfig(id="mpe/simple_spread", kwargs=kwargs))
