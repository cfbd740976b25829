"""Cascades over tables of recorded outcomes: which models to climb through, and exactly what a cascade would have given."""

from __future__ import annotations

import numpy as np

from sage.outcomes.table import OutcomeTable
from sage.policy import Contexts
from sage.rl.cascade_policy import ACCEPTED, REJECTED, CascadePolicy, CascadeStates
from sage.rl.cascade_replay import SimulatedVerifier
from sage.rl.cascade_stopping import Expectation, History, follow, solve, types_of

POOL = 4  # models of a cascade: more attempts than that are hardly ever worth their cost


def choose_pool(table: OutcomeTable, verifier: SimulatedVerifier, price: float, *, size: int = POOL) -> tuple[str, ...]:
    """The best single model, and then one by one those that add most to the best cascade; the cheapest comes first."""
    chosen = [int(np.nanmean(table.score, axis=0).argmax())]
    while len(chosen) < min(size, len(table.models)):
        values = {}
        for k in set(range(len(table.models))) - set(chosen):
            columns = [*chosen, k]
            values[k] = solve(types_of(table.score[:, columns], table.cost_usd[:, columns], verifier), price).value
        chosen.append(max(values, key=lambda k: values[k]))
    return tuple(table.models[k] for k in sorted(chosen, key=lambda k: np.nanmean(table.cost_usd[:, k])))


def expected_of(table: OutcomeTable, policy: CascadePolicy, verifier: SimulatedVerifier) -> Expectation:
    """By task, exactly: over everything that the verifier may say. The costs so far are taken to be as usual.

    For cascades that only look at what was tried and said, which is all of those that are kept as a table.
    """
    types = types_of(table.score, table.cost_usd, verifier)
    found = follow(types, decisions(policy, table))
    weights = types.share.reshape(-1, len(table)) * len(table)  # ranges of the verifier's number, of every task
    return Expectation(*((weights * part.reshape(weights.shape)).sum(axis=0) for part in found))


def decisions(policy: CascadePolicy, table: OutcomeTable) -> dict[History, np.ndarray]:
    """What the policy does after every history, as values of which the highest is its choice."""
    size = len(table.models)
    histories: list[History] = [()]
    for history in histories:  # grows while it is walked through
        tried = [model for model, _ in history]
        histories += [(*history, (k, said)) for k in range(size) if k not in tried for said in (True, False)]
    order, verdict = np.zeros((2, len(histories), size), np.int64)
    for row, history in enumerate(histories):
        for attempt, (model, accepted) in enumerate(history, start=1):
            order[row, model], verdict[row, model] = attempt, ACCEPTED if accepted else REJECTED
    usual = (order > 0) @ np.nanmean(table.cost_usd, axis=0)
    text = np.full(len(histories), "")
    contexts = Contexts(np.full(len(histories), "coder"), text, np.zeros((len(histories), 0), np.float32), text)
    eligible = np.column_stack([order == 0, (order > 0).any(axis=1)])
    chosen = policy.step_probabilities(CascadeStates(contexts, order, verdict, usual), table.models, eligible)
    return dict(zip(histories, chosen, strict=True))
