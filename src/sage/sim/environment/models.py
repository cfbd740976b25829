"""Simulated models that a policy may ask, at three levels: invented, fitted to recorded outcomes, or recorded ones
replayed."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from sage.sim.environment import rules
from sage.sim.environment.packed import Packed
from sage.sim.recorded.costs import cost_at
from sage.sim.recorded.item_response import sigmoid
from sage.sim.recorded.model_file import Fitted, ModelFile, Row

CORRELATION, PLAUSIBLE = 0.5, 0.35  # assumed: records have one attempt of each model, and no patches
LONG = rules.COST_ASK[1] / rules.COST_ASK[0]  # what a long context costs, relative to a short one
USUAL_DIFFICULTY = (0.27, 1.01)  # mean and deviation over the tasks that are shipped
LEARNED_FROM = ("train", "val")  # splits whose tasks get rows that are not held out


class Answers(NamedTuple):
    """Chances and prices of answers to some tasks. A question is a tier with a context; escalating is the last."""

    success: Tensor  # [tasks, 2, questions + 1], of a first answer, and of one that does not repeat the first
    price: Tensor  # [tasks, questions, 2], of a wrong and of a correct answer


class Models(Protocol):
    """Interface of simulated models.

    A second answer of a model equals its first with probability `correlation`, which is also the correlation of the
    two: they are distributed as a beta-binomial says. A patch that is not correct passes the visible tests with
    probability `plausible`, if such a patch is known.
    """

    @property
    def level(self) -> str:
        """Returns the kind of simulation, which every result names."""
        ...

    @property
    def correlation(self) -> float: ...

    @property
    def plausible(self) -> float: ...

    def answers(self, tasks: Packed, device: torch.device) -> Answers: ...

    def with_correlation(self, correlation: float) -> Self: ...

    def facts(self) -> dict: ...


@dataclass(frozen=True)
class ModelTiers:
    """Invented models: abilities that nobody measured, in a 2PL item-response model over the difficulty of a task."""

    ability: tuple[float, float, float] = (-0.8, 0.4, 1.6)
    long_context: float = 0.3
    escalated: float = 2.0
    discrimination: float = 1.3
    correlation: float = CORRELATION
    plausible: float = PLAUSIBLE

    @property
    def level(self) -> str:
        return "invented: item response, patches executed"

    def answers(self, tasks: Packed, device: torch.device) -> Answers:
        difficulty = torch.as_tensor(tasks.difficulty, device=device).unsqueeze(-1)
        asked = torch.tensor(self.ability, device=device).unsqueeze(-1) + self.long_context * torch.arange(
            len(rules.CONTEXTS), device=device
        )
        ability = torch.cat([asked.flatten(), torch.tensor([self.escalated], device=device)])
        success = torch.sigmoid(self.discrimination * (ability - difficulty))
        price = torch.tensor(rules.COST_ASK, device=device).view(1, -1, 1).expand(len(difficulty), -1, 2)
        return Answers(success.unsqueeze(1).expand(-1, 2, -1).contiguous(), price.contiguous())

    def with_correlation(self, correlation: float) -> Self:
        return replace(self, correlation=checked_share(correlation))

    def facts(self) -> dict:
        return {"level": self.level, **asdict(self)}


@dataclass(frozen=True)
class RecordedModels:
    """Models of a file of `sage sim fit-models`, applied to the tasks of this package.

    These are not the recorded tasks. A task takes the recorded difficulty, or the recorded row, whose rank among all is
    that of its own (invented) difficulty: an assumption. A long context is not recorded: it answers as a short one
    does, and costs more.
    """

    file: ModelFile
    correlation: float = CORRELATION
    plausible: float = PLAUSIBLE

    @property
    def level(self) -> str:
        how = "item response fitted to" if self.file.level == "irt" else "recorded rows of"
        return f"{self.file.level}: {how} {self.file.source['name']}, patches executed"

    def answers(self, tasks: Packed, device: torch.device) -> Answers:
        made = self.file.answers
        success, usd = fitted(made, tasks) if isinstance(made, Fitted) else self.replayed(tasks)
        contexts = len(rules.CONTEXTS)
        asked = success[..., :-1].repeat(contexts, axis=-1)
        price = (self.file.units_per_usd * usd).repeat(contexts, axis=1)
        price[:, 1::contexts] *= LONG
        found = (np.concatenate([asked, success[..., -1:]], axis=-1), price)
        return Answers(*(torch.tensor(array, dtype=torch.float32, device=device) for array in found))

    def replayed(self, tasks: Packed) -> tuple[np.ndarray, np.ndarray]:
        """Returns the recorded row of each task: scores and chances of further answers [tasks, 2, roles], and dollars
        [tasks, asked, 2]."""
        rank, rows = ranks(tasks), []
        for split, place in zip(tasks.splits, rank, strict=True):
            part = self.rows[split not in LEARNED_FROM]
            rows.append(part[min(int(place * len(part)), len(part) - 1)])
        success = np.array([(row.score, row.again) for row in rows]).reshape(-1, 2, len(rules.TIERS) + 1)
        usd = np.array([row.cost_usd for row in rows]).reshape(-1, len(rules.TIERS), 1)
        return success, usd.repeat(2, axis=-1)

    @cached_property
    def rows(self) -> dict[bool, list[Row]]:
        """Returns the recorded rows that are held out (True) and that are not (False), each in the order of
        difficulty."""
        assert not isinstance(self.file.answers, Fitted)
        known = sorted(self.file.answers, key=lambda row: row.difficulty)
        return {held_out: [row for row in known if row.held_out == held_out] for held_out in (False, True)}

    def with_correlation(self, correlation: float) -> Self:
        return replace(self, correlation=checked_share(correlation))

    def facts(self) -> dict:
        given = {"correlation": self.correlation, "plausible": self.plausible, "models_sha256": self.file.sha256}
        return {"level": self.level, **given, "source": self.file.source, "tiers": self.file.tiers}


def fitted(made: Fitted, tasks: Packed) -> tuple[np.ndarray, np.ndarray]:
    """Returns chances [tasks, 2, roles] and dollars [tasks, asked, 2] by fitted curves; a task's costs are draws that
    depend on its name only."""
    weight = np.array(made.weight)
    difficulty = np.interp(ranks(tasks), weight.cumsum() - weight / 2, made.difficulty)
    success = sigmoid(np.array(made.discrimination) * (np.array(made.ability) - difficulty[:, None]))
    draws = np.array([[number_of(f"{name} {tier}") for tier in rules.TIERS] for name in tasks.ids])
    usd = [
        [cost_at(np.array(quantiles[k]), draws[:, k]) for quantiles in (made.failed_usd, made.solved_usd)]
        for k in range(len(rules.TIERS) if len(tasks) else 0)
    ]
    price = np.array(usd).transpose(2, 0, 1) if usd else np.zeros((0, len(rules.TIERS), 2))
    return success[:, None].repeat(2, axis=1), price


def ranks(tasks: Packed) -> np.ndarray:
    """Returns the rank of each task's difficulty among usual tasks, from 0 to 1."""
    mean, deviation = USUAL_DIFFICULTY
    return torch.special.ndtr((torch.from_numpy(tasks.difficulty).double() - mean) / deviation).numpy()


def number_of(text: str) -> float:
    """Returns a number between 0 and 1 that depends on the text only."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") / 2**48


def checked_share(value: float) -> float:
    if not 0 <= value <= 1:
        raise ValueError(f"correlation={value} must lie between 0 and 1")
    return value


def open_models(path: str | Path | None) -> Models:
    """Returns the models of a file of `sage sim fit-models`; the invented ones if the path is None."""
    return ModelTiers() if path is None else RecordedModels(ModelFile.open(Path(path)))
