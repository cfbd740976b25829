import math

import pytest
import torch

from rl_training.core import Box, Dict, Discrete, MultiBinary, Spec, UniformPolicy

FEATURES = Box((2,), (-1.0,) * 2, (1.0,) * 2)


def test_choices_are_equally_likely() -> None:
    torch.manual_seed(0)
    act = UniformPolicy(Spec(FEATURES, Discrete(4))).act(torch.zeros(40_000, 2))
    share = torch.bincount(act.action, minlength=4) / 40_000
    torch.testing.assert_close(share, torch.full((4,), 0.25), rtol=0, atol=0.01)
    torch.testing.assert_close(act.log_prob, torch.full((40_000,), -math.log(4)))


@pytest.mark.parametrize("dtype", [torch.int8, torch.bool, torch.float32])
def test_masked_choices_are_never_taken(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    policy = UniformPolicy(Spec(Dict({"x": FEATURES, "action_mask": MultiBinary(3)}), Discrete(3)))
    masks = torch.tensor([[1, 0, 1], [0, 0, 1], [1, 1, 1]]).repeat_interleave(10_000, 0)
    act = policy.act({"x": torch.zeros(30_000, 2), "action_mask": masks.to(dtype)})
    share = torch.stack([torch.bincount(part, minlength=3) / 10_000 for part in act.action.split(10_000)])
    wanted = torch.tensor([[0.5, 0, 0.5], [0, 0, 1], [1 / 3, 1 / 3, 1 / 3]])
    torch.testing.assert_close(share, wanted, rtol=0, atol=0.02)
    assert not share[wanted == 0].any()
    allowed = masks.sum(-1).float()
    torch.testing.assert_close(act.log_prob, -allowed.log())


def test_continuous_actions_fill_the_cube() -> None:
    torch.manual_seed(0)
    policy = UniformPolicy(Spec(FEATURES, Box((2, 3), (-5.0,) * 6, (5.0,) * 6)))
    assert policy.squashed  # [-1, 1] is rescaled to the bounds at the environment
    act = policy.act(torch.zeros(20_000, 2))
    assert act.action.shape == (20_000, 6)
    assert (act.action.abs() <= 1).all()
    torch.testing.assert_close(act.action.mean(0), torch.zeros(6), rtol=0, atol=0.03)
    torch.testing.assert_close(act.action.var(0), torch.full((6,), 1 / 3), rtol=0, atol=0.02)
    torch.testing.assert_close(act.log_prob, torch.full((20_000,), -6 * math.log(2)))


def test_memory_is_handed_through() -> None:
    memory = (torch.ones(3, 2),)
    assert UniformPolicy(Spec(FEATURES, Discrete(2))).act(torch.zeros(3, 2), memory).memory is memory
