"""The games pay what their tables say."""

import itertools
import re

import pytest
import torch

from rl_training.envs import EnvConfig, make_env

GAMES = {
    "climbing": [[11, -30, 0], [-30, 7, 0], [0, 6, 5]],
    "penalty": [[-100, 0, 10], [0, 2, 0], [10, 0, -100]],
}


@pytest.mark.parametrize("name", GAMES)
def test_a_game_pays_its_table_and_is_over(name: str) -> None:
    pairs = list(itertools.product(range(3), repeat=2))
    env = make_env(EnvConfig(id=f"matrix/{name}", n_envs=len(pairs)))
    env.reset(0)
    step = env.step({"player": torch.tensor(pairs)})  # pyrefly: ignore (a team's)
    assert step.reward.tolist() == [GAMES[name][row][column] for row, column in pairs]
    assert step.terminated.all()
    assert not step.values  # both earn what the team earns


def test_the_first_player_chooses_the_second_step() -> None:
    pairs = [(a, b, *rest) for a, b in itertools.product(range(2), repeat=2) for rest in ((0, 0), (0, 1), (1, 1))]
    env = make_env(EnvConfig(id="matrix/two_step", n_envs=len(pairs)))
    env.reset(0)
    choices = torch.tensor(pairs)
    first = env.step({"player": choices[:, :2]})  # pyrefly: ignore (a team's, as below)
    assert not first.reward.any()
    assert not first.terminated.any()
    assert isinstance(first.next_obs, dict)
    assert first.next_obs["state"].argmax(-1).tolist() == [1 + pair[0] for pair in pairs]
    second = env.step({"player": choices[:, 2:]})  # pyrefly: ignore
    table = {(0, 0): 0.0, (0, 1): 1.0, (1, 1): 8.0}
    assert second.reward.tolist() == [7.0 if pair[0] == 0 else table[pair[2], pair[3]] for pair in pairs]
    assert second.terminated.all()


@pytest.mark.parametrize(("payoff", "lengths"), [([[1.0, 2.0]], "[2]"), ([[1.0, 2.0], [3.0]], "[2, 1]"), ([], "[]")])
def test_a_table_that_is_not_square_is_refused(payoff: list, lengths: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"payoff has rows of the lengths {lengths}: give as many rows")):
        make_env(EnvConfig(id="matrix/game", kwargs={"payoff": payoff}))
