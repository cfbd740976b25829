import json
import math

import pytest
import torch
from torch import Tensor

from rl_training.core import ActionConverter, Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Spec
from rl_training.core.spaces import space_from_json, space_to_json

INF = math.inf
SPACES: dict[str, Space] = {
    "vector": Box((2,), (-1.0, -INF), (1.0, INF)),
    "scalar": Box((), (0.0,), (1.0,)),
    "matrix": Box((2, 3), (0.0,) * 6, (1.0,) * 6),
    "image": Box((1, 36, 36), (0.0,) * 1296, (255.0,) * 1296, "uint8"),
    "discrete": Discrete(3),
    "discrete from 5": Discrete(3, start=5),
    "multi discrete": MultiDiscrete((2, 3, 4)),
    "multi binary": MultiBinary(6),
    "dict": Dict({"position": Box((1,), (-1.0,), (1.0,)), "gear": Discrete(5), "action_mask": MultiBinary(3)}),
}


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_json_round_trip(space: Space) -> None:
    spec = Spec(space, Discrete(3, start=1))
    assert Spec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


def test_a_picture_is_written_and_shown_in_a_few_characters() -> None:
    """It has thousands of bounds, which are all equal."""
    picture = Box((84, 84, 4), (0.0,) * 28_224, (255.0,) * 28_224, "uint8")
    assert space_to_json(picture)["low"] == 0.0
    assert len(json.dumps(space_to_json(picture))) < 120
    assert repr(picture) == "Box(shape=(84, 84, 4), low=0, high=255, dtype='uint8')"
    assert len(repr(Dict({"camera": picture}))) < 120
    mixed = Box((900,), (0.0, *(-1.0,) * 899), (1.0,) * 900)
    assert space_from_json(json.loads(json.dumps(space_to_json(mixed)))) == mixed
    assert repr(mixed) == "Box(shape=(900,), low=(0, -1, -1, -1, -1, -1, ...), high=1, dtype='float32')"


def test_bounds_that_were_written_one_by_one_are_read() -> None:
    """As older checkpoints hold them."""
    record = {"kind": "Box", "shape": [2, 3], "low": [0.0] * 6, "high": [1.0] * 6, "dtype": "float32"}
    assert space_from_json(record) == SPACES["matrix"]


def test_box_properties() -> None:
    assert [SPACES[name].size for name in ("vector", "scalar", "matrix")] == [2, 1, 6]
    assert [SPACES[name].is_image for name in ("image", "matrix")] == [True, False]
    assert not Box((3, 40, 40), (0.0,) * 4800, (1.0,) * 4800, "float32").is_image
    assert not Box((128,), (0.0,) * 128, (255.0,) * 128, "uint8").is_image


def convert(space: Space, action: object, *, squashed: bool = False) -> Tensor:
    return ActionConverter(space, squashed=squashed)(torch.as_tensor(action))


def test_a_gaussian_action_is_clipped_not_rescaled() -> None:
    space = Box((2,), (-2.0, 0.0), (2.0, 10.0))
    assert convert(space, [[-3.0, -1.0], [0.5, 0.5], [2.5, 11.0]]).tolist() == [[-2, 0], [0.5, 0.5], [2, 10]]


def test_an_unbounded_side_is_not_clipped() -> None:
    space = Box((2,), (-INF, 0.0), (INF, INF))
    assert convert(space, [[-1e6, -1.0], [1e6, 1e6]]).tolist() == [[-1e6, 0], [1e6, 1e6]]


def test_a_squashed_action_is_rescaled() -> None:
    space = Box((2,), (-2.0, 0.0), (2.0, 10.0))
    action = [[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0], [0.5, -0.5]]
    assert convert(space, action, squashed=True).tolist() == [[-2, 0], [0, 5], [2, 10], [1, 2.5]]


@pytest.mark.parametrize("squashed", [False, True])
def test_a_box_of_several_dimensions_gets_its_shape_back(squashed: bool) -> None:
    space = Box((2, 3), (-1.0,) * 6, (1.0,) * 5 + (0.25,))
    action = torch.tensor([[-1.0, -0.5, 0.0, 0.5, 1.0, -1.0]]).expand(4, 5, 6)
    converted = convert(space, action, squashed=squashed)
    assert converted.shape == (4, 5, 2, 3)
    assert converted[3, 4].tolist() == [[-1.0, -0.5, 0.0], [0.5, 1.0, -1.0]]
    top = convert(space, torch.full((1, 6), 1.0), squashed=squashed)
    assert top[0].tolist() == [[1, 1, 1], [1, 1, 0.25]]  # bounds are in row-major order


def test_a_scalar_box_loses_its_last_dimension() -> None:
    assert convert(Box((), (-1.0,), (1.0,)), [[0.5], [3.0]]).tolist() == [0.5, 1.0]


def test_choices_are_counted_from_start() -> None:
    assert convert(Discrete(3, start=5), [0, 2, 1]).tolist() == [5, 7, 6]
    assert convert(Discrete(3, start=-1), [0, 2, 1]).tolist() == [-1, 1, 0]


