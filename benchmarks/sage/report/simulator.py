"""Parts about the simulator: PPO beside heuristics and controls, and models that are fitted to recorded outcomes."""

from __future__ import annotations

from pathlib import Path

from result_tables import read
from sim_tables import levels_table, models_table, sampled_scores, sim_table

from report.parts import Part, Source, measured, paragraphs, prose
from rl_training.evaluation import bootstrap_interval, iqm


def simulator_headline(results: Path) -> str:
    scores = [row["normalised"] for row in sampled_scores("main", results / "sim_ppo")]
    heuristic = read(results / "sim_ppo" / "baselines.json")["scores"]["unseen"]["heuristic"]["normalised"]
    return prose(f"""
        In a simulator of software tasks, PPO scores {iqm(scores):.3f} on unseen tasks, where the best tuned heuristic
        scores {heuristic:.3f}.
    """)


def simulator(results: Path) -> str:
    baselines = read(results / "sim_ppo" / "baselines.json")
    unseen = baselines["scores"]["unseen"]
    scores = [row["normalised"] for row in sampled_scores("main", results / "sim_ppo")]
    low, high = bootstrap_interval(scores)
    return paragraphs(
        prose(f"""
            The environment has {baselines["tasks"]:,} repair tasks with recorded results of every edit. A score of 0 is a
            random policy, 1 one that knows all outcomes. Judged on {unseen["tasks"]} unseen tasks:
        """),
        sim_table(results / "sim_ppo"),
        "![Normalised scores of policies on unseen tasks](report/simulator.svg)",
        prose(f"""
            PPO has an interquartile mean of {iqm(scores):.3f} ({low:.3f} to {high:.3f}) over {len(scores)} seeds. A policy
            that knows each task's difficulty and makes no trials would have
            {unseen["bounds"]["knows_difficulty_no_trials"]:.3f}.
        """),
    )


def simulated_models(results: Path) -> str:
    found = read(results / "sim_models.json")
    return paragraphs(
        prose("""
            Models of the simulator are fitted to recorded outcomes. Whether fits hold on what they have not seen:
        """),
        models_table(found),
        prose("""
            Scores of policies with invented, fitted and replayed models, and their range over correlations of a model's
            answers:
        """),
        levels_table(found),
    )


PARTS = (
    Part(
        "The simulator and PPO",
        (
            Source(
                "sim_ppo",
                "benchmarks/sage/sim_ppo.py run --tables TABLES && benchmarks/sage/sim_ppo.py baselines --tables TABLES",
            ),
        ),
        simulator,
        simulator_headline,
    ),
    Part("Simulated models", (measured("sim_models.json"),), simulated_models),
)
