"""The record of the training rows that a policy keeps."""

from __future__ import annotations

from sage.evidence.routing_data import RoutingData
from sage.evidence.tasks import task_hashes
from sage.policies.learned_policy import Training


def training_of(
    data: RoutingData, learner: str, reward_version: str, *, seed: int, against: str, **settings: float | int | str
) -> Training:
    """Returns the record of the training rows that a policy keeps: hashes, source, reward version and `settings`.

    `against` names the incumbent that gains are relative to.
    """
    return Training(
        learner=learner,
        data_sha256=data.sha256,
        data_source=data.source,
        reward_version=reward_version,
        features_version=data.features_version,
        num_rows=len(data),
        seed=seed,
        against=against,
        settings=settings,
        task_hashes=task_hashes(data.contexts.task_id, data.tasks),
    )
