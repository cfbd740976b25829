from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from rl_training.core import StepBatch, tree_leaves, tree_map


class Pair(NamedTuple):
    left: object
    right: object


def test_map_keeps_the_shape_of_the_tree() -> None:
    tree = Pair({"a": torch.tensor(1), "b": (torch.tensor(2),)}, None)
    mapped = tree_map(lambda x: x * 10, tree)
    assert mapped == Pair({"a": torch.tensor(10), "b": (torch.tensor(20),)}, None)
    assert type(mapped) is Pair
    assert type(mapped.left["b"]) is tuple


def test_map_joins_several_trees_by_key_not_by_order() -> None:
    one = {"x": torch.tensor([1]), "y": torch.tensor([2])}
    other = {"y": torch.tensor([20]), "x": torch.tensor([10])}
    joined = tree_map(lambda *parts: torch.cat(parts), one, other)
    assert {key: value.tolist() for key, value in joined.items()} == {"x": [1, 10], "y": [2, 20]}


def test_map_refuses_tuples_of_different_length() -> None:
    with pytest.raises(ValueError, match="shorter"):
        tree_map(torch.add, (torch.ones(1), torch.ones(1)), (torch.ones(1),))


def test_map_indexes_every_column_of_a_batch() -> None:
    columns = torch.arange(12).reshape(4, 3)
    ones = torch.ones(4)
    batch = StepBatch({"obs": columns}, columns + 1, ones, ones, {"obs": columns}, ones, {"value": columns + 2})
    rows = tree_map(lambda column: column[torch.tensor([2, 0])], batch)
    assert rows.obs["obs"].tolist() == [[6, 7, 8], [0, 1, 2]]
    assert rows.action.tolist() == [[7, 8, 9], [1, 2, 3]]
    assert rows.columns["value"].tolist() == [[8, 9, 10], [2, 3, 4]]
    assert len(rows.weight) == 2


def test_a_tensor_is_a_tree() -> None:
    assert tree_map(torch.neg, torch.tensor(3)).item() == -3
    assert [leaf.item() for leaf in tree_leaves(torch.tensor(3))] == [3]


def test_leaves_come_in_order_and_skip_what_is_absent() -> None:
    tree = Pair({"b": torch.tensor(1), "a": (torch.tensor(2), None)}, torch.tensor(3))
    leaves = list(tree_leaves(tree))
    assert all(isinstance(leaf, Tensor) for leaf in leaves)
    assert [leaf.item() for leaf in leaves] == [1, 2, 3]
