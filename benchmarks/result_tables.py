"""Tables of learning and of speed beside other libraries, as README and docs show them."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

from rl_training.bench import LEARNING
from rl_training.bench.comparison import comparisons
from rl_training.bench.records import mean_training_return, read_cell, scores_of

LEARNING_HEAD = (
    "| cell | seeds | score | worst seed | training return | gate | reference |\n|---|---|---|---|---|---|---|"
)
PEER_NAMES = {
    "sb3": "Stable-Baselines3",
    "sbx": "SBX",
    "cleanrl": "CleanRL's loop",
    "tianshou": "Tianshou",
    "torchrl": "TorchRL",
    "benchmarl": "BenchMARL",
    "jaxmarl": "JaxMARL",
    "d3rlpy": "d3rlpy",
}


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
