"""The same weights, batches and draws give the losses and the updates of d3rlpy's methods that learn from data.

The golden file is what `benchmarks/peers/d3rlpy_golden.py` saw of two `update` calls of the library. Where ours is meant
to differ, a test states the relation.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from rl_training.algorithms import (
    CQLAlgorithm,
    CQLConfig,
    IQLAlgorithm,
    IQLConfig,
    TD3BCAlgorithm,
    TD3BCConfig,
)
from rl_training.algorithms.continuous import ContinuousAlgorithm, TargetedAlgorithm, TargetedConfig
from rl_training.algorithms.td3 import TD3Algorithm
from rl_training.core import Box, Metrics, Schedule, Spec, StepBatch

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "d3rlpy.json").read_text())
SPEC = Spec(Box((4,), (-5.0,) * 4, (5.0,) * 4), Box((3,), (-1.0,) * 3, (1.0,) * 3))
NETWORK = {"net_arch": (6, 6), "normalize_observation": False}
NOISE = {"policy_delay": "update_actor_interval", "target_policy_noise": "target_smoothing_sigma"}
NOISE |= {"target_noise_clip": "target_smoothing_clip"}
Tensors = dict[str, Tensor]


def update(algorithm: TargetedAlgorithm, batch: StepBatch) -> Metrics:
    metrics: Metrics = {}
    for method in ("update", *(extra.method for extra in algorithm.passes()[0].periodic)):
        metrics = metrics | getattr(algorithm, method)(batch).metrics
    return metrics


def multiplier_first(algorithm: TargetedAlgorithm, batch: StepBatch) -> Metrics:
    """An update in d3rlpy's order: its critics already see the multiplier that their own gap leads to, ours the next time."""
    assert isinstance(algorithm, CQLAlgorithm)
    gap = algorithm.critic_loss(batch).metrics["conservative_loss"]
    algorithm.minimize(lambda _: algorithm.multiplier_loss(gap), batch, "cql_alpha")
    critic = ContinuousAlgorithm.update(algorithm, batch).metrics
    return critic | algorithm.update_actor(batch).metrics | algorithm.update_target(batch).metrics


class Ours(NamedTuple):
    """Our method: its settings by their names at d3rlpy, and what d3rlpy draws, in the order in which we draw it."""

    algorithm: type[TargetedAlgorithm]
    config: type[TargetedConfig]
    settings: dict[str, str]
    draws: tuple[str, ...] = ()
    other: dict[str, object] = {}
    update: Callable[[TargetedAlgorithm, StepBatch], Metrics] = update


def cql(*draws: str, update: Callable[[TargetedAlgorithm, StepBatch], Metrics] = update, **other: object) -> Ours:
    settings = {"ent_coef": "initial_temperature", "cql_alpha": "conservative_weight", "n_actions": "n_action_samples"}
    return Ours(CQLAlgorithm, CQLConfig, settings, (*draws, "now", "next", "uniform", "actor"), other, update)


IMPLICIT = {"expectile": "expectile", "beta": "weight_temp", "max_weight": "max_weight"}
LAGRANGE = {"target_gap": 1.0, "cql_alpha_learning_rate": Schedule(0.01, 0.01)}
CASES = {
    "iql": Ours(IQLAlgorithm, IQLConfig, IMPLICIT),
    "td3_bc": Ours(TD3BCAlgorithm, TD3BCConfig, NOISE | {"alpha": "alpha"}, ("next",)),
    "cql": cql(backup="mode"),
    "cql_max": cql("backup", backup="max"),
    "cql_soft": cql("backup", backup="soft"),
    "cql_lagrange": cql("now", "next", "uniform", backup="mode", update=multiplier_first, **LAGRANGE),
}
every_case = pytest.mark.parametrize("case", CASES)


