"""N-step returns equal a direct sum, for every pattern of episode ends, every `n` and every place in a ring."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from rl_training.functional import ENDED, TERMINATED, n_step_return
from tests.properties import examples

GAMMA = 0.5  # sums of small whole numbers are exact
FLAGS = st.sampled_from([0, 0, ENDED, ENDED | TERMINATED])
ROWS = st.lists(st.tuples(st.integers(-8, 8), FLAGS), min_size=1, max_size=12)


@examples(150)
@given(rows=ROWS, n=st.integers(1, 6), turned=st.integers(0, 11))
def test_it_is_the_direct_sum_wherever_the_rows_stand_in_a_ring(rows: list, n: int, turned: int) -> None:
    size = len(rows) + 1  # a free row, which is written next
    place = [(index + turned) % size for index in range(len(rows))]
    reward, flags = torch.full((size,), 1e6), torch.full((size,), ENDED, dtype=torch.uint8)
    for at, (value, flag) in zip(place, rows, strict=True):
        reward[at], flags[at] = value, flag
    stop = torch.tensor((len(rows) + turned) % size)
    found = n_step_return(reward, flags, torch.tensor(place), lambda row: (row + 1) % size, n=n, gamma=GAMMA, stop=stop)

    for index in range(len(rows)):
        taken = []
        for later in range(index, min(index + n, len(rows))):
            taken.append(later)
            if rows[later][1] & ENDED:
                break
        last = taken[-1]
        assert found.reward[index] == sum(GAMMA**k * rows[later][0] for k, later in enumerate(taken))
        assert found.discount[index] == (0 if rows[last][1] & TERMINATED else GAMMA ** len(taken))
        assert (found.last[index], found.flags[index]) == (place[last], rows[last][1])
