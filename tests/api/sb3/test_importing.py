"""An imported agent is a full agent: it has the file's settings, acts, learns further, and is saved and loaded."""

import logging
from collections.abc import Callable
from pathlib import Path

import cloudpickle
import gymnasium
import numpy as np
import pytest
import torch

import rl_training
from rl_training import Agent, CheckpointError, ConfigError
from rl_training.api.sb3 import import_sb3
from rl_training.api.sb3.archive import Archive
from rl_training.api.sb3.importing import check_spaces
from rl_training.api.transfer_weights import take_again
from rl_training.core import Adam, Box, Discrete, Schedule, Spec
from tests.api.sb3.bad_archives import members, pickled, with_settings, zipped
from tests.api.sb3.goldens import FOLDER, NUMBERS, STATISTICS, actions, golden, seen_by


class Walk(gymnasium.Env):
    """An environment with the spaces of the golden zips."""

    observation_space = gymnasium.spaces.Box(-5.0, 5.0, (3,))

    def __init__(self, choices: int = 0) -> None:
        low, high = np.array([-2.0, -1.0], np.float32), np.array([2.0, 3.0], np.float32)
        self.action_space = gymnasium.spaces.Discrete(choices) if choices else gymnasium.spaces.Box(low, high)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple:
        super().reset(seed=seed)
        self.t = 0
        return self.np_random.normal(size=3).astype(np.float32), {}

    def step(self, action: object) -> tuple:
        self.t += 1
        return self.np_random.normal(size=3).astype(np.float32), float(np.mean(action)), False, self.t >= 9, {}


def choosing() -> gymnasium.Env:
    return Walk(3)


def some_actions(agent: Agent) -> np.ndarray:
    return agent.predict(seen_by("")[:50])[0]


def test_settings_have_the_values_of_the_file() -> None:
    config = golden("ppo").config
    given = config.algorithm
    assert (given.clip_range, given.clip_range_vf) == (Schedule(0.2, 0.2), Schedule(0.3, 0.3))
    assert (given.net_arch.pi, given.net_arch.vf, given.activation_fn) == ((8, 6), (5,), "relu")
    assert (given.batch_size, given.n_epochs, given.ent_coef) == (16, 10, Schedule(0.02, 0.02))
    assert (given.log_std_init, given.adam_eps) == (-0.5, 1e-5)
    assert (config.experience.n_steps, config.env.n_envs, config.env.id) == (32, 1, "none")
    assert (config.training.seed, config.training.total_timesteps) == (0, 64)


def test_units_are_translated() -> None:
    trpo, tqc, ddpg, td3 = (golden(name).config for name in ("trpo", "tqc", "ddpg", "td3"))
    assert trpo.algorithm.learning_rate == Schedule(2e-3, 1e-3, 0.5)
    assert trpo.algorithm.target_kl == pytest.approx(0.02)  # of two components: the mean there, the sum here
    assert trpo.algorithm.batch_size == 32  # as many as there are, of 128
    assert (tqc.algorithm.n_quantiles, tqc.algorithm.n_critics, tqc.algorithm.target_entropy) == (5, 3, -2.0)
    assert (tqc.algorithm.net_arch, tqc.algorithm.critic_net_arch) == ((8, 6), (7, 8))
    assert (ddpg.algorithm.action_noise, ddpg.algorithm.action_noise_std) == ("ou", pytest.approx(0.3))
    assert (td3.algorithm.action_noise, td3.algorithm.action_noise_std) == ("gaussian", pytest.approx(0.2))
    assert ddpg.algorithm.target_policy_noise == 0.0
    assert td3.experience.learning_starts == 16
    assert golden("qr_dqn").config.algorithm.max_grad_norm is None


def test_replays_count_the_steps_of_all_environments() -> None:
    agent = golden("dqn", env=choosing, n_envs=4)
    assert agent.config.experience.train_freq == 16
    assert agent.env is not None
    assert agent.env.num_envs == 4
    agent.close()


