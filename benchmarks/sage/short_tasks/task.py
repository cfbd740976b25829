"""A short task with an exact verifier."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ShortTask:
    """One task: a prompt, and the verifier and value that decide if an answer is right."""

    id: str
    category: str
    prompt: str
    verifier: str  # a name of `checking.VERIFIERS`
    expected: object  # JSON: what the verifier compares with
    max_tokens: int  # that an answer may have
