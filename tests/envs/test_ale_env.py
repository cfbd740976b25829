"""Atari games: what they show, what counts, what is learned from, and that a saved state goes on exactly."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch

from rl_training.envs import EnvConfig, check, make_env
from rl_training.envs.ale_vector_env import AleEnv, repeat_first
from rl_training.envs.vector import same_trees
from tests import needs

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "atari_frames.json").read_text())["games"]
PLAIN = {"sticky": 0.0}
LIVES = {"protocol": "dqn", "noop_max": 0}

needs.import_package("ale_py")


def games(name: str = "Breakout", num: int = 2, **settings) -> AleEnv:
    env = make_env(EnvConfig(id=f"ALE/{name}-v5", n_envs=num, **settings))
    assert isinstance(env, AleEnv)
    return env


def actions(env: AleEnv, num: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(0, env.spec.action.num, (num, env.num_envs)))


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_pictures_rewards_and_ends_are_those_of_gymnasiums_wrappers(name: str) -> None:
    golden, env = GOLDEN[name], games(name, 1, kwargs=PLAIN)
    assert checksum(env.reset(0)) == golden["first"]
    firsts = iter(golden["firsts"])
    for action, total, reward, ended in zip(
        *(golden[key] for key in ("actions", "sums", "rewards", "ends")), strict=True
    ):
        step = env.step(torch.tensor([action]))
        assert (checksum(step.next_obs), step.reward.item(), step.terminated.item()) == (total, reward, ended)
        if ended:
            assert checksum(step.obs) == next(firsts)
    env.close()


def checksum(obs: torch.Tensor) -> int:
    return zlib.crc32(obs[0].numpy().tobytes())


def test_the_first_picture_of_a_game_fills_its_stack() -> None:
    frames = np.arange(1, 5, dtype=np.uint8).reshape(1, 4, 1, 1).repeat(4, axis=0)
    for age in range(3):
        frames[age, : 3 - age] = 0
    repeat_first(frames, np.arange(4))
    assert frames[..., 0, 0].tolist() == [[4, 4, 4, 4], [3, 3, 3, 4], [2, 2, 3, 4], [1, 2, 3, 4]]


def test_stacks_shift_by_one_picture_and_begin_anew_with_each_game() -> None:
    env = games(kwargs=LIVES, max_episode_steps=7)
    obs, cuts = env.reset(3), 0
    for action in actions(env, 30):
        step = env.step(action)
        assert torch.equal(step.next_obs[:, :3], obs[:, 1:])
        assert (step.obs[step.truncated] == step.obs[step.truncated][:, :1]).all()
        assert torch.equal(step.obs[~step.truncated], step.next_obs[~step.truncated])
        cuts, obs = cuts + int(step.truncated.sum()), step.obs
    assert cuts == 8  # after every seventh step
    env.close()


def test_lives_and_signs_are_for_learning_and_the_game_keeps_its_own() -> None:
    env = games(kwargs=LIVES)
    env.reset(0)
    steps = [env.step(action) for action in actions(env, 240)]
    lost = torch.stack([step.lesson.life_lost for step in steps])
    ends = torch.stack([step.terminated for step in steps])
    assert not (lost & ends).any()
    for game in range(2):  # a game of five lives: four are lost on the way, the last ends it
        first = int(ends[:, game].nonzero()[0])
        assert lost[:first, game].sum() == 4
    rewards = torch.stack([step.reward for step in steps])
    assert torch.equal(torch.stack([step.lesson.reward for step in steps]), rewards.sign())
    env.close()


def test_rewards_above_one_are_counted_and_learned_from_as_one() -> None:
    env = games("Qbert", kwargs=LIVES)
    env.reset(0)
    steps = [env.step(action) for action in actions(env, 60)]
    assert max(step.reward.max().item() for step in steps) == 25
    assert max(step.lesson.reward.max().item() for step in steps) == 1
    env.close()


def test_without_clipping_and_lives_learning_sees_the_game() -> None:
    env = games(kwargs={"clip_reward": False})
    env.reset(0)
    assert env.step(torch.zeros(2, dtype=torch.long)).lesson is None
    env.close()


def test_a_video_of_a_game_is_as_fast_as_the_console() -> None:
    """It draws 60 frames a second, of which a policy sees every fourth."""
    env = games(num=1)
    assert env.render_fps == 15
    env.close()


def test_the_contract_is_kept() -> None:
    check(EnvConfig(id="ALE/Breakout-v5", kwargs={"size": 42}, max_episode_steps=25), num_steps=60)


@pytest.mark.parametrize(
    ("name", "num", "kwargs"),
    [("Breakout", 2, {"reseed_steps": 100}), ("Pong", 1, PLAIN), ("Qbert", 1, {"protocol": "dqn", "sticky": 0.25})],
)
def test_a_copy_goes_on_from_a_saved_state_bit_for_bit(name: str, num: int, kwargs: dict) -> None:
    env = games(name, num, kwargs=kwargs)
    env.reset(5)
    for action in actions(env, 250):
        env.step(action)
    state = env.get_state()
    assert state["log"].dtype == torch.uint8
    copy = games(name, num, kwargs=kwargs)
    assert copy.set_state(state) is None
    assert copy.state_kind == "replayed"
    for action in actions(env, 60, seed=1):
        assert same_trees(env.step(action), copy.step(action))
    env.close()
    copy.close()


def test_a_log_that_leads_elsewhere_starts_new_games() -> None:
    env = games("Pong", 1)
    env.reset(0)
    for action in actions(env, 60):
        env.step(action)
    state = env.get_state()
    state["log"] = (state["log"] + 2) % 6
    assert env.set_state(state) is not None
    assert env.state_kind == "boundary"
    env.close()


def test_a_log_begins_again_when_a_game_is_seeded_anew() -> None:
    env = games(num=2, kwargs={"reseed_steps": 20}, max_episode_steps=10)
    env.reset(0)
    env.begin_log(8)
    for action in actions(env, 45):
        env.step(action)
    assert env.get_state()["log"].shape == (5, 2)
    env.close()


def test_a_coloured_picture_and_eighteen_actions_can_be_asked_for() -> None:
    env = games("Pong", 1, frame_stack=1, kwargs={"grayscale": False, "size": 64, "full_action_space": True})
    assert env.reset(0).shape == (1, 64, 64, 3)
    assert env.spec.action.num == 18
    assert env.spec.obs.is_image
    env.close()


@pytest.mark.parametrize("sticky", [0.0, 0.25])
def test_a_game_of_gymnasium_goes_on_from_a_saved_state_bit_for_bit(sticky: float) -> None:
    config = EnvConfig(
        id="ale_py:ALE/Pong-v5",
        backend="gymnasium",
        kwargs={"repeat_action_probability": sticky, "obs_type": "ram"},
        max_episode_steps=20,
    )
    env, copy = make_env(config), make_env(config)
    env.reset(5)
    moves = torch.from_numpy(np.random.default_rng(0).integers(0, 6, (70, 1)))
    for action in moves[:50]:  # in the third game
        env.step(action)
    assert copy.set_state(env.get_state()) is None
    for action in moves[50:]:
        assert same_trees(env.step(action), copy.step(action))
    env.close()
    copy.close()
