"""Parallel environments of PettingZoo, trained as any other; and what is wrong with one, in a sentence."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces

import rl_training
from rl_training import IPPO, MAPPO, PPO, ConfigError
from rl_training.config.trust import packages_of
from rl_training.core.joint_actions import uniform_policy
from rl_training.envs import EnvConfig, NativeTeamEnv, check, make_env
from rl_training.envs.factory import EnvFactory
from rl_training.experiment.checkpoint import difference
from tests.conformance.test_life_cycle import final_state
from tests.conformance.test_teams import CASES, TeamCase
from tests.needs import require_package
from tests.relay import LENGTH, Relay
from tests.zoo import (
    Empty,
    Keyless,
    Late,
    LateState,
    Leftover,
    OldReset,
    Pair,
    ParallelRelay,
    Silent,
    Stranger,
    Turns,
    Unlike,
    Unseen,
    Wordy,
)

RELAY = "tests.zoo:ParallelRelay"
SPREAD = "pettingzoo:mpe2.simple_spread_v3"
SMALL = {"n_envs": 2, "n_steps": 16, "batch_size": 16, "n_epochs": 1, "seed": 0, "compile": False, "threads": 1}


def relay_config(limit: int | None = None, **agents: object) -> EnvConfig:
    env = {"id": RELAY, "backend": "pettingzoo", "n_envs": 2, "agents": agents, "max_episode_steps": limit}
    return rl_training.RunConfig.from_mapping({"algorithm": {"name": "ippo"}, "env": env}).env


@pytest.mark.parametrize("limit", [None, 4, 5])  # after 4 steps runners 1 and 2 are alive, and 5 is the last
def test_lives_are_those_of_the_same_rules_as_tensor_code(limit: int | None) -> None:
    ours = NativeTeamEnv(Relay(), 2, max_episode_steps=limit)
    theirs = make_env(relay_config(limit, lives=True))
    assert theirs.spec == ours.spec
    theirs.ask_columns(())
    policy = uniform_policy(ours.spec)
    obs, other = ours.reset(0), theirs.reset(0)
    for _ in range(LENGTH + 2):
        assert isinstance(obs, dict) and isinstance(other, dict)  # noqa: PT018
        for key in ("alive", "acting", "runner.action_mask", "state"):
            torch.testing.assert_close(obs[key].float(), other[key].float())
        action = policy.act(obs).action
        step, same = ours.step(action), theirs.step(action)
        for name in ("reward", "terminated"):
            torch.testing.assert_close(getattr(step, name), getattr(same, name))
        torch.testing.assert_close(step.truncated > step.terminated, same.truncated)
        for name, column in step.values.items():
            torch.testing.assert_close(column, same.values[name])
        for name, column in same.columns.items():
            torch.testing.assert_close(column, step.columns[name])
        if same.truncated.all():
            for key, part in step.next_obs.items():  # pyrefly: ignore (a dict)
                torch.testing.assert_close(part.float(), same.next_obs[key].float())  # pyrefly: ignore (likewise)
        obs, other = step.obs, same.obs


def test_who_is_cut_off_with_the_episode_is_alive_in_its_last_observation() -> None:
    """Else VDN and QMIX would count nobody there, and take the cut for an end."""
    env = make_env(replace(relay_config(lives=True), id="tests.zoo:Cut", n_envs=1))
    action = uniform_policy(env.spec).act(env.reset(0)).action
    steps = [env.step(action) for _ in range(5)]
    assert steps[-1].truncated.all()
    for key in ("alive", "acting"):
        assert steps[-1].next_obs[key].tolist() == [[1, 1]]  # pyrefly: ignore (a dict)


def test_the_kit_passes_both_and_an_environment_of_the_package() -> None:
    check(Relay, num_steps=25)
    for limit in (None, 4):
        check(relay_config(limit, lives=True), num_steps=25)
    require_package("mpe2")
    check(SPREAD, num_steps=60)


@pytest.mark.parametrize(
    ("env", "agents", "said"),
    [
        (Stranger, {"lives": True}, "the agent 'nobody' is not one of possible_agents"),
        (Silent, {"lives": True}, "the agent 'runner_0' left without an end"),
        (Unlike, {"lives": True}, "'runner_0' and 'runner_1' of group 'runner' have unlike spaces"),
        (ParallelRelay, {}, "'runner_2' is not there when an episode begins: set env.agents.lives=true"),
        (ParallelRelay, {"lives": True, "groups": {"a": ["runner_0"]}}, "'runner_1' is named 0 times"),
        (ParallelRelay, {"lives": True, "groups": {"a": ["runner_9"]}}, "'runner_9' is no agent"),
        (ParallelRelay, {"lives": True, "reward": "shared"}, "env.agents.reward='shared', and agents earn"),
        (Leftover, {}, "'a_0' has ended and is still in `agents`: remove it"),
        (Leftover, {"lives": True}, "'a_0' has ended and is still in `agents`: remove it"),
        (Unseen, {}, "'a_0' was truncated and has no last observation: return one"),
        (Late, {}, "the info of 'a_0' has an action_mask, and that of `reset` had none"),
        (Empty, {"lives": True}, "`agents` is empty when an episode begins"),
        (OldReset, {}, r"`reset` returned dict: return \(observations, infos\), each a dict by agent"),
        (Wordy, {}, "'a_0' earned 'one': return a number for each agent"),
        (object, {}, "returned object, which has no 'possible_agents': return a PettingZoo parallel environment"),
        (Turns, {}, "an AEC environment, in which agents take turns: only parallel environments are supported"),
    ],
)
def test_what_is_wrong_is_said(env: type, agents: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        IPPO(env, backend="pettingzoo", agents=agents, **SMALL).learn(16, progress=False)


@pytest.mark.parametrize(
    ("kind", "env", "said"),
    [
        (IPPO, lambda: Pair(mask=[0, 0]), "the action_mask of the agent 'a_0' allows no action: let it end"),
        (IPPO, lambda: Pair(mask=[1, 0, 1]), r"'a_0' observed action_mask of shape \(3,\), not \(2,\)"),
        (IPPO, lambda: Pair(mask=[1, 1], actions=spaces.Box(-1.0, 1.0)), "'a' have an action_mask and Box actions"),
        (IPPO, Keyless, "'a_0' observed 'a' and no 'b': return all keys"),
        (MAPPO, Pair, "MAPPO needs a global state, and this environment gives none"),
        (MAPPO, lambda: Pair(state=7), "`state` must return an array in it: give a Box and a method"),
        (MAPPO, lambda: Pair(state=lambda: np.zeros(3)), r"state\(\) has the shape \(3,\): return \(2,\)"),
    ],
)
def test_masks_and_states_that_are_wrong_are_said(kind: type[rl_training.Agent], env: EnvFactory, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        kind(env, backend="pettingzoo", **SMALL).learn(16, progress=False)


def test_agents_that_never_act_are_named_by_the_kit() -> None:
    config = relay_config(lives=True)
    with pytest.raises(ValueError, match="'a_0' never acts within 20 steps: raise num_steps, or leave it out"):
        check(replace(config, id="tests.zoo:Pair", kwargs={"mask": [0, 0]}), num_steps=20)


def test_a_state_that_is_gone_when_all_have_terminated_is_not_needed() -> None:
    check(LateState, num_steps=20)


@pytest.mark.parametrize(
    ("env_id", "said"),
    [
        ("pettingzoo:no.such_module", "'no.such_module' cannot be imported"),
        ("pettingzoo:", "names no module: write 'pettingzoo:package.module'"),
        ("pettingzoo:tests.zoo", "tests.zoo has no 'parallel_env': name a function"),
    ],
)
def test_ids_that_name_no_parallel_environment(env_id: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        IPPO(env_id)


def test_a_class_that_names_its_agents_is_a_function_that_makes_environments() -> None:
    class Plain(Pair):
        possible_agents = ("a_0", "a_1")  # pyrefly: ignore (every instance has a list)

    assert IPPO(Plain, backend="pettingzoo", **SMALL).spec.agents == Plain.possible_agents


def test_an_environment_that_draws_is_filmed(tmp_path: Path) -> None:
    result = IPPO("pettingzoo:tests.zoo:Drawn", **SMALL).record(tmp_path / "film.gif")
    assert result.lengths == (5,)
    assert (tmp_path / "film.gif").stat().st_size > 0
    with pytest.raises(ValueError, match="nothing"):
        IPPO("pettingzoo:tests.zoo:Pair", **SMALL).record(tmp_path / "other.gif")


def test_parallel_environments_are_refused_elsewhere_with_the_way_to_go() -> None:
    with pytest.raises(ValueError, match=r"pass its id, IPPO\('pettingzoo:package.module'\)"):
        PPO(ParallelRelay())
    with pytest.raises(ValueError, match=r"env\.agents"):
        IPPO("mpe/simple_spread", agents={"lives": True})


def test_a_saved_agent_imports_no_module_that_is_not_trusted(tmp_path: Path) -> None:
    agent = IPPO("pettingzoo:tests.zoo:ParallelRelay", agents={"lives": True}, **SMALL)
    agent.save(tmp_path / "model")
    assert packages_of(agent.config) == ["tests"]
    assert rl_training.load(tmp_path / "model").evaluate(1).mean == 138  # this process named it
    from rl_training.config import trust

    trust.NAMED.clear()  # as in another process
    with pytest.raises(ConfigError, match="names code that is not known in this process"):
        rl_training.load(tmp_path / "model").evaluate(1)
    assert rl_training.load(tmp_path / "model", trust=["tests"]).evaluate(1).mean == 138


def test_groups_may_be_named_and_unlike() -> None:
    groups = {"first": ["runner_0"], "others": ["runner_1", "runner_2"]}
    agent = IPPO(
        ParallelRelay, agents={"lives": True, "groups": groups, "reward": "mean"}, backend="pettingzoo", **SMALL
    )
    agent.learn(64, progress=False)
    assert agent.spec.agents == ("runner_0", "runner_1", "runner_2")
    action, _ = agent.predict(
        {key: np.zeros(space.shape) for key, space in agent.algorithm.policy.spec.obs.spaces.items()}
    )
    assert {name: part.shape for name, part in action.items()} == {"first": (1,), "others": (2,)}
    result = agent.evaluate(2)
    assert result.mean == pytest.approx(138 / 3)  # all rewards of an episode
    assert result.column_means["return_runner_2"] == 120.0


def test_pause_save_load_and_go_on_equals_no_pause(tmp_path: Path) -> None:
    require_package("mpe2")
    settings = SMALL | {"total_timesteps": 96, "max_episode_steps": 7}  # it pauses before the last step of an episode
    straight, paused = IPPO(SPREAD, **settings), IPPO(SPREAD, **settings)
    straight.learn(progress=False)
    paused.learn(stop_at=40, progress=False)
    paused.save(tmp_path / "model")
    resumed = IPPO.load(tmp_path / "model")
    assert resumed.learn(progress=False).resume == "replayed"
    assert difference(final_state(straight), final_state(resumed)) is None


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[] if case.name in ("IPPO", "QMIX") else [pytest.mark.slow])
        for case in CASES
    ],
)
def test_two_samplers_take_the_same_steps_as_one_process(case: TeamCase) -> None:
    lives = {"agents": {"lives": True}, "backend": "pettingzoo"}
    states = []
    for workers in (1, 2):
        relay = f"pettingzoo:{RELAY}" if case.name == "IPPO" else ParallelRelay  # an id, or what makes it
        agent = case.agent(relay, sampling={"workers": workers}, **lives)
        agent.learn(256, progress=False)
        assert agent.progress.gradient_steps > 0
        states.append(final_state(agent))
        agent.close()
    assert difference(states[0], states[1]) is None
