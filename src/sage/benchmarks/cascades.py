"""Cascades on tables of recorded outcomes: the choice of their models, and their exact results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sage.outcomes.table import OutcomeTable
from sage.policies.cascades.cascade_policy import ACCEPTED, REJECTED, CascadePolicy, CascadeStates
from sage.policies.cascades.learned_cascade import LearnedCascade
from sage.policies.learned_policy import Training
from sage.policies.policy import Contexts
from sage.policies.serving import StepRules, step_distribution
from sage.rl.cascades.cascade_learning import reward_version
from sage.rl.cascades.cascade_stopping import Expectation, History, as_cascade, follow, solve, types_of
from sage.rl.cascades.simulated_verifier import SimulatedVerifier

POOL = 4  # models of a cascade: more attempts than that are hardly ever worth their cost


def choose_pool(table: OutcomeTable, verifier: SimulatedVerifier, price: float, *, size: int = POOL) -> tuple[str, ...]:
    """Returns the best single model and those that, one by one, add most to the best cascade; the cheapest is first."""
    chosen = [int(np.nanmean(table.score, axis=0).argmax())]
    while len(chosen) < min(size, len(table.models)):
        values = {}
        for k in set(range(len(table.models))) - set(chosen):
            columns = [*chosen, k]
            values[k] = solve(types_of(table.score[:, columns], table.cost_usd[:, columns], verifier), price).value
        chosen.append(max(values, key=lambda k: values[k]))
    return tuple(table.models[k] for k in sorted(chosen, key=lambda k: np.nanmean(table.cost_usd[:, k])))


def expected_of(table: OutcomeTable, policy: CascadePolicy, verifier: SimulatedVerifier) -> Expectation:
    """Returns a cascade's exact expectation by task, over all possible verdicts; costs so far are taken to be usual.

    It holds for cascades that look only at tried models and verdicts, as all do that are kept as a table.
    """
    types = types_of(table.score, table.cost_usd, verifier)
    found = follow(types, decisions(policy, table))
    weights = types.share.reshape(-1, len(table)) * len(table)  # ranges of the verifier's number, of every task
    return Expectation(*((weights * part.reshape(weights.shape)).sum(axis=0) for part in found))


def decisions(policy: CascadePolicy, table: OutcomeTable) -> dict[History, np.ndarray]:
    """Returns the policy's action probabilities after every history that it comes to; the highest is its choice."""
    size, found = len(table.models), {}
    histories: list[History] = [()]
    while histories:
        order, verdict = np.zeros((2, len(histories), size), np.int64)
        for row, history in enumerate(histories):
            for attempt, (model, accepted) in enumerate(history, start=1):
                order[row, model], verdict[row, model] = attempt, ACCEPTED if accepted else REJECTED
        usual = (order > 0) @ np.nanmean(table.cost_usd, axis=0)
        text = np.full(len(histories), "")
        role, features = np.full(len(histories), table.role[0]), np.zeros((len(histories), 0), np.float32)
        states = CascadeStates(Contexts(role, text, features, text), order, verdict, usual)
        eligible = np.column_stack([order == 0, order.sum(axis=1) > 0])
        chosen = step_distribution(policy, StepRules(), states, table.models, eligible).probabilities
        found |= dict(zip(histories, chosen, strict=True))
        going = [(history, int(row.argmax())) for history, row in zip(histories, chosen, strict=True)]
        histories = [(*history, (k, said)) for history, k in going if k < size for said in (True, False)]
    return found


def cascade_row(train: OutcomeTable, verifier: SimulatedVerifier, price: float) -> LearnedCascade | None:
    """Returns the best cascade for training outcomes and verifier rates; None where costs or runs are missing."""
    if np.isnan(train.cost_usd).any() or not train.ran.all():
        return None
    pool = train.with_models(tuple(sorted(choose_pool(train, verifier, price))))
    solution = solve(types_of(pool.score, pool.cost_usd, verifier), price)
    training = Training("optimal_stopping", train.sha256, train.data_source, reward_version(price), 0, len(train))
    return as_cascade(solution, pool.models, price=price, training=training)


def serve(policy: LearnedCascade, held_out: OutcomeTable, verifier: SimulatedVerifier) -> Expectation:
    """Returns the cascade's expectation on held-out tasks, with those of its models that the table has.

    Raises ValueError if the table has none of them.
    """
    models = tuple(model for model in policy.models if model in held_out.models)
    if not models:
        raise ValueError(
            f"the cascade knows {', '.join(policy.models)}, and {held_out.name} has none of them: bench it on another table"
        )
    table = held_out.with_models(models)
    own = expected_of(table, replace(policy, other=None), verifier)
    if policy.other is None:
        return own
    decides, theirs = policy.decides(table.task_id), expected_of(table, policy.other, verifier)
    return Expectation(*(np.where(decides, mine, other) for mine, other in zip(own, theirs, strict=True)))
