"""The limits of a run: a number of calls, and dollars, of which a call never takes more than are left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sage.orchestrator.models_file import Model

MOST_TOKENS = 4096  # of an answer
FEWEST_TOKENS = 200  # with which an answer can say anything
OVERHEAD = 32  # tokens that a chat template may add to a message


class EndedError(Exception):
    """Error that ends a run; the message says which limit was reached."""


@dataclass
class Allowance:
    models: Mapping[str, Model]
    budget_usd: float | None = None
    max_steps: int = 40
    spent_usd: float = 0.0
    steps: int = 0

    def __post_init__(self) -> None:
        if self.budget_usd is not None and not self.budget_usd > 0:
            raise ValueError(f"--budget-usd {self.budget_usd:g} must be above 0")
        if self.max_steps < 1:
            raise ValueError(f"--max-steps {self.max_steps} must be 1 or more")

    @property
    def left_usd(self) -> float:
        return float("inf") if self.budget_usd is None else max(self.budget_usd - self.spent_usd, 0.0)

    def take_step(self) -> None:
        if self.steps >= self.max_steps:
            raise EndedError(f"it has made all {self.max_steps} calls that --max-steps allows")
        self.steps += 1

    def answer_tokens(self, name: str, messages: Iterable[dict[str, str]]) -> int:
        """Returns the most tokens that an answer may have within the budget; 0 if the call cannot be afforded."""
        model, most = self.models[name], self.longest_answer(name)
        if self.budget_usd is None or not model.output_usd_per_mtok:
            return most if self.most_usd(name, messages, 0) <= self.left_usd else 0
        room = self.left_usd - self.most_usd(name, messages, 0)
        tokens = min(most, int(room * 1e6 / model.output_usd_per_mtok))
        return tokens if tokens >= min(FEWEST_TOKENS, most) else 0

    def longest_answer(self, name: str) -> int:
        """Returns the most tokens of any answer of the model; at most a quarter of what it can read and write."""
        model = self.models[name]
        return min(MOST_TOKENS, model.max_output_tokens or MOST_TOKENS, (model.max_context or MOST_TOKENS * 4) // 4)

    def most_usd(self, name: str, messages: Iterable[dict[str, str]], tokens: int) -> float:
        """Returns the most USD that a call can cost with an answer of `tokens` tokens.

        An input token has at least one byte.
        """
        size = sum(len(message["content"].encode("utf-8", "replace")) + OVERHEAD for message in messages)
        return self.models[name].most_usd(size, tokens)

    def affordable(self, names: Iterable[str], messages: list[dict[str, str]]) -> tuple[str, ...]:
        found = tuple(name for name in names if self.answer_tokens(name, messages))
        if not found:
            raise EndedError(
                f"{self.left_usd:.4g} USD are left of the {self.budget_usd:g} USD that --budget-usd allows, and the next call may "
                "cost more"
            )
        return found
