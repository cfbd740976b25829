"""N-step returns by hand: two episodes in a row, and the same rows as a ring that is still being written."""

import pytest
import torch
from torch import Tensor

from rl_training.functional import ENDED, TERMINATED, n_step_return

REWARD = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
FLAGS = torch.tensor([0, 0, TERMINATED | ENDED, 0, ENDED], dtype=torch.uint8)  # the second episode was cut
ROWS = torch.arange(5)


def following(row: Tensor) -> Tensor:
    return row + 1


@pytest.mark.parametrize(
    ("n", "reward", "discount", "last"),
    [
        (1, [1, 2, 3, 4, 5], [0.5, 0.5, 0, 0.5, 0.5], [0, 1, 2, 3, 4]),
        (2, [2, 3.5, 3, 6.5, 5], [0.25, 0, 0, 0.25, 0.5], [1, 2, 2, 4, 4]),
        (9, [2.75, 3.5, 3, 6.5, 5], [0, 0, 0, 0.25, 0.5], [2, 2, 2, 4, 4]),
    ],
)
def test_sums_end_with_the_episode(n: int, reward: list, discount: list, last: list) -> None:
    found = n_step_return(REWARD, FLAGS, ROWS, following, n=n, gamma=0.5)
    assert found.reward.tolist() == reward
    assert found.discount.tolist() == discount
    assert found.last.tolist() == last
    assert torch.equal(found.flags, FLAGS[found.last])


def test_a_ring_is_followed_around_and_not_beyond_what_is_written() -> None:
    """Rows 3, 4, 0, 1 are one episode; row 2 is written next."""
    ring = n_step_return(
        REWARD,
        torch.zeros(5, dtype=torch.uint8),
        torch.tensor([3, 4, 0, 1]),
        lambda row: (row + 1) % 5,
        n=3,
        gamma=0.5,
        stop=torch.tensor(2),
    )
    assert ring.reward.tolist() == [4 + 2.5 + 0.25, 5 + 0.5 + 0.5, 1 + 1, 2]
    assert ring.discount.tolist() == [0.125, 0.125, 0.25, 0.5]
    assert ring.last.tolist() == [0, 1, 1, 1]
