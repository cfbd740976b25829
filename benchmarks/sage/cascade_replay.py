"""Episodes that a cascade would have logged over an outcome table: real outcomes, a simulated verifier."""

from __future__ import annotations

import numpy as np

from sage.evidence.cascades.cascade_data import CascadeData
from sage.outcomes.table import OutcomeTable
from sage.policies.cascades.cascade_policy import ACCEPTED, REJECTED, CascadePolicy, CascadeStates, taken_column
from sage.policies.features import VERSION as FEATURES_VERSION
from sage.policies.policy import Contexts, select_rows
from sage.rl.cascades.simulated_verifier import RIGHT, SimulatedVerifier
from sage.rl.replay import ReplayError, draw, source_of


def replay_cascade(
    table: OutcomeTable,
    policy: CascadePolicy,
    num_episodes: int,
    *,
    verifier: SimulatedVerifier,
    max_attempts: int | None = None,
    seed: int = 0,
    contexts: Contexts | None = None,
    rows: np.ndarray | None = None,
) -> CascadeData:
    """Draws tasks with replacement, lets the cascade work on each, and returns the episodes.

    Episodes are one second apart from 1970 on. `rows` gives the tasks of the table where they are not to be drawn.
    Raises ReplayError for fewer than one episode.
    """
    if num_episodes < 1:
        raise ReplayError(f"episodes={num_episodes} must be 1 or more")
    table = table.with_models(tuple(sorted(table.models)))  # the order that a file of the episodes is read in
    generator = np.random.default_rng(seed)
    possible = np.flatnonzero(table.ran.any(axis=1))
    rows = possible[generator.integers(0, len(possible), num_episodes)] if rows is None else rows
    contexts = select_rows(table.contexts() if contexts is None else contexts, rows)
    limit = min(max_attempts or len(table.models), len(table.models))
    steps, quality = walk(table, rows, contexts, policy=policy, verifier=verifier, limit=limit, generator=generator)
    order = np.lexsort((steps["step"], steps["episode"]))
    session = f"{source_of(table)}-{table.sha256[:8]}-{policy.version[:8]}-{verifier.name}-{seed}".replace(" ", "_")
    columns: dict = {name: values[order] for name, values in steps.items()}
    return CascadeData(
        models=table.models,
        **columns,
        contexts=contexts,
        quality=quality,
        ended=np.ones(num_episodes, bool),
        id=np.array([f"{session}-{i:06d}" for i in range(num_episodes)]),
        time=np.arange(num_episodes, dtype=np.float64),
        policy=np.full(num_episodes, policy.name),
        policy_version=np.full(num_episodes, policy.version),
        verifier=np.full(num_episodes, verifier.name),
        data_source=source_of(table),
        features_version=FEATURES_VERSION,
    )


def walk(
    table: OutcomeTable,
    rows: np.ndarray,
    contexts: Contexts,
    *,
    policy: CascadePolicy,
    verifier: SimulatedVerifier,
    limit: int,
    generator: np.random.Generator,
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Plays all episodes together, step by step; returns the columns of their steps and the quality of each answer.

    `rows` (int [episodes]) are the table's tasks; `limit` is the most attempts of an episode.
    """
    size, stop = len(rows), len(table.models)
    order, verdict = np.zeros((2, size, stop), np.int64)
    spent, of_task, quality = np.zeros(size), generator.random(size), np.zeros(size)
    active, found = np.arange(size), []
    for step in range(limit + 1):
        untried = table.ran[rows[active]] & (order[active] == 0) & (step < limit)
        eligible = np.column_stack([untried, np.full(len(active), step > 0)])
        states = CascadeStates(select_rows(contexts, active), order[active], verdict[active], spent[active])
        propensity = policy.step_probabilities(states, table.models, eligible)
        action = draw(propensity, generator)
        stops, attempt = action == stop, np.minimum(action, stop - 1)
        cost, latency = (
            np.where(stops, 0.0, values[rows[active], attempt]) for values in (table.cost_usd, table.latency_s)
        )
        found.append(
            {
                "episode": active,
                "step": np.full(len(active), step),
                "order": states.order,
                "verdict": states.verdict,
                "spent_usd": states.spent_usd,
                "eligible": eligible,
                "propensity": propensity,
                "action": action,
                "cost_usd": cost,
                "latency_s": latency,
            }
        )
        ending = active[stops]
        quality[ending] = table.score[rows[ending], taken_column(order[ending], verdict[ending])]
        active, attempt = active[~stops], attempt[~stops]
        accepted = verifier.accepts(table.score[rows[active], attempt] >= RIGHT, of_task[active], generator)
        order[active, attempt] = step + 1
        verdict[active, attempt] = np.where(accepted, ACCEPTED, REJECTED)
        spent[active] += np.nan_to_num(cost[~stops])
        if not len(active):
            break
    return {name: np.concatenate([part[name] for part in found]) for name in found[0]}, quality
