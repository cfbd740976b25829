"""Health of value learning: measured at evaluations, with a warning in one sentence if it is bad."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor

from rl_training.core import Algorithm, Transition, Tree, tree_map
from rl_training.functional import lambda_returns
from rl_training.runtime.trainer import Trainer

Health = dict[str, float]
PATIENCE = 3  # evaluations in a row before anything is said: values that have just begun to learn are often off

OVERESTIMATED = (
    "Q-values exceed the returns that follow by {value:.3g}, where returns are {scale:.3g}: overestimation; try a lower "
    "learning_rate{slower}{double}"
)
DIVERGING = (
    "TD errors ({value:.3g}) are more than twice the returns ({scale:.3g}): values diverge; try a lower "
    "learning_rate{slower}"
)
DORMANT = (
    "{value:.0%} of the hidden units hardly fire, and the network loses its ability to learn: lower learning_rate or "
    "gradient_steps"
)
OVERUSED = "every step has been learned from {value:.0f} times and values may overfit the buffer: lower gradient_steps or batch_size"
CONCENTRATED = "priorities concentrate on {value:.2%} of the buffer: lower per_alpha or raise per_eps"
# What is too much, and what to say of it: `{value}` is the metric, `{scale}` the mean size of returns.
WARNINGS: dict[str, tuple[Callable[[float, float], bool], str]] = {
    "q_bias": (lambda value, scale: value > 0.5 * max(scale, 1.0), OVERESTIMATED),
    "td_error": (lambda value, scale: value > 2 * max(scale, 1.0), DIVERGING),
    "dormant_units": (lambda value, scale: value > 0.5, DORMANT),
    "replay_reuse": (lambda value, scale: value > 10_000, OVERUSED),
    "priority_effective_share": (lambda value, scale: value < 0.01, CONCENTRATED),
}
log = logging.getLogger(__name__)


class HealthCheck:
    """A check of value learning at evaluations: values against the returns that followed, and networks and replay."""

    def __init__(self, num_rows: int = 256) -> None:
        self.num_rows = num_rows
        self.crossed: Counter[str] = Counter()  # for how many evaluations in a row
        self.chunks: list[tuple[Tensor, ...]] = []

    @torch.no_grad()
    def watch(self, algorithm: Algorithm, steps: Transition) -> None:
        """Stores the critic's values of an evaluation's [time, env] steps, given in order, for `measure`.

        Stores nothing if the observations lack keys that the critic needs, or if the algorithm has no values.
        """
        if isinstance(steps.obs, dict) and not algorithm.spec.privileged.spaces.keys() <= steps.obs.keys():
            return
        value, next_value = (leading_values(algorithm, obs) for obs in (steps.obs, steps.next_obs))
        if value is not None and next_value is not None:
            self.chunks.append((value, next_value, steps.reward, steps.terminated, steps.truncated, steps.valid))

    @torch.no_grad()
    def measure(self, trainer: Trainer, gamma: float, seed: int) -> Health:
        """Returns health metrics such as "q_bias" by name; warns of those beyond a threshold in three calls in a row.

        Uses and forgets the steps given to `watch`. `gamma` is the discount. A batch of stored steps is drawn with
        `seed`, without touching training's random numbers.
        """
        algorithm, device, source = trainer.algorithm, trainer.device, trainer.plan.source(trainer.progress)
        health = self.compare_returns(gamma, source.rewards) if self.chunks else {}
        self.chunks = []
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            batch = source.sample(self.num_rows)
            if batch is not None:
                batch = tree_map(lambda x: x.to(device), batch)
                health |= {name: value.item() for name, value in algorithm.diagnose(batch).items()}
        health |= source.health()
        self.warn(health, trainer.progress.timesteps, trainer.algorithm.config)
        return health

    def compare_returns(self, gamma: float, units: Callable[[Tensor], Tensor]) -> Health:
        """Returns "q_bias", the mean of value minus return, and "return_scale", the mean size of returns; else {}.

        Both are over the watched steps of ended episodes; {} means that none ended. `units` converts rewards to the
        units of values. A truncated episode continues with the value of its last observation.
        """
        value, next_value, reward, terminated, truncated, valid = (
            torch.cat(column) for column in zip(*self.chunks, strict=True)
        )
        returns = lambda_returns(units(reward), next_value, terminated, truncated, gamma=gamma, lam=1.0)
        complete = (terminated | truncated).flip(0).cummax(0).values.flip(0) & valid
        if not complete.any():
            return {}
        error = (value - returns)[complete]
        return {"q_bias": error.mean().item(), "return_scale": returns[complete].abs().mean().item()}

    def warn(self, health: Health, timesteps: int, config: object = None) -> None:
        """Logs one warning per run for each metric in `health` that is beyond its threshold in three calls in a row.

        `timesteps` is the place that the warning names; it suggests only settings that `config` has.
        """
        scale = health.get("return_scale", 1.0)
        for name, (crossed, sentence) in WARNINGS.items():
            if self.crossed[name] >= PATIENCE:
                continue
            self.crossed[name] = self.crossed[name] + 1 if name in health and crossed(health[name], scale) else 0
            if self.crossed[name] == PATIENCE:
                text = sentence.format(value=health[name], scale=scale, **remedies(config))
                log.warning(f"at step {timesteps}, {text}")


def remedies(config: object) -> dict[str, str]:
    """Returns two ends of warnings, "slower" and "double": advice on settings that the config has, or ""."""
    targets = [name for name in ("tau", "target_update_interval") if hasattr(config, name)]
    others = ["double=True"] if getattr(config, "double", True) is False else []
    if getattr(config, "head", None) == "mean":  # other heads have a loss of their own
        others.append("loss='mse'")
    return {
        "slower": f" or slower targets ({', '.join(targets)})" if targets else "",
        "double": f", and {' or '.join(others)}" if others else "",
    }


def leading_values(algorithm: Algorithm, obs: Tree) -> Tensor | None:
    """Returns the critic's values [time, env] of observations [time, env, ...]; None if the algorithm has no values."""
    leaf = next(iter(obs.values())) if isinstance(obs, dict) else obs
    values = algorithm.values(tree_map(lambda x: x.flatten(0, 1), obs))
    return None if values is None else values.unflatten(0, leaf.shape[:2])
