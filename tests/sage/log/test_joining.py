"""A field belongs to the strongest source that reported it, whatever the order of reports."""

from __future__ import annotations

from itertools import permutations

import pytest

from sage.log.decision_log import DecisionLog
from sage.log.joining import MOST_VERDICTS, Known, merge
from sage.log.record_checks import CI, CLIENT, OPERATOR, PROXY, SOURCES, TRAFFIC, RecordError, former_source
from sage.log.records import Outcome, of_shadow
from sage.verifiers.verifier import verify
from tests.sage.examples import decision, outcome

QUALITY = dict(zip(SOURCES, (0.5, 0.25, 0.0, 0.75, 1.0), strict=True))


def known_of(*reports: Outcome) -> Outcome:
    known = None
    for report in reports:
        known = merge(known, report).known
    assert known is not None
    return known.outcome


def test_the_ranks_are_these() -> None:
    assert SOURCES == (OPERATOR, PROXY, CI, TRAFFIC, CLIENT)
    with pytest.raises(RecordError, match="source='boss' must be one of operator, proxy, ci, traffic, client"):
        outcome(source="boss")


@pytest.mark.parametrize("order", list(permutations(SOURCES, 2)))
def test_the_stronger_source_wins_in_either_order(log: DecisionLog, order: tuple[str, str]) -> None:
    log.append(decision())
    reports = [outcome(quality=QUALITY[source], source=source, provenance=f"by {source}") for source in order]
    stronger = min(order, key=SOURCES.index)
    assert log.add_outcome(reports[0]) == "joined"
    assert log.add_outcome(reports[1]) == ("conflict" if stronger == order[0] else "corrected")
    weaker = reports[1 - order.index(stronger)]
    again = log.join(weaker, correction=True).status
    assert again == "conflict"
    [(_, known)] = log.rows()
    assert known is not None
    assert (known.quality, known.source, known.provenance) == (QUALITY[stronger], stronger, f"by {stronger}")


def test_any_order_of_all_sources_gives_the_same_outcome() -> None:
    reports = [
        outcome(source=OPERATOR, quality=0.5),
        outcome(source=PROXY, quality=None, cost_usd=2.0, latency_s=1.0, tokens_in=9, tokens_cached=3),
        outcome(source=CI, quality=0.0, provenance="ci: tests"),
        outcome(source=TRAFFIC, quality=None, timed_out=True, verdicts=verify(None, {}, {"agent_tests": False})),
        outcome(source=CLIENT, cost_usd=0.0, retries=7, model="large", tokens_cached=50, provenance="api"),
    ]
    expected = known_of(*reports)
    assert (expected.quality, expected.timed_out, expected.source, expected.provenance) == (0.5, False, OPERATOR, "")
    assert (expected.cost_usd, expected.tokens_in, expected.tokens_cached) == (2.0, 9, 3)
    assert (expected.retries, expected.model) == (0, None)  # which sage knows of its own call
    for order in permutations(reports):
        assert known_of(*order) == expected


@pytest.mark.parametrize("correction", [False, True])
def test_a_client_changes_nothing_that_sage_measured(correction: bool) -> None:
    measured = outcome(quality=None, source=PROXY, latency_s=1.0, cost_usd=2.0, tokens_out=5)
    claims = {"cost_usd": 0.0, "latency_s": 9.0, "tokens_out": 1, "retries": 3, "model": "large"}
    after = merge(Known.first(measured), outcome(**claims), correction=correction)
    assert sorted(after.conflicts) == sorted(claims)
    assert after.known.outcome == outcome(latency_s=1.0, cost_usd=2.0, tokens_out=5)
    assert known_of(outcome(**claims), measured) == outcome(latency_s=1.0, cost_usd=2.0, tokens_out=5)  # or came first


def test_the_same_quality_from_a_stronger_source_is_its_own(log: DecisionLog) -> None:
    log.append(decision())
    log.add_outcome(outcome(provenance="api"))
    assert log.add_outcome(outcome(source=CI, provenance="ci: tests")) == "joined"
    [(_, known)] = log.rows()
    assert known == outcome(source=CI, provenance="ci: tests")
    assert log.add_outcome(outcome(source=CI, provenance="ci: tests")) == "duplicate"


def test_verdicts_and_shadows_have_ranks_of_their_own() -> None:
    seen = outcome(quality=None, source=TRAFFIC, verdicts=verify(None, {}, {"agent_tests": False}))
    claimed = outcome(quality=None, verdicts=verify(None, {}, {"agent_tests": True, "lint": True}))
    for order in permutations((seen, claimed)):
        found = {verdict.verifier: verdict.verdict for verdict in known_of(*order).verdicts}
        assert found == {"agent_tests": "failed", "lint": "passed"}
    asked = of_shadow(outcome(quality=None, source=PROXY, latency_s=1.0, cost_usd=2.0))
    claimed = of_shadow(outcome(cost_usd=0.0, latency_s=1.0))
    for order in permutations((asked, claimed)):
        of = known_of(*order).shadow
        assert of is not None
        assert (of.quality, of.cost_usd, of.source) == (1.0, 2.0, CLIENT)


def test_verdicts_of_one_source_leave_room_for_those_of_others() -> None:
    known = None
    for number in range(MOST_VERDICTS + 5):
        merged = merge(known, outcome(quality=None, verdicts=verify(None, {}, {f"v{number}": True})))
        known = merged.known
    assert merged.conflicts == ("verdicts",)
    seen = merge(known, outcome(quality=None, source=TRAFFIC, verdicts=verify(None, {}, {"agent_tests": False})))
    assert (seen.new, len(seen.known.outcome.verdicts)) == (("verdicts",), MOST_VERDICTS + 1)


@pytest.mark.parametrize(
    ("provenance", "judged", "source"),
    [
        ("proxy: no model answered", True, PROXY),
        ("proxy: the client left", False, TRAFFIC),
        ("ci", True, CI),
        ("ci: tests", True, CI),
        ("sage run", True, TRAFFIC),
        ("api: ci", True, CLIENT),
        ("api", True, CLIENT),
        ("", False, CLIENT),
        ("", True, OPERATOR),  # the server marked every quality of a client
        ("a person", True, OPERATOR),
    ],
)
def test_old_reports_get_the_source_that_their_provenance_tells(provenance: str, judged: bool, source: str) -> None:
    assert former_source(provenance, judged) == source
    told = outcome(quality=1.0 if judged else None, cost_usd=1.0, provenance=provenance).to_json()
    del told["source"]
    assert Outcome.from_json(told).source == source
