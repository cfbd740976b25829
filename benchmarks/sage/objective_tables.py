"""Tables about objectives with limits, from the results of `objectives.py`."""

from __future__ import annotations

from result_tables import numbers, table


def objectives_table(results: list[dict]) -> str:
    keys = ("false_promotion", "power", "false_promotion_budget", "quality_covered", "cost_covered", "task_covered")
    lines = []
    for r in results:
        for setting, cell in r.get("gate", {}).items():
            often = numbers(cell["anytime"], "false_promotion", "power")
            logs = f"{cell['acceptable_draws']} + {cell['other_draws']}"
            lines.append([r["table"], setting, logs, *numbers(cell["t"], *keys), *often])
    head = ["table", "static table", "logs: acceptable + others", "1 point worse: promoted though not acceptable"]
    head += ["promoted if acceptable", "budget: promoted though not true", "coverage: quality", "cost", "cost per task"]
    return table([*head, "anytime: though not acceptable", "anytime: if acceptable"], lines)


def cheaper_table(results: list[dict]) -> str:
    found = [(r["table"], r["cheaper"]) for r in results if "candidate" in r.get("cheaper", {})]
    slacks = list(found[0][1]["t"]["promoted_by_slack_in_points"]) if found else []
    lines = []
    for name, pair in found:
        at_once, often = (pair[method]["promoted_by_slack_in_points"] for method in ("t", "anytime"))
        shown = [f"{pair['times_cheaper']:.0f}", f"{pair['quality']:+.3f}", *(f"{at_once[k]:.3f}" for k in slacks)]
        lines.append([name, *shown, *(f"{often[k]:.3f}" for k in slacks[-2:])])
    head = ["table", "times cheaper", "quality", *(f"slack {k}" for k in slacks)]
    return table([*head, *(f"anytime, slack {k}" for k in slacks[-2:])], lines)


def looked_table(results: list[dict]) -> str:
    keys = ("promoted", "quality_below", "cost_above", "task_above")
    found = [(r["table"], method, r["looks"]) for r in results if "looks" in r for method in ("t", "anytime")]
    names = {"t": "fixed n", "anytime": "anytime"}
    lines = [[name, names[how], str(looks["logs"]), *numbers(looks[how], *keys)] for name, how, looks in found]
    head = ["table", "interval", "logs", "promoted at some look", "quality below its bound at some look"]
    return table([*head, "cost above its bound", "cost per task above its bound"], lines)


def saved_table(results: list[dict]) -> str:
    lines = []
    for r in results:
        for name, told in (("one_point", "at most 1 point worse"), ("reward_v1", "`reward_v1`")):
            if "learn" in r:
                found = r["learn"][name]
                signed = [f"{found[key]:+.4f}" for key in ("quality", "error_of_quality", "worst_quality")]
                shown = numbers(found, "saved", "acts", "promoted", "saved_if_promoted")
                lines.append([r["table"], told, str(r["learn"]["trials"]), *signed, *shown])
    head = [
        "table",
        "learned for",
        "trials",
        "mean quality",
        "its standard error",
        "worst trial",
        "share of cost saved",
    ]
    return table([*head, "decisions it takes", "promoted at one look", "saved where promoted, else 0"], lines)
