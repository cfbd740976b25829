"""What d3rlpy's methods did in two updates, and ours with the same weights, batches and draws.

The golden file is what `benchmarks/peers/d3rlpy_golden.py` saw.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from rl_training import algorithms
from rl_training.algorithms.continuous import ContinuousAlgorithm
from rl_training.core import Box, Metrics, Schedule, Spec, StepBatch

GOLDEN = json.loads((Path(__file__).parent / "golden" / "d3rlpy.json").read_text())
SPEC = Spec(Box((4,), (-5.0,) * 4, (5.0,) * 4), Box((3,), (-1.0,) * 3, (1.0,) * 3))
NETWORK = {"net_arch": (6, 6), "normalize_observation": False}
RATES = {"learning_rate": "critic_learning_rate", "actor_learning_rate": "actor_learning_rate"}
Tensors = dict[str, Tensor]
Update = Callable[[ContinuousAlgorithm, StepBatch], Metrics]


def update(algorithm: ContinuousAlgorithm, batch: StepBatch) -> Metrics:
    """One update of everything, as a run takes it where nothing is delayed."""
    metrics: Metrics = {}
    for method in ("update", *(extra.method for extra in algorithm.passes()[0].periodic)):
        metrics = metrics | getattr(algorithm, method)(batch).metrics
    return metrics


class Ours(NamedTuple):
    """Our method: its settings and parts by their names at d3rlpy, and d3rlpy's draws in the order in which we draw."""

    name: str
    settings: Mapping[str, str]
    draws: tuple[str, ...] = ()
    parts: Mapping[str, str] = {}
    other: Mapping[str, object] = {}
    update: Update = update

    def make(self, case: str, **changes: object) -> ContinuousAlgorithm:
        """Our method with d3rlpy's settings and tensors."""
        golden = GOLDEN[case]["settings"]
        settings = {name: golden[peers] for name, peers in self.settings.items()}
        settings |= {name: Schedule(golden[peers], golden[peers]) for name, peers in RATES.items()}
        settings |= {"gamma": golden["gamma"], "tau": golden["tau"], **NETWORK, **self.other}
        config = getattr(algorithms, f"{self.name}Config")(**settings | changes)
        algorithm = getattr(algorithms, f"{self.name}Algorithm")(config, SPEC)
        mine, peers = self.held(algorithm), theirs(case, "before")
        assert {name: t.shape for name, t in mine.items()} == {name: t.shape for name, t in peers.items()}
        for name, tensor in peers.items():
            mine[name].copy_(tensor)
        return algorithm

    def held(self, algorithm: ContinuousAlgorithm) -> Tensors:
        """Our tensors, under d3rlpy's names of the parts."""
        return held(algorithm, {"q_funcs": "critics", "targ_q_funcs": "targets", "policy": "policy"} | self.parts)

    def take(self, case: str, algorithm: ContinuousAlgorithm) -> list[dict[str, float]]:
        """Two updates with d3rlpy's batches and draws; returns the metrics of each."""
        taken = []
        for golden in GOLDEN[case]["steps"]:
            with pytest.MonkeyPatch.context() as patch:
                queue = [(name, torch.tensor(golden["draws"].get(name, 0.0))) for name in self.draws]
                feed(patch, algorithm, queue)
                metrics = self.update(algorithm, batch_of(case, golden["batch"]))
            assert not queue
            taken.append({name: x.item() for name, x in metrics.items()})
        return taken

    def weight_gaps(self, case: str, algorithm: ContinuousAlgorithm) -> Iterator[tuple[float, str]]:
        mine = self.held(algorithm)
        yield from (((mine[name] - t).abs().max().item(), name) for name, t in theirs(case, "after").items())


def held(algorithm: nn.Module, parts: Mapping[str, str]) -> Tensors:
    """Our tensors of the parts, under d3rlpy's names of them."""
    found = {}
    for part, place in parts.items():
        for name, tensor in algorithm.get_submodule(place).state_dict().items():
            layer = re.search(r"(weight|bias)(?:s|es)?\.?(\d+)$", name)
            if layer or name == "log_std_logit":
                found[f"{part}.{layer[1] + layer[2] if layer else name}"] = tensor
    return found


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
    """Every tensor of d3rlpy's networks under our name, critics stacked."""
    found = {}
    for part, values in GOLDEN[case][when].items():
        tensors = {name: torch.tensor(value) for name, value in values.items()}
        if part.endswith("q_funcs"):
            numbers = sorted({name.partition(".")[0] for name in tensors})
            members = [{n[2:]: t for n, t in tensors.items() if n.startswith(f"{k}.")} for k in numbers]
            tensors = stacked([network_tensors(member) for member in members])
        elif not part.startswith("log_"):
            tensors = network_tensors(tensors)
        found |= {f"{part}.{name}": tensor for name, tensor in tensors.items() if not part.startswith("log_")}
    return found


def stacked(members: list[Tensors]) -> Tensors:
    """An ensemble of several networks; one is left as it is."""
    if len(members) == 1:
        return members[0]
    return {n: torch.stack([m[n].T if m[n].ndim == 2 else m[n][None] for m in members]) for n in members[0]}


def batch_of(case: str, columns: dict[str, list]) -> StepBatch:
    batch = {name: torch.tensor(column) for name, column in columns.items()}
    discount = GOLDEN[case]["settings"]["gamma"] * (1 - batch["terminated"])
    more = {name: batch[name] for name in ("next_action", "return_to_go")}
    weight = torch.ones_like(discount)
    return StepBatch(batch["obs"], batch["action"], batch["reward"], discount, batch["next_obs"], weight, more)


def feed(patch: pytest.MonkeyPatch, algorithm: ContinuousAlgorithm, queue: list[tuple[str, Tensor]]) -> None:
    """Lets our draws be d3rlpy's: several normal numbers are [draw, batch, size] there, and [batch, draw, size] here.

    Where d3rlpy drew an "action" in another way than we do, ours gets the noise that leads to this action; what d3rlpy did
    not draw is 0.
    """

    def normal(like: Tensor) -> Tensor:
        name, drawn = queue.pop(0)
        drawn = drawn.transpose(0, 1) if drawn.ndim == 3 else drawn
        assert drawn.shape in (like.shape, ())
        if name != "action":
            return drawn.expand_as(like)
        return (drawn - like) / algorithm.policy.distribution(torch.zeros(1, 4)).log_std.exp()

    def latents(batch: int, several: int, size: int, **_: object) -> Tensor:
        name, drawn = queue.pop(0)
        by_draw = name == "behavior"  # there, rows are ordered by draw
        return drawn.view(several, batch, size).transpose(0, 1) if by_draw else drawn.view(batch, several, size)

    patch.setattr(torch, "randn_like", normal)
    patch.setattr(torch, "randn", latents)
    patch.setattr(torch, "rand_like", lambda like: (queue.pop(0)[1].view_as(like) + 1) / 2)
