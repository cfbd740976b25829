"""What agents that wait, die and come back learn from, computed by hand for the three runners of `tests/relay.py`."""

import numpy as np
import pytest
import torch

from rl_training import IPPO, MAPPO, QMIX, VDN, Agent, CheckpointError, ConfigError, RecurrentIPPO
from rl_training.api.build import load_weights
from rl_training.core.joint_actions import uniform_policy
from rl_training.core.teams import AGENT_TERMINATED, AGENT_TRUNCATED
from rl_training.envs import NativeTeamEnv
from rl_training.runtime import make_collector
from tests.relay import ACTING, ALIVE, LENGTH, REWARD, Relay

SMALL = {"backend": "native", "n_envs": 2, "seed": 0, "compile": False, "threads": 1}
PPO_LIKE = SMALL | {"n_steps": 10, "batch_size": 10, "n_epochs": 2, "gamma": 0.5, "gae_lambda": 0.5}
# With a value of 1 everywhere, gamma and lambda 0.5. Runner 0: 1 + 2 until its next action, then 4 and no more. Runner 1:
# three actions up to its truncation, after which a value of 1 follows, and one in its second life. Runner 2: 8 + 16 + 64.
FIRST_EPISODE = {
    (0, 0): 3 + 0.5 - 1 + 0.25 * 3, (2, 0): 4 - 1,
    (0, 1): 1 + 0.5 - 1 + 0.25 * 2.125, (1, 1): 2 + 0.5 - 1 + 0.25 * 2.5, (2, 1): 3 + 0.5 - 1, (4, 1): 5 - 1,
    (2, 2): 88 - 1,
}  # fmt: skip


@pytest.mark.parametrize("kind", [IPPO, MAPPO])
@pytest.mark.parametrize(
    ("num_steps", "second_episode"),
    [
        (LENGTH, {}),
        (LENGTH + 1, {(5, 1): 1 + 0.5 - 1}),  # runner 0 waits where the rollout ends: its action is not learned from
        (LENGTH + 2, {(5, 0): 3 + 0.5 - 1, (6, 1): 2 + 0.5 - 1, (5, 1): 1 + 0.5 - 1 + 0.25 * 1.5}),
    ],
)
def test_advantages_equal_those_computed_by_hand(kind: type[Agent], num_steps: int, second_episode: dict) -> None:
    agent = kind(Relay, **PPO_LIKE)
    member = agent.algorithm.members["runner"]
    for parameter in member.value_head.parameters():
        torch.nn.init.zeros_(parameter)
    list(member.value_head.parameters())[-1].data.fill_(1.0)
    env = NativeTeamEnv(Relay(), 2)
    collector = make_collector(env, agent.algorithm.policy, seed=0, columns=agent.algorithm.columns)
    batch, _ = agent.algorithm.prepare(collector.collect(agent.algorithm.policy, num_steps))
    found = batch.groups["runner"]
    expected = FIRST_EPISODE | second_episode
    for copy in range(2):
        counted = [tuple(index) for index in found.weight[:, copy].nonzero().tolist()]
        assert sorted(counted) == sorted(expected)
        for (time, runner), advantage in expected.items():
            assert found.advantage[time, copy, runner].item() == pytest.approx(advantage)
            assert found.target[time, copy, runner].item() == pytest.approx(advantage + 1)


def test_steps_say_who_lived_acted_and_ended_and_episodes_what_each_earned() -> None:
    env = NativeTeamEnv(Relay(), 2)
    policy = uniform_policy(env.spec)
    env.reset(0)
    obs = env.dynamics.observe(env.state)
    for time in range(LENGTH):
        assert isinstance(obs, dict)
        assert obs["alive"].tolist() == [ALIVE[time]] * 2
        assert obs["acting"].tolist() == [ACTING[time]] * 2
        step = env.step(policy.act(obs).action)
        last = time == LENGTH - 1
        assert step.values[AGENT_TERMINATED][0].tolist() == [time == 2, last, last]
        assert step.values[AGENT_TRUNCATED][0].tolist() == [False, time == 2, False]
        assert step.reward.tolist() == [sum(REWARD[time])] * 2
        assert step.terminated.tolist() == [last] * 2
        obs = step.obs
    earned = [sum(row[runner] for row in REWARD) for runner in range(3)]
    assert [step.columns[f"return_runner_{runner}"][0].item() for runner in range(3)] == earned


