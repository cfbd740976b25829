"""Trees that go to a device as one copy arrive as they were, whatever is in them and whatever is sent next."""

import pytest
import torch
from torch import Tensor

from rl_training.core import Transition, tree_leaves, tree_map
from rl_training.runtime.transfer import ALIGNMENT, Packed, copy_all
from tests.gpu import needs_gpu
from tests.rollouts import random_steps

CPU = torch.device("cpu")
DEVICES = [CPU, pytest.param(torch.device("cuda"), marks=needs_gpu)]
TYPES = (torch.bool, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bfloat16, torch.float32, torch.float64)


def filled(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> Tensor:
    numbers = torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(seed))
    return numbers % 2 == 0 if dtype == torch.bool else numbers.to(dtype)


def tree(seed: int = 0, rows: int = 3) -> tuple:
    """All types in an order that leaves most of them off their alignment, in nested branches."""
    leaves = {str(dtype): filled((rows, 1 + number), dtype, seed) for number, dtype in enumerate(TYPES)}
    transposed = filled((5, rows), torch.float32, seed).T
    scalar, empty = filled((), torch.int64, seed), filled((0, 4), torch.float32)
    return leaves, (filled((rows,), torch.bool, seed), transposed), None, {}, scalar, empty, filled((7,), torch.uint8)


def assert_same(result: object, expected: object) -> None:
    pairs = list(zip(tree_leaves(result), tree_leaves(expected), strict=True))
    for a, b in pairs:
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert torch.equal(a.cpu(), b.cpu())


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_a_tree_arrives_bit_for_bit_in_its_own_shape(device: torch.device) -> None:
    sent = Packed(device)(tree())
    assert_same(sent, tree())
    assert isinstance(sent, tuple)
    assert sent[2:4] == (None, {})
    for leaf in tree_leaves(sent):
        assert leaf.device.type == device.type
        assert leaf.data_ptr() % ALIGNMENT == 0 or not leaf.numel()
    assert len({leaf.untyped_storage().data_ptr() for leaf in tree_leaves(sent)}) == 1  # one copy


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_what_arrived_stays_when_more_is_sent(device: torch.device) -> None:
    send = Packed(device)
    trees = [tree(seed, rows) for seed, rows in enumerate([3, 3, 3, 40, 3, 1, 40])]
    sent = []
    for one in trees:
        mine = tree_map(Tensor.clone, one)
        sent.append(send(mine))
        tree_map(Tensor.zero_, mine)  # whoever sends may write again at once
    for result, expected in zip(sent, trees, strict=True):
        assert_same(result, expected)


def test_named_tuples_keep_their_names_and_the_senders_memory_is_not_shared() -> None:
    steps = random_steps(4, 2)._replace(columns={"first": torch.ones(4, 2, dtype=torch.bool)})
    sent = Packed(CPU)(steps)
    assert isinstance(sent, Transition)
    assert_same(sent, steps)
    steps.reward.fill_(7)
    assert not (sent.reward == 7).any()


@needs_gpu
def test_what_is_on_the_device_already_is_handed_on() -> None:
    there = torch.ones(3, device="cuda")
    sent = Packed(torch.device("cuda"))({"there": there, "here": torch.zeros(2)})
    assert sent["there"] is there
    assert sent["here"].is_cuda
    assert Packed(torch.device("cuda"))((there,))[0] is there


@needs_gpu
def test_memory_is_not_written_again_while_a_copy_reads_it() -> None:
    send, device = Packed(torch.device("cuda")), torch.device("cuda")
    torch.cuda._sleep(200_000_000)  # the device is busy, so that copies wait
    sent = [send(torch.full((1000,), float(number))) for number in range(6)]
    torch.cuda.synchronize()
    assert [leaf.unique().tolist() for leaf in sent] == [[float(number)] for number in range(6)]
    assert sent[0].device.type == device.type


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_tensors_of_all_types_are_written_into_others(device: torch.device) -> None:
    sources = [leaf.to(device) for leaf in tree_leaves(tree())]
    targets = [torch.zeros_like(leaf) for leaf in sources]
    addresses = [leaf.data_ptr() for leaf in targets]
    copy_all(targets, iter(sources))
    assert_same(tuple(targets), tuple(sources))
    assert [leaf.data_ptr() for leaf in targets] == addresses
    copy_all([], [])
