"""What the log says is what the evaluation believes: logged probabilities, made again from the log, are the same floats."""

from __future__ import annotations

import numpy as np

from tests.sage.examples import decision

VERDICTS = {"ok", "low_confidence", "policy_failed", "policy_invalid", "held", "over_budget"}


def test_every_decision_of_every_kind_is_believed_as_it_was_drawn() -> None:
    from believed_propensities import DIFFER, measure

    found = measure(900, rows=200)
    for name, case in found.items():
        assert [case[key] for key in DIFFER] == [0, 0, 0], name
        assert case["batch"].get("propensities_differ", 0) == 0, name
    # The mixture's half of the tasks goes by their ids, which are drawn anew in every run where the caller names none.
    explored = [case["explored"] for name, case in found.items() if name != "cascade, a mixture"]
    assert min(explored) > 1
    assert sum(explored) > 90
    assert found["a policy that fails"]["batch"] == {"raises": "no reviewers"}  # no proof hides it
    assert {verdict for case in found.values() for verdict in case["verdicts"]} >= VERDICTS


def test_a_difference_in_the_last_digit_is_found() -> None:
    from believed_propensities import Compared

    logged = decision(candidates=("small", "large"), probabilities=(0.7, 0.3), model="large")
    found = Compared()
    found.add(logged, np.array([0.7, 0.3]), 0, "ok")
    assert (found.propensities_differ, found.verdicts_differ, found.explored) == (0, 0, 1)
    found.add(logged, np.array([0.7, 0.1 + 0.2]), 0, "low_confidence")
    assert (found.propensities_differ, found.probabilities_differ, found.verdicts_differ) == (1, 1, 1)
