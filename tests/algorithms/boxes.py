"""What tests of methods with Box actions share: a space, a batch, and critics that say what they are told."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from rl_training.core import Algorithm, Box, Spec, StepBatch
from rl_training.models import Critics

OBS = Box((3,), (-1.0,) * 3, (1.0,) * 3)
SPEC = Spec(OBS, Box((2,), (-1.0,) * 2, (1.0,) * 2))
TINY = {"seed": 0, "compile": False, "net_arch": (8,), "learning_starts": 8, "batch_size": 8, "buffer_size": 64}


def make_batch(num: int = 6, **changes: object) -> StepBatch:
    gen = torch.Generator().manual_seed(0)
    obs, next_obs = torch.randn(2, num, 3, generator=gen)
    action = 2 * torch.rand(num, 2, generator=gen) - 1
    ones = torch.ones(num)
    return StepBatch(obs, action, ones, torch.full((num,), 0.5), next_obs, ones, {})._replace(**changes)


def say(critics: Critics, *values: float | Tensor, slope: tuple[float, float] = (0.0, 0.0)) -> None:
    """Makes critics without hidden layers say these values, plus `slope` times the action, of every observation."""
    (weight,), (bias,) = critics.net.weights, critics.net.biases
    with torch.no_grad():
        weight.zero_()
        weight[:, -2:] = torch.tensor(slope).unsqueeze(-1)
        bias.copy_(torch.stack([torch.as_tensor(value).expand(bias.shape[-1]) for value in values]).unsqueeze(1))


def parameters_of(algorithm: Algorithm) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in algorithm.named_parameters()}


def moved(algorithm: Algorithm, act: Callable[[], object]) -> set[str]:
    """The parts of the algorithm in which something changed, by their first names."""
    before = parameters_of(algorithm)
    act()
    after = parameters_of(algorithm)
    return {name.split(".")[0] for name in before if not torch.equal(before[name], after[name])}


def asked_gradients(module: nn.Module, act: Callable[[], object]) -> int:
    """How many of the module's parameters a gradient is computed for."""
    calls: list[int] = []
    handles = [p.register_hook(lambda gradient: calls.append(1)) for p in module.parameters()]
    act()
    for handle in handles:
        handle.remove()
    return len(calls)


def assert_follows(algorithm: Algorithm, pairs: list[tuple[Tensor, Tensor]], tau: float) -> None:
    """While the online networks stand still, every update brings the targets nearer by a share `tau`."""
    with torch.no_grad():
        for old, _ in pairs:
            old.normal_()
    start = [(old - new).detach() for old, new in pairs]
    for _ in range(5):
        algorithm.update_target(make_batch())
    for (old, new), distance in zip(pairs, start, strict=True):
        torch.testing.assert_close((old - new).detach(), distance * (1 - tau) ** 5, rtol=1e-4, atol=1e-6)
