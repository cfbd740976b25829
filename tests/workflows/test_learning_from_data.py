"""Agents with a dataset: what they are built from, what they refuse, and one life cycle for both phases."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

import rl_training
from rl_training import BC, DQN, PPO, RLPD, SAC, ConfigError, Dataset, DiscreteCQL, PrioritizedDQN, RunConfig
from rl_training.cli import main
from rl_training.config.overrides import apply_override
from rl_training.core import Discrete, Spec
from rl_training.data import DatasetError
from rl_training.experiment.checkpoint import difference
from tests.offline import CQL_SETTINGS, QUICK, REPLAY, cloned, cql, rlpd, state_of, steps_of

CARTPOLE = {"seed": 0, "threads": 1, "compile": False}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    steps_of("CartPole-v1").save(tmp_path / "data.npz")
    return tmp_path / "data.npz"


def test_without_an_environment_the_spaces_are_the_datas() -> None:
    data = steps_of("CartPole-v1")
    agent = cql(None)
    assert agent.spec == data.spec
    assert agent.env is None
    agent.learn(total_updates=20, progress=False)
    actions, _ = agent.predict(data.obs[:50])
    assert set(actions.tolist()) <= {0, 1}
    with pytest.raises(ConfigError, match=r"there is no environment to evaluate in: name one .*off_policy"):
        agent.evaluate(3)
    with pytest.raises(ConfigError, match=r"total_timesteps=10 needs an environment to step: name one"):
        agent.learn(10, progress=False)


def test_an_environment_serves_to_evaluate_and_is_not_stepped_for_training() -> None:
    agent = cloned(evaluation={"interval": 20, "episodes": 3})
    result = agent.learn(total_updates=40, progress=False)
    assert result.eval_episodes == 3
    assert (result.total_timesteps, result.offline_updates, result.episodes) == (0, 40, 0)
    assert agent.evaluate(3).mean >= 1


@pytest.mark.parametrize("make", [cloned, cql, rlpd])
def test_saved_agents_act_the_same(make, tmp_path: Path) -> None:
    agent = make()
    agent.learn(total_updates=30, progress=False)
    agent.save(tmp_path / "model")
    loaded = rl_training.load(tmp_path / "model")  # acting needs no data
    assert type(loaded) is type(agent)
    assert loaded.dataset is None
    obs = agent.dataset.obs[:64]
    np.testing.assert_array_equal(agent.predict(obs)[0], loaded.predict(obs)[0])
    assert agent.evaluate(2, seed=3).returns == loaded.evaluate(2, seed=3).returns
    assert loaded.progress.offline_updates == 30


def test_a_dataset_that_was_an_object_is_handed_over_again(tmp_path: Path) -> None:
    agent = cql(None)
    agent.learn(total_updates=20, progress=False)
    agent.save(tmp_path / "model")
    loaded = DiscreteCQL.load(tmp_path / "model")
    with pytest.raises(
        ConfigError, match=r"handed over as an object \(sha256 \w{64}\): hand it over again, load\(path, data"
    ):
        loaded.learn(total_updates=5, progress=False)
    again = DiscreteCQL.load(tmp_path / "model", dataset=steps_of("CartPole-v1"))
    again.learn(total_updates=5, progress=False)
    agent.learn(total_updates=5, progress=False)
    assert difference(state_of(agent)["algorithm"], state_of(again)["algorithm"]) is None


@pytest.mark.parametrize("kind", ["path", "text", "opened"])
def test_a_dataset_in_a_file_is_opened_again(kind: str, path: Path, tmp_path: Path) -> None:
    source = {"path": path, "text": str(path), "opened": Dataset.open(path)}[kind]
    agent = cql(None, dataset=source)
    assert agent.config.data.path == str(path)
    agent.learn(total_updates=20, progress=False)
    agent.save(tmp_path / "model")
    loaded = rl_training.load(tmp_path / "model")
    for one in (agent, loaded):
        one.learn(total_updates=15, progress=False)
    assert difference(state_of(agent)["algorithm"], state_of(loaded)["algorithm"]) is None
    in_memory = cql(None)
    in_memory.learn(total_updates=20, progress=False)
    in_memory.learn(total_updates=15, progress=False)
    assert difference(state_of(agent)["algorithm"], state_of(in_memory)["algorithm"]) is None


def test_another_dataset_is_refused(path: Path, tmp_path: Path) -> None:
    agent = cql(None, dataset=Dataset.open(path))
    agent.learn(total_updates=5, progress=False)
    agent.save(tmp_path / "model")
    other = steps_of("CartPole-v1", seed=1)
    sentence = r"is not the one this run learned from: its sha256 is \w{64}, not data.sha256="
    with pytest.raises(ConfigError, match=sentence):
        rl_training.load(tmp_path / "model", dataset=other)
    path.unlink()
    other.save(path)  # under the same name
    with pytest.raises(ConfigError, match=sentence):
        rl_training.load(tmp_path / "model").learn(total_updates=5, progress=False)


def test_a_file_that_changed_under_its_name_is_refused(path: Path, tmp_path: Path) -> None:
    agent = cql(None, dataset=path)
    agent.learn(total_updates=5, progress=False)
    agent.save(tmp_path / "model")
    path.unlink()
    steps_of("CartPole-v1", seed=1).save(path)
    with pytest.raises(ConfigError, match="is not the one this run learned from"):
        rl_training.load(tmp_path / "model").learn(total_updates=5, progress=False)


def test_a_run_needs_a_budget() -> None:
    for agent in (cloned(), cql(None), rlpd()):
        with pytest.raises(ConfigError, match=r"how long\? learn\(total_updates=...\) learns from the dataset alone"):
            agent.learn(progress=False)
        assert agent.trainer is None


DATA = {"cartpole": "CartPole-v1", "pendulum": "Pendulum-v1"}
REFUSED = {
    "rollouts": (PPO, "CartPole-v1", "cartpole", {}, r"ppo learns from its own rollouts and takes no dataset: use BC"),
    "priorities": (
        PrioritizedDQN,
        "CartPole-v1",
        "cartpole",
        {},
        r"experience.prioritized=true with a dataset: data is dr",
    ),
    "frames": (
        DQN,
        "CartPole-v1",
        "cartpole",
        {"frame_stack": 2},
        r"env.frame_stack=2 with a dataset: stack the frames",
    ),
    "observations": (
        BC,
        "Acrobot-v1",
        "cartpole",
        {},
        r"the dataset's observations are Box\(4,\) float32, those of Acrobot",
    ),
    "kind of actions": (SAC, None, "cartpole", {}, r"SAC needs Box actions, but this environment has Discrete"),
    "discrete": (DiscreteCQL, None, "pendulum", {}, r"needs Discrete actions, but this environment has Box"),
    "steps": (
        BC,
        "CartPole-v1",
        "cartpole",
        {"total_timesteps": 9},
        r"total_timesteps=9: bc learns from data alone, set",
    ),
    "no env": (DQN, None, "cartpole", {"total_timesteps": 9}, r"total_timesteps=9 needs an environment to step"),
    "negative": (BC, None, "cartpole", {"total_updates": -1}, r"training.total_updates=-1 must be at least 0"),
    "ratio": (
        RLPD,
        "Pendulum-v1",
        "pendulum",
        {"offline_batch_ratio": 1.5},
        r"offline_batch_ratio=1.5 must be at most 1",
    ),
}


@pytest.mark.parametrize(("kind", "env", "data", "settings", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_go_together_is_refused(kind, env, data: str, settings: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        kind(env, dataset=steps_of(DATA[data]), **CARTPOLE | settings)


def test_other_things_are_no_dataset_and_no_budget(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"dataset=7 is not a dataset: pass a Dataset or the path of one"):
        BC(dataset=7)
    with pytest.raises(ValueError, match=r"nowhere.npz"):
        BC(dataset=tmp_path / "nowhere.npz")
    with pytest.raises(ConfigError, match=r"bc is to learn from data and has none: pass dataset="):
        BC("CartPole-v1", total_updates=5)
    with pytest.raises(ConfigError, match=r"dqn is to learn from data and has none"):
        DQN("CartPole-v1", **CARTPOLE).learn(total_updates=5)
    for budget in (0, -3, 2.5):
        with pytest.raises(ConfigError, match=r"total_updates=.* must be"):
            cloned().learn(total_updates=budget)


def cartpole_with(action: Discrete) -> Dataset:
    data = steps_of("CartPole-v1")
    columns = {name: getattr(data, name) for name in ("obs", "reward", "terminated", "truncated", "next_obs")}
    return Dataset.from_arrays(**columns, action=data.action + action.start, spec=Spec(data.spec.obs, action))


def shifted() -> Dataset:
    return cartpole_with(Discrete(2, start=1))


def test_data_of_other_actions_are_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"dataset's actions are Discrete\(3\), those of CartPole-v1 are Discrete\(2\): use"
    ):
        cloned("CartPole-v1", dataset=cartpole_with(Discrete(3)))


def test_numbers_that_are_not_finite_are_refused_before_learning(tmp_path: Path) -> None:
    data = steps_of("CartPole-v1")
    reward = data.reward.copy()
    reward[[7, 9]] = np.nan
    broken = Dataset(data.columns._replace(reward=reward), data.spec)
    with pytest.raises(
        DatasetError, match=r"reward is not finite in row 7 \(2 such rows\): .*`rl-training data lint FILE`"
    ):
        cloned(None, dataset=broken)
    broken.save(tmp_path / "folder")  # which is mapped, and not looked at
    assert len(cloned(None, dataset=Dataset.open(tmp_path / "folder")).dataset) == len(data)


def test_choices_that_are_counted_from_1_are_learned_from() -> None:
    agent = cloned(None, dataset=shifted())
    agent.learn(total_updates=10, progress=False)
    assert set(agent.predict(shifted().obs)[0].tolist()) <= {1, 2}
    plain = cloned(None)
    plain.learn(total_updates=10, progress=False)
    assert difference(state_of(agent)["algorithm"], state_of(plain)["algorithm"]) is None


def test_choices_that_are_counted_otherwise_than_the_environments_are_refused() -> None:
    with pytest.raises(ConfigError, match="actions"):
        cloned("CartPole-v1", dataset=shifted())


ALIASED = {
    "buffer_capacity": (5_000, lambda config: config.experience.buffer_size),
    "train_frequency": (8, lambda config: config.experience.train_freq),
    "gradient_updates_per_step": (3, lambda config: config.algorithm.gradient_steps),
    "offline_pretrain_updates": (70, lambda config: config.training.total_updates),
}
OURS = {
    "buffer_capacity": ("experience", "buffer_size"),
    "train_frequency": ("experience", "train_freq"),
    "gradient_updates_per_step": ("algorithm", "gradient_steps"),
    "offline_pretrain_updates": ("training", "total_updates"),
}
every_alias = pytest.mark.parametrize("alias", ALIASED)


def mapping(**algorithm: object) -> dict:
    """An RLPD config; its data need not exist to be checked."""
    return {"algorithm": {"name": "rlpd"} | algorithm, "env": {"id": "Pendulum-v1"}, "data": {"path": "data.npz"}}


@every_alias
def test_other_names_are_understood_wherever_ours_are(alias: str) -> None:
    value, read = ALIASED[alias]
    assert read(RLPD("Pendulum-v1", dataset=steps_of("Pendulum-v1"), **{alias: value}).config) == value
    from_yaml = yaml.safe_load(yaml.safe_dump(mapping(**{alias: value})))
    assert read(RunConfig.from_mapping(from_yaml)) == value
    assert read(RunConfig.from_mapping(apply_override(mapping(), f"algorithm.{alias}={value}"))) == value
    section, name = OURS[alias]
    over = apply_override(mapping() | {section: mapping().get(section, {}) | {name: 1}}, f"algorithm.{alias}={value}")
    assert read(RunConfig.from_mapping(over)) == value
    assert alias not in json.dumps(RunConfig.from_mapping(from_yaml).to_mapping())  # kept under our name alone


@every_alias
def test_both_names_are_refused(alias: str) -> None:
    section, name = OURS[alias]
    sentence = f"algorithm.{alias} and {section}.{name} are the same setting: give one of them"
    both = mapping(**{alias: 8})
    both[section] = both.get(section, {}) | {name: 8}
    with pytest.raises(ConfigError, match=sentence):
        RunConfig.from_mapping(both)
    with pytest.raises(ConfigError, match=sentence):
        rlpd(**{alias: 8, name: 8})


@every_alias
def test_an_override_replaces_what_a_file_says_under_the_other_name(alias: str) -> None:
    value, read = ALIASED[alias]
    section, name = OURS[alias]
    for path in (f"algorithm.{alias}", f"{section}.{name}"):
        assert read(RunConfig.from_mapping(apply_override(mapping(**{alias: 16}), f"{path}={value}"))) == value


def test_pretraining_is_followed_by_steps_and_updates_alone_are_not() -> None:
    assert RunConfig.from_mapping(mapping(offline_pretrain_updates=70)).training.total_timesteps == 100_000
    assert RunConfig.from_mapping(mapping() | {"training": {"total_updates": 70}}).training.total_timesteps == 0
    both = mapping(offline_pretrain_updates=70) | {"training": {"total_timesteps": 300}}
    assert RunConfig.from_mapping(both).training.horizon == 370
    assert RunConfig.from_mapping(mapping()).training.horizon == 0  # left to `learn`


def test_pretraining_by_an_override_is_followed_by_steps_too() -> None:
    config = RunConfig.from_mapping(apply_override(mapping(), "algorithm.offline_pretrain_updates=70"))
    assert config.training.total_timesteps == 100_000


@pytest.mark.parametrize("name", ["ppo", "prioritized_dqn"])
def test_a_config_with_a_dataset_beside_it_is_checked(name: str) -> None:
    config = RunConfig.from_mapping({"algorithm": {"name": name}, "env": {"id": "CartPole-v1"}})
    with pytest.raises(ConfigError, match="dataset"):
        rl_training.Agent(config, dataset=steps_of("CartPole-v1"))


def test_no_environment_and_no_data_is_refused() -> None:
    with pytest.raises(ConfigError):
        DQN("none", **CARTPOLE)


def test_a_dataset_can_be_given_to_an_agent_that_had_none(tmp_path: Path) -> None:
    agent = DQN("CartPole-v1", **REPLAY)
    agent.learn(40, progress=False)
    agent.save(tmp_path / "model")
    loaded = rl_training.load(tmp_path / "model", dataset=steps_of("CartPole-v1"))
    assert loaded.learn(total_updates=5, progress=False).offline_updates == 5


def read_lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_both_phases_are_one_run_directory_and_one_checkpoint(path: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    straight = cql(dataset=path, total_updates=60, total_timesteps=60)
    straight.learn(progress=False)
    settings = {"total_updates": 60, "total_timesteps": 60, "checkpoint": {"interval": 40}}
    paused = cql(dataset=path, run_dir=run, **settings)
    assert (
        paused.learn(stop_at=45, progress=False).reason
        == "paused at 45 of 60 updates from data alone and 0 of 60 env steps"
    )
    paused.close()
    second = rl_training.Agent.resume(run)
    assert second.learn(stop_at=60, progress=False).offline_updates == 60
    second.close()
    third = rl_training.Agent.resume(run)
    result = third.learn(progress=False)
    assert (result.status, result.offline_updates, result.total_timesteps) == ("finished", 60, 60)
    assert difference(state_of(straight)["algorithm"], state_of(third)["algorithm"]) is None
    record = json.loads((run / "result.json").read_text())
    assert (record["offline_updates"], record["total_timesteps"], record["status"]) == (60, 60, "finished")
    checkpoints = sorted(entry.name for entry in (run / "checkpoints").glob("step-*"))
    assert checkpoints[-1] == "step-000000000120"
    rows = [row for row in read_lines(run / "metrics.jsonl") if "train/loss" in row]
    assert [row["timesteps"] for row in rows] == [30, 45, 60, 92, 120]
    assert [row["time/total_timesteps"] for row in rows] == [0, 0, 0, 32, 60]
    assert "train/offline_batch_ratio" not in rows[1]
    assert rows[-1]["train/offline_batch_ratio"] == 0.5
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["data"]["path"] == str(path)
    assert rl_training.load(run).progress.timesteps == 120


def test_one_object_goes_on_with_steps_in_its_run_directory(tmp_path: Path) -> None:
    agent = cql(run_dir=tmp_path / "run", evaluation={"episodes": 2, "interval": 20})
    agent.learn(total_updates=40, progress=False)
    result = agent.learn(60, progress=False)
    assert (result.offline_updates, result.total_timesteps) == (40, 60)
    rows = [row for row in read_lines(tmp_path / "run" / "metrics.jsonl") if "eval/mean_reward" in row]
    assert [row["timesteps"] for row in rows] == [20, 40, 60, 80, 100]
    returns = [row["eval/mean_reward"] for row in rows]
    since, record = returns[2:], json.loads((tmp_path / "run" / "result.json").read_text())
    assert not any("eval/switch_dip" in row or "eval/switch_regret" in row for row in rows[:2])
    dip, regret = max(0.0, returns[1] - min(since)), max(returns) - sum(since) / 3
    assert (rows[-1]["eval/switch_dip"], rows[-1]["eval/switch_regret"]) == pytest.approx((dip, regret))
    assert (record["switch_return"], record["switch_dip"]) == pytest.approx((returns[1], dip))
    assert (record["switch_regret"], record["online_return"]) == pytest.approx((regret, sum(since) / 3))


def test_the_command_line_trains_from_data_and_resumes(path: Path, tmp_path: Path, capsys) -> None:
    config = {"algorithm": {"name": "bc"} | {key: QUICK[key] for key in ("net_arch", "batch_size")}}
    config |= {"env": {"id": "none"}, "data": {"path": str(path)}, "training": {"threads": 1, "compile": False}}
    (tmp_path / "bc.yaml").write_text(yaml.safe_dump(config))
    run, file = str(tmp_path / "run"), str(tmp_path / "bc.yaml")
    command = ["train", file, "--run-dir", run, "--total-updates", "250", "--stop-at", "100", "--quiet"]
    assert main(command) == 0
    assert "paused: 100 updates from data alone" in capsys.readouterr().out
    assert main(["resume", run, "--verify", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "finished: 250 updates from data alone" in out
    assert "verify: exact" in out
    assert main(["train", file, "--run-dir", f"{run}2", "--quiet"]) == 2
    assert "how long?" in capsys.readouterr().err


def test_settings_of_the_data_section_are_kept_and_checked(path: Path) -> None:
    agent = DiscreteCQL("CartPole-v1", data={"path": str(path)}, **CQL_SETTINGS)
    assert len(agent.dataset) == len(steps_of("CartPole-v1"))
    assert RunConfig.from_mapping(agent.config.to_mapping()) == agent.config
    with pytest.raises(ConfigError, match=r"data.pth is not a setting: did you mean 'path'\?"):
        DiscreteCQL("CartPole-v1", data={"pth": "x"})
    with pytest.raises(ConfigError, match="is not the one this run learned from"):
        DiscreteCQL("CartPole-v1", data={"path": str(path), "sha256": "0" * 64}, **CQL_SETTINGS)
