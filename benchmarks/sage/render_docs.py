"""Writes the tables of docs/sage from the result files; with --check, exits with 1 if a page does not match them.

.venv/bin/python benchmarks/sage/render_docs.py [--check]
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import local_tables

from rl_training.evaluation import bootstrap_interval, iqm

ROOT = Path(__file__).parents[2]
RESULTS, DOCS = ROOT / "benchmarks" / "sage" / "results", ROOT / "docs" / "sage"


def table(head: list[str], lines: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *lines])


def numbers(result: dict, *keys: str) -> list[str]:
    return [f"{result[key]:.3f}" if isinstance(result.get(key), float) else "-" for key in keys]


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
        [r["table"], r["setting"], f"`train-{name}`", *numbers(found, *keys)]
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
        "`train-table` would leave the static table, in all trials of "
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


SIM_BASELINES = {
    "heuristic": "the best heuristic, tuned on training tasks: trials, then models, then escalate; it makes no trials",
    "ochiai": "the best heuristic without models: trials by suspicion, then escalate",
    "best_constant": "the best action to do always",
}
SIM_CELLS = {
    "main": "**PPO**",
    "history_blind": "PPO that does not see what was done",
    "shuffled_observations": "PPO that sees other episodes",
    "gamma_0": "PPO with gamma 0",
    "permuted_rewards": "PPO with rewards of other episodes",
}


def sim_table(baselines: dict) -> str:
    scores = baselines["scores"]["unseen"]
    rows = [
        [title, "", f"{scores[name]['normalised']:.3f}", f"{scores[name]['solved']:.1%}"]
        for name, title in SIM_BASELINES.items()
    ]
    for cell, title in SIM_CELLS.items():
        found = [result["scores"]["unseen"]["sampled"] for result in folder(f"sim_ppo/{cell}")]
        normalised = [score["normalised"] for score in found]
        low, high = bootstrap_interval(normalised)
        solved = sum(score["solved"] for score in found) / len(found)
        shown = f"{iqm(normalised):.3f} ({low:.3f} to {high:.3f})"
        rows.append([title, str(len(found)), shown, f"{solved:.1%}"])
    return table(["policy", "seeds", "normalised score", "solved"], rows)


MODEL_CHECKS = {
    "held_out_tasks": "tasks, in five folds",
    "held_out_part_by_task": "two fifths of the tasks",
    "held_out_part_by_category": "two fifths of the repositories or types",
}


def models_table(results: dict) -> str:
    """Whether fits hold on what they have not seen."""
    rows = []
    for pack, found in results["packs"].items():
        for name, title in MODEL_CHECKS.items():
            checks = found["checks"][name]
            unions, coins = checks["unions"], checks["unions"]["independent_coins"]
            rows.append(
                [
                    f"{pack}, {found['models']} models",
                    f"{checks['tasks']} {title}" if name == "held_out_tasks" else f"{title} ({checks['tasks']} tasks)",
                    f"{100 * unions['largest_error_of_tiers']:.1f}",
                    f"{100 * unions['largest_error']:.1f}",
                    f"{unions['share_within_bound']:.0%}",
                    f"{100 * coins['largest_error']:.1f}",
                    f"{checks['calibration']['ece']:.3f}",
                    f"{checks['costs']['largest_error']:.0%}",
                ]
            )
    head = ["pack", "not seen by the fit", "largest error of a union of two tiers, in points", "of all pairs"]
    return table(
        [*head, "pairs within 2 points", "of independent coins", "ECE", "largest error of a cost quantile"], rows
    )


def levels_table(results: dict) -> str:
    """Normalised scores of policies at every level, with their range over correlations."""
    worlds = {"invented": results["invented"]}
    for pack, found in results["packs"].items():
        worlds |= {f"{level}, {pack}": found[level] for level in ("irt", "replay")}
    names = {"always": "the best action to do always"}  # which action that is differs by level
    policies = [names.get(name.split()[0], name) for name in results["invented"]["normalised"] if name != "nothing"]
    rows = []
    for policy in policies:
        row = [policy]
        for world in worlds.values():
            (name,) = [n for n in world["normalised"] if names.get(n.split()[0], n) == policy]
            low, high = world["band"][name]
            row.append(f"{world['normalised'][name]:.3f} ({low:.3f} to {high:.3f})")
        rows.append(row)
    return table(["policy", *worlds], rows)


def folder(name: str) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted((RESULTS / name).glob("*.json"))]


def filled(page: str, parts: dict[str, str]) -> str:
    for name, text in parts.items():
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        page = marked.sub(lambda found, text=text: f"{found[1]}{text}\n{found[2]}", page)
    return page


def main() -> int:
    gate, learned = (json.loads((RESULTS / name).read_text()) for name in ("gate.json", "learn_from_log.json"))
    coverage = json.loads((ROOT / "benchmarks" / "results" / "ope_coverage.json").read_text())
    objectives = folder("objectives")
    sim_models = json.loads((RESULTS / "sim_models.json").read_text())
    local = json.loads((RESULTS / "local_matrix" / "analysis.json").read_text())
    real_log = RESULTS / "real_log" / "verdict.json"
    verdict = json.loads(real_log.read_text()) if real_log.exists() else None
    parts = {
        "from_log_to_promotion.md": {
            "gate": gate_table(gate),
            "learned": learned_table(learned),
            "confidence": confidence_table(learned),
            "looks": looks_table(folder("looks")),
            "missing": missing_table(folder("missing_outcomes")),
        },
        "objectives.md": {
            "objectives": objectives_table(objectives),
            "cheaper": cheaper_table(objectives),
            "looked": looked_table(objectives),
            "saved": saved_table(objectives),
        },
        "exploration.md": {
            "any": power_table(folder("power"), "any"),
            "shadow": shadow_table(folder("shadow")),
            "plausible": power_table(folder("power"), "plausible"),
            "plan": plan_table(folder("plan")),
        },
        "learned_cascades.md": {
            "cascades": cascades_table(folder("cascades")),
            "cascade coverage": cascade_coverage_table(folder("cascades")),
            "refusals": refusals_table(folder("cascades")),
            "line by chance": line_table(folder("cascades")),
        },
        "sim.md": {
            "ppo": sim_table(json.loads((RESULTS / "sim_ppo" / "baselines.json").read_text())),
            "models": models_table(sim_models),
            "levels": levels_table(sim_models),
        },
        "local_models.md": {
            "categories": local_tables.category_table(local, table),
            "ladders": local_tables.cascade_table(local, table),
            "routing": local_tables.routing_table(local, table),
            "real log": local_tables.verdict_table(verdict, table),
        },
        "estimators.md": {"known": known_table(coverage), "real": coverage_table(gate)},
    }
    pages = {DOCS / name: filled((DOCS / name).read_text(), texts) for name, texts in parts.items()}
    if "--check" in sys.argv[1:]:
        stale = [path.name for path, page in pages.items() if path.read_text() != page]
        print("\n".join(f"{name} does not match the results: run without --check" for name in stale) or "pages match")
        return int(bool(stale))
    for path, page in pages.items():
        path.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
