"""The same weights and batch give the loss, the gradient and the step of Stable-Baselines3's DQN and contrib's QR-DQN.

The golden file is what `benchmarks/peers/sb3_golden.py` saw of one `train` of these libraries.
"""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from rl_training.algorithms import DQNAlgorithm, DQNConfig
from rl_training.core import Adam, Box, Discrete, Schedule, Spec, StepBatch

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "sb3_dqn.json").read_text())
SPEC = Spec(Box((4,), (-5.0,) * 4, (5.0,) * 4), Discrete(3))
HEADS = {"dqn": "mean", "qrdqn": "quantile"}
CLOSE = {"rtol": 1e-5, "atol": 1e-6}
every_peer = pytest.mark.parametrize("peer", HEADS)


def ours(peer: str, layers: list[list]) -> list[Tensor]:
    """A peer's tensors in our order: contrib's last layer lists quantiles of actions, ours actions' quantiles."""
    tensors = [torch.tensor(layer) for layer in layers]
    num = GOLDEN[peer]["settings"].get("n_quantiles", 1)
    last = [t.unflatten(0, (num, SPEC.action.num)).transpose(0, 1).flatten(0, 1) for t in tensors[-2:]]
    return [*tensors[:-2], *last]


def make(peer: str, **changes: object) -> DQNAlgorithm:
    """Our algorithm with the peer's settings and weights."""
    settings = GOLDEN[peer]["settings"] | changes
    rate = settings.pop("learning_rate")
    settings |= {"net_arch": tuple(settings["net_arch"]), "learning_rate": Schedule(rate, rate)}
    algorithm = DQNAlgorithm(DQNConfig(head=HEADS[peer], **settings), SPEC)
    put(algorithm.policy.network, ours(peer, GOLDEN[peer]["before"]["online"]))
    put(algorithm.target, ours(peer, GOLDEN[peer]["before"]["target"]))
    return algorithm


@torch.no_grad()
def put(network: nn.Module, tensors: list[Tensor]) -> None:
    for parameter, tensor in zip(network.parameters(), tensors, strict=True):
        assert parameter.shape == tensor.shape
        parameter.copy_(tensor)


def batch_of(peer: str) -> StepBatch:
    batch = {name: torch.tensor(column) for name, column in GOLDEN[peer]["batch"].items()}
    discount = GOLDEN[peer]["settings"]["gamma"] * (1 - batch["done"])
    weight = torch.ones_like(discount)
    return StepBatch(batch["obs"], batch["action"], batch["reward"], discount, batch["next_obs"], weight, {})


def loss_of(algorithm: DQNAlgorithm, peer: str) -> float:
    return algorithm.loss(batch_of(peer)).value.item()


def miss(algorithm: DQNAlgorithm, peer: str) -> float:
    """By how much the weights after an update are off the peer's."""
    algorithm.update(batch_of(peer))
    expected = ours(peer, GOLDEN[peer]["after"])
    after = algorithm.policy.network.parameters()
    return max((p.detach() - e).abs().max().item() for p, e in zip(after, expected, strict=True))


def gradient_of(algorithm: DQNAlgorithm, peer: str) -> Tensor:
    """The first step of Adam hardly depends on the gradient's size, so the gradient is read from Adam's average."""
    algorithm.update(batch_of(peer))
    adam = algorithm.optimizer("q")
    assert isinstance(adam, Adam)
    return adam.mean / (1 - adam.betas[0])


@every_peer
def test_targets_and_loss_are_the_peers(peer: str) -> None:
    algorithm, batch = make(peer), batch_of(peer)
    targets = batch.reward[:, None] + batch.discount[:, None] * algorithm.next_value(batch)
    torch.testing.assert_close(targets, torch.tensor(GOLDEN[peer]["targets"]), **CLOSE)
    assert loss_of(algorithm, peer) == pytest.approx(GOLDEN[peer]["loss"], rel=1e-5)


@every_peer
def test_one_update_is_the_peers(peer: str) -> None:
    algorithm = make(peer)
    step = algorithm.update(batch_of(peer))
    assert step.metrics["loss"].item() == pytest.approx(GOLDEN[peer]["loss"], rel=1e-5)
    expected = ours(peer, GOLDEN[peer]["after"])
    for parameter, after in zip(algorithm.policy.network.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.detach(), after, **CLOSE)
    for parameter, same in zip(algorithm.target.parameters(), make(peer).target.parameters(), strict=True):
        assert torch.equal(parameter, same)


@every_peer
def test_the_gradient_is_the_peers(peer: str) -> None:
    expected = torch.cat([layer.flatten() for layer in ours(peer, GOLDEN[peer]["gradient"])])
    torch.testing.assert_close(gradient_of(make(peer), peer), expected, **CLOSE)


def test_the_gradient_of_dqn_is_clipped_as_the_peer_does() -> None:
    """The golden step exceeded the norm; without clipping the comparison above would fail."""
    allowed = GOLDEN["dqn"]["settings"]["max_grad_norm"]
    assert gradient_of(make("dqn"), "dqn").norm().item() == pytest.approx(allowed, rel=1e-4)
    assert gradient_of(make("dqn", max_grad_norm=None), "dqn").norm().item() > 2 * allowed


@every_peer
def test_another_target_weight_gives_another_loss(peer: str) -> None:
    """What is compared above can differ: a small change of any layer of the target network is seen."""
    for index in range(6):
        algorithm = make(peer)
        with torch.no_grad():
            list(algorithm.target.parameters())[index].add_(1e-2)
        assert loss_of(algorithm, peer) != pytest.approx(GOLDEN[peer]["loss"], rel=1e-5)


@pytest.mark.parametrize(
    ("peer", "change"),
    [("dqn", {"learning_rate": 0.0101}), ("dqn", {"activation_fn": "tanh"}), ("qrdqn", {"adam_eps": 1e-8})],
    ids=lambda x: x if isinstance(x, str) else next(iter(x)),
)
def test_another_setting_gives_another_step(peer: str, change: dict) -> None:
    assert miss(make(peer), peer) < 1e-6
    assert miss(make(peer, **change), peer) > 5e-5
