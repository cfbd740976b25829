import pytest
import torch
from torch import nn

from rl_training.core import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space
from rl_training.models import DictEncoder, NatureCNN, build_encoder

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
    with pytest.raises(ValueError, match=r"too small for NatureCNN.*encoder='module:factory'"):
        build_encoder(image_space(*shape))


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
        (FACTORY, "'package.module:name'"),
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
