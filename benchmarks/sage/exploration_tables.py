"""Tables about exploration, from the results of `power.py`, `shadow.py` and `plan.py`."""

from __future__ import annotations

from result_tables import numbers, table


def shadow_table(results: list[dict]) -> str:
    lines = [
        [
            r["table"],
            str(r["draws"]),
            scheme,
            *numbers(found, "promoted", "covered"),
            f"{found['half_width']:.4f}",
            calls(found),
        ]
        for r in results
        for scheme, found in r["gains_of_1_to_2_points"].items()
    ]
    return table(["table", "draws", "scheme", "power", "coverage", "half width", "calls per 1,000"], lines)


def calls(found: dict) -> str:
    return f"{1000 * found['extra_calls']:.1f}" if "extra_calls" in found else "-"


def power_table(results: list[dict], part: str) -> str:
    """Power for gains of 1 to 2 points, by scheme."""
    lines = []
    for r in (r for r in results if r["part"] == part):
        for scheme, found in r["gains_of_1_to_2_points"].items():
            paid = [
                f"{1000 * found[key]:.1f}" if key in found else "-" for key in ("extra_calls", "reward_lost", "dollars")
            ]
            shown = [*numbers(found, "promoted", "covered"), f"{found['half_width']:.4f}", *paid]
            lines.append([r["table"], f"{r['draws']}", scheme, *shown])
    cost = ["calls per 1,000", "reward lost per 1,000", "USD more per 1,000"]
    return table(["table", "draws", "scheme", "power", "coverage", "half width", *cost], lines)


def plan_table(results: list[dict]) -> str:
    lines = [
        [r["table"], share, *numbers(found, "predicted_power", "power")]
        + [f"{found[key]:.4f}" for key in ("predicted_half_width", "half_width")]
        for r in results
        for share, found in r["exploration"].items()
    ]
    head = ["table", "exploration", "predicted power", "simulated", "predicted half width", "simulated"]
    return table(head, lines)
