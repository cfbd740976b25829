"""Small agents of d3rlpy and their updates, watched for `d3rlpy_golden.py`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from d3rlpy.algos.qlearning.base import QLearningAlgoBase
from d3rlpy.base import LearnableConfig
from d3rlpy.models.encoders import VectorEncoderFactory
from d3rlpy.torch_utility import TorchMiniBatch
from torch import Tensor, nn

from golden import numbers, watch

NUM_UPDATES = 2
BATCH_SIZE, OBS_SIZE, ACTION_SIZE = 10, 4, 3
WIDTHS = [6, 6]


class UnsuitableError(Exception):
    """With this seed something is not compared, or decided by rounding."""


@dataclass(frozen=True)
class Case:
    """An agent, the names of what an update draws, in order, and the number of its first update."""

    config: type[LearnableConfig]
    settings: dict[str, float | bool | str]
    draws: tuple[str, ...] = ()
    discrete: bool = False
    first: int = 0

    def build(self, seed: int) -> QLearningAlgoBase:
        torch.manual_seed(seed)
        names = [name for name in self.config.__dataclass_fields__ if name.endswith("encoder_factory")]
        algo = self.config(**self.settings, **{n: VectorEncoderFactory(WIDTHS) for n in names}).create(device=False)
        algo.create_impl((OBS_SIZE,), ACTION_SIZE)
        unsettle(algo, seed)
        return algo

    def updates(self, algo: QLearningAlgoBase, seed: int) -> dict:
        """The library's own updates."""
        refuse_tiny_gradients(algo)
        before, taken = state(algo), []
        torch.manual_seed(seed)
        for index, batch in enumerate(self.batches(seed)):
            found: dict[str, list] = {}
            with watched_draws(self.draws, found):
                losses = algo.impl.update(batch, self.first + index)
            taken.append({"batch": batch_numbers(batch), "draws": found, "losses": rounded(losses)})
        return {"settings": self.settings, "before": before, "steps": taken, "after": state(algo)}

    def stock_losses(self, seed: int) -> dict[str, float]:
        """What the library says of the first update when nothing is mended, with the same draws."""
        algo, batch = self.build(seed), self.batches(seed)[0]
        torch.manual_seed(seed)
        return rounded(algo.impl.update(batch, self.first))

    def batches(self, seed: int) -> list[TorchMiniBatch]:
        """Random steps, of which some end an episode."""
        rng = np.random.default_rng(seed)
        made = []
        for _ in range(NUM_UPDATES):
            obs, next_obs = rng.normal(size=(2, BATCH_SIZE, OBS_SIZE))
            action, next_action = rng.uniform(-0.95, 0.95, size=(2, BATCH_SIZE, ACTION_SIZE))
            if self.discrete:
                action, next_action = rng.integers(ACTION_SIZE, size=(2, BATCH_SIZE, 1))
            reward, terminal = 2 * rng.normal(size=(BATCH_SIZE, 1)), rng.random((BATCH_SIZE, 1)) < 0.3
            require(0 < terminal.sum() < BATCH_SIZE)
            to_go = rng.normal(size=(BATCH_SIZE, 1))
            columns = [obs, action, reward, next_obs, next_action, to_go, terminal, np.ones_like(reward)]
            made.append(TorchMiniBatch(*(torch.tensor(x, dtype=torch.float32) for x in columns), "cpu"))
        return made


def require(condition: object) -> None:
    if not condition:
        raise UnsuitableError


def first_suitable(run: Callable[[int], dict]) -> dict:
    """What the first seed gives with which everything is compared."""
    for seed in range(1_000):
        try:
            return run(seed)
        except UnsuitableError:
            continue
    raise UnsuitableError


def parts(algo: QLearningAlgoBase) -> dict[str, nn.Module]:
    return {name: part for name, part in vars(algo.impl.modules).items() if isinstance(part, nn.Module)}


@torch.no_grad()
def unsettle(algo: QLearningAlgoBase, seed: int) -> None:
    """Targets away from what they follow and deviations away from where they start, so that each matters."""
    generator = torch.Generator().manual_seed(seed)
    for part, module in parts(algo).items():
        for name, parameter in module.named_parameters():
            if part.startswith("targ_") or name == "_logstd":
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
            if part == "policy" and name == "_logstd.bias":
                parameter.sub_(1.0)  # actions not all near their bounds


def state(algo: QLearningAlgoBase) -> dict:
    """Every tensor that learns, under the library's names."""
    return {p: {n: numbers(t) for n, t in module.state_dict().items()} for p, module in parts(algo).items()}


def batch_numbers(batch: TorchMiniBatch) -> dict[str, list]:
    discrete = batch.actions.shape[1] == 1

    def actions(column: Tensor) -> list:
        return column.long().flatten().tolist() if discrete else numbers(column)

    return {
        "obs": numbers(batch.observations),
        "action": actions(batch.actions),
        "reward": numbers(batch.rewards.flatten()),
        "terminated": numbers(batch.terminals.flatten()),
        "next_obs": numbers(batch.next_observations),
        "next_action": actions(batch.next_actions),
        "return_to_go": numbers(batch.returns_to_go.flatten()),
    }


@contextmanager
def watched_draws(names: tuple[str, ...], found: dict[str, list]) -> Iterator[None]:
    """Standard normal and uniform numbers, as they were drawn."""
    seen: list = []
    places = ((torch.distributions.normal, "_standard_normal"), (torch, "randn"), (Tensor, "uniform_"))
    ends = [watch(*place, seen) for place in places]
    try:
        yield
    finally:
        for end in ends:
            end()
    found |= {name: numbers(drawn) for name, (_, drawn) in zip(names, seen, strict=True)}


def refuse_tiny_gradients(algo: QLearningAlgoBase) -> None:
    """Adam would take steps in a direction that rounding chose."""

    def check(optimizer: torch.optim.Optimizer, *_: object) -> None:
        every = [p.grad.flatten() for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        sizes = torch.cat(every).abs()
        require(not ((sizes > 0) & (sizes < 1e-6)).any())

    for name, part in vars(algo.impl.modules).items():
        if name.endswith("optim") and part is not None:
            part.optim.register_step_pre_hook(check)


def rounded(losses: dict[str, float]) -> dict[str, float]:
    return {name: float(f"{x:.9g}") for name, x in losses.items()}