def test_a_time_limit_truncates_only_those_who_are_alive() -> None:
    env = NativeTeamEnv(Relay(), 1, max_episode_steps=4)  # after step 3 runner 0 is gone and runner 1 back
    policy = uniform_policy(env.spec)
    env.reset(0)
    for _ in range(4):
        step = env.step(policy.act(env.dynamics.observe(env.state)).action)
    assert step.values[AGENT_TRUNCATED].tolist() == [[False, True, True]]
    assert not step.values[AGENT_TERMINATED].any()
    assert (step.terminated.item(), step.truncated.item()) == (False, True)


@pytest.mark.parametrize("kind", [VDN, QMIX])
def test_who_does_not_act_is_no_part_of_the_teams_value(kind: type[Agent]) -> None:
    agent = kind(Relay, **SMALL, train_freq=2, learning_starts=40, batch_size=8, buffer_size=200)
    agent.learn(120, progress=False)  # all-false masks, too
    dynamics, state = Relay(), torch.arange(LENGTH).float().unsqueeze(-1)
    obs = dynamics.observe(state)
    before = torch.zeros(LENGTH, 3, dtype=torch.long)
    value = agent.algorithm.team_value(obs, {"runner": before})
    assert value.isfinite().all()
    for runner in range(3):
        changed = before.clone()
        changed[:, runner] = 1
        differs = agent.algorithm.team_value(obs, {"runner": changed}) != value
        assert differs.tolist() == [bool(row[runner]) for row in ACTING]


@pytest.mark.parametrize("kind", [IPPO, VDN])
def test_statistics_are_of_all_agents_of_a_group_while_they_live(kind: type[Agent]) -> None:
    algorithm = kind(Relay, **SMALL, normalize_observation=True).algorithm
    obs = Relay().observe(torch.arange(LENGTH).float().unsqueeze(-1))
    algorithm.observe(obs, torch.arange(LENGTH) < 4)
    (norm,) = algorithm.policy.members["runner"].normalizer.norms
    assert (norm.count.item(), norm.mean.tolist()) == (9, pytest.approx([2 / 9, 3 / 9, 3 / 9, 1 / 9, 0]))


def test_the_teams_value_passes_through_a_step_in_which_nobody_acts() -> None:
    algorithm = VDN(Relay, **SMALL).algorithm
    obs = Relay().observe(torch.tensor([[3.0]]))  # runner 2 alone is alive, and waits
    value = algorithm.team_value(obs, {"runner": torch.zeros(1, 3, dtype=torch.long)})
    q, _ = algorithm.rows_values(algorithm.networks, "runner", obs)
    torch.testing.assert_close(value, q[2].mean(-1, keepdim=True))


@pytest.mark.parametrize("kind", [VDN, RecurrentIPPO])
@pytest.mark.parametrize("rows", [(), (4,)])
def test_who_asks_for_actions_need_not_say_who_lives_and_acts(kind: type[Agent], rows: tuple) -> None:
    agent = kind(Relay, **SMALL)
    obs = {"runner.observation": np.ones((*rows, 3, LENGTH)), "runner.action_mask": np.ones((*rows, 3, 2))}
    everyone = np.ones((*rows, 3), np.int8)
    expected, memory = agent.predict(obs | {"alive": everyone, "acting": everyone})
    for told in ({}, {"alive": everyone}, {"acting": everyone}):
        action, same = agent.predict(obs | told)
        np.testing.assert_array_equal(action["runner"], expected["runner"])
        assert (memory is None) == (same is None)
    with pytest.raises(ConfigError, match=r"alive.*must be \(3,\)"):
        agent.predict(obs | {"alive": everyone[..., :2]})
    with pytest.raises(ConfigError, match="must be a mapping with the keys"):
        agent.predict(obs["runner.observation"])


@pytest.mark.parametrize("kind", [IPPO, MAPPO])
def test_updates_stay_finite_with_agents_that_may_do_nothing(kind: type[Agent]) -> None:
    agent = kind(Relay, **PPO_LIKE)
    agent.learn(60, progress=False)
    assert all(parameter.isfinite().all() for parameter in agent.algorithm.parameters())
    assert agent.evaluate(2).returns == (sum(map(sum, REWARD)),) * 2


def test_weights_with_statistics_of_joint_observations_are_refused() -> None:
    algorithm = VDN(Relay, **SMALL, normalize_observation=True).algorithm
    old = algorithm.state_dict() | {"policy.normalizer.norms.0.mean": torch.zeros(5)}
    with pytest.raises(CheckpointError, match=r"team.zip does not fit .* every group has .* its own: train it again"):
        load_weights(algorithm, old, "team.zip")
