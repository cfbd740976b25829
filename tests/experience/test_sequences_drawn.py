"""Pieces of episodes drawn from data and from replay: whole blocks, in order, within an episode, each row equally often."""

import copy

import numpy as np
import pytest
import torch

from rl_training.core import ActionConverter, Pass, Transition, tree_leaves
from rl_training.experience import LoggedSteps
from rl_training.experience.sequences import Sequences, wanted_sequences
from tests.data.making import count_up, with_stored_successors
from tests.experience.test_replay import in_pieces, kept_tags, make_replay, part, tagged_steps


def logged(lengths: tuple[int, ...], sequences: Sequences, *, stored: bool = False) -> LoggedSteps:
    dataset = count_up(lengths, tuple(number % 2 == 0 for number in range(len(lengths))))
    dataset = with_stored_successors(dataset) if stored else dataset
    convert = ActionConverter(dataset.spec.action, squashed=False)
    return LoggedSteps(dataset, convert, gamma=0.5, seed=0, sequences=sequences)


def test_pieces_by_hand() -> None:
    """Episodes of five and two steps in blocks of three; row i observes i."""
    experience = logged((5, 2), Sequences(3))
    draw = (torch.tensor([0, 2, 3, 4, 6], dtype=torch.float64) + 0.5) / 7
    batch = experience.gather(experience.columns, draw)
    assert batch.obs.shape == (3, 5, 1)
    pieces = [column[weight > 0].flatten().tolist() for column, weight in zip(*by_piece(batch), strict=True)]
    assert pieces == [[0, 1, 2], [0, 1, 2], [3, 4], [3, 4], [5, 6]]
    assert batch.weight.T.tolist() == [[1, 1, 1], [1, 1, 1], [1, 1, 0], [1, 1, 0], [1, 1, 0]]
    assert batch.columns["first"].T.tolist() == [[n in (0, 1, 4) and t == 0 for t in range(3)] for n in range(5)]
    assert batch.discount[:2, 2].tolist() == [0.5, 0.0]  # of rows 3 and 4, where it terminated
    assert batch.next_obs[:2, 4].flatten().tolist() == [6, 101]


def by_piece(batch) -> tuple:
    return batch.obs.transpose(0, 1), batch.weight.T


