"""Removes what looks like a secret from text before it is stored."""

from __future__ import annotations

import re

REMOVED = "[secret removed]"
SECRET = re.compile(
    r"""
      \b(?:sk|rk|pk)[-_](?:[A-Za-z0-9]+[-_]){0,4}[A-Za-z0-9_-]{16,}  # OpenAI, Anthropic, Stripe
    | \bgh[pousr]_[A-Za-z0-9]{20,} | \bgithub_pat_\w{20,} | \bglpat-[\w-]{16,}
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b
    | \bAIza[\w-]{30,} | \bya29\.[\w-]{20,}
    | \bxox[abeoprs]-[\w-]{10,}
    | \b(?:hf|npm|pypi|dop_v1)[-_][A-Za-z0-9]{20,}
    | \beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{5,}  # a signed web token
    | -----BEGIN\ [A-Z ]{0,20}PRIVATE\ KEY-----.*?(?:-----END\ [A-Z ]{0,20}PRIVATE\ KEY-----|\Z)
    | (?<=://)[^\s/:@]{1,200}:[^\s/@]{1,200}(?=@)  # a password in an address
    | (?i:(?<=bearer\ )[\w.~+/-]{12,}=*)
    | (?i:\b[\w-]{0,40}(?:api[_-]?key|secret|passw(?:or)?d|access[_-]?token|auth[_-]?token))["']?\s{0,3}[:=]\s{0,3}["']?[^\s"',;]{6,}
    """,
    re.VERBOSE | re.DOTALL,
)


def redact(text: str) -> str:
    """The text without what looks like keys, tokens, passwords and private keys."""
    return SECRET.sub(REMOVED, text)