def test_changes_win_over_the_file_also_as_a_section() -> None:
    agent = golden("ppo", learning_rate=1e-4, algorithm={"n_epochs": 3}, gamma=0.5)
    config = agent.config.algorithm
    assert (config.learning_rate, config.n_epochs, config.gamma) == (Schedule(1e-4, 1e-4), 3, 0.5)
    with pytest.raises(ConfigError, match="n_epoch"):
        golden("ppo", n_epoch=3)


LATER = [
    pytest.param(name, marks=pytest.mark.slow) for name in ("recurrent_ppo", "dqn", "crossq", "tqc", "trpo", "td3")
]


@pytest.mark.parametrize("name", ["ppo_normalized", "sac", *LATER])
def test_it_learns_further_and_is_saved_and_loaded(name: str, tmp_path: Path) -> None:
    env: Callable[[], gymnasium.Env] = Walk if name in ("sac", "crossq", "tqc", "trpo", "td3") else choosing
    agent = golden(name, env=env)
    before = some_actions(agent)
    assert agent.evaluate(2).lengths == (9, 9)
    agent.save(tmp_path / "imported")
    assert (some_actions(rl_training.load(tmp_path / "imported")) == before).all()
    counts = {part: o.count.item() for part, o in agent.algorithm.optimizers.items() if isinstance(o, Adam)}
    assert all(count > 0 for count in counts.values())
    agent.learn(64, progress=False)
    assert all(agent.algorithm.optimizer(part).count > count for part, count in counts.items())
    agent.save(tmp_path / "further")
    assert (some_actions(rl_training.load(tmp_path / "further")) == some_actions(agent)).all()
    assert agent.origins[0]["stable_baselines3"] == "2.9.2"
    agent.close()


def test_without_an_environment_it_says_where_to_name_one(tmp_path: Path) -> None:
    agent = golden("a2c")
    with pytest.raises(ConfigError, match="no environment to step"):
        agent.learn(64, progress=False)
    with pytest.raises(ConfigError, match="no environment to evaluate in"):
        agent.evaluate(1)
    assert agent.evaluate(1, env=choosing).lengths == (9,)
    agent.save(tmp_path / "a2c")
    other = rl_training.load(tmp_path / "a2c", env=choosing)
    assert (actions(other, "a2c") == NUMBERS["a2c/actions"]).all()
    other.close()


def test_statistics_become_those_of_the_normaliser_and_of_the_rewards() -> None:
    agent = golden("ppo_normalized", env=choosing)
    (norm,) = agent.algorithm.policy.normalizer.norms
    assert norm.mean.numpy() == pytest.approx(NUMBERS["ppo_normalized/mean"], abs=1e-12)
    assert norm.var.numpy() == pytest.approx(NUMBERS["ppo_normalized/var"], abs=1e-12)
    assert norm.count == NUMBERS["ppo_normalized/count"]
    assert agent.config.algorithm.clip_observation == 1.5
    agent.learn(2, progress=False)  # less than a rollout: nothing is added to the statistics yet
    moments = agent.trainer.experience.reward_scaling.moments
    assert moments.var.item() == pytest.approx(NUMBERS["ppo_normalized/return_var"].item(), abs=1e-12)
    assert moments.count.item() == pytest.approx(NUMBERS["ppo_normalized/return_count"].item())
    agent.close()


def test_with_a_replay_rewards_are_scaled_by_what_the_file_reached(caplog: pytest.LogCaptureFixture) -> None:
    agent = import_sb3(FOLDER / "dqn.zip", vecnormalize=STATISTICS)
    scale = (NUMBERS["ppo_normalized/return_var"] + 1e-8) ** -0.5
    assert agent.config.experience.reward_scale == pytest.approx(scale.item())
    assert "rewards are multiplied by" in caplog.text


