"""A check that an encoder keeps the contract: run it on yours before you train with it."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import gymnasium as gym
import torch
from torch import Tensor, nn

from rl_training.config.code_objects import by_name
from rl_training.core import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tree, tree_leaves, tree_map
from rl_training.envs import EnvConfig, VectorEnv
from rl_training.envs.check import EnvSource, spec_of
from rl_training.envs.spaces import convert_space
from rl_training.models.own_encoder import EncoderFactory, OwnEncoder, build_own

ROWS = 6
FEW = 2  # rows of a smaller batch with the same first rows


def check_encoder(
    encoder: EncoderFactory | str,
    where: Space | gym.Space | EnvSource,
    *,
    seed: int = 0,
) -> None:
    """Builds the encoder, encodes random observations, and raises one ValueError that lists every breach of contract.

    The encoder must be a torch module with `features_dim`, and everything in it must move to another device with it.
    For one row and for many, it returns [rows, features_dim] of finite floating-point numbers. A row's features do not
    depend on the rest of the batch. Encoding changes neither the observation nor the network, and gradients reach its
    parameters.

        check_encoder(Net, "CartPole-v1")
        check_encoder(Net, MyEnv)  # a class or a function that builds one, as `envs.check` takes
        check_encoder("my_package.networks:Net", gymnasium.spaces.Box(0, 255, (64, 64, 3), np.uint8))
    """
    name, space = by_name({"encoder": encoder})["encoder"], find_space(where)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network, other = build_own(name, space), build_own(name, space)
        problems = [*check_parts(network, other)]
        try:
            problems += check_answers(network, sample(space, ROWS))
        except ValueError as error:  # of a wrong shape or type, without which the rest cannot be looked at
            problems.append(str(error))
    if problems:
        lines = "\n".join(f"  - {text}" for text in dict.fromkeys(problems))
        raise ValueError(f"the encoder breaks the contract:\n{lines}")


def find_space(where: object) -> Space:
    match where:
        case Box() | Discrete() | MultiDiscrete() | MultiBinary() | Dict():
            return where
        case gym.Space():
            return convert_space(where, role="observation")
        case gym.vector.VectorEnv():
            return convert_space(where.single_observation_space, role="observation")
        case gym.Env():
            return convert_space(where.observation_space, role="observation")
        case VectorEnv() | EnvConfig() | str():
            return spec_of(where).obs
    if not callable(where):
        raise ValueError(f"{where!r} is neither a space nor an environment: pass env.observation_space, or an id")
    return spec_of(where).obs


def check_parts(network: OwnEncoder, other: OwnEncoder) -> Iterator[str]:
    """Yields a sentence for each breach that shows without encoding, in two networks built by the same encoder.

    These are shared parameters, and tensors or layers that do not move to another device with the network.
    """
    shared = {id(parameter) for parameter in network.parameters()} & {id(p) for p in other.parameters()}
    if network.own is other.own or shared:
        yield "called twice, it gives the same parameters: make new ones in each call, because every network gets its own"
    for where, module in network.own.named_modules(prefix="self"):
        for name, value in vars(module).items():
            if name.startswith("_"):  # where torch keeps parameters, buffers and submodules
                continue
            parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else [value]
            for part in parts:
                if isinstance(part, Tensor):
                    yield f"{where}.{name} holds a tensor that does not move with the network: use register_buffer"
                elif isinstance(part, nn.Module):
                    yield f"{where}.{name} holds a layer that is not learned or moved: use nn.ModuleList or nn.ModuleDict"


def check_answers(network: OwnEncoder, obs: Tree) -> Iterator[str]:
    """Yields a sentence for each breach of the contract that shows when the network encodes `obs`, a batch of six."""
    before, given = copy.deepcopy(network.state_dict()), tree_map(Tensor.clone, obs)
    features = network(given)
    yield from check_gradients(network, features)
    if not torch.isfinite(features).all():
        yield "it gives numbers that are not finite"
    if not all(torch.equal(a, b) for a, b in zip(tree_leaves(given), tree_leaves(obs), strict=True)):
        yield "it changes the observation it is given: copy it first"
    if any(not torch.equal(before[key], value) for key, value in network.state_dict().items()):
        yield "encoding changes the network itself (as BatchNorm's averages): acting must leave it as it is, use LayerNorm"
    network.load_state_dict(before)
    if not torch.equal(network(obs), features):
        yield "the same observations give different features (as with Dropout): it must be deterministic"
        return
    for rows in (FEW, 1):
        alone = network(tree_map(lambda x, rows=rows: x[:rows], obs))
        if not torch.allclose(alone, features[:rows], rtol=1e-3, atol=1e-4):
            yield "the features of a row depend on the other rows of its batch (as with BatchNorm): use LayerNorm"
    over_time = network(tree_map(lambda x: x.unflatten(0, (FEW, ROWS // FEW)), obs))
    if not torch.allclose(over_time.flatten(0, 1), features, rtol=1e-3, atol=1e-4):
        yield "rows of two dimensions, time and environment, give other features"


def check_gradients(network: OwnEncoder, features: Tensor) -> Iterator[str]:
    learned = [parameter for parameter in network.parameters() if parameter.requires_grad]
    if not learned:
        return
    grads = torch.autograd.grad(features.sum(), learned, allow_unused=True) if features.requires_grad else [None]
    if all(grad is None for grad in grads):
        yield "no gradient reaches its parameters: encode without no_grad and detach"


def sample(space: Space, num: int) -> Tree:
    """Returns `num` random observations as networks get them: uint8 images, int64 choices and bits, else float32."""
    match space:
        case Dict():
            return {key: sample(leaf, num) for key, leaf in space.spaces.items()}  # pyrefly: ignore  (one level)
        case Box() if space.dtype == "uint8":
            return torch.randint(256, (num, *space.shape), dtype=torch.uint8)
        case Box():
            return torch.randn(num, *space.shape)
        case Discrete():
            return torch.randint(space.num, (num,))
        case MultiDiscrete():
            return torch.stack([torch.randint(n, (num,)) for n in space.nums], -1)
        case MultiBinary():
            return torch.randint(2, (num, space.num))
