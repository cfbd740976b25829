"""The static table: first trigger, primary, fallback, and honest probabilities when it explores."""

from pathlib import Path

import numpy as np
import pytest

from sage.log.records import ROLES, Request
from sage.orchestrator.static_table import StaticTable
from sage.policies.features import contexts_of
from sage.policies.plausible import PlausibleModels
from tests.sage.examples import TABLE, parsed

POOL = ("large", "small", "medium")


def chosen(request: Request, pool: tuple[str, ...] = POOL, without: tuple[str, ...] = ()) -> str:
    eligible = np.array([[model not in without for model in pool]])
    table = StaticTable.from_file(parsed())
    return pool[table.choices(contexts_of([request]), pool, eligible)[0]]


def test_the_primary_answers() -> None:
    assert chosen(Request(role="coder")) == "small"
    assert chosen(Request(role="debugger")) == "medium"


def test_the_first_trigger_that_holds_decides() -> None:
    assert chosen(Request(role="coder", past_failures=1)) == "medium"  # complexity 0.4
    assert chosen(Request(role="coder", past_failures=2)) == "large"  # both hold
    assert chosen(Request(role="debugger", past_failures=2)) == "medium"  # another role's triggers


def test_who_is_not_eligible_is_passed_over_in_order() -> None:
    assert chosen(Request(role="coder", past_failures=2), without=("large",)) == "medium"
    assert chosen(Request(role="coder"), without=("small",)) == "medium"
    assert chosen(Request(role="coder"), without=("small", "medium")) == "large"
    assert chosen(Request(role="debugger"), without=("medium",)) == "small"


def test_a_pool_that_the_table_does_not_know_still_gets_an_answer() -> None:
    assert chosen(Request(role="coder"), pool=("new", "newer"), without=("new",)) == "newer"


def test_a_batch_is_answered_row_by_row() -> None:
    requests = [Request(role=role, past_failures=n) for role in ROLES for n in range(3)]
    table = StaticTable.from_file(parsed())
    eligible = np.ones((len(requests), 3), bool)
    batch = table.choices(contexts_of(requests), POOL, eligible)
    assert [POOL[k] for k in batch] == [chosen(request) for request in requests]


def test_without_exploration_the_choice_is_certain() -> None:
    table = StaticTable.from_file(parsed())
    eligible = np.array([[True, True, True]])
    assert table.probabilities(contexts_of([Request(role="coder")]), POOL, eligible).tolist() == [[0.0, 1.0, 0.0]]


def test_exploration_is_shared_evenly_among_the_eligible() -> None:
    table = StaticTable.from_file(parsed("exploration: 0.3\n"))
    eligible = np.array([[True, True, True], [False, True, True]])
    probabilities = table.probabilities(contexts_of([Request(role="coder")] * 2), POOL, eligible)
    np.testing.assert_allclose(probabilities, [[0.1, 0.8, 0.1], [0.0, 0.85, 0.15]])


def test_exploration_goes_to_the_listed_models_alone() -> None:
    """Whatever is left out has probability 0; with fewer than two of the list there is nothing to explore."""
    table = StaticTable.from_file(parsed("exploration: {share: 0.3, among: [small, large]}\n"))
    eligible = np.array([[True, True, True], [True, False, True], [False, False, True]])
    probabilities = table.probabilities(contexts_of([Request(role="coder")] * 3), POOL, eligible)
    np.testing.assert_allclose(probabilities, [[0.15, 0.85, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])


def test_exploration_follows_the_file_of_plausible_models(tmp_path: Path) -> None:
    PlausibleModels(cells={("coder", "bugs"): ("small", "medium")}).write(tmp_path / "plausible.json")
    (tmp_path / "models.yaml").write_text(TABLE + "exploration: {share: 0.3, among: plausible.json}\n")
    table = StaticTable.read(tmp_path / "models.yaml")
    requests = [Request(role="coder", category=category) for category in ("bugs", "never seen")]
    probabilities = table.probabilities(contexts_of(requests), POOL, np.ones((2, 3), bool))
    np.testing.assert_allclose(probabilities, [[0.0, 0.85, 0.15], [0.1, 0.8, 0.1]])
    assert table.version != StaticTable.from_file(parsed("exploration: 0.3\n")).version


def test_the_version_changes_with_the_rules_and_with_nothing_else() -> None:
    version = StaticTable.from_file(parsed()).version
    assert version == StaticTable.from_file(parsed("guard: {budget_usd: 1}\n")).version
    assert version != StaticTable.from_file(parsed("exploration: 0.1\n")).version


def test_a_call_costs_its_tokens() -> None:
    table = StaticTable.from_file(parsed())
    assert table.typical_cost("medium", 2000) == pytest.approx((2000 * 3 + 1000 * 15) / 1e6)
    assert table.by_price == ["small", "medium", "large"]


def test_always_one_model() -> None:
    table = StaticTable.always("b")
    contexts = contexts_of([Request(role=role) for role in ROLES])
    assert set(table.choices(contexts, ("a", "b"), np.ones((8, 2), bool))) == {1}
    assert table.confidence(contexts, ("a", "b"), np.ones((8, 2), bool)).tolist() == [1.0] * 8


def test_the_reason_names_the_rule() -> None:
    table = StaticTable.from_file(parsed())
    assert table.why(contexts_of([Request(role="coder")])) == "static table: coder gets small"
    assert "past_failures >= 2, so large" in table.why(contexts_of([Request(role="coder", past_failures=3)]))
