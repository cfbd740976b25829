"""The stored results as Markdown."""

from __future__ import annotations

import statistics

from rl_training.bench.gates import Verdict

VERDICT_HEAD = (
    "| cell | seeds | mean +- std | IQM (95 % interval) | gate | published | at the floor | verdict |\n"
    "|---|---|---|---|---|---|---|---|"
)
SPEED_HEAD = "| cell | ours, steps/s | peer, steps/s | ratio (range) | compile and warm-up |\n|---|---|---|---|---|"
OPTION_HEAD = "| option | with it, steps/s | without, steps/s | ratio of times (range) |\n|---|---|---|---|"
ALONE_HEAD = "| ours alone | steps/s (range) | must, target, goal | compile and warm-up |\n|---|---|---|---|"
MISSING_HEAD = "| not measured | peer | why |\n|---|---|---|"


def verdict_table(verdicts: list[Verdict]) -> str:
    return "\n".join([VERDICT_HEAD, *map(verdict_row, verdicts)])


def verdict_row(v: Verdict) -> str:
    digits = 3 if abs(v.mean) < 2 else 1
    low, high = v.interval
    published = "" if v.rule is None else f"{v.measured:.1f}, at least {v.rule:.1f}"
    word = {True: "met", False: "**missed**", None: "no gate"}[v.met]
    gate = "" if v.gate is None else f"{v.gate:g}"
    return (
        f"| {v.cell} | {v.seeds} | {v.mean:.{digits}f} +- {v.std:.{digits}f} | {v.iqm:.{digits}f} "
        f"({low:.{digits}f} to {high:.{digits}f}) | {gate} | {published} | {v.at_floor} | {word} |"
    )


def speed_table(results: dict[str, dict]) -> str:
    """Returns Markdown tables of our speed and the peers', of options, of ours alone, and of peers not measured."""
    parts = (
        (SPEED_HEAD, [speed_row(name, r) for name, r in results.items() if "ratio_median" in r]),
        (OPTION_HEAD, [option_row(name, r) for name, r in results.items() if "option" in r]),
        (ALONE_HEAD, [alone_row(n, r) for n, r in results.items() if "ours_steps_per_second" in r and "peer" not in r]),
        (MISSING_HEAD, [missing_row(name, r) for name, r in results.items() if "unavailable" in r]),
    )
    return "\n\n".join("\n".join([head, *rows]) for head, rows in parts if rows)


def speed_row(name: str, r: dict) -> str:
    ours, theirs = (statistics.median(r[key]) for key in ("ours_steps_per_second", "peer_steps_per_second"))
    return (
        f"| {name} | {ours:,.0f} | {theirs:,.0f} | {r['ratio_median']:.2f} ({r['ratio_min']:.2f} to {r['ratio_max']:.2f}) "
        f"| {r['compile_and_warm_up_s']} s |"
    )


def option_row(name: str, r: dict) -> str:
    numbers = (statistics.median(r[f"{key}_option_steps_per_second"]) for key in ("with", "without"))
    speeds = " | ".join(f"{number:,.0f}" for number in numbers)
    spread = f"{r['time_ratio_min']:.2f} to {r['time_ratio_max']:.2f}"
    return f"| {name} | {speeds} | {r['time_ratio_median']:.2f} ({spread}) |"


def alone_row(name: str, r: dict) -> str:
    speeds = r["ours_steps_per_second"]
    wanted = ", ".join(f"{number:,.0f}" for number in r.get("wanted_steps_per_second", []))
    return (
        f"| {name} | {statistics.median(speeds):,.0f} ({min(speeds):,.0f} to {max(speeds):,.0f}) | {wanted} "
        f"| {r['compile_and_warm_up_s']} s |"
    )


def missing_row(name: str, r: dict) -> str:
    reason = " ".join(r["unavailable"].replace("|", "/").split())
    return f"| {name} | {r['peer']} | {reason} |"