def network_tensors(tensors: Tensors) -> Tensors:
    """One network's layers of d3rlpy under our names, the mean's and the deviation's layer joined."""
    for name in ("weight", "bias"):
        if f"_logstd.{name}" in tensors:
            tensors[f"_mu.{name}"] = torch.cat([tensors[f"_mu.{name}"], tensors.pop(f"_logstd.{name}")])
    named = {"log_std_logit": tensors.pop("_logstd").flatten()} if "_logstd" in tensors else {}
    layers = list(dict.fromkeys(name.rpartition(".")[0] for name in tensors))
    for name, tensor in tensors.items():
        place, _, kind = name.rpartition(".")
        named[f"{kind}{layers.index(place)}"] = tensor
    return named


def theirs(case: str, when: str) -> Tensors:
    """Every tensor of d3rlpy under our name, critics stacked."""
    found = {}
    for part, values in GOLDEN[case][when].items():
        tensors = {name: torch.tensor(value) for name, value in values.items()}
        if part.endswith("q_funcs"):
            members = [{n[2:]: t for n, t in tensors.items() if n.startswith(f"{k}.")} for k in range(2)]
            named = [network_tensors(member) for member in members]
            tensors = {n: torch.stack([m[n].T if m[n].ndim == 2 else m[n][None] for m in named]) for n in named[0]}
        elif not part.startswith("log_"):
            tensors = network_tensors(tensors)
        found |= {f"{part}.{name}": tensor for name, tensor in tensors.items()}
    return {name: tensor for name, tensor in found.items() if not name.startswith("log_")}


def held(algorithm: TargetedAlgorithm) -> Tensors:
    """Our tensors, under d3rlpy's names of the parts."""
    parts: dict[str, nn.Module] = {"q_funcs": algorithm.critics, "targ_q_funcs": algorithm.targets}
    parts["policy"] = algorithm.policy
    if isinstance(algorithm, TD3Algorithm):
        parts["targ_policy"] = algorithm.target_actor
    if isinstance(algorithm, IQLAlgorithm):
        parts["value_func"] = algorithm.value
    found = {}
    for part, network in parts.items():
        for name, tensor in network.state_dict().items():
            layer = re.search(r"(weight|bias)(?:s|es)?\.?(\d+)$", name)
            if layer or name == "log_std_logit":
                found[f"{part}.{layer[1] + layer[2] if layer else name}"] = tensor
    return found


def make(case: str, **changes: object) -> TargetedAlgorithm:
    """Our method with d3rlpy's settings and tensors."""
    ours, golden = CASES[case], GOLDEN[case]["settings"]
    settings = {name: golden[peers] for name, peers in ours.settings.items()}
    rates = {"learning_rate": "critic_learning_rate", "actor_learning_rate": "actor_learning_rate"}
    settings |= {name: Schedule(golden[peers], golden[peers]) for name, peers in rates.items()}
    settings |= {"gamma": golden["gamma"], "tau": golden["tau"], **NETWORK, **ours.other}
    algorithm = ours.algorithm(ours.config(**settings | changes), SPEC)
    if case == "cql_lagrange":
        algorithm.log_multiplier.data.fill_(math.log(golden["initial_alpha"]))
    mine, peers = held(algorithm), theirs(case, "before")
    assert {name: t.shape for name, t in mine.items()} == {name: t.shape for name, t in peers.items()}
    for name, tensor in peers.items():
        mine[name].copy_(tensor)
    return algorithm


def batch_of(case: str, columns: dict[str, list]) -> StepBatch:
    batch = {name: torch.tensor(column) for name, column in columns.items()}
    discount = GOLDEN[case]["settings"]["gamma"] * (1 - batch["terminated"])
    more = {"next_action": batch["next_action"]}
    weight = torch.ones_like(discount)
    return StepBatch(batch["obs"], batch["action"], batch["reward"], discount, batch["next_obs"], weight, more)


def feed(patch: pytest.MonkeyPatch, draws: dict[str, list], order: tuple[str, ...]) -> list[Tensor]:
    """Lets our draws be d3rlpy's: [draw, batch, action] there, [batch, draw, action] here."""
    queue = [torch.tensor(draws[name]) for name in order]

    def normal(like: Tensor) -> Tensor:
        drawn = queue.pop(0)
        drawn = drawn.transpose(0, 1) if drawn.ndim == 3 else drawn
        assert drawn.shape == like.shape
        return drawn

    patch.setattr(torch, "randn_like", normal)
    patch.setattr(torch, "rand_like", lambda like: (queue.pop(0).view_as(like) + 1) / 2)
    return queue


