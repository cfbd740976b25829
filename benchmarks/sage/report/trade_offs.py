"""Parts about what a proof costs: objectives with limits, exploration, and the plan of both."""

from __future__ import annotations

from pathlib import Path

import exploration_tables
import objective_tables
from result_tables import folder

from report.parts import Part, measured, paragraphs, prose

SCHEMES = """
- "everything known": the gate knows the outcome of every model for every decision; the interval that remains comes from the
  differences between tasks;
- "even": all models are explored with a share of .3;
- "trial": only the candidate's model is explored, and only where it differs from the static table's;
- "cell means": the gate predicts rewards by role and category alone;
- "task evidence": it also uses earlier decisions of the same task, as it does now.
""".strip()


def objectives(results: Path) -> str:
    found = folder(results / "objectives")
    return paragraphs(
        prose("""
            Logs of 20,000 rows with .3 of exploration, one look at fixed n. "Acceptable" is less than a point worse in
            quality and cheaper.
        """),
        objective_tables.objectives_table(found),
        prose("""
            A policy replaces the best model everywhere by one that is much cheaper. The margin is the true loss of quality
            plus a slack in points, so every promotion at a slack of 0 or less is wrong. Exactly at the margin one look
            promotes slightly more than 2.5 %, because the errors of the estimated quality are skewed towards this side if
            the policy makes the same change everywhere.
        """),
        objective_tables.cheaper_table(found),
        prose("""
            Candidates that are not acceptable, in logs that were looked at after every 1,000 of 20,000 rows. These are few
            logs: they would show a bound that is badly wrong, but not a small error.
        """),
        objective_tables.looked_table(found),
        prose("""
            Policies of the learner `dr` with the best single model as the static table, learned from 60 % of the tasks
            and measured on the others, with the guard's floor as in service:
        """),
        objective_tables.saved_table(found),
    )


def exploration(results: Path) -> str:
    power = folder(results / "power")
    return paragraphs(
        prose("""
            Power is the share of candidates with a true gain of 1 to 2 points that the gate promotes from 20,000 decisions
            at one look. Calls per 1,000 are answers of another model than the static table's, shadow answers included. A
            negative loss means that explored answers were better than the static table's.
        """),
        SCHEMES,
        exploration_tables.power_table(power, "any"),
        prose("""
            Candidates that choose among plausible models only, which were found in an earlier log of 2,000 decisions. In the
            scheme "shadow", the static table always answers, and a plausible model is called in addition, whose answer the
            user does not see:
        """),
        exploration_tables.power_table(power, "plausible"),
        prose("""
            A shadow in .1 of the calls. In "alone", the static table always answers, and the candidate's model is the shadow
            where the two differ:
        """),
        exploration_tables.shadow_table(folder(results / "shadow")),
        prose("""
            The plan of `sage lab plan`, made from a log of the same static table with .3 of exploration, and what the gate
            did on other logs (80 draws each, gains of 1 to 4 points, 20,000 decisions, one look). The plan does not know
            that the gate refuses candidates that differ from the static table in fewer than 10 tasks.
        """),
        exploration_tables.plan_table(folder(results / "plan")),
    )


PARTS = (
    Part("Objectives with limits", (measured("objectives"),), objectives),
    Part(
        "Exploration, shadows and plans",
        (measured("power"), measured("shadow"), measured("plan")),
        exploration,
    ),
)
