"""Tables about the simulator, from the results of `sim_ppo.py` and `sim_models.py`."""

from __future__ import annotations

from pathlib import Path

from result_tables import RESULTS, folder, read, table

from rl_training.evaluation import bootstrap_interval, iqm

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


def sim_table(place: str | Path = "sim_ppo") -> str:
    scores = read(RESULTS / place / "baselines.json")["scores"]["unseen"]
    rows = [
        [title, "", f"{scores[name]['normalised']:.3f}", f"{scores[name]['solved']:.1%}"]
        for name, title in SIM_BASELINES.items()
    ]
    for cell, title in SIM_CELLS.items():
        found = sampled_scores(cell, place)
        normalised = [score["normalised"] for score in found]
        low, high = bootstrap_interval(normalised)
        solved = sum(score["solved"] for score in found) / len(found)
        shown = f"{iqm(normalised):.3f} ({low:.3f} to {high:.3f})"
        rows.append([title, str(len(found)), shown, f"{solved:.1%}"])
    return table(["policy", "seeds", "normalised score", "solved"], rows)


def sampled_scores(cell: str, place: str | Path = "sim_ppo") -> list[dict]:
    """On unseen tasks, of every seed."""
    return [result["scores"]["unseen"]["sampled"] for result in folder(RESULTS / place / cell)]


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
