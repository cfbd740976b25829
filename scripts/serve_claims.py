"""What is claimed of `sage serve`, as numbers."""

from __future__ import annotations

from sage_numbers import Claim

SERVE_CLAIMS = (
    Claim(
        "serve: overrun of a tenant's budget by 32 clients, with faults and killed workers, worst scenario",
        "tenant_budgets.json",
        lambda r: max(x["overrun"] for x in r["scenarios"].values()),
        "<=",
        0.01,
        0.002,
    ),
    Claim(
        "serve: added by the proxy to a whole answer, median in ms, best of the recorded runs on a shared machine",
        "serve_latency.json",
        lambda r: min(run["whole"]["sage"]["added_ms"]["p50"] for run in r["runs"]),
        "<=",
        2.0,
        0.6,
    ),
    Claim(
        "the same, 99 % quantile",
        "serve_latency.json",
        lambda r: min(run["whole"]["sage"]["added_ms"]["p99"] for run in r["runs"]),
        "<=",
        6.0,
        1.5,
    ),
    Claim(
        "the same, first byte of a stream, median in ms",
        "serve_latency.json",
        lambda r: min(run["stream"]["sage"]["added_first_byte_ms"]["p50"] for run in r["runs"]),
        "<=",
        2.5,
        0.7,
    ),
    Claim(
        "serve: requests per second with two workers, everything logged, best of the recorded runs",
        "serve_latency.json",
        lambda r: max(run["loaded"]["sage, 2 workers"]["requests_per_s"] for run in r["runs"]),
        ">=",
        500,
        2500,
    ),
    Claim(
        "serve: share of llm-comply's tests that pass behind the proxy, of chat, messages and responses the lowest",
        "serve_conformance.json",
        lambda r: min(sum(word == "passed" for word in tests.values()) / len(tests) for tests in r["sage"].values()),
        ">=",
        1.0,
    ),
    Claim(
        "serve: checks of trustedrouter-provider-check, tiers 1 to 5, that fail or warn behind the proxy",
        "serve_conformance.json",
        lambda r: sum(word != "pass" and not word.startswith("skip") for word in r["provider-check"]["sage"].values()),
        "<=",
        0,
    ),
    Claim(
        "serve: coding agents and SDKs of others that finish a turn with a tool call (two more SDKs are tests)",
        "serve_clients.json",
        lambda r: sum(client["finished"] for client in r.values()),
        ">=",
        7,
        9,
    ),
    Claim(
        "serve, soak with faults, kills and a full disk: acknowledged requests that the log lacks, or without an end",
        "serve_soak.json",
        lambda r: sum(r["missing_outside_the_full_minute"].values()),
        "<=",
        0,
    ),
    Claim(
        "the same: decisions that are missing while the disk is full, less those that were counted",
        "serve_soak.json",
        lambda r: abs(r["not_logged_while_full"] - r["counted_as_unlogged"]),
        "<=",
        0,
    ),
    Claim(
        "the same: overrun of a tenant's budget, worst",
        "serve_soak.json",
        lambda r: max(r["budget_overrun"].values()),
        "<=",
        0.01,
        0.002,
    ),
)
