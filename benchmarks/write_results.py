"""Renders the raw results into the docs: every number there comes from a file here.

.venv/bin/python benchmarks/write_results.py            # rewrites what stands between the markers
.venv/bin/python benchmarks/write_results.py --check    # exits with 1 if the docs are not up to date
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import sys
from pathlib import Path

from learn import CELLS, FOLDER

ROOT = Path(__file__).parent.parent
PLAIN = "dqn-cartpole-100k"
SPEED = Path(__file__).parent / "results"
MARKERS = re.compile(r"(<!-- results(?: [a-z0-9-]+)* -->).*?(<!-- end of results -->)", re.DOTALL)
LEARNING_HEAD = (
    "| cell | seeds | score | worst seed | training return | gate | reference |\n|---|---|---|---|---|---|---|"
)
SPEED_HEAD = "| cell | ours, steps/s | peer, steps/s | ratio (range) | compile and warm-up |\n|---|---|---|---|---|"
OPTION_HEAD = "| option | with it, steps/s | without, steps/s | ratio of times (range) |\n|---|---|---|---|"


def learning_row(name: str) -> str:
    records = [json.loads(path.read_text()) for path in sorted((FOLDER / name).glob("seed*.json"))]
    scores = [r["score"] for r in records]
    mean, spread = statistics.fmean(scores), statistics.stdev(scores) if len(scores) > 1 else math.nan
    training = statistics.fmean(r["training_return_last_100"] for r in records)
    cell = CELLS.get(name)
    gate = (
        "" if cell is None or cell.gate is None else f">= {cell.gate:g}: {'met' if mean >= cell.gate else '**missed**'}"
    )
    reference = cell.reference if cell else records[0]["reference"]
    digits = 3 if abs(mean) < 2 else 1
    numbers = f"{mean:.{digits}f} +- {spread:.{digits}f} | {min(scores):.{digits}f} | {training:.{digits}f}"
    return f"| {name} | {len(scores)} | {numbers} | {gate} | {reference} |"


def learning_table(prefixes: list[str]) -> str:
    names = [
        p.name for p in sorted(FOLDER.iterdir()) if p.is_dir() and (not prefixes or p.name.startswith(tuple(prefixes)))
    ]
    table = "\n".join([LEARNING_HEAD, *map(learning_row, names)])
    return "\n\n".join([table, *(["\n".join(found)] if (found := comparisons(names)) else [])])


def scores_of(name: str) -> list[float]:
    return [json.loads(p.read_text())["score"] for p in sorted((FOLDER / name).glob("seed*.json"))]


def comparison(ours: str, other: str, limit: float) -> str:
    """One sentence: the difference of two cells in standard errors."""
    a, b = scores_of(ours), scores_of(other)
    error = math.sqrt(statistics.variance(a) / len(a) + statistics.variance(b) / len(b))
    difference = statistics.fmean(a) - statistics.fmean(b)
    verdict = "not worse" if difference >= -limit * error else "**worse**"
    errors = f"{difference / error:+.1f}" if error else "0"
    return f"- {ours} against {other}: {difference:+.1f}, {errors} standard errors ({verdict} by the rule of {limit:g})"


def comparisons(names: list[str]) -> list[str]:
    """Every cell beside the peer of the same name, and every variant of DQN beside DQN."""
    pairs = [(name, f"{name}-sb3", 2.0) for name in names if f"{name}-sb3" in names]
    variants = [name for name in names if name.endswith("-cartpole-100k") and name != PLAIN]
    pairs += [(name, PLAIN, 2.33) for name in variants if len(scores_of(PLAIN)) > 1 and len(scores_of(name)) > 1]
    return [comparison(*pair) for pair in pairs]


def speed_table() -> str:
    """Ours beside the peers' and, in a table of its own, what options of ours cost."""
    found = [(n, r) for path in sorted(SPEED.glob("speed*.json")) for n, r in json.loads(path.read_text()).items()]
    peers = [speed_row(name, r) for name, r in found if "option" not in r]
    options = [option_row(name, r) for name, r in found if "option" in r]
    return "\n\n".join("\n".join([head, *rows]) for head, rows in ((SPEED_HEAD, peers), (OPTION_HEAD, options)) if rows)


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


def render(marker: str) -> str:
    words = marker.removeprefix("<!-- results").removesuffix(" -->").split()
    parts = [] if words == ["speed"] else [learning_table([w for w in words if w != "speed"])]
    return "\n\n".join([*parts, *([speed_table()] if "speed" in words or not words else [])])


def update(path: Path) -> tuple[str, str]:
    old = path.read_text()
    return old, MARKERS.sub(lambda m: f"{m[1]}\n{render(m[1])}\n{m[2]}", old)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        old, new = update(path)
        if old != new:
            stale.append(str(path.relative_to(ROOT)))
            if not check:
                path.write_text(new)
    print(("stale: " if check else "wrote: ") + (", ".join(stale) or "nothing"))
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
