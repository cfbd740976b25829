import math

import pytest
import torch
from torch import nn

from rl_training.core import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space
from rl_training.models import DictEncoder, NatureCNN, SmallCNN, build_encoder

FACTORY = __name__  # tests name factories of this module, as users do: 'package.module:function'


def image_space(*shape: int) -> Box:
    num = shape[0] * shape[1] * shape[2]
    return Box(shape, (0.0,) * num, (255.0,) * num, "uint8")


class Doubling(nn.Module):
    def __init__(self, space: Space) -> None:
        super().__init__()
        self.space, self.features_dim = space, 3

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


def doubling(space: Space) -> nn.Module:
    return Doubling(space)


def nameless(space: Space) -> nn.Module:
    return nn.Linear(3, 3)  # no `features_dim`


def not_a_module(space: Space) -> object:
    return lambda x: x


@pytest.mark.parametrize(
    ("space", "obs", "features"),
    [
        (Discrete(3), [2, 0], [[0, 0, 1], [1, 0, 0]]),
        (MultiDiscrete((2, 3)), [[1, 0], [0, 2]], [[0, 1, 1, 0, 0], [1, 0, 0, 0, 1]]),
        (MultiBinary(3), [[1, 0, 1]], [[1, 0, 1]]),
        (Box((2,), (-1.0,) * 2, (1.0,) * 2), [[0.5, -0.5]], [[0.5, -0.5]]),
        (Box((2, 2), (-1.0,) * 4, (1.0,) * 4), [[[1.0, 2.0], [3.0, 4.0]]], [[1, 2, 3, 4]]),
        (Box((), (0.0,), (1.0,)), [0.25, 0.75], [[0.25], [0.75]]),
        (Box((2,), (0.0,) * 2, (9.0,) * 2, "int64"), [[7, 8]], [[7, 8]]),
    ],
    ids=["Discrete", "MultiDiscrete", "MultiBinary", "vector", "matrix", "scalar", "integers"],
)
def test_flat_features(space: Space, obs: list, features: list) -> None:
    encoder = build_encoder(space)
    encoded = encoder(torch.tensor(obs))
    assert encoded.dtype == torch.float32
    assert encoded.tolist() == features
    assert encoder.features_dim == len(features[0])
    over_time = encoder(torch.tensor([obs, obs]))  # [time, env]
    assert over_time.tolist() == [features, features]


@pytest.mark.parametrize("shape", [(3, 36, 40), (36, 40, 3)])
def test_nature_cnn_known_answer(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    encoder = build_encoder(image_space(*shape))
    assert isinstance(encoder, NatureCNN)
    images = torch.randint(256, (2, 5, *shape), dtype=torch.uint8)
    x = images.flatten(0, 1).float() / 255
    x = x if shape[0] == 3 else x.permute(0, 3, 1, 2)
    for layer, stride in zip((0, 2, 4), (4, 2, 1), strict=True):
        conv = encoder.convolutions[layer]
        x = torch.relu(nn.functional.conv2d(x, conv.weight, conv.bias, stride=stride))
    expected = torch.relu(nn.functional.linear(x.flatten(1), encoder.head[0].weight, encoder.head[0].bias))
    encoded = encoder(images)
    assert encoded.shape == (2, 5, 512)
    torch.testing.assert_close(encoded, expected.unflatten(0, (2, 5)), rtol=1e-4, atol=1e-5)


def test_nature_cnn_layouts_agree() -> None:
    torch.manual_seed(0)
    first, last = NatureCNN(image_space(2, 36, 36)), NatureCNN(image_space(36, 36, 2))
    last.load_state_dict(first.state_dict())
    images = torch.randint(256, (3, 2, 36, 36), dtype=torch.uint8)
    torch.testing.assert_close(first(images), last(images.permute(0, 2, 3, 1)))


def test_nature_cnn_starts_orthogonal() -> None:
    torch.manual_seed(0)
    encoder = NatureCNN(image_space(1, 36, 36), features_dim=16)
    for layer in (*encoder.convolutions[::2][:3], encoder.head[0]):
        rows = layer.weight.flatten(1)
        torch.testing.assert_close(rows @ rows.T, 2 * torch.eye(len(rows)), rtol=0, atol=1e-4)
        assert not layer.bias.any()


@pytest.mark.parametrize("shape", [(3, 20, 20), (20, 84, 3), (84, 20, 3)])
def test_images_too_small_are_refused_with_the_way_out(shape: tuple[int, ...]) -> None:
    with pytest.raises(
        ValueError, match=r"too small for encoder='nature'.*'impala'.*'small'.*encoder='module:factory'"
    ):
        build_encoder(image_space(*shape), factory="nature")
    with pytest.raises(ValueError, match=r"\(2, 40, 1\) are too small for encoder='small'.*: enlarge them"):
        build_encoder(image_space(2, 40, 1))


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((36, 40, 3), NatureCNN),
        ((3, 84, 84), NatureCNN),
        ((35, 84, 3), SmallCNN),
        ((10, 10, 4), SmallCNN),
        ((10, 10, 10), SmallCNN),
    ],
)
def test_the_default_follows_from_the_size(shape: tuple[int, ...], expected: type) -> None:
    assert type(build_encoder(image_space(*shape))) is expected


