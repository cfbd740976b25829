"""The same weights, batches and noise give the losses, gradients and steps of SB3's SAC and TD3, contrib's TQC and CrossQ.

The golden file is what `benchmarks/peers/sb3_golden_continuous.py` saw of two `train` calls of these libraries.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from rl_training.algorithms import (
    CrossQAlgorithm,
    CrossQConfig,
    SACAlgorithm,
    SACConfig,
    TD3Algorithm,
    TD3Config,
    TQCAlgorithm,
    TQCConfig,
)
from rl_training.algorithms.continuous import ContinuousAlgorithm
from rl_training.core import Box, Schedule, Spec, StepBatch

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "sb3_continuous.json").read_text())
SPEC = Spec(Box((3,), (-5.0,) * 3, (5.0,) * 3), Box((2,), (-1.0,) * 2, (1.0,) * 2))
KINDS = {
    "sac": (SACAlgorithm, SACConfig),
    "td3": (TD3Algorithm, TD3Config),
    "tqc": (TQCAlgorithm, TQCConfig),
    "crossq": (CrossQAlgorithm, CrossQConfig),
}
every_peer = pytest.mark.parametrize("peer", KINDS)
NORM = {"scale": "scale", "bias": "shift", "ra_mean": "mean", "ra_var": "var", "steps": "steps"}
LAYER = {"weight": "weights", "bias": "biases"}
Parts = dict[str, dict[str, Tensor]]


def ours(part: str, tensors: dict[str, list]) -> dict[str, Tensor]:
    """A peer's tensors of one part under our names: critics stacked, the mean's and the deviation's layer joined."""
    peers = {name: torch.tensor(values) for name, values in tensors.items()}
    if part == "ent_coef":
        return {"": peers["log_ent_coef"].squeeze()}
    for name in ("weight", "bias"):
        if f"log_std.{name}" in peers:
            peers[f"mu.{name}"] = torch.cat([peers[f"mu.{name}"], peers.pop(f"log_std.{name}")])
    members = ["qf0.", "qf1."] if part.startswith("critic") else [""]
    named = [renamed({n: t for n, t in peers.items() if n.startswith(member)}) for member in members]
    if part.startswith("actor") and "net.norms.0.scale" not in named[0]:  # one plain network
        return {n.replace("weights.", "weight").replace("biases.", "bias"): t for n, t in named[0].items()}
    return {name: stacked(name, [network[name] for network in named]) for name in named[0]}


def renamed(network: dict[str, Tensor]) -> dict[str, Tensor]:
    """One network's tensors, in order, under an ensemble's names: layers and normalisations are counted apart."""
    norms = list(dict.fromkeys(n.rpartition(".")[0] for n in network if n.endswith(".scale")))
    layers = list(dict.fromkeys(n.rpartition(".")[0] for n in network if n.endswith(".weight")))
    result = {}
    for name, tensor in network.items():
        place, _, kind = name.rpartition(".")
        new = f"norms.{norms.index(place)}.{NORM[kind]}" if place in norms else f"{LAYER[kind]}.{layers.index(place)}"
        result[f"net.{new}"] = tensor
    return result


def stacked(name: str, tensors: list[Tensor]) -> Tensor:
    if name.endswith("steps"):
        return tensors[0].squeeze()
    return torch.stack([t.T if t.ndim == 2 else t.unsqueeze(0) for t in tensors])


def all_ours(parts: dict[str, dict[str, list]]) -> Parts:
    return {part: ours(part, tensors) for part, tensors in parts.items()}


def held(algorithm: ContinuousAlgorithm) -> Parts:
    """Our tensors, by the peer's name of the part."""
    parts: dict[str, nn.Module] = {"critic": algorithm.critics, "actor": algorithm.policy.network}
    if hasattr(algorithm, "targets"):
        parts["critic_target"] = algorithm.targets
    if isinstance(algorithm, TD3Algorithm):
        parts["actor_target"] = algorithm.target_actor
    tensors = {part: dict(network.state_dict()) for part, network in parts.items()}
    if isinstance(algorithm, SACAlgorithm):
        tensors["ent_coef"] = {"": algorithm.log_ent_coef.detach()}
    return tensors


def make(peer: str, **changes: object) -> ContinuousAlgorithm:
    """Our algorithm with the peer's settings and tensors."""
    settings = GOLDEN[peer]["settings"] | changes
    rate = settings.pop("learning_rate")
    settings = {name: tuple(x) if isinstance(x, list) else x for name, x in settings.items()}
    kind, config = KINDS[peer]
    algorithm = kind(config(**settings, learning_rate=Schedule(rate, rate)), SPEC)
    put(algorithm, all_ours(GOLDEN[peer]["before"]))
    return algorithm


@torch.no_grad()
def put(algorithm: ContinuousAlgorithm, parts: Parts) -> None:
    mine = held(algorithm)
    assert {part: set(tensors) for part, tensors in mine.items()} == {part: set(t) for part, t in parts.items()}
    for part, tensors in parts.items():
        for name, tensor in tensors.items():
            assert mine[part][name].shape == tensor.shape
            mine[part][name].copy_(tensor)


def batch_of(peer: str, columns: dict[str, list]) -> StepBatch:
    batch = {name: torch.tensor(column) for name, column in columns.items()}
    discount = GOLDEN[peer]["settings"]["gamma"] * (1 - batch["done"])
    weight = torch.ones_like(discount)
    return StepBatch(batch["obs"], batch["action"], batch["reward"], discount, batch["next_obs"], weight, {})


class Taken(NamedTuple):
    losses: list[dict[str, float]]
    gradients: list[Parts]
    after: Parts


