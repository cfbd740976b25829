import numpy as np
import torch

from rl_training.core import owned


def test_numbers_lie_in_memory_of_their_own_however_they_lay_before() -> None:
    """What matrix products are given begins at a multiple of 64 bytes and is contiguous."""
    numbers = torch.from_numpy(np.arange(600, dtype=np.float32))
    for start in range(1, 40):
        given = numbers[start : start + 12].view(3, 4).t()
        copy = owned(given)
        assert torch.equal(copy, given)
        assert copy.data_ptr() % 64 == 0
        assert copy.is_contiguous()
        assert copy.untyped_storage().nbytes() == given.nbytes