def test_small_cnn_known_answer_on_a_board_of_zeros_and_ones() -> None:
    torch.manual_seed(0)
    space = Box((10, 10, 10), (0.0,) * 1000, (1.0,) * 1000, "uint8")  # as many channels as cells: they are last
    encoder = build_encoder(space)
    board = torch.randint(2, (5, 10, 10, 10), dtype=torch.uint8)
    conv, dense = encoder.convolutions[0], encoder.head[0]
    x = torch.relu(nn.functional.conv2d(board.permute(0, 3, 1, 2).float(), conv.weight, conv.bias))
    assert x.shape == (5, 16, 8, 8)
    expected = torch.relu(nn.functional.linear(x.flatten(1), dense.weight, dense.bias))
    torch.testing.assert_close(encoder(board), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "sides"), [((12, 12, 1), []), ((24, 10, 1), [(2, 1)]), ((60, 33, 3), [(2, 2)] * 2 + [(2, 1)])]
)
def test_small_cnn_halves_larger_sides(shape: tuple[int, ...], sides: list) -> None:
    encoder = SmallCNN(image_space(*shape))
    strides = [layer.stride for layer in encoder.convolutions if isinstance(layer, nn.Conv2d)]
    assert strides == [*sides, (1, 1)]
    assert encoder(torch.zeros(2, *shape, dtype=torch.uint8)).shape == (2, 128)


def test_impala_cnn_known_answer() -> None:
    torch.manual_seed(0)
    encoder = build_encoder(image_space(20, 17, 3), factory="impala")
    images = torch.randint(256, (2, 20, 17, 3), dtype=torch.uint8)

    def conv(x: torch.Tensor, layer: nn.Conv2d) -> torch.Tensor:
        return nn.functional.conv2d(x, layer.weight, layer.bias, padding=1)

    x, layers = images.permute(0, 3, 1, 2).float() / 255, encoder.convolutions
    for start in (0, 4, 8):
        x = nn.functional.max_pool2d(conv(x, layers[start]), 3, stride=2, padding=1)
        for block in layers[start + 2 : start + 4]:
            x = x + conv(torch.relu(conv(torch.relu(x), block.first)), block.second)
    assert x.shape == (2, 32, 3, 3)
    head = encoder.head[0]
    expected = torch.relu(nn.functional.linear(torch.relu(x).flatten(1), head.weight, head.bias))
    assert encoder.features_dim == 256
    torch.testing.assert_close(encoder(images), expected, rtol=1e-4, atol=1e-5)


def test_a_name_chooses_the_network_of_pictures_in_a_dict() -> None:
    space = Dict({"camera": image_space(1, 36, 36), "speed": Box((1,), (0.0,), (1.0,))})
    assert build_encoder(space, factory="impala").features_dim == 257


def test_dict_features_are_joined_and_the_mask_is_not_one() -> None:
    space = Dict(
        {
            "position": Box((2,), (-1.0,) * 2, (1.0,) * 2),
            "action_mask": MultiBinary(4),
            "gear": Discrete(3),
        }
    )
    encoder = build_encoder(space)
    obs = {
        "gear": torch.tensor([1, 2]),
        "action_mask": torch.ones(2, 4),
        "position": torch.tensor([[0.5, 0.25], [0.0, 1.0]]),
    }
    assert isinstance(encoder, DictEncoder)
    assert encoder.features_dim == 5
    assert encoder(obs).tolist() == [[0.5, 0.25, 0, 1, 0], [0, 1, 0, 0, 1]]


def test_dict_with_an_image() -> None:
    space = Dict({"camera": image_space(1, 36, 36), "speed": Box((1,), (0.0,), (1.0,))})
    encoder = build_encoder(space)
    obs = {"camera": torch.zeros(4, 1, 36, 36, dtype=torch.uint8), "speed": torch.full((4, 1), 0.5)}
    assert encoder.features_dim == 513
    assert encoder(obs)[:, -1].tolist() == [0.5] * 4


def test_factory_is_called_with_the_space() -> None:
    space = Box((3,), (-1.0,) * 3, (1.0,) * 3)
    encoder = build_encoder(space, factory=f"{FACTORY}:doubling")
    assert encoder.space is space
    assert encoder(torch.ones(1, 3)).tolist() == [[2, 2, 2]]


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("no_such_package:make", "cannot be imported"),
        (f"{FACTORY}:no_such_function", "cannot be imported"),
        (
            FACTORY,
            "names no code: write it 'package.module:name', or use 'nature', 'impala', 'small', 'flat' for pictures",
        ),
        (f"{FACTORY}:nameless", "features_dim"),
        (f"{FACTORY}:not_a_module", "must return a torch module"),
    ],
)
def test_a_wrong_factory_is_named_in_the_error(factory: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        build_encoder(Discrete(2), factory=factory)
    assert repr(factory) in str(error.value)


@pytest.mark.parametrize("space", [Discrete(10**6), MultiDiscrete((60_000, 60_000))])
def test_too_many_choices_are_refused_before_they_fill_the_memory(space: Discrete | MultiDiscrete) -> None:
    with pytest.raises(ValueError, match=r"has \d+ choices, and a one-hot vector takes at most 100000: .*nn.Embedding"):
        build_encoder(space)


@pytest.mark.parametrize(("shape", "largest"), [((10, 10, 4), 1.0), ((5, 3, 3), 255.0)])
def test_flat_pictures_are_their_pixels_from_0_to_1(shape: tuple[int, ...], largest: float) -> None:
    size = math.prod(shape)
    encoder = build_encoder(Box(shape, (0.0,) * size, (largest,) * size, "uint8"), factory="flat")
    pictures = torch.randint(int(largest) + 1, (2, 7, *shape), dtype=torch.uint8)
    assert torch.equal(encoder(pictures), pictures.reshape(2, 7, size).float() / largest)
    assert encoder.features_dim == size
    assert not list(encoder.parameters())
