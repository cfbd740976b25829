"""Tables of what `offline_control.py` stored: methods that learn from data, beside d3rlpy on the same files."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean, median

RESULTS = Path(__file__).parent / "results"
STORED = RESULTS / "offline_control"
SPEEDS = RESULTS / "offline_control_speed"
THEIRS: dict[str, dict[str, list[float]]] = json.loads((RESULTS / "d3rlpy_offline.json").read_text())["scores"]
TASKS = {"halfcheetah": "HalfCheetah", "hopper": "Hopper"}
KINDS = ("medium_replay", "medium", "medium_expert")
SETS = [f"{task}_{kind}" for task in TASKS for kind in KINDS]
FOUR = [name for name in SETS if not name.endswith("_medium")]  # the sets whose mean is compared
TITLES = {
    "td3_bc": "TD3BC",
    "rebrac": "ReBRAC",
    "iql": "IQL",
    "bcq": "BCQ",
    "bc": "BC",
    "cql": "CQL",
    "awac": "AWAC",
}
OTHERS = {"bear": "BEAR", "td3": "TD3", "sac": "SAC", "cal_ql": "CalQL", "rlpd": "RLPD"}
MARGIN = 8.0  # what a mean over the four sets may be below d3rlpy's


def records(cell: str) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted((STORED / cell).glob("seed*.json"))]


def scores(method: str, name: str) -> list[float]:
    return [record["score"] for record in records(f"{method}-{name}")]


def shown(numbers: list[float]) -> str:
    """One number, or the mean of several with their range."""
    if len(numbers) < 2:
        return f"{numbers[0]:.1f}" if numbers else ""
    return f"{fmean(numbers):.1f} ({min(numbers):.1f} to {max(numbers):.1f})"


def titled(name: str) -> str:
    task, _, kind = name.partition("_")
    return f"{TASKS[task]} {kind.replace('_', '-')}"


def mean_of_four(found: dict[str, list[float]]) -> float | None:
    """The mean over the four sets of the means over seeds; None until all are there."""
    return fmean(fmean(found[name]) for name in FOUR) if all(found.get(name) for name in FOUR) else None


def means(method: str) -> tuple[float | None, float | None]:
    """Ours and d3rlpy's."""
    return mean_of_four({name: scores(method, name) for name in FOUR}), mean_of_four(THEIRS.get(method, {}))


def method_table(method: str) -> str:
    """A row for every set: ours and theirs."""
    lines = ["| data | mean of the data | seeds | score | best evaluation | d3rlpy |", "|---|---|---|---|---|---|"]
    for name in SETS:
        found = records(f"{method}-{name}")
        if not found:
            continue
        ours = shown([record["score"] for record in found])
        best = fmean(record["best"] for record in found)
        theirs = ", ".join(f"{score:.1f}" for score in THEIRS.get(method, {}).get(name, []))
        lines.append(
            f"| {titled(name)} | {found[0]['data_score']:.1f} | {len(found)} | {ours} | {best:.1f} | {theirs} |"
        )
    ours, theirs = means(method)
    if ours is not None:
        compared = "" if theirs is None else f"{theirs:.1f}"
        lines.append(f"| mean of medium-replay and medium-expert | | | {ours:.1f} | | {compared} |")
    return "\n".join(lines)


def comparison_table() -> str:
    """A row for every method, a column for every set, and the mean that is compared with d3rlpy's."""
    methods = [m for m in (*TITLES, *OTHERS) if any(scores(m, name) for name in SETS)]
    names = [titled(name) for name in SETS]
    lines = [f"| | {' | '.join(names)} | mean of four | d3rlpy's |", "|---" * (len(SETS) + 3) + "|"]
    data = [f"{THEIRS['data'][name][0]:.1f}" for name in SETS]
    lines.append(f"| *mean of the data* | {' | '.join(data)} | | |")
    for method in methods:
        cells = [f"{fmean(found):.1f}" if (found := scores(method, name)) else "" for name in SETS]
        both = ["" if mean is None else f"{mean:.1f}" for mean in means(method)]
        lines.append(f"| {(TITLES | OTHERS)[method]} | {' | '.join([*cells, *both])} |")
    return "\n".join(lines)


