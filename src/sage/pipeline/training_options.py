"""The arguments of a training, checked before anything is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from sage.evidence.selection import Selection
from sage.pipeline.choices import CASCADE, CASCADE_LEARNERS, LEARNERS, NETWORK_LEARNERS
from sage.pipeline.inputs import check_seed


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """The arguments of `sage.train`; a wrong one is a `ValueError` that names the field, the value and the fix."""

    learner: str
    out: Path
    models: Path | None
    holdout: float
    seed: int
    selection: Selection
    updates: int | None
    embed: Path | None
    tokenizer: Path | None
    price: float | None

    def __post_init__(self) -> None:
        names = (*LEARNERS, *CASCADE_LEARNERS)
        if self.learner not in names:
            raise ValueError(f"learner={self.learner!r} must be one of {', '.join(names)}")
        if not 0 < self.holdout < 1:
            raise ValueError(f"holdout={self.holdout} must lie between 0 and 1: it is a share of the tasks")
        check_seed(self.seed)
        self.check_only("updates", NETWORK_LEARNERS)
        self.check_only("embed", ("text",))
        self.check_only("tokenizer", ("text",))
        self.check_only("price", CASCADE_LEARNERS)
        if self.updates is not None and self.updates < 1:
            raise ValueError(f"updates={self.updates} must be 1 or more")
        if (self.embed is None) != (self.tokenizer is None):
            raise ValueError("embed and tokenizer belong together: give the ONNX model and its tokenizer.json")
        if self.price is not None and not 0 <= self.price < math.inf:
            raise ValueError(f"price={self.price} must be a finite number that is not negative")

    def check_only(self, field: str, learners: tuple[str, ...]) -> None:
        """Refuses a field that only other learners have."""
        value = getattr(self, field)
        if value is not None and self.learner not in learners:
            raise ValueError(
                f"{field}={value!s} is for learner {' or '.join(learners)}, and learner={self.learner!r}: leave it out"
            )

    @property
    def cascade(self) -> bool:
        return self.learner in CASCADE_LEARNERS

    @property
    def cascade_method(self) -> str | None:
        """The one learner of cascades that was asked for; None to compare all."""
        return self.learner.removeprefix(f"{CASCADE}-") if self.learner != CASCADE else None
