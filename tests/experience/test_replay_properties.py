"""A replay holds what a list would hold, however steps come, wherever episodes end, and whenever it is saved."""

from __future__ import annotations

from typing import NamedTuple

import torch
from hypothesis import given
from hypothesis import strategies as st

from rl_training.core import StepBatch, Transition
from rl_training.experience import Replay
from rl_training.experiment.checkpoint import difference
from tests.experience.test_replay import make_replay
from tests.properties import examples

GAMMA = 0.5  # sums of small whole numbers are exact
GOES_ON, TERMINATED, TRUNCATED, BOTH, RESETS = range(5)


class Step(NamedTuple):
    tag: float  # what is observed; it occurs once
    following: float
    reward: float
    kind: int

    @property
    def ended(self) -> bool:
        return self.kind in (TERMINATED, TRUNCATED, BOTH)


@st.composite
def histories(draw: st.DrawFn) -> list[list[Step]]:
    """Steps of one to three environments; after an end there may be a row that only resets."""
    num_envs, num_steps = draw(st.integers(1, 3)), draw(st.integers(1, 30))
    kinds = st.sampled_from([GOES_ON, GOES_ON, GOES_ON, TERMINATED, TRUNCATED, BOTH, RESETS])
    pattern = st.lists(st.tuples(kinds, st.integers(-8, 8)), min_size=num_steps, max_size=num_steps)
    histories = []
    for env in range(num_envs):
        steps: list[Step] = []
        for number, (kind, reward) in enumerate(draw(pattern)):
            if kind == RESETS and not (steps and steps[-1].ended):
                kind = GOES_ON
            tag = 1000.0 * env + 10 * number
            joined = steps and not steps[-1].ended and steps[-1].kind != RESETS
            steps.append(Step(steps[-1].following if joined else tag, tag + 10, float(reward), kind))
            if steps[-1].ended:
                steps[-1] = steps[-1]._replace(following=tag + 5)
        histories.append(steps)
    return histories


@st.composite
def cuts(draw: st.DrawFn, number: int) -> list[tuple[int, int, bool]]:
    """Pieces in which steps arrive, and after which of them the replay is saved and read by another process."""
    ends = sorted({*draw(st.lists(st.integers(1, number), max_size=6)), number})
    return [(start, end, draw(st.booleans())) for start, end in zip([0, *ends], ends, strict=False)]


def as_transition(histories: list[list[Step]], start: int, end: int) -> Transition:
    def column(value) -> torch.Tensor:
        return torch.tensor([[value(steps[t]) for steps in histories] for t in range(start, end)])

    tag = column(lambda step: step.tag)
    return Transition(
        obs=tag.unsqueeze(-1),
        action=tag.long() % 5,
        log_prob=torch.zeros_like(tag),
        reward=column(lambda step: step.reward),
        next_obs=column(lambda step: step.following).unsqueeze(-1),
        terminated=column(lambda step: step.kind in (TERMINATED, BOTH)),
        truncated=column(lambda step: step.kind in (TRUNCATED, BOTH)),
        valid=column(lambda step: step.kind != RESETS),
        columns={},
    )


def listed(steps: list[Step], reach: int, n: int) -> list[tuple[float, ...]]:
    """Tag, n-step reward, discount, and where that is not 0 the last successor, of the newest rows."""
    slots = []  # the number of a step, or None for the last observation of an episode that was cut
    for number, step in enumerate(steps):
        slots += [number, None] if step.kind == TRUNCATED else [number]
    rows = []
    for number in slots[-reach:]:
        if number is None or steps[number].kind == RESETS:
            continue
        taken = []
        for step in steps[number : number + n]:
            taken.append(step)
            if step.ended:
                break
        reward = sum(GAMMA**k * step.reward for k, step in enumerate(taken))
        discount = 0.0 if taken[-1].kind in (TERMINATED, BOTH) else GAMMA ** len(taken)
        rows.append((steps[number].tag, reward, discount, taken[-1].following if discount else -1.0))
    return rows


def every_row(replay: Replay) -> list[tuple[float, ...]]:
    """What is learned from if each row that can be drawn is drawn once."""
    num = int(replay.columns.written.clamp(max=replay.reach).sum())
    batch: StepBatch = replay.gather(replay.columns, (torch.arange(num, dtype=torch.float64) + 0.5) / num)
    following = torch.where(batch.discount > 0, batch.next_obs[:, 0], -1.0)
    rows = zip(*(x.tolist() for x in (batch.obs[:, 0], batch.reward, batch.discount, following)), strict=True)
    return [row for row, counts in zip(rows, batch.weight.tolist(), strict=True) if counts]


@examples(80)
@given(data=st.data())
def test_a_ring_is_a_list_that_forgets(data: st.DataObject) -> None:
    history = data.draw(histories())
    num_envs, num_steps, n = len(history), len(history[0]), data.draw(st.integers(1, 4))
    settings = {"capacity": data.draw(st.integers(4, 20)), "n_steps": n, "gamma": GAMMA}
    replay = make_replay(num_envs, **settings)
    for start, end, resumed in data.draw(cuts(num_steps)):
        replay.add(as_transition(history, start, end))
        found, expected = every_row(replay), [listed(steps[:end], replay.reach, n) for steps in history]
        assert sorted(found) == sorted(row for rows in expected for row in rows)
        if resumed:
            other = make_replay(num_envs, **settings)
            other.load_state_dict(replay.state_dict())
            replay = other


@examples(60)
@given(data=st.data(), prioritized=st.booleans())
def test_pieces_and_pauses_change_no_bit(data: st.DataObject, prioritized: bool) -> None:
    history = data.draw(histories())
    num_envs, num_steps = len(history), len(history[0])
    settings = {"capacity": data.draw(st.integers(4, 20)), "n_steps": 2, "prioritized": prioritized}
    whole, replay = make_replay(num_envs, **settings), make_replay(num_envs, **settings)
    whole.add(as_transition(history, 0, num_steps))
    for start, end, resumed in data.draw(cuts(num_steps)):
        replay.add(as_transition(history, start, end))
        if resumed:
            other = make_replay(num_envs, **settings)
            other.load_state_dict(replay.state_dict())
            replay = other
    assert difference(whole.state_dict(), replay.state_dict()) is None