@pytest.mark.parametrize("space", [Discrete(3), MultiDiscrete((3, 2)), MultiBinary(2)])
def test_other_actions_pass_unchanged(space: Space) -> None:
    action = torch.tensor([[1, 0], [0, 1]])
    assert convert(space, action) is action


BOXES = {
    "vector": Box((2,), (-2.0, 0.0), (2.0, 10.0)),
    "matrix": Box((2, 3), (-1.0, 0.0, -3.0, -1.0, -1.0, 5.0), (1.0, 2.0, 3.0, 1.0, 1.0, 6.0)),
    "picture": Box((4, 5, 2), (0.0,) * 40, (255.0,) * 40),
    "scalar": Box((), (-1.0,), (3.0,)),
}


@pytest.mark.parametrize("squashed", [False, True])
@pytest.mark.parametrize("space", BOXES.values(), ids=BOXES)
def test_what_data_hold_becomes_the_policys_action_again(space: Box, squashed: bool) -> None:
    converter = ActionConverter(space, squashed=squashed)
    bounds = (-1.0,) * space.size, (1.0,) * space.size
    low, high = map(torch.tensor, bounds if squashed else (space.low, space.high))
    inside = low + (high - low) * torch.rand(7, space.size, generator=torch.Generator().manual_seed(0))
    action = torch.cat([inside, low[None], high[None]])
    there = converter(action)
    assert there.shape == (9, *space.shape)
    back = converter.inverse(there)
    assert back.shape == (9, space.size)
    torch.testing.assert_close(back, action, rtol=0, atol=1e-4 if space.size == 40 else 1e-6)
    torch.testing.assert_close(converter(back), there)


def test_known_inverse_actions() -> None:
    space = BOXES["vector"]
    there = torch.tensor([[-2.0, 0.0], [0.0, 5.0], [1.0, 2.5]])
    squashed = ActionConverter(space, squashed=True)
    assert squashed.inverse(there).tolist() == [[-1, -1], [0, 0], [0.5, -0.5]]
    assert ActionConverter(space, squashed=False).inverse(there).tolist() == there.tolist()
    outside = torch.tensor([[-9.0, 99.0]])  # as data from wider bounds may hold
    assert squashed.inverse(outside).tolist() == [[-1, 1]]


def test_choices_of_data_are_counted_from_0() -> None:
    for start in (5, -1, 0):
        converter = ActionConverter(Discrete(3, start=start), squashed=False)
        assert converter.inverse(converter(torch.tensor([0, 2, 1]))).tolist() == [0, 2, 1]
    assert ActionConverter(Discrete(3, start=5), squashed=True).inverse(torch.tensor([5, 7])).tolist() == [0, 2]


@pytest.mark.parametrize("space", [Discrete(3), MultiDiscrete((3, 2)), MultiBinary(2)])
def test_other_actions_of_data_pass_unchanged(space: Space) -> None:
    action = torch.tensor([[1, 0], [0, 1]])
    assert ActionConverter(space, squashed=False).inverse(action) is action


@pytest.mark.parametrize(
    "space",
    [
        BOXES["vector"],
        BOXES["matrix"],
    ],
)
def test_no_actions_at_all_are_converted(space: Box) -> None:
    """A small share of a small batch may be no rows."""
    assert ActionConverter(space, squashed=True).inverse(torch.zeros(0, *space.shape)).shape == (0, space.size)


@pytest.mark.parametrize("dtype", ["x", "nn", 3, [], {}, -1])
@pytest.mark.parametrize(
    "space", [Box((2,), (0.0,) * 2, (1.0,) * 2), Discrete(3), MultiDiscrete((2, 3)), MultiBinary(4)]
)
def test_a_data_type_that_is_none_is_not_a_space(space: Space, dtype: object) -> None:
    with pytest.raises(TypeError):
        space_from_json(space_to_json(space) | {"env_dtype": dtype})


@pytest.mark.parametrize("keys", ["x", ["x"], None, 3, [["position"]]])
@pytest.mark.parametrize("obs", ["vector", "dict"])
def test_groups_of_keys_that_are_not_observed_are_no_spec(obs: str, keys: object) -> None:
    record = Spec(SPACES[obs], Discrete(3)).to_json()
    with pytest.raises(TypeError):
        Spec.from_json(record | {"groups": {"policy": keys}})


def test_every_kind_of_leaf_says_what_a_row_and_a_network_s_side_of_it_are() -> None:
    image = Box((2, 2, 1), (0.0,) * 4, (255.0,) * 4, "uint8")
    spaces = [Box((2,), (0.0, 0.0), (1.0, 1.0)), image, Discrete(3, start=2), MultiDiscrete((3, 2)), MultiBinary(4)]
    assert [space.shape for space in spaces] == [(2,), (2, 2, 1), (), (2,), (4,)]
    assert [space.dtype for space in spaces] == ["float32", "uint8", "int64", "int64", "int64"]
    assert [space.size for space in spaces] == [2, 4, 3, 5, 4]