def take(algorithm: TargetedAlgorithm, case: str) -> list[dict[str, float]]:
    """Two updates with d3rlpy's batches and draws; returns the metrics of each."""
    taken = []
    for golden in GOLDEN[case]["steps"]:
        with pytest.MonkeyPatch.context() as patch:
            queue = feed(patch, golden["draws"], CASES[case].draws)
            metrics = CASES[case].update(algorithm, batch_of(case, golden["batch"]))
        assert not queue
        taken.append({name: x.item() for name, x in metrics.items()})
    return taken


def peers_losses(case: str, ours: dict[str, float]) -> dict[str, float]:
    """What d3rlpy would call our losses."""
    settings = GOLDEN[case]["settings"]
    match case.partition("_")[0]:
        case "iql":
            named = {"q_loss": ours["critic_loss"], "v_loss": ours["value_loss"], "actor_loss": ours["actor_loss"]}
            return named | {"critic_loss": ours["critic_loss"] + ours["value_loss"]}
        case "cql":  # its penalty is summed over two critics, and a constant is subtracted also from one that is fixed
            penalty = 2 * ours["cql_alpha"] * (ours["conservative_loss"] - settings["alpha_threshold"])
            critic = ours["critic_loss"] + penalty
            named = {"critic_loss": critic, "conservative_loss": penalty, "actor_loss": ours["actor_loss"]}
            return named | {"alpha": ours["cql_alpha"] / settings["conservative_weight"]}
    return {name: ours[name] for name in ("critic_loss", "actor_loss", "bc_loss")}


def loss_gaps(case: str, taken: list[dict[str, float]]) -> Iterator[tuple[float, str]]:
    """Relative gaps; absolute ones of losses below 1."""
    for ours, golden in zip(taken, GOLDEN[case]["steps"], strict=True):
        for name, loss in peers_losses(case, ours).items():
            peers = golden["losses"][name]
            yield abs(loss - peers) / max(1, abs(peers)), f"{name}: {loss} and {peers}"


def weight_gaps(case: str, algorithm: TargetedAlgorithm) -> Iterator[tuple[float, str]]:
    mine = held(algorithm)
    yield from (((mine[name] - t).abs().max().item(), name) for name, t in theirs(case, "after").items())


@every_case
def test_two_updates_are_d3rlpys(case: str) -> None:
    algorithm = make(case)
    taken = take(algorithm, case)
    assert [gap for gap in loss_gaps(case, taken) if not gap[0] < 1e-5] == []
    assert [gap for gap in weight_gaps(case, algorithm) if not gap[0] < 1e-5] == []


@every_case
def test_another_tensor_gives_other_losses(case: str) -> None:
    """What is compared above can differ: a small change of any tensor is seen."""
    for name in theirs(case, "before"):
        algorithm = make(case)
        held(algorithm)[name].add_(0.05)
        assert max(loss_gaps(case, take(algorithm, case)))[0] > 1e-5, name


@pytest.mark.parametrize(
    ("case", "change"),
    [
        ("iql", {"expectile": 0.81}),
        ("iql", {"beta": 2.01}),
        ("iql", {"max_weight": 1.51}),
        ("iql", {"tau": 0.06}),
        ("td3_bc", {"alpha": 2.51}),
        ("td3_bc", {"target_noise_clip": 0.81}),
        ("cql", {"cql_alpha": 2.01}),
        ("cql", {"ent_coef": 0.31}),
    ],
    ids=lambda x: x if isinstance(x, str) else next(iter(x)),
)
def test_another_setting_gives_other_losses(case: str, change: dict) -> None:
    assert max(loss_gaps(case, take(make(case, **change), case)))[0] > 1e-5
