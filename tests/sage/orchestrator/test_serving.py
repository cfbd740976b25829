"""What a server adds to a request: the models that it can ask, the size of the input, and the session's model."""

from __future__ import annotations

from pathlib import Path

import pytest

from sage import Router
from sage.orchestrator.guard import Hold, Serving
from sage.orchestrator.models_file import ModelsFile

TABLE = """
models:
  small: {input_usd_per_mtok: 1, output_usd_per_mtok: 1, max_context: 1000}
  medium: {input_usd_per_mtok: 4, output_usd_per_mtok: 4, cached_input_usd_per_mtok: 0.4}
  large: {input_usd_per_mtok: 8, output_usd_per_mtok: 8, cached_input_usd_per_mtok: 0.8}
roles: {default: {primary: medium, fallback: small}}
exploration: 0.3
"""


@pytest.fixture
def router(tmp_path: Path) -> Router:
    (tmp_path / "models.yaml").write_text(TABLE)
    return Router.open(tmp_path / "log.db", models=tmp_path / "models.yaml", environment={}, seed=0)


def test_only_models_that_the_server_can_ask_are_candidates(router: Router) -> None:
    decision = router.route(role="coder", serving=Serving(among=("small", "large")))
    assert decision.candidates == ("small", "large")
    assert decision.probabilities == pytest.approx((0.85, 0.15))  # the fallback, as the primary cannot be asked


def test_the_whole_input_counts_for_the_context(router: Router) -> None:
    assert "small" not in router.route(role="coder", task="short", serving=Serving(tokens=1001.0)).candidates


def hold(model: str, tokens: float, gain: float = 0.0) -> Serving:
    return Serving(hold=Hold(model=model, cached_tokens=tokens, gain_usd=gain, follows="d0"))


def test_a_session_stays_and_the_log_says_so_with_probability_one(router: Router) -> None:
    decision = router.route(role="coder", serving=hold("large", 1e6))
    # 7.2 USD of cache; medium is 4.004 cheaper
    assert (decision.model, decision.propensity, decision.verdict) == ("large", 1.0, "held")
    assert (decision.candidates, decision.probabilities) == (("large",), (1.0,))  # nothing was chosen
    assert (decision.follows, decision.fallbacks) == ("d0", ("small", "medium"))
    assert decision.reason == "the session stays with large: its cache is worth 7.2 USD, medium at most 4"
    assert router.log.decision(decision.id) == decision


@pytest.mark.parametrize(
    "serving",
    [
        hold("large", 1e6, gain=3.2),  # 7.2 against 3.2 + 4.004
        hold("small", 1e6),  # whose cached input costs as much as other input
        hold("large", 0.0),
    ],
)
def test_a_session_goes_where_the_gain_is_larger(router: Router, serving: Serving) -> None:
    decision = router.route(role="coder", serving=serving)
    assert decision.verdict == "ok"
    assert decision.probabilities == pytest.approx((0.1, 0.8, 0.1))


def test_a_model_that_cannot_be_asked_holds_nothing(router: Router) -> None:
    held = Hold(model="large", cached_tokens=1e6, gain_usd=0.0)
    decision = router.route(role="coder", serving=Serving(among=("small", "medium"), hold=held))
    assert decision.verdict == "ok"
    alone = router.route(role="coder", serving=Serving(among=("large",), hold=held))
    assert (alone.verdict, alone.candidates) == ("ok", ("large",))  # it would be asked without the session, too


def test_a_log_that_cannot_be_written_leaves_the_choice_among_the_same_models(tmp_path: Path) -> None:
    (tmp_path / "log.db").mkdir()
    from sage.log.decision_log import DecisionLog

    router = Router(DecisionLog(tmp_path / "log.db"), ModelsFile.parse(TABLE))
    decision = router.route(role="coder", serving=Serving(among=("large",)))
    assert (decision.model, decision.verdict) == ("large", "unlogged")