def take(algorithm: ContinuousAlgorithm, peer: str, order: Sequence[str] = ("next", "now")) -> Taken:
    """The peer's steps, with its batches and its noise: ours is drawn for the next observations first."""
    losses, gradients = [], []
    for golden in GOLDEN[peer]["steps"]:
        noise, batch = golden["noise"], batch_of(peer, golden["batch"])
        queue = [torch.tensor(noise[name]) for name in order if name in noise]
        seen: Parts = {}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "randn_like", lambda _, queue=queue: queue.pop(0))
            watch_gradients(patch, algorithm, seen)
            metrics = {}
            for method in ("update", *(extra.method for extra in algorithm.passes()[0].periodic)):
                metrics |= getattr(algorithm, method)(batch).metrics
        assert not queue
        losses.append({name: x.item() for name, x in metrics.items() if name.endswith("_loss")})
        gradients.append(seen)
    return Taken(losses, gradients, held(algorithm))


def watch_gradients(patch: pytest.MonkeyPatch, algorithm: ContinuousAlgorithm, seen: Parts) -> None:
    """Keeps every gradient as its optimizer gets it."""
    names = {"critic": algorithm.critics, "actor": algorithm.policy.network}
    for part, optimizer in algorithm.optimizers.items():
        keys = [name for name, _ in names[part].named_parameters()] if part in names else [""]

        def step(grads: Sequence[Tensor], enabled: Tensor, *, part=part, keys=keys, original=optimizer.step) -> Tensor:
            seen[part] = dict(zip(keys, grads, strict=True))
            return original(grads, enabled)

        patch.setattr(optimizer, "step", step)


def gaps(mine: Parts, peers: Parts) -> Iterator[tuple[str, float]]:
    """By how much each tensor is off the peer's."""
    assert {part: set(tensors) for part, tensors in mine.items()} == {part: set(t) for part, t in peers.items()}
    for part, tensors in peers.items():
        yield from ((f"{part}.{name}", (mine[part][name] - t).abs().max().item()) for name, t in tensors.items())


def same_losses(taken: Taken, peer: str) -> bool:
    golden = [step["losses"] for step in GOLDEN[peer]["steps"]]
    return all(m == pytest.approx(g, rel=1e-5, abs=1e-5) for m, g in zip(taken.losses, golden, strict=True))


def worst(mine: Parts, peers: Parts) -> float:
    return max(gap for _, gap in gaps(mine, peers))


@every_peer
def test_losses_are_the_peers(peer: str) -> None:
    taken = take(make(peer), peer)
    assert same_losses(taken, peer), (taken.losses, [step["losses"] for step in GOLDEN[peer]["steps"]])


@every_peer
def test_gradients_are_the_peers(peer: str) -> None:
    for mine, golden in zip(take(make(peer), peer).gradients, GOLDEN[peer]["steps"], strict=True):
        assert {n: gap for n, gap in gaps(mine, all_ours(golden["gradients"])) if gap > 1e-5} == {}


@every_peer
def test_weights_targets_and_statistics_after_two_steps_are_the_peers(peer: str) -> None:
    mine, peers = take(make(peer), peer).after, all_ours(GOLDEN[peer]["after"])
    assert {n: gap for n, gap in gaps(mine, peers) if gap > 1e-6} == {}


@every_peer
def test_another_tensor_gives_other_losses(peer: str) -> None:
    """What is compared above can differ: a small change of any tensor of any network is seen."""
    for part, tensors in all_ours(GOLDEN[peer]["before"]).items():
        for name in tensors:
            if not name.endswith("steps"):
                algorithm = make(peer)
                held(algorithm)[part][name].add_(0.05)
                assert not same_losses(take(algorithm, peer), peer), (part, name)


@pytest.mark.parametrize("peer", ["sac", "tqc", "crossq"])
def test_noise_in_the_other_order_gives_other_losses(peer: str) -> None:
    assert not same_losses(take(make(peer), peer, order=("now", "next")), peer)


@pytest.mark.parametrize(
    ("peer", "change"),
    [
        ("sac", {"tau": 0.051}),
        ("sac", {"target_entropy": -2.01}),
        ("sac", {"actor_critics": "mean"}),
        ("sac", {"learning_rate": 0.0101}),
        ("td3", {"tau": 0.051}),
        ("td3", {"target_policy_noise": 0.61}),
        ("td3", {"target_noise_clip": 0.81}),
        ("td3", {"adam_eps": 1e-4}),
        ("tqc", {"top_quantiles_to_drop_per_net": 1}),
        ("tqc", {"target_entropy": -2.01}),
        ("crossq", {"batch_norm_momentum": 0.011}),
        ("crossq", {"renorm_warmup_steps": 0}),
    ],
    ids=lambda x: x if isinstance(x, str) else next(iter(x)),
)
def test_another_setting_gives_other_losses_or_weights(peer: str, change: dict) -> None:
    taken = take(make(peer, **change), peer)
    after = all_ours(GOLDEN[peer]["after"])
    for parts in (taken.after, after):
        parts.pop("ent_coef", None)
    assert not same_losses(taken, peer) or worst(taken.after, after) > 1e-5


@pytest.mark.parametrize("part", ["critic", "actor"])
def test_other_betas_give_other_weights(part: str) -> None:
    """The second step is there for these: the first of Adam is the same for all of them."""
    for peer in KINDS:
        algorithm = make(peer)
        algorithm.optimizer(part).betas = (0.8, 0.999)
        assert worst({part: take(algorithm, peer).after[part]}, {part: all_ours(GOLDEN[peer]["after"])[part]}) > 1e-4