def distance_table() -> str:
    """How far BEAR's policy is from the data once it learns from values too, with its own settings and with others."""
    lines = ["| settings | data | end of the warm-up | range of the rest | last weight | scores at 40,000 and 50,000 |"]
    lines.append("|---|---|---|---|---|---|")
    for tag, title in {
        "": "default",
        "-rate-3e-4": "both rates 3e-4",
        "-slow-model": "model's rate 1e-4",
        "-fast-model": "model's rate 3e-4",
        "-d3rlpy": "d3rlpy's",
    }.items():
        for name in SETS:
            for record in records(f"bear-{name}{tag}"):
                warm_up = record["config"]["algorithm"]["warmup_updates"]
                before, after = (
                    [x for done, x in record["constraints"] if (done > warm_up) == rest] for rest in (0, 1)
                )
                low, high = (choose(x["train/mmd"] for x in after) for choose in (min, max))
                kept = (f"{score:.1f}" for done, score in record["scores"] if done >= warm_up)
                lines.append(
                    f"| {title} | {titled(name)} | {before[-1]['train/mmd']:.3f} | {low:.3f} to {high:.3f} "
                    f"| {after[-1]['train/bear_alpha']:,.0f} | {', '.join(kept)} |"
                )
    return "\n".join(lines)


def switch_table() -> str:
    """Runs that go on in the environment: the last score from data, how far it falls, where it ends, and the regret."""
    lines = [
        "| | seeds | from data | lowest of the next 5,000 steps | dip | after 20,000 steps | mean online | best | regret |"
    ]
    lines.append("|---|---|---|---|---|---|---|---|---|")
    for method in ("cql", "cal_ql", "iql", "rlpd"):
        found = records(f"{method}-hopper_medium_replay-online")
        if not found:
            continue
        parts = [switch_of(record) for record in found]
        columns = [
            shown([part[key] for part in parts]) for key in ("before", "lowest", "dip", "end", "mean", "best", "regret")
        ]
        if method == "rlpd":  # it learns nothing before its first step
            columns[0] = columns[2] = ""
        lines.append(f"| {(TITLES | OTHERS)[method]} | {len(found)} | {' | '.join(columns)} |")
    return "\n".join(lines)


def switch_of(record: dict) -> dict[str, float]:
    """Scores around the first env step; evaluations count updates from data and env steps together."""
    updates = record["offline_updates"]
    before = [score for done, score in record["scores"] if done <= updates]
    online = [(done - updates, score) for done, score in record["scores"] if done > updates]
    start = before[-1] if before else 0.0
    lowest = min(score for done, score in online if done <= 5_000)
    after = [score for _, score in online]
    found = {"before": start, "lowest": lowest, "dip": max(0.0, start - lowest), "end": after[-1], "mean": fmean(after)}
    best = max(score for _, score in record["scores"])
    return found | {"best": best, "regret": best - fmean(after)}


def verdict() -> str:
    """Whether the means reach d3rlpy's, and how many are above."""
    both = {method: means(method) for method in TITLES}
    compared = {m: (ours, theirs) for m, (ours, theirs) in both.items() if ours is not None and theirs is not None}
    lines = [
        f"{TITLES[m]}: {ours:.1f}, d3rlpy {theirs:.1f}, {'met' if ours >= theirs - MARGIN else 'missed'}"
        for m, (ours, theirs) in compared.items()
    ]
    above = sum(ours > theirs for ours, theirs in compared.values())
    mean, their_mean = (fmean(pair[i] for pair in compared.values()) for i in (0, 1))
    lines.append(f"mean of {len(compared)}: {mean:.1f}, d3rlpy {their_mean:.1f}; above d3rlpy's: {above}")
    return "\n".join(lines)


def reproduced() -> set[str]:
    """The methods that reached d3rlpy's mean over the four sets, less the margin, with three seeds everywhere."""
    found = {method: means(method) for method in TITLES if all(len(scores(method, name)) >= 3 for name in FOUR)}
    return {
        m for m, (ours, theirs) in found.items() if ours is not None and theirs is not None and ours >= theirs - MARGIN
    }


def updates_table() -> str:
    """Updates per second, once everything is compiled."""
    lines = ["| | settings | updates/s (range) | compile and warm-up |", "|---|---|---|---|"]
    found = [json.loads(path.read_text()) for path in sorted(SPEEDS.glob("*.json"))]
    for record in found:
        method, _, name = record["cell"].partition("/")
        settings = ", ".join(f"`{setting.rpartition('.')[2]}`" for setting in record["settings"])
        rates = record["updates_per_second"]
        lines.append(
            f"| {(TITLES | OTHERS)[method]}, {titled(name)} | {settings} "
            f"| {median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f}) | {record['compile_and_warm_up_s']:.0f} s |"
        )
    devices = sorted({f"{record['device']}, torch {record['metadata']['versions']['torch']}" for record in found})
    return "\n".join([*lines, "", f"{'; '.join(devices)}."])


def render(words: list[str]) -> str:
    """`offline`: all methods; `offline td3-bc`: one. `switch` is from data to the environment, `distance` BEAR's, `updates` speed."""
    tables = {
        (): comparison_table,
        ("switch",): switch_table,
        ("distance",): distance_table,
        ("updates",): updates_table,
    }
    return tables[tuple(words)]() if tuple(words) in tables else method_table(words[0].replace("-", "_"))
