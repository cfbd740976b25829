"""Tables about the gate: its verdicts, intervals, learning from logs, and missing outcomes."""

from __future__ import annotations

from result_tables import numbers, table


def gate_table(gate: dict) -> str:
    keys = ("false_promotion", "power", "naive_false_promotion", "naive_power", "median_gain_of_better")
    head = [
        "table",
        "static table",
        "pool",
        "promoted though not better",
        "promoted if better",
        "naive rule: not better",
    ]
    rows = [r for r in gate["results"] if "draws" in r]
    lines = [[r["table"], r["setting"], str(r["pool"]), *numbers(r, *keys)] for r in rows]
    draws = " / ".join(sorted({f"{r['draws']:,}" for r in rows}))
    intro = (
        f"This was measured in {draws} draws each ([gate.json](../../benchmarks/sage/results/gate.json)); the protocol is in "
        "[gate.py](../../benchmarks/sage/gate.py):"
    )
    return f"{intro}\n\n{table([*head, 'naive rule: better', 'median gain of the better'], lines)}"


def coverage_table(gate: dict) -> str:
    keys = ("coverage", "mean_half_width", "refused")
    lines = [[r["table"], r["setting"], f"{r['tasks']:,}", *numbers(r, *keys)] for r in gate["results"] if "draws" in r]
    return table(["table", "static table", "tasks", "coverage", "half width", "refused"], lines)


def learned_table(learned: dict) -> str:
    keys = ("not_worse", "mean_gain", "worst_gain", "acting_share", "share_of_full_information_gain")
    head = ["table", "static table", "learner", "not worse", "mean gain", "worst gain", "share of decisions it takes"]
    lines = [
        [r["table"], r["setting"], f"`{name}`", *numbers(found, *keys)]
        for r in learned["results"]
        for name, found in r["learners"].items()
    ]
    trials = " / ".join(sorted({str(r["trials"]) for r in learned["results"]}))
    intro = (
        f"Policies were learned from logs with .1 of exploration and judged on other tasks, in {trials} trials each "
        "([learn_from_log.json](../../benchmarks/sage/results/learn_from_log.json)):"
    )
    return f"{intro}\n\n{table([*head, 'of the gain with all outcomes known'], lines)}"


def confidence_table(learned: dict) -> str:
    lines = []
    for r in learned["results"]:
        found = r["confidence_of_table"]
        sure = [b for b in found["bins"] if b["from"] >= 0.9]
        weight = sum(b["share"] for b in sure)
        above = [
            f"{sum(b['share'] * b[key] for b in sure) / weight:.3f}" if weight else "-"
            for key in ("predicted", "happened")
        ]
        error = numbers(found, "expected_calibration_error")
        lines.append([r["table"], r["setting"], str(found["num_checks"]), *error, f"{weight:.3f}", *above])
    head = ["table", "static table", "choices", "calibration error", "share with .9 or more", "their mean confidence"]
    intro = (
        "Outcome tables hold the truth, so the confidence can be checked. The next table covers every category in which "
        "the learner `table` would leave the static table, in all trials of "
        "[learn_from_log.json](../../benchmarks/sage/results/learn_from_log.json), weighted by tasks:"
    )
    return f"{intro}\n\n{table([*head, 'of them truly not worse'], lines)}"


def known_table(coverage: dict) -> str:
    lines = []
    for cell in coverage["cells"]:
        found = {row["interval"]: row["coverage"] for row in cell["intervals"]}
        if "num_episodes" not in cell["settings"]:
            shown = [
                f"{found[name]:.3f}" if name in found else "-"
                for name in ("doubly robust, t", "doubly robust, bootstrap")
            ]
            lines.append([cell["cell"], f"{cell['median_effective_sample_size']:.0f}", f"{cell['refused']:,}", *shown])
    return table(["cell", "effective sample size", "refused", "t", "bootstrap"], lines)


def looks_table(results: list[dict]) -> str:
    names = dict.fromkeys((r["table"], r["setting"]) for r in results if "skipped" not in r)
    found = {(r["table"], r["setting"], part): r[part] for r in results for part in ("once", "looks") if part in r}
    lines = []
    for name in names:
        once, looks = (found.get((*name, part), {}) for part in ("once", "looks"))
        fixed = numbers(once, "false_promotion", "covered", "refused")
        often = [
            *numbers(looks.get("not_better", {}), "fixed", "anytime"),
            *numbers(looks.get("better", {}), "anytime"),
        ]
        lines.append([*name, f"{once['draws']:,}" if once else "-", *fixed, *often, *numbers(once, "power")])
    head = ["table", "static table", "logs", "one look: promoted though not better", "coverage", "refused"]
    often = ["20 looks at fixed n: promoted though not better", "20 looks, anytime: though not better", "if better"]
    return table([*head, *often, "one look at fixed n: if better"], lines)


def missing_table(results: list[dict]) -> str:
    lines = []
    for r in results:
        rows = {(row["of_whom"], row["which"], row["share"]): row for row in r["scenarios"]}
        random = rows["everybody", "any", 0.01]
        worse = [sum(row[key] for row in r["scenarios"]) for key in ("worse_promoted", "of_them_not_on_the_whole_log")]
        powers = [
            r["today"]["power"],
            rows["nobody", "any", 0.0]["power_fixed_n"],
            random["power_fixed_n"],
            random["power"],
        ]
        tried = f"{r['draws_worse'] * len(rows):,}"
        lines.append([r["table"], tried, *map(str, worse), *(f"{power:.3f}" for power in powers)])
    head = ["table", "worse candidates x scenarios", "promoted", "promoted at fixed n only because of gaps"]
    power = ["power before", "nothing missing, fixed n", "1 % missing at random, fixed n", "the same, anytime"]
    return table([*head, *power], lines)
