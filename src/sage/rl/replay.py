"""Logs that a policy would have written over an outcome table: real outcomes, known propensities."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sage.evidence.routing_data import RoutingData
from sage.log.decision_log import DecisionLog, LogError
from sage.log.record_checks import OPERATOR
from sage.log.records import Decision, Outcome
from sage.outcomes.table import OutcomeTable
from sage.policies.features import VERSION as FEATURES_VERSION
from sage.policies.policy import Contexts, RoutingPolicy, object_array, select_rows
from sage.rl.logging_policies import PreferenceOrder
from sage.words import words_of


class ReplayError(ValueError):
    """A replay that cannot be made; the message names the reason and the fix."""


def best_first(table: OutcomeTable) -> PreferenceOrder:
    """Returns a static table as a team might write it by hand: the models by falling mean score."""
    mean = np.nanmean(table.score, axis=0)
    return PreferenceOrder(tuple(table.models[k] for k in np.lexsort((table.models, -mean))))


def replay(
    table: OutcomeTable,
    policy: RoutingPolicy,
    num_rows: int,
    *,
    seed: int = 0,
    contexts: Contexts | None = None,
) -> RoutingData:
    """Draws tasks with replacement, and for each a model by the policy's probabilities; returns the rows.

    A replay has no clock, so that rows are one second apart from 1970 on. Raises ReplayError for fewer than one row.
    """
    if num_rows < 1:
        raise ReplayError(f"rows={num_rows} must be 1 or more")
    session = session_of(table, policy, seed)
    table = table.with_models(tuple(sorted(table.models)))  # the order that a file of the rows is read in
    generator = np.random.default_rng(seed)
    possible = np.flatnonzero(table.ran.any(axis=1))
    rows = possible[generator.integers(0, len(possible), num_rows)]
    contexts = select_rows(with_words(table.contexts() if contexts is None else contexts), rows)
    eligible = table.ran[rows]
    propensity = policy.probabilities(contexts, table.models, eligible)
    action = draw(propensity, generator)
    return RoutingData(
        contexts=contexts,
        models=table.models,
        eligible=eligible,
        action=action,
        propensity=propensity,
        quality=table.score[rows, action],
        cost_usd=table.cost_usd[rows, action],
        latency_s=table.latency_s[rows, action],
        retries=np.zeros(num_rows, np.int64),
        timed_out=np.zeros(num_rows, bool),
        data_source=np.full(num_rows, source_of(table)),
        policy=np.full(num_rows, policy.name),
        policy_version=np.full(num_rows, policy.version),
        decision_id=np.array([f"{session}-{i:06d}" for i in range(num_rows)]),
        time=np.arange(num_rows, dtype=np.float64),
        features_version=FEATURES_VERSION,
    )


def with_words(contexts: Contexts) -> Contexts:
    """Returns contexts with hashed words in place of texts, as a log keeps them."""
    if contexts.text is None or not any(isinstance(text, str) and text for text in contexts.text):
        return contexts._replace(text=None)
    return contexts._replace(text=object_array([words_of(text) for text in contexts.text]))


def source_of(table: OutcomeTable) -> str:
    """Returns the data_source of rows replayed over the table: "synthetic" for synthetic outcomes, else "replay"."""
    return "replay" if table.data_source == "real" else "synthetic"


def session_of(table: OutcomeTable, policy: RoutingPolicy, seed: int) -> str:
    """Returns a name made from a replay's table, policy and seed, so that the same replay is never logged twice."""
    return f"{source_of(table)}-{table.sha256[:8]}-{policy.name}-{policy.version[:8]}-{seed}".replace(" ", "_")


def draw(probabilities: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Draws one column per row by probabilities [n, columns]; a column of probability 0 is never drawn."""
    cumulative = probabilities.cumsum(axis=1)
    point = generator.random(len(probabilities)) * cumulative[:, -1]
    return (cumulative <= point[:, None]).sum(axis=1)


def append_to_log(log: DecisionLog, data: RoutingData, session: str) -> None:
    """Appends all rows and their outcomes to the log under a session.

    Raises ReplayError, without writing any, if the log already holds this replay.
    """
    decisions: list[Decision] = []
    outcomes: list[Outcome] = []
    for decision, outcome in data.records():
        decisions.append(replace(decision, session=session))
        outcomes.append(replace(outcome, provenance="outcome table", source=OPERATOR))
    try:
        log.append_many(decisions)
    except LogError as error:
        raise ReplayError(
            f"{log.path} holds this very replay already ({session}): give another --seed or --db"
        ) from error
    log.add_outcomes(outcomes)
