"""Hindsight: k of k + 1 rows get a goal that their episode achieved, with the reward and the end that it would have had."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rl_training.core import Box, Dict, Discrete, Spec, StepBatch, tree_map
from rl_training.core.goals import ACHIEVED, DESIRED, OBSERVATION
from rl_training.experience import HindsightSettings, Replay
from rl_training.experience.hindsight import EpisodePosition, choose_step
from rl_training.experience.sequences import Sequences
from rl_training.experiment.checkpoint import difference
from tests.experience.test_replay import draw, in_pieces, part
from tests.goals import FAR, GAMMA, Walk, goal_replay, judge, walk
from tests.properties import examples

FUTURE = HindsightSettings()
BOTH = [pytest.param(True, id="judged when drawn"), pytest.param(False, id="judged at the end")]


def drawn(replay: Replay, num: int) -> tuple[StepBatch, Tensor]:
    """A batch, and which of its rows have another goal: all do that have not their own."""
    batch = draw(replay, num)
    own = replay.take(replay.columns, located(replay, batch))
    return batch, (batch.obs[DESIRED] != own.obs[DESIRED]).squeeze(-1)


def located(replay: Replay, batch: StepBatch) -> Tensor:
    """The rows of a batch, found by their observations, which occur once."""
    stored = replay.columns.obs[OBSERVATION][:, 0]
    tags, rows = stored.sort()
    return rows[torch.searchsorted(tags, batch.obs[OBSERVATION][:, 0])]


def check_rows(replay: Replay, walked: Walk, n: int, strategy: str, num: int = 600) -> Tensor:
    """Compares every row with the recorded episode, step by step; returns how far on the goals were achieved."""
    batch, other = drawn(replay, num)
    ahead = []
    columns = (batch.obs[OBSERVATION][:, 0], batch.obs[DESIRED][:, 0], batch.reward, batch.discount)
    following = batch.next_obs[OBSERVATION][:, 0]
    for tag, goal, reward, discount, after, relabelled, weight in zip(
        *(column.tolist() for column in (*columns, following, other, batch.weight)), strict=True
    ):
        if not weight:
            continue
        env, episode, time = walked.moments[tag]
        achieved = walked.positions[env, episode]
        if relabelled:
            assert (env, episode) in walked.ended  # of open episodes nothing is relabelled
            then = achieved.index(goal)  # of the same episode
            ahead.append(then - time)
            assert strategy == "episode" or then >= time
            assert strategy != "final" or then == len(achieved) - 1
        else:
            assert goal == walked.goals[env, episode]
        total, factor = 0.0, 1.0
        for step in range(time, min(time + n, len(achieved))):
            paid, reached = judge(torch.tensor([achieved[step]]), torch.tensor([goal]))
            total, factor = total + factor * float(paid), factor * GAMMA
            if reached:
                break
        assert reward == pytest.approx(total, rel=1e-5)
        assert discount == pytest.approx(0.0 if reached else factor)
        assert after == tag + 2 * (step - time) + (2 if step + 1 < len(achieved) else 1)
    counts = batch.weight > 0
    assert torch.equal(batch.obs[DESIRED][counts], batch.next_obs[DESIRED][counts])
    return torch.tensor(ahead)


@pytest.mark.parametrize("tensor_code", BOTH)
@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
@pytest.mark.parametrize(("num_envs", "n", "prioritized"), [(1, 1, False), (3, 1, True), (2, 3, False), (2, 4, True)])
def test_every_row_equals_the_recorded_episode_under_its_goal(strategy, num_envs, n, prioritized, tensor_code) -> None:
    walked = walk(150, num_envs, seed=n + num_envs)
    settings = HindsightSettings(strategy=strategy)
    replay = goal_replay(
        num_envs, 60 * num_envs, tensor_code=tensor_code, hindsight=settings, n_steps=n, prioritized=prioritized
    )
    ahead = []
    for number, (start, end) in enumerate(in_pieces(150, seed=n, longest=20)):
        replay.add(part(walked.steps, start, end))
        if number % 4 == 3 or end == 150:
            seen = walk(end, num_envs, seed=n + num_envs)
            ahead.append(check_rows(replay, seen, n, strategy))
    assert replay.columns.written.min() > 2 * replay.reach  # the ring was overwritten twice
    found = torch.cat(ahead)
    assert (found < 0).any() == (strategy == "episode")
    assert (found > 0).any()


@pytest.mark.parametrize("tensor_code", BOTH)
@pytest.mark.parametrize("k", [1, 4])
def test_k_of_k_plus_one_rows_have_another_goal(k: int, tensor_code: bool) -> None:
    walked = walk(400, 2, seed=3, terminated=0.0)  # its own goals are never achieved
    last = max(int(walked.steps.truncated[:, env].nonzero()[-1]) for env in range(2))
    replay = goal_replay(2, 900, tensor_code=tensor_code, hindsight=HindsightSettings(k=k))
    replay.add(part(walked.steps, 0, last + 1))
    batch, other = drawn(replay, 20_000)
    moments = [walked.moments.get(tag) for tag in batch.obs[OBSERVATION][:, 0].tolist()]
    over = torch.tensor([m is not None and (m.env, m.episode) in walked.ended for m in moments])
    share, num, expected = float(other[over].float().mean()), int(over.sum()), k / (k + 1)
    assert abs(share - expected) < 3 * math.sqrt(expected * (1 - expected) / num)
    assert not other[~over].any()


@pytest.mark.parametrize("tensor_code", BOTH)
def test_future_goals_are_as_often_those_of_every_later_step(tensor_code: bool) -> None:
    walked = walk(12, 1, terminated=0.0, truncated=0.0)
    walked.steps.truncated[9] = True
    counts = torch.zeros(10, 10)
    for seed in range(1 if tensor_code else 60):  # at the end of an episode each row gets but four
        replay = goal_replay(1, 40, tensor_code=tensor_code, hindsight=FUTURE, seed=seed)
        replay.add(walked.steps)
        batch, other = drawn(replay, 40_000 if tensor_code else 4_000)
        achieved = torch.tensor(walked.positions[0, 0])
        time = (batch.obs[OBSERVATION][other, 0] // 2).long()
        then = torch.searchsorted(achieved, batch.obs[DESIRED][other, 0])
        counts.index_put_((time, then), torch.ones(len(time)), accumulate=True)
    share = counts / counts.sum(1, keepdim=True)
    expected = torch.triu(torch.ones(10, 10)) / torch.arange(10, 0, -1).unsqueeze(1)
    spread = (expected * (1 - expected) / (counts.sum(1, keepdim=True) if tensor_code else 240)).sqrt()
    assert ((share - expected).abs() <= 4.5 * spread).all()


def test_k_of_zero_is_the_plain_replay_bit_for_bit() -> None:
    walked = walk(120, 3)
    plain, none = goal_replay(3, 90), goal_replay(3, 90, hindsight=HindsightSettings(k=0))
    for start, end in in_pieces(120):
        for replay in (plain, none):
            replay.add(part(walked.steps, start, end))
        assert difference(draw(plain, 64)._asdict(), draw(none, 64)._asdict()) is None
    assert difference(plain.state_dict(), none.state_dict()) is None


def test_the_rows_that_are_drawn_are_those_of_the_plain_replay() -> None:
    walked = walk(100, 2, terminated=0.0)  # else the ring holds further rows
    plain, other = goal_replay(2, 80), goal_replay(2, 80, hindsight=FUTURE)
    for replay in (plain, other):
        replay.add(walked.steps)
    one, two = draw(plain, 500), draw(other, 500)
    for key in (OBSERVATION, ACHIEVED):
        assert torch.equal(one.obs[key], two.obs[key])
        assert torch.equal(one.next_obs[key], two.next_obs[key])
    assert torch.equal(one.action, two.action)
    assert not torch.equal(one.obs[DESIRED], two.obs[DESIRED])


@pytest.mark.parametrize("tensor_code", BOTH)
@pytest.mark.parametrize("cut", [37, 60, 101])
def test_a_saved_replay_goes_on_in_the_middle_of_episodes(cut: int, tensor_code: bool) -> None:
    walked = walk(160, 2, seed=1)
    settings = {"tensor_code": tensor_code, "hindsight": HindsightSettings(strategy="episode"), "n_steps": 2}
    whole, begun, resumed = (goal_replay(2, 70, **settings) for _ in range(3))
    for start, end in in_pieces(cut):
        whole.add(part(walked.steps, start, end))
        begun.add(part(walked.steps, start, end))
        begun.state_dict()  # looking at it changes nothing
    resumed.load_state_dict(begun.state_dict())
    for start, end in in_pieces(160 - cut, seed=2):
        for replay in (whole, resumed):
            replay.add(part(walked.steps, cut + start, cut + end))
        assert difference(draw(whole, 80)._asdict(), draw(resumed, 80)._asdict()) is None
    assert difference(whole.state_dict(), resumed.state_dict()) is None


@pytest.mark.parametrize("tensor_code", BOTH)
def test_an_episode_that_is_cut_has_ended(tensor_code: bool) -> None:
    walked = walk(9, 2, terminated=0.0, truncated=0.0)
    replay = goal_replay(2, 40, tensor_code=tensor_code, hindsight=FUTURE)
    replay.add(walked.steps)
    assert not drawn(replay, 200)[1].any()
    replay.cut()
    for ended in ((0, 0), (1, 0)):
        walked.ended.add(ended)
    assert drawn(replay, 200)[1].any()
    check_rows(replay, walked, 1, "future")


@pytest.mark.parametrize("tensor_code", BOTH)
def test_an_episode_longer_than_the_replay(tensor_code: bool) -> None:
    walked = walk(100, 1, terminated=0.0, truncated=0.0)
    walked.steps.truncated[70] = True
    replay = goal_replay(1, 40, tensor_code=tensor_code, hindsight=HindsightSettings(strategy="episode"))
    for start, end in in_pieces(71):
        replay.add(part(walked.steps, start, end))
    seen = Walk(walked.steps, walked.moments, {(0, 0): walked.positions[0, 0][:71]}, walked.goals, {(0, 0)})
    assert len(check_rows(replay, seen, 1, "episode")) > 100


@pytest.mark.parametrize("tensor_code", BOTH)
def test_every_frame_of_a_stack_gets_the_goal(tensor_code: bool) -> None:
    stack = Box((3, 1), (-math.inf,) * 3, (math.inf,) * 3)
    spec = Spec(Dict({OBSERVATION: stack, ACHIEVED: stack, DESIRED: stack}), Discrete(3))
    walked = walk(80, 2, seed=5)
    frames = tree_map(lambda x: x.unsqueeze(-1).expand(*x.shape[:2], 3, 1), (walked.steps.obs, walked.steps.next_obs))
    replay = goal_replay(2, 100, tensor_code=tensor_code, spec=spec, frame_stack=3, hindsight=FUTURE)
    replay.add(walked.steps._replace(obs=frames[0], next_obs=frames[1]))
    batch = draw(replay, 400)
    goals = batch.obs[DESIRED]
    assert goals.shape == (400, 3, 1)
    assert (goals == goals[:, :1]).all()
    near = (goals[:, 0, 0] < FAR) & (batch.weight > 0)
    assert near.any()
    reached = batch.next_obs[ACHIEVED][:, -1]
    assert torch.equal(batch.reward[near], judge(reached, goals[:, 0])[0][near])


def test_rewards_are_in_the_units_that_are_learned() -> None:
    walked = walk(60, 2, seed=2)
    for tensor_code in (True, False):
        raw, scaled = (
            goal_replay(2, 100, tensor_code=tensor_code, hindsight=FUTURE, **units)
            for units in ({}, {"reward_scale": 2.0, "reward_shift": 1.0})
        )
        for replay in (raw, scaled):
            replay.add(walked.steps)
        one, two = draw(raw, 300), draw(scaled, 300)
        torch.testing.assert_close(two.reward * two.weight, (2 * one.reward + 1) * one.weight)


@pytest.mark.compiled
@pytest.mark.parametrize("tensor_code", BOTH)
def test_goals_are_chosen_within_one_graph(tensor_code: bool) -> None:
    walked = walk(80, 2, seed=4)
    replay = goal_replay(2, 100, tensor_code=tensor_code, hindsight=HindsightSettings(strategy="episode"), n_steps=2)
    replay.add(walked.steps)
    numbers = replay.draw(200)
    traced = torch.compile(replay.gather, backend="eager", fullgraph=True)
    assert (
        difference(replay.gather(replay.columns, numbers)._asdict(), traced(replay.columns, numbers)._asdict()) is None
    )


def test_sequences_are_refused() -> None:
    with pytest.raises(ValueError, match=r"hindsight gives single rows other goals.*learns from sequences: drop"):
        goal_replay(1, 40, hindsight=FUTURE, sequences=Sequences(4))


@examples(60)
@given(
    st.sampled_from(["future", "final", "episode"]),
    st.integers(0, 40),
    st.integers(0, 40),
    st.floats(0, 1, exclude_max=True),
)
def test_a_chosen_step_is_one_of_the_episode(strategy: str, left: int, back: int, uniform: float) -> None:
    position = EpisodePosition(torch.tensor([left]), torch.tensor([back]))
    offset = int(choose_step(strategy, torch.tensor([uniform], dtype=torch.float64), position))
    assert {"future": 0, "final": left, "episode": -back}[strategy] <= offset <= left


@examples(25)
@given(st.data())
def test_episodes_of_any_lengths_are_found_from_any_of_their_rows(data: st.DataObject) -> None:
    num_envs, capacity = data.draw(st.integers(1, 3)), data.draw(st.integers(4, 20))
    rates = data.draw(st.sampled_from([(0.0, 0.5), (0.5, 0.0), (0.3, 0.3), (0.02, 0.02)]))
    num = data.draw(st.integers(5, 60))
    walked = walk(num, num_envs, seed=data.draw(st.integers(0, 99)), terminated=rates[0], truncated=rates[1])
    replay = goal_replay(num_envs, capacity * num_envs, hindsight=FUTURE)
    for start, end in in_pieces(num, longest=data.draw(st.integers(1, 9))):
        replay.add(part(walked.steps, start, end))
    stored = {tag: row for row, tag in enumerate(replay.columns.obs[OBSERVATION][:, 0].tolist())}
    batch = draw(replay, 200)
    for tag in set(batch.obs[OBSERVATION][batch.weight > 0, 0].tolist()):
        env, episode, time = walked.moments[tag]
        position = replay.ring.episode_position(replay.columns, torch.tensor([stored[tag]]))
        left = len(walked.positions[env, episode]) - 1 - time
        assert int(position.left) == left if (env, episode) in walked.ended else int(position.left) < 0
        assert 0 <= int(position.back) <= time
