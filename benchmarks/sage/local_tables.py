"""Tables about local models, from the results of `local_analysis.py` and `real_log_verdict.py`."""

from __future__ import annotations

from collections.abc import Callable

Table = Callable[[list[str], list[list[str]]], str]


def number(found: dict, key: str, digits: int = 3) -> str:
    return f"{found[key]:.{digits}f}"


def category_table(analysis: dict, table: Table) -> str:
    """Right answers and processor seconds of every model, by category."""
    names = [name for name in analysis["models"]["all"] if name != "tasks"]
    lines = [
        [
            category,
            str(found["tasks"]),
            *(f"{number(found[name], 'quality')} / {number(found[name], 'cpu_s', 2)}" for name in names),
        ]
        for category, found in sorted(analysis["models"].items(), key=lambda item: item[0] == "all")
    ]
    asked = f"All three models have answered {analysis['tasks']:,} of the {analysis['of']:,} tasks:"
    return f"{asked}\n\n{table(['category', 'tasks', *names], lines)}"


def cascade_table(analysis: dict, table: Table) -> str:
    """Ladders and learned cascades beside the best single model."""
    name = analysis["learned"]["by category"]["best_single"]
    best = analysis["models"]["all"][name]
    rows = {f"{name} alone (the best single model)": best} | analysis["ladders"]
    rows |= {f"learned {how}": found for how, found in analysis["learned"].items()}
    lines = [
        [name, number(found, "quality"), number(found, "cpu_s", 2), f"{found['cpu_s'] / best['cpu_s']:.2f}"]
        for name, found in rows.items()
    ]
    return table(["cascade", "right", "processor seconds per task", "times the cost of the best single model"], lines)


def routing_table(analysis: dict, table: Table) -> str:
    lines = [[name, number(found, "quality"), number(found, "cpu_s", 2)] for name, found in analysis["routing"].items()]
    return table(["one model per task, without a verdict", "right", "processor seconds per task"], lines)


def verdict_table(verdict: dict | None, table: Table) -> str:
    """What the gate said about policies of the real log, and what is true; None while there is no log."""
    if verdict is None:
        return "The log is being written; there is no verdict yet."
    lines = []
    for name, real in verdict["real"].items():
        drawn = verdict["drawn"][name]
        gain = real["true_gain"]
        lines.append(
            [
                name,
                "promoted" if real["promoted"] else "not promoted",
                f"{gain['quality']:+.3f} right, {gain['cost_usd'] * 1e5:+.2f} s",
                "yes" if real["promotion_would_be_right"] else "no",
                f"{drawn['promoted']} of {drawn['draws']}",
                str(drawn["falsely_promoted"]),
            ]
        )
    head = ["question", "verdict on the real log", "true gain, by the matrix", "would a promotion be right"]
    asked, found = verdict["candidates"], table([*head, "promoted on drawn logs", "of these falsely"], lines)
    intro = (
        f"{verdict['decisions']:,} decisions about {verdict['tasks']:,} tasks were served live, "
        f"{verdict['with_outcome']:,} of them with an outcome."
    )
    others = (
        f"Of policies that nobody learned, the gate promoted {asked['better_promoted']} of {asked['better']} that are truly better "
        f"and {asked['not_better_promoted']} of {asked['not_better']} that are not."
    )
    return f"{intro}\n\n{found}\n\n{others}"
