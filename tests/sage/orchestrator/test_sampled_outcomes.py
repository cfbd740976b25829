"""`outcomes: {sample: ...}`: the decisions whose outcome is wanted are drawn when they are made, and others count nowhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sage import Router
from sage.evidence.routing_data import RoutingData
from sage.orchestrator.file_values import ModelsFileError
from sage.orchestrator.models_file import ModelsFile
from tests.sage.examples import written


def test_outcomes_of_decisions_that_were_not_drawn_are_ignored(tmp_path: Path) -> None:
    table = written(tmp_path, "outcomes: {sample: 0.25}\n")
    with Router.open(tmp_path / "sage.db", models=table, environment={}) as router:
        made = [router.route(role="coder", task=f"task {i}") for i in range(400)]
        assert {one.outcome_probability for one in made} == {0.25}
        for one in made:  # whoever reports failures of decisions that were not drawn changes nothing
            router.outcome(one.id, quality=float(one.outcome_wanted))
        data = RoutingData.from_records(router.log.rows(), gaps=True)
    wanted = np.array([one.outcome_wanted for one in made])
    assert 0.15 < wanted.mean() < 0.35
    assert data.sampled is not None
    assert data.sampled.tolist() == wanted.tolist() == data.observed.tolist()
    assert set(data.quality[wanted]) == {1.0}
    assert not data.lacks_outcome.any()
    assert data.sampling_rates is not None
    assert set(data.sampling_rates) == {0.25}


def test_every_outcome_is_wanted_unless_the_table_says_otherwise(tmp_path: Path) -> None:
    with Router.open(tmp_path / "sage.db", models=written(tmp_path, ""), environment={}) as router:
        assert router.route(role="coder").outcome_probability is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{sample: 0}", "outcomes.sample=0 must be above 0"),
        ("{sample: 2}", "outcomes.sample=2 must be a finite number that is not negative and at most 1"),
        ("{share: 0.2}", "outcomes: 'share' is not a setting"),
    ],
)
def test_a_wrong_share_of_outcomes_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ModelsFileError, match=said):
        ModelsFile.read(written(tmp_path, f"outcomes: {text}\n"))
