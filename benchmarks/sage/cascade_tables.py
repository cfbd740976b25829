"""Tables about verified cascades, from the results of `cascades.py` and its companions."""

from __future__ import annotations

from result_tables import numbers, table


def cascades_table(results: list[dict]) -> str:
    """One line per verifier, learner and rule, with all seeds."""
    groups: dict[tuple, list[dict]] = {}
    for cell in results:
        for learner, rules in cell.get("pooled", {}).items():
            for rule in ("budget 0.25", "budget 0.35", "aim 1.02"):
                if rule in rules:
                    groups.setdefault((*cell["verifier"], learner, rule), []).append(rules[rule])
    lines = []
    for (true_positive, false_positive, rho, learner, rule), rows in sorted(groups.items(), reverse=True):
        shown = [" / ".join(f"{row[key]:.3f}" for row in rows) for key in ("quality", "cost")]
        points = [" / ".join(f"{100 * row[key]:+.1f}" for row in rows) for key in ("over_line", "worst_over_line")]
        verifier = f"{100 * true_positive:g}/{100 * false_positive:g}"
        lines.append([verifier, f"{rho:g}", learner.replace("_", " "), rule, *shown, *points])
    head = [
        "verifier",
        "rho",
        "cascade",
        "price chosen by",
        "quality",
        "cost",
        "over the line",
        "in the worst repository",
    ]
    return table(head, lines)


def cascade_coverage_table(results: list[dict]) -> str:
    lines = []
    for cell in results:
        for name, row in cell.get("targets", {}).items():
            true_positive, false_positive, rho = cell["verifier"]
            verifier = f"{100 * true_positive:g}/{100 * false_positive:g}, rho {rho:g}"
            numbers_shown = numbers(row, "refused", "coverage", "coverage_trajectory", "half_width", "width_ratio")
            lines.append(
                [verifier, f"{cell['exploration']:g}", name, f"{row['effective_sample_size']:.0f}", *numbers_shown]
            )
    head = ["verifier", "exploration", "estimated", "effective tasks", "refused", "coverage", "of trajectory IS"]
    return table([*head, "half width", "relative to trajectory IS"], lines)


def refusals_table(results: list[dict]) -> str:
    """By value and gain."""
    lines = []
    for cell in results:
        for rule, found in cell.get("rules", {}).items():
            shown = [f"{cell['exploration']:g}", rule]
            for key in ("let_through", "coverage", "others_refused"):
                both = [found[kind][key] for kind in ("value", "gain")]
                shown.append(
                    ", ".join("-" if x is None else f"{x:.3f}" if isinstance(x, float) else f"{x}" for x in both)
                )
            lines.append(shown)
    head = ["exploration", "refused by", "let through (value, gain)", "coverage of these", "others refused"]
    return table(head, lines)


def line_table(results: list[dict]) -> str:
    """How far chance takes a repository below the mixing line."""
    lines = []
    for verifier, cell in next(part["by_chance"] for part in results if "by_chance" in part).items():
        low, high = (f"{100 * value:+.1f}" for value in cell["over_line"])
        for tasks, row in cell["repositories_of"].items():
            points = [f"{100 * row[key]:.1f}" for key in ("deviation", "needed")]
            lines.append([verifier, f"{low} to {high}", tasks, *points, *numbers(row, "below", "below_if_on_the_line")])
    head = ["verifier", "over the line", "tasks", "standard deviation", "needed", "below", "below if on the line"]
    return table(head, lines)
