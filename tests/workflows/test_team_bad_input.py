"""What cannot work with teams of agents is said in a sentence, before anything is written."""

import pytest

from rl_training import IPPO, MAPPO, PPO, QMIX, VDN, Agent, IndependentQ
from rl_training.core import AgentGroup, Box, Discrete, MultiBinary, MultiDiscrete, TeamSpec
from tests.relay import Relay

SPREAD = "mpe/simple_spread"
NUMBER = Box((1,), (0.0,), (1.0,))


class Stateless(Relay):
    spec = TeamSpec.of(Relay.spec.members, reward="sum", lives=True)


class Continuous(Relay):
    spec = TeamSpec.of([AgentGroup("a", ("a_0",), NUMBER, NUMBER)])


@pytest.mark.parametrize(
    ("kind", "env", "settings", "said"),
    [
        (PPO, SPREAD, {}, r"PPO learns for one agent, and this environment has several \(agent_0, .*use IPPO"),
        (IPPO, "CartPole-v1", {}, "IPPO learns for a team, and this environment has one agent: use PPO"),
        (QMIX, "CartPole-v1", {}, "QMIX learns for a team"),
        (MAPPO, Stateless, {"backend": "native"}, "MAPPO needs a global state, and this environment gives none"),
        (QMIX, Stateless, {"backend": "native"}, "QMIX needs a global state, and this environment gives none"),
        (VDN, Continuous, {"backend": "native"}, "VDN needs Discrete actions, but this environment has Box: use IPPO"),
        (IndependentQ, Continuous, {"backend": "native"}, "IndependentQ needs Discrete actions, .* has Box: use IPPO"),
        (IPPO, SPREAD, {"obs_groups": {"critic": ["state"]}}, "env.obs_groups"),
    ],
)
def test_methods_and_environments_that_do_not_fit(kind: type[Agent], env: object, settings: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        kind(env, **settings)


@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [
        (IPPO, {"normalize_reward": True}, "normalize_reward=true scales what a team earns together"),
        (IndependentQ, {"n_steps": 3}, "experience.n_steps=3 changes what the team earns.*use n_steps=1"),
        (IndependentQ, {"reward_scale": 0.1}, "experience.reward_scale=0.1"),
    ],
)
def test_settings_of_rewards_that_would_not_reach_each_agent(kind: type[Agent], settings: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        kind(SPREAD, n_envs=4, **settings).learn(8, progress=False)


def test_what_each_agent_earns_does_not_matter_to_the_teams_value() -> None:
    assert VDN(SPREAD, n_envs=4, n_steps=3, reward_scale=0.1).learn(8, progress=False).total_timesteps == 8
    team = IndependentQ(SPREAD, n_envs=4, n_steps=3, learns_from="team")
    assert team.learn(8, progress=False).total_timesteps == 8


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ([], "have no agents"),
        ([("a.b", NUMBER, Discrete(2))], "'a.b' is not a name for a group"),
        ([("state", NUMBER, Discrete(2))], "'state' is not a name for a group"),
        ([("a", NUMBER, MultiDiscrete((2, 2)))], "act in MultiDiscrete: give them Discrete or Box actions"),
        ([("a", MultiDiscrete((2, 2)), Discrete(2))], "not supported for agents: use Box, Discrete or MultiBinary"),
        ([("a", NUMBER, Discrete(2)), ("a", MultiBinary(2), Discrete(2))], "have 'a' twice"),
    ],
)
def test_groups_that_cannot_be(members: list, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        TeamSpec.of([AgentGroup(name, (f"{name}_0",), obs, action) for name, obs, action in members])