def test_what_is_code_stays_at_its_default_and_a_warning_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "model.zip"
    path.write_bytes(with_settings(clip_range=cloudpickle.dumps(lambda progress: 0.1 * progress)))
    assert import_sb3(path).config.algorithm.clip_range == Schedule(0.2, 0.2)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "clip_range is pickled code, which is not run, and stays at its default" in record.message


def older(qualname: str, **cells: float) -> bytes:
    """A schedule as versions up to 2.6 pickled it: a function of their own that closes over numbers."""
    arguments = ", ".join(cells)
    code = f"def make({arguments}):\n    return lambda progress: ({arguments},)\n"
    space: dict = {}
    exec(code, space)
    function = space["make"](**cells)
    function.__module__, function.__qualname__ = "stable_baselines3.common.utils", qualname
    return cloudpickle.dumps(function)


def test_schedules_of_older_versions_are_read_from_what_they_close_over(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    linear = older("get_linear_fn.<locals>.func", end=0.1, end_fraction=0.4, start=0.3)
    path.write_bytes(with_settings(clip_range=older("constant_fn.<locals>.func", val=0.15), learning_rate=linear))
    config = import_sb3(path).config.algorithm
    assert config.clip_range == Schedule(0.15, 0.15)
    assert config.learning_rate == Schedule(0.3, 0.1, 0.4)


def test_another_environment_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"was trained with observations Box\(3,\) float32, those of CartPole-v1 are"):
        golden("ppo", env="CartPole-v1")


def test_pictures_may_have_their_channels_elsewhere_and_bounds_of_actions_may_not_differ() -> None:
    def picture(*shape: int) -> Box:
        return Box(shape, (0.0,) * int(np.prod(shape)), (255.0,) * int(np.prod(shape)), "uint8")

    archive = Archive(FOLDER / "ppo.zip")
    check_spaces(archive, Spec(picture(1, 36, 40), Discrete(2)), Spec(picture(36, 40, 1), Discrete(2)), "env")
    with pytest.raises(ConfigError, match="was trained with observations"):
        check_spaces(archive, Spec(picture(1, 36, 40), Discrete(2)), Spec(picture(40, 36, 1), Discrete(2)), "env")
    one, two = (Spec(Discrete(2), Box((1,), (-bound,), (bound,))) for bound in (1.0, 2.0))
    with pytest.raises(ConfigError, match="use the same bounds"):
        check_spaces(archive, one, two, "env")


def test_an_optimizer_that_is_not_available_starts_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "model.zip"
    adamw = pickled({"net_arch": [8], "optimizer_class": torch.optim.SGD})
    path.write_bytes(with_settings(policy_kwargs=adamw))
    agent = import_sb3(path)
    assert agent.algorithm.optimizer("all").count == 0
    assert "its optimizer SGD is not available here" in caplog.text


def test_a_file_of_old_torch_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    torch.save({"w": torch.ones(2)}, tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    path.write_bytes(zipped(members() | {"policy.pth": (tmp_path / "old.pth").read_bytes()}))
    with pytest.raises(CheckpointError, match=r"torch wrote before version 1\.6: load and save the model once"):
        import_sb3(path)


def test_loading_a_zip_as_a_checkpoint_says_what_opens_it() -> None:
    with pytest.raises(CheckpointError, match="import_sb3 opens zips of Stable-Baselines3"):
        rl_training.load(FOLDER / "ppo.zip")


def test_an_imported_run_cannot_be_trained_again_from_the_start() -> None:
    agent = golden("ppo")
    with pytest.raises(ConfigError, match="which is no checkpoint: it cannot be trained again"):
        take_again(golden("ppo"), agent.origins)


def test_one_observation_and_many_give_the_same_actions() -> None:
    agent, obs = golden("td3"), seen_by("td3")
    assert agent.predict(obs[0])[0] == pytest.approx(agent.predict(obs)[0][0], abs=1e-6)
