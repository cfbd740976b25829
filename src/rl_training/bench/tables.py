"""The stored results as Markdown."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

from rl_training.bench.comparison import comparisons
from rl_training.bench.gates import Verdict
from rl_training.bench.learning_cells import LEARNING
from rl_training.bench.records import mean_training_return, read_cell, scores_of

LEARNING_HEAD = (
    "| cell | seeds | score | worst seed | training return | gate | reference |\n|---|---|---|---|---|---|---|"
)
VERDICT_HEAD = (
    "| cell | seeds | mean +- std | IQM (95 % interval) | gate | published | at the floor | verdict |\n"
    "|---|---|---|---|---|---|---|---|"
)
SPEED_HEAD = "| cell | ours, steps/s | peer, steps/s | ratio (range) | compile and warm-up |\n|---|---|---|---|---|"
OPTION_HEAD = "| option | with it, steps/s | without, steps/s | ratio of times (range) |\n|---|---|---|---|"
ALONE_HEAD = "| ours alone | steps/s (range) | must, target, goal | compile and warm-up |\n|---|---|---|---|"
PEER_NAMES = {
    "sb3": "Stable-Baselines3",
    "sbx": "SBX",
    "cleanrl": "CleanRL's loop",
    "tianshou": "Tianshou",
    "torchrl": "TorchRL",
    "d3rlpy": "d3rlpy",
}
MISSING_HEAD = "| not measured | peer | why |\n|---|---|---|"


def learning_row(folder: Path, name: str) -> str:
    records = read_cell(folder, name)
    scores = scores_of(records)
    mean, spread = statistics.fmean(scores), statistics.stdev(scores) if len(scores) > 1 else math.nan
    training = mean_training_return(records)
    cell = LEARNING.get(name)
    gate = (
        "" if cell is None or cell.gate is None else f">= {cell.gate:g}: {'met' if mean >= cell.gate else '**missed**'}"
    )
    reference = cell.reference if cell else records[0]["reference"]
    digits = 3 if abs(mean) < 2 else 1
    collected = "-" if math.isnan(training) else f"{training:.{digits}f}"  # from data alone, nothing is
    numbers = f"{mean:.{digits}f} +- {spread:.{digits}f} | {min(scores):.{digits}f} | {collected}"
    return f"| {name} | {len(scores)} | {numbers} | {gate} | {reference} |"


def learning_table(folder: Path, words: list[str]) -> str:
    """Returns rows of the cells that are named, or begin with a word that ends in a dash; without words, of all."""
    beginnings = tuple(word for word in words if word.endswith("-"))
    stored = [path.name for path in sorted(folder.iterdir()) if path.is_dir()]
    names = [name for name in stored if not words or name in words or name.startswith(beginnings)]
    table = "\n".join([LEARNING_HEAD, *(learning_row(folder, name) for name in names)])
    found = [one.sentence for one in comparisons(folder, names)]
    return "\n\n".join([table, *(["\n".join(found)] if found else [])])


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
    """Returns tables of our speed and the peers', the cost of options, ours alone, and what was not measured."""
    parts = (
        (SPEED_HEAD, [speed_row(name, r) for name, r in results.items() if "ratio_median" in r]),
        (OPTION_HEAD, [option_row(name, r) for name, r in results.items() if "option" in r]),
        (ALONE_HEAD, [alone_row(n, r) for n, r in results.items() if "ours_steps_per_second" in r and "peer" not in r]),
        (MISSING_HEAD, [missing_row(name, r) for name, r in results.items() if "unavailable" in r]),
    )
    return "\n\n".join("\n".join([head, *rows]) for head, rows in parts if rows)


def peer_table(results: dict[str, dict]) -> str:
    """Returns a line per task and a column per peer: how many times as fast ours is, measured on what."""
    peers = {peer: title for peer, title in PEER_NAMES.items() if any(row["peer"] == peer for row in results.values())}
    tasks = list(dict.fromkeys(task_of(row) for row in results.values()))
    cells = {(task_of(row), row["peer"]): peer_cell(row) for row in results.values()}
    rows = [[task, *(cells.get((task, peer), "") for peer in peers)] for task in tasks]
    lines = [f"| {' | '.join(row)} |" for row in [["", *peers.values()], *rows]]
    lines.insert(1, "|---" * (1 + len(peers)) + "|")
    return "\n".join(lines) + "\n\n" + peer_note(results)


def task_of(row: dict) -> str:
    return f"{row['work']['algorithm']}, {row['work'].get('env', 'data')}"


def peer_cell(row: dict) -> str:
    if "unavailable" in row:
        return "not measured"
    return f"{row['ratio_median']:.1f}x ({row['ratio_min']:.1f}-{row['ratio_max']:.1f})"


def peer_note(results: dict[str, dict]) -> str:
    """Returns the circumstances of a table of peers, in the words of its rows."""
    measured = [row for row in results.values() if "machine" in row]
    pairs = sorted({len(row["peer_steps_per_second"]) for row in measured})
    machines = sorted({f"{row['machine']['cores']} cores of {row['machine']['processor']}" for row in measured})
    named = {name: text for row in measured for name, text in row["versions"].items()}
    versions = [f"{name} {text}" for name, text in named.items() if text[0].isdigit()]  # what is re-written has none
    days = sorted({row["measured"][:10] for row in measured})
    missing = "".join(f" {name}: {row['unavailable']}." for name, row in results.items() if "unavailable" in row)
    return (
        f"Our steps per second over theirs, median and range of {' or '.join(map(str, pairs))} pairs measured in turn; "
        f"{', '.join(machines)}; {', '.join(versions)}; "
        f"{' and '.join(days)}.{missing}"
    )


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
