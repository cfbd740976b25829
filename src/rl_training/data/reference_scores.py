"""Returns that count as 0 and as 100, and D4RL's for its environments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from rl_training.core.arguments import as_python, instance_of, real_number, shown
from rl_training.data.columns import DatasetError

D4RL_SCORES = {  # random and expert returns of D4RL's authors (arXiv:2004.07219), by the env id without its version
    "HalfCheetah": (-280.178953, 12135.0),
    "Hopper": (-20.272305, 3234.3),
    "Walker2d": (1.629008, 4592.3),
    "Ant": (-325.6, 3879.7),
}
NOT_D4RL = "D4RL constants, not D4RL data"


@dataclass(frozen=True)
class ReferenceScore:
    """The returns that count as 0 (`minimum`) and as 100 (`maximum`) on a normalised scale."""

    minimum: float
    maximum: float
    source: str = ""

    def __post_init__(self) -> None:
        for name in ("minimum", "maximum"):
            object.__setattr__(self, name, real_number(getattr(self, name), f"ReferenceScore.{name}"))
        if self.minimum >= self.maximum:
            raise DatasetError(
                f"reference scores {self.minimum} and {self.maximum}: give two numbers, the minimum below the maximum"
            )

    def normalize(self, score: float) -> float:
        return 100.0 * (real_number(score, "score") - self.minimum) / (self.maximum - self.minimum)

    @classmethod
    def d4rl(cls, env: str) -> ReferenceScore:
        """Returns D4RL's reference returns for an environment's id or name, or the name of one of D4RL's datasets.

        Raises a DatasetError if D4RL has none. The constants do not make data D4RL's.
        """
        instance_of(env, str, "env", f"name one of {', '.join(D4RL_SCORES)}")
        name = env.partition("-")[0].lower()
        known = {env.lower(): scores for env, scores in D4RL_SCORES.items()}
        if name not in known:
            raise DatasetError(f"no reference scores for {env!r}: known are {', '.join(D4RL_SCORES)}; give your own")
        return cls(*known[name], source=NOT_D4RL)


@overload
def normalized_score(returns: float, env: str) -> float: ...
@overload
def normalized_score(returns: Sequence[float] | np.ndarray, env: str) -> np.ndarray: ...
def normalized_score(returns: float | Sequence[float] | np.ndarray, env: str) -> float | np.ndarray:
    """Converts each return to D4RL's scale: 0 is its random policy, 100 its expert.

    `env` is an id (`Hopper-v5`), a bare name (`hopper`) or a dataset's (`hopper-medium-replay-v2`). The scale makes no
    data comparable with D4RL's: say "D4RL constants, not D4RL data" where you report such a score. Raises a
    DatasetError if D4RL has no constants for it.
    """
    reference = ReferenceScore.d4rl(env)
    if isinstance(as_python(returns), int | float):
        return reference.normalize(returns)  # pyrefly: ignore  (as was just seen)
    try:
        scores = np.asarray(returns, np.float64)
    except (ValueError, TypeError) as error:
        raise DatasetError(f"returns={shown(returns)} must be a number or a list of numbers ({error})") from error
    return 100.0 * (scores - reference.minimum) / (reference.maximum - reference.minimum)
