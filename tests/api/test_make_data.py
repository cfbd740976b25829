"""Datasets that policies make: how much of whom, with what probability, ending how."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from rl_training import BC, PPO, ConfigError, Dataset, DiscreteCQL, RunConfig, make_data
from rl_training.api.make_data import file_name, parse_policies
from rl_training.config import load_config_values
from rl_training.config.sections import MakeConfig
from rl_training.core import Box, Discrete
from rl_training.data import lint
from rl_training.envs import EnvConfig
from rl_training.evaluation.dataset_evaluation import probabilities_of_taken
from rl_training.experiment.checkpoint import difference
from rl_training.runtime.cache_folder import cache_folder
from tests.offline import CQL_SETTINGS, cloned, cql, rlpd, state_of

CARTPOLE, PENDULUM = EnvConfig(id="CartPole-v1"), EnvConfig(id="Pendulum-v1")
MASKED = EnvConfig(id="tests.conformance.probes:Masked")


def test_policies_get_their_shares(tmp_path: Path) -> None:
    agent = cloned()
    agent.learn(total_updates=5, progress=False)
    agent.save(tmp_path / "bc")
    data = make_data(CARTPOLE, ["random=0.75", f"{tmp_path / 'bc'}=0.25"], 400, seed=3)
    assert len(data) == 400
    assert np.bincount(data.extras["policy"]).tolist() == [300, 100]
    assert (np.diff(data.extras["policy"]) >= 0).all()
    equal = make_data(CARTPOLE, ["random", str(tmp_path / "bc")], 400)
    assert np.bincount(equal.extras["policy"]).tolist() == [200, 200]
    origin = data.provenance
    assert (origin.source, origin.env_id, origin.seed) == ("rl-training data make", "CartPole-v1", 3)
    assert origin.method == f"400 steps: 75% random, 25% {tmp_path / 'bc'}"


@pytest.mark.parametrize("steps", [40, 2_400])
def test_rows_are_real_steps_in_the_order_of_their_episodes(steps: int) -> None:
    """Longer than a chunk of collection: nothing is lost or doubled between two."""
    data = make_data(CARTPOLE, ["random"], steps)
    assert len(data) == steps
    assert lint(data) == []
    stops = data.episodes().stop
    inner = np.setdiff1d(np.arange(steps), stops - 1)
    np.testing.assert_array_equal(data.next_obs[inner], data.obs[inner + 1])
    assert (np.abs(data.obs[data.episodes().start]) <= 0.05).all()  # every episode starts where CartPole does
    assert data.action.dtype == np.int64
    assert data.spec.action == Discrete(2)


def test_an_episode_that_the_end_of_the_data_cuts_is_truncated() -> None:
    """Pendulum never terminates and is cut after 200 steps: 4 environments, 210 steps each."""
    data = make_data(PENDULUM, ["random"], 840)
    assert not data.terminated.any()
    assert np.flatnonzero(data.truncated).tolist() == [199, 209, 409, 419, 619, 629, 829, 839]
    assert not (data.terminated & data.truncated).any()
    short = make_data(CARTPOLE, ["random"], 4)  # one step of each
    assert (short.terminated ^ short.truncated).tolist() == [True] * 4


def test_a_random_policy_knows_its_probabilities() -> None:
    np.testing.assert_allclose(make_data(CARTPOLE, ["random"], 40).log_prob, math.log(1 / 2), rtol=1e-6)
    pendulum = make_data(PENDULUM, ["random"], 400)
    np.testing.assert_allclose(pendulum.log_prob, math.log(1 / 4), rtol=1e-6)  # a density over [-2, 2]
    assert pendulum.action.shape == (400, 1)
    assert np.abs(pendulum.action).max() <= 2
    assert np.abs(pendulum.action).max() > 1.5
    masked = make_data(MASKED, ["random"], 80)
    np.testing.assert_allclose(masked.log_prob, math.log(1 / 2), rtol=1e-6)  # one of three is forbidden
    assert masked.obs["action_mask"][np.arange(80), masked.action].all()


@pytest.mark.parametrize(("make", "env"), [(cloned, CARTPOLE), (rlpd, PENDULUM)])
def test_other_policies_know_theirs(make, env: EnvConfig, tmp_path: Path) -> None:
    agent = make()
    agent.learn(total_updates=20, progress=False)
    agent.save(tmp_path / "agent")
    data = make_data(env, [str(tmp_path / "agent")], 400)
    if isinstance(data.spec.action, Box):
        assert np.isfinite(data.log_prob).all()
        return
    probs = probabilities_of_taken(agent.algorithm.policy, data, False)
    np.testing.assert_allclose(np.exp(data.log_prob), probs, rtol=1e-4)


def test_the_seed_decides() -> None:
    first, second, other = (make_data(CARTPOLE, ["random"], 120, seed=seed) for seed in (5, 5, 6))
    assert first.sha256 == second.sha256
    assert first.sha256 != other.sha256
    halves = make_data(CARTPOLE, ["random", "random"], 120, seed=5)
    assert not np.array_equal(halves.obs[:60], halves.obs[60:])  # every part has random numbers of its own


def test_making_data_leaves_the_callers_random_numbers_as_they_are() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    make_data(CARTPOLE, ["random"], 40)
    assert torch.equal(torch.rand(3), expected)


def test_a_preset_is_trained_first(told) -> None:
    data = make_data(CARTPOLE, ["a2c/cartpole@80"], 40)
    assert len(data) == 40
    assert "making data: training a2c/cartpole for 80 steps" in told()
    assert data.sha256 == make_data(CARTPOLE, ["a2c/cartpole@80"], 40).sha256


@pytest.mark.parametrize(
    ("policies", "sentence"),
    [
        ([], r"policies=\[\] makes no data: name at least one"),
        (["random=0.5"], r"the shares of random=0.5 add up to 0.5: give each a share above 0, in all 1"),
        (["random=0.5", "random=0.6"], r"add up to 1.1"),
        (["random=1.5", "random=-0.5"], r"give each a share above 0, in all 1"),
        (["random=0", "random=1"], r"give each a share above 0"),
        (["random=nan", "random=1"], r"give each a share above 0"),
        (["random=half"], r"policy 'random=half' must look like NAME or NAME=SHARE, the share between 0 and 1"),
        (["ppo/cartpole@soon"], r"policy 'ppo/cartpole@soon': write preset@steps, e.g. ppo/cartpole@10000"),
        (["nowhere/at/all"], r"'nowhere/at/all' does not exist: give 'random', preset@steps"),
        (["ppo/nothing@10"], r"'ppo/nothing' is not a preset"),
    ],
)
def test_bad_names_and_shares_are_refused(policies: list[str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make_data(CARTPOLE, policies, 40)


def test_a_policy_of_other_spaces_is_refused(tmp_path: Path) -> None:
    rlpd().save(tmp_path / "rlpd")
    with pytest.raises(
        ConfigError, match=r"policy '.*rlpd' was trained for other observations or actions than CartPole-v1"
    ):
        make_data(CARTPOLE, [str(tmp_path / "rlpd")], 40)
    PPO("Acrobot-v1", n_steps=8, n_envs=2, batch_size=16, compile=False).save(tmp_path / "ppo")  # three actions as well
    with pytest.raises(
        ConfigError, match=r"policy '.*ppo' was trained for other observations or actions than MountainCar"
    ):
        make_data(EnvConfig(id="MountainCar-v0"), [str(tmp_path / "ppo")], 40)


def test_shares_without_a_number_are_equal() -> None:
    assert [part.share for part in parse_policies(["a", "b", "c", "d"])] == [0.25] * 4
    assert parse_policies(["runs/x=0.25", "random=0.75"])[0][:2] == ("runs/x", 0.25)


@pytest.mark.parametrize("name", ["bc/cartpole", "discrete_cql/cartpole", "rlpd/pendulum"])
def test_presets_with_a_recipe_are_read(name: str) -> None:
    config = RunConfig.from_mapping(load_config_values(name))
    assert len(config.data.make.policies) >= 2
    parse_policies(config.data.make.policies)


def test_a_recipe_is_followed_once(tmp_path: Path, monkeypatch, told) -> None:
    monkeypatch.setenv("RL_TRAINING_CACHE", str(tmp_path))
    recipe = {"make": {"policies": ["random"], "steps": 200, "seed": 2}}
    first = DiscreteCQL("CartPole-v1", data=recipe, **CQL_SETTINGS)
    assert "making data: 200 steps of CartPole-v1, once" in told()
    (file,) = cache_folder("datasets").iterdir()
    assert file.is_relative_to(tmp_path)
    written = file.stat().st_mtime_ns
    second = DiscreteCQL("CartPole-v1", data=recipe, **CQL_SETTINGS)
    assert told() == ""
    assert file.stat().st_mtime_ns == written
    assert first.dataset.sha256 == second.dataset.sha256 == make_data(CARTPOLE, ["random"], 200, seed=2).sha256
    DiscreteCQL("CartPole-v1", data={"make": recipe["make"] | {"seed": 3}}, **CQL_SETTINGS)
    assert len(list(cache_folder("datasets").iterdir())) == 2
    first.learn(total_updates=10, progress=False)
    first.save(tmp_path / "model")
    loaded = DiscreteCQL.load(tmp_path / "model")
    for agent in (first, loaded):
        agent.learn(total_updates=10, progress=False)
    assert difference(state_of(first)["algorithm"], state_of(loaded)["algorithm"]) is None


def test_what_is_made_can_be_learned_from() -> None:
    data = make_data(MASKED, ["random"], 200)
    agent = cql("tests.conformance.probes:Masked", dataset=data, total_updates=20, total_timesteps=40)
    assert agent.learn(progress=False).status == "finished"
    assert isinstance(data, Dataset)


def test_as_many_rows_are_made_as_were_asked_for() -> None:
    assert len(make_data(CARTPOLE, ["random"], 10)) == 10


def test_mere_resets_are_no_rows() -> None:
    data = make_data(EnvConfig(id="CartPole-v1", vectorization="vector_entry_point"), ["random"], 400)
    assert set(data.reward.tolist()) == {1.0}  # CartPole pays 1 for every step
    assert lint(data) == []


def test_random_actions_of_a_kind_that_cannot_be_drawn_are_refused() -> None:
    with pytest.raises(ConfigError):
        make_data(EnvConfig(id="tests.conformance.probes:Bits"), ["random"], 40)


@pytest.mark.parametrize("settings", [{}, {"n_envs": 4}, {"info_keys": ("distance",)}, {"timeout_s": 5.0}])
def test_data_that_are_kept_are_found_whatever_changes_none_of_them(settings: dict) -> None:
    env = EnvConfig(id="CartPole-v1", kwargs={"sutton_barto_reward": True}, **settings)
    assert file_name(MakeConfig(), env) == "CartPole-v1-59c304522ea0.npz"  # as before these settings existed
    assert file_name(MakeConfig(), EnvConfig(id="CartPole-v1", frame_stack=2)) != file_name(MakeConfig(), env)


def test_a_cache_that_cannot_be_made_is_said_before_data_are_made(tmp_path, monkeypatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RL_TRAINING_CACHE", str(tmp_path / "file"))
    with pytest.raises(
        ConfigError, match=r"cannot be made .*: name another in the environment variable RL_TRAINING_CACHE"
    ):
        BC.from_preset("bc/cartpole").learn(total_updates=1, progress=False)
