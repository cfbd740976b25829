"""Means of metrics, and reading them all at once."""

import math

import torch

from rl_training.runtime.journal import Averages
from rl_training.runtime.transfer import Reading


def read(metrics: dict[str, torch.Tensor]) -> dict[str, float]:
    return {name: value for name, (value,) in zip(metrics, Reading(list(metrics.values())).numbers(), strict=True)}


def test_a_metric_is_averaged_over_the_updates_that_have_it() -> None:
    averages = Averages()
    averages.add([{"a": torch.tensor(1.0), "b": torch.tensor(4.0)}, {"a": torch.tensor(2.0)}])
    averages.add([{"a": torch.tensor(6.0)}])
    assert read(averages.pop()) == {"a": 3.0, "b": 4.0}
    assert averages.pop() == {}


def test_the_mean_of_one_update_is_its_number_to_the_last_bit() -> None:
    value = torch.tensor(0.1)
    averages = Averages()
    averages.add([{"a": value}])
    assert read(averages.pop()) == {"a": value.item()}


def test_numbers_of_all_types_are_read_in_their_order() -> None:
    metrics = {
        "single": torch.tensor(0.1),
        "double": torch.tensor(0.1, dtype=torch.float64),
        "flag": torch.tensor(True),
        "nan": torch.tensor([math.nan]),
        "count": torch.tensor(3),
        "last": torch.tensor(0.25),
    }
    numbers = read(metrics)
    assert list(numbers) == list(metrics)
    assert numbers["single"] == torch.tensor(0.1).item() != 0.1
    assert (numbers["double"], numbers["flag"], numbers["count"]) == (0.1, 1.0, 3.0)
    assert math.isnan(numbers["nan"])
    assert all(type(number) is float for number in numbers.values())
    assert read({}) == {}


def test_tensors_of_several_numbers_are_read_with_others() -> None:
    tensors = [torch.tensor([1.0, 2.0]), torch.tensor(True), torch.tensor(3.0), torch.empty(0)]
    assert Reading(tensors).numbers() == [[1.0, 2.0], [1.0], [3.0], []]