def test_burn_in_comes_before_and_does_not_count() -> None:
    experience = logged((7,), Sequences(2, burn_in=3))
    draw = (torch.tensor([0, 3, 4, 6], dtype=torch.float64) + 0.5) / 7
    batch = experience.gather(experience.columns, draw)
    seen, weight = (column.squeeze(-1).tolist() if column.ndim > 2 else column.tolist() for column in by_piece(batch))
    assert weight == [[1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1], [0, 0, 0, 1, 0]]
    assert [row[: len(w)] for row, w in zip(seen, weight, strict=True)][1][:4] == [0, 1, 2, 3]
    assert seen[2] == [1, 2, 3, 4, 5]
    assert seen[3][:4] == [3, 4, 5, 6]
    assert batch.columns["first"][0].tolist() == [True, True, False, False]
    assert not batch.columns["first"][1:].any()


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("sequences", [Sequences(1), Sequences(4), Sequences(4, 2), Sequences(50, 3)])
def test_every_row_of_the_data_is_learned_from_equally_often(sequences: Sequences, stored: bool) -> None:
    experience = logged((9, 1, 4, 17, 2), sequences, stored=stored)
    num = experience.num_rows
    draw = (torch.arange(num, dtype=torch.float64) + 0.5) / num  # each row once
    batch = experience.gather(experience.columns, draw)
    counts = np.bincount(batch.obs[batch.weight > 0].flatten().long(), minlength=num)
    block = [min(sequences.length, length - at // sequences.length * sequences.length)
             for length in (9, 1, 4, 17, 2) for at in range(length)]  # fmt: skip
    assert counts.tolist() == block  # once for each row of its own block
    inside = batch.weight[1:] * batch.weight[:-1] > 0
    assert (batch.obs[1:] - batch.obs[:-1])[inside].eq(1).all()


def test_passes_say_what_is_drawn() -> None:
    assert wanted_sequences((Pass(1, 32),)) is None
    assert wanted_sequences((Pass(1, 64, sequences=True, length=32, burn_in=4),)) == Sequences(32, 4)
    with pytest.raises(ValueError, match="multiple of it"):
        wanted_sequences((Pass(1, 60, sequences=True, length=32),))
    with pytest.raises(ValueError, match="needs a length"):
        wanted_sequences((Pass(1, 64, sequences=True),))
    with pytest.raises(ValueError, match="all single rows"):
        wanted_sequences((Pass(1, 64, sequences=True, length=32), Pass(1, 64)))


@pytest.mark.parametrize("sequences", [Sequences(1), Sequences(4), Sequences(4, 3), Sequences(100)])
@pytest.mark.parametrize(("num_envs", "capacity"), [(1, 40), (3, 60)])
def test_pieces_of_a_replay_are_true_and_within_an_episode(num_envs: int, capacity: int, sequences: Sequences) -> None:
    """Tags count up by one within an episode and jump by ten between two; rows that only reset come in between."""
    num_steps = int(2.5 * capacity / num_envs)
    steps = tagged_steps(num_steps, num_envs, seed=2, invalid=0.5)
    replay = make_replay(num_envs, capacity, sequences=sequences)
    age_of = ages(steps)
    for start, end in in_pieces(num_steps):
        replay.add(part(steps, start, end))
        batch = replay.gather(replay.columns, replay.draw(100 * sequences.length))
        tag, counts, first = batch.obs[..., 0], batch.weight > 0, batch.columns["first"]
        assert tag.shape == (sequences.burn_in + sequences.length, 100)
        both = counts[1:] & counts[:-1]
        assert (tag[1:] - tag[:-1])[both].eq(1).all()  # in order, and never into another episode
        assert not first[1:].any()
        for column, counted, begins in zip(tag.T.tolist(), counts.T.tolist(), first[0].tolist(), strict=True):
            if True not in counted:
                continue
            begin = counted.index(True)
            learned = [age_of[value] for value, yes in zip(column, counted, strict=True) if yes]
            assert begins == (learned[0] - begin == 0)
            if len(learned) == sequences.length:  # blocks are counted from the episode's first step
                assert learned[0] % sequences.length == 0
    batch = replay.gather(replay.columns, replay.draw(1_000 * sequences.length))
    assert set(batch.obs[batch.weight > 0][:, 0].tolist()) == kept_tags(steps, replay.reach)


def ages(steps: Transition) -> dict[float, int]:
    """Steps since the episode began, by tag."""
    found = {}
    for env in range(steps.reward.shape[1]):
        age = 0
        for t in range(len(steps.reward)):
            if steps.valid[t, env]:
                found[steps.obs[t, env].item()] = age
            over = steps.terminated[t, env] or steps.truncated[t, env] or not steps.valid[t, env]
            age = 0 if over else age + 1
    return found


def test_a_replay_that_goes_on_from_its_state_draws_the_same_pieces() -> None:
    steps = tagged_steps(40, 2, seed=5)
    replay, other = (make_replay(2, 50, sequences=Sequences(5, 2)) for _ in range(2))
    replay.add(part(steps, 0, 25))
    other.load_state_dict(copy.deepcopy(replay.state_dict()))
    for one in (replay, other):
        one.add(part(steps, 25, 40))
    ours, theirs = (one.gather(one.columns, one.draw(100)) for one in (replay, other))
    assert all(map(torch.equal, tree_leaves(ours), tree_leaves(theirs)))


def test_priorities_are_of_single_rows() -> None:
    with pytest.raises(ValueError, match="prioritized=true draws single rows"):
        make_replay(sequences=Sequences(4), prioritized=True)
