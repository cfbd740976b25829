"""The router: every call is answered, logged with its probabilities, and learned from if a bandit is configured."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from sage import Router
from sage.evidence.objective import points_worse
from sage.files import sha256_of
from sage.log.decision_log import DecisionLog
from sage.log.record_checks import RecordError
from sage.log.records import ROLES, Decision, Outcome, Request
from sage.orchestrator.bandit_tier import reward_of
from sage.orchestrator.draw import draw
from sage.orchestrator.promotion import Served
from sage.outcomes.synthetic import synthetic_table
from sage.policies.bandits.contextual_bandit import ContextualBandit
from sage.policies.checkpoint import save_policy
from sage.policies.features import VERSION, featurize
from sage.proof.gate_record import GateRecord, record_path, why_not_promoted
from sage.rl.category_table import table_from_outcomes
from sage.words import hash_words
from tests.sage.examples import decision, parsed, written
from tests.sage.orchestrator.fixed_policy import FixedPolicy


def opened(folder: Path, extra: str = "", **settings: object) -> Router:
    options: dict = {"models": written(folder, extra), "environment": {}, "seed": 0, "data_source": "synthetic"}
    return Router.open(folder / "sage.db", **options | settings)


@pytest.mark.parametrize("role", ROLES)
def test_every_role_is_routed_and_logged(tmp_path: Path, role: str) -> None:
    with opened(tmp_path) as router:
        made = router.route(role=role, task="fix it", category="parsing", task_id="t", session="s", tenant="me")
    assert list(DecisionLog.open(tmp_path / "sage.db").rows()) == [(made, None)]
    assert (made.role, made.category, made.task_id, made.session, made.tenant) == (role, "parsing", "t", "s", "me")
    assert made.model == ("small" if role == "coder" else "medium")
    assert (made.policy, made.verdict, made.data_source, made.prompt) == ("static", "ok", "synthetic", None)


def test_features_are_those_of_the_request(tmp_path: Path) -> None:
    made = opened(tmp_path).route(role="coder", task="look at a.py", past_failures=1, probe_calls=3)
    request = Request(role="coder", task="look at a.py", past_failures=1, probe_calls=3)
    np.testing.assert_array_equal(np.array(made.features, np.float32), featurize(request))
    assert made.features_version == VERSION


def test_the_outcome_is_joined(tmp_path: Path) -> None:
    router = opened(tmp_path)
    made = router.route(role="coder")
    assert router.outcome(made.id, quality=1.0, cost_usd=0.012, latency_s=3.4) == "joined"
    assert router.outcome(made.id, quality=1.0) == "duplicate"
    assert router.outcome(made.id, quality=0.0) == "conflict"
    [(_, joined)] = router.log.rows()
    assert joined is not None
    assert (joined.quality, joined.cost_usd, joined.latency_s) == (1.0, 0.012, 3.4)


def test_choices_follow_the_logged_probabilities(tmp_path: Path) -> None:
    router = opened(tmp_path, "exploration: 0.6\n")
    made = [router.route(role="coder") for _ in range(600)]
    np.testing.assert_allclose([row.probabilities for row in made], [(0.6, 0.2, 0.2)] * 600)
    counts = Counter(row.model for row in made)
    assert abs(counts["small"] / 600 - 0.6) < 0.08  # four standard errors
    assert abs(counts["large"] / 600 - 0.2) < 0.065


def test_prompts_are_kept_only_where_configured(tmp_path: Path) -> None:
    opened(tmp_path, "log: {store_prompts: true}\n").route(role="coder", task="the task")
    [(made, _)] = DecisionLog.open(tmp_path / "sage.db").rows()
    assert made.prompt == "the task"


def test_hashed_words_are_kept_only_where_configured(tmp_path: Path) -> None:
    opened(tmp_path, "log: {store_words: true}\n").route(role="coder", task="the task")
    opened(tmp_path).route(role="coder", task="the task")
    kept, dropped = [made for made, _ in DecisionLog.open(tmp_path / "sage.db").rows()]
    assert (kept.words, kept.prompt) == (tuple(hash_words("the task").tolist()), None)
    assert (dropped.words, dropped.prompt) == (None, None)


def test_a_session_that_spent_its_budget_gets_the_cheapest(tmp_path: Path) -> None:
    router = opened(tmp_path, "guard: {budget_usd: 0.5}\n")
    first = router.route(role="debugger", session="s")
    router.outcome(first.id, quality=1.0, cost_usd=0.6)
    second = router.route(role="debugger", session="s")
    assert (first.model, first.verdict) == ("medium", "ok")
    assert (second.model, second.verdict, second.candidates) == ("small", "over_budget", ("small",))
    assert router.route(role="debugger", session="another").model == "medium"


def test_a_learned_policy_serves_where_it_is_sure(tmp_path: Path) -> None:
    log, table = DecisionLog.open(tmp_path / "sage.db"), parsed()
    sure = Router(log, table, served=Served(FixedPolicy({"large": 1.0}, sure=0.95)), data_source="synthetic")
    unsure = Router(log, table, served=Served(FixedPolicy({"large": 1.0}, sure=0.5)), data_source="synthetic")
    served, abstained = sure.route(role="coder"), unsure.route(role="coder")
    assert (served.model, served.policy, served.policy_version, served.confidence) == ("large", "fixed", "7", 0.95)
    assert (abstained.model, abstained.policy, abstained.verdict) == ("small", "static", "low_confidence")
    assert abstained.confidence == 0.5


def trained(path: Path, **record: object) -> Path:
    """A checkpoint that the gate has promoted, or judged in another way."""
    table = synthetic_table(400, seed=1)
    save_policy(path, table_from_outcomes(table.contexts(), table.models, table.score))
    values: dict = {
        "checkpoint_sha256": sha256_of(path),
        "policy": "category_table",
        "policy_version": "1",
        "promote": True,
        "reason": "above zero",
        "data_source": "real",
        "data_sha256": "0" * 64,
        "level": 0.95,
        "method": "anytime",
        "floor": 0.0,
        "date": "2026-01-31T12:00:00+00:00",
    }
    GateRecord(**values | record).write(path)
    return path


def on(checkpoint: Path | str) -> dict[str, str]:
    return {"SAGE_RL_POLICY": "1", "SAGE_RL_CHECKPOINT": str(checkpoint)}


def test_a_real_checkpoint_is_switched_on_by_the_environment(tmp_path: Path, told: Callable[[], str]) -> None:
    router = opened(
        tmp_path, "guard: {confidence_floor: 0}\n", environment=on(trained(tmp_path / "policy.safetensors"))
    )
    assert told() == ""
    made = router.route(role="coder", category="algorithms")
    assert router.policy is not None
    assert (made.policy, made.policy_version, made.verdict) == (router.policy.name, router.policy.version, "ok")


def test_a_record_from_before_there_were_objectives_means_the_default(tmp_path: Path) -> None:
    path = trained(tmp_path / "policy")
    record = json.loads(record_path(path).read_text())
    assert record.pop("objective") == "reward_v1"
    record_path(path).write_text(json.dumps(record))
    assert why_not_promoted(path, 0.0) == ""
    assert "the table has 'at most 1.0 points worse" in why_not_promoted(path, 0.0, points_worse(1))
    router = opened(tmp_path, "guard: {confidence_floor: 0}\nobjective: {max_points_worse: 1}\n", environment=on(path))
    assert router.route(role="coder").verdict == "policy_unusable"


def test_without_the_switch_the_static_table_rules(tmp_path: Path) -> None:
    environment = on(trained(tmp_path / "policy")) | {"SAGE_RL_POLICY": "0"}
    assert opened(tmp_path, environment=environment).route(role="coder").policy == "static"


def test_a_policy_that_was_not_promoted_serves_by_force_and_every_decision_says_so(
    tmp_path: Path, told: Callable[[], str]
) -> None:
    environment = on(without_record(trained(tmp_path / "policy"))) | {"SAGE_RL_FORCE": "1"}
    router = opened(tmp_path, "guard: {confidence_floor: 0}\n", environment=environment)
    assert re.search("SAGE_RL_FORCE=1 lets it serve although .* has no gate record", told())
    made = router.route(role="coder", category="algorithms")
    assert (made.policy, made.verdict) == ("category_table", "ok")
    [(logged, _)] = DecisionLog.open(tmp_path / "sage.db").rows()
    assert "SAGE_RL_FORCE=1" in logged.reason


def without_record(path: Path) -> Path:
    record_path(path).unlink()
    return path


def half_a_record(path: Path) -> Path:
    record_path(path).write_text(record_path(path).read_text()[:50])
    return path


def cut(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-20])
    return path


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        (lambda folder: {"SAGE_RL_POLICY": "1"}, "SAGE_RL_CHECKPOINT names no file"),
        (lambda folder: on(folder / "nowhere"), "there is no such file"),
        (lambda folder: on(folder), "cannot serve"),
        (lambda folder: on(cut(trained(folder / "policy"))), "cannot serve"),
        (lambda folder: on(without_record(trained(folder / "policy"))), "has no gate record (policy.gate.json)"),
        (lambda folder: on(trained(folder / "policy", checkpoint_sha256="0")), "is about another file"),
        (lambda folder: on(trained(folder / "policy", promote=False, reason="not above zero")), "not above zero"),
        (lambda folder: on(trained(folder / "policy", promote="yes")), "the gate refused"),
        (
            lambda folder: on(trained(folder / "policy", data_source="synthetic")),
            "synthetic rows, which are no evidence",
        ),
        (lambda folder: on(trained(folder / "policy", floor=0.5)), "a confidence floor of 0.5, and the table has 0.9"),
        (
            lambda folder: on(trained(folder / "policy", floor=0.9, objective="at most 1.0 points worse")),
            "for the objective 'at most 1.0 points worse', and the table has 'reward_v1': train for it, then prove it",
        ),
        (lambda folder: on(half_a_record(trained(folder / "policy"))), "policy.gate.json cannot be read"),
        (lambda folder: on(folder / "nowhere") | {"SAGE_RL_FORCE": "1"}, "there is no such file"),
        (lambda folder: on(trained(folder / "policy")) | {"SAGE_RL_FORCE": "perhaps"}, "SAGE_RL_FORCE='perhaps'"),
        (lambda folder: on(written(folder)), "cannot serve"),
        (lambda folder: {"SAGE_RL_POLICY": "perhaps"}, "SAGE_RL_POLICY='perhaps' is not understood: use 1 or 0"),
    ],
)
def test_a_checkpoint_that_cannot_serve_is_one_warning_and_the_static_table(
    tmp_path: Path, environment, sentence: str, told: Callable[[], str]
) -> None:
    router = opened(tmp_path, environment=environment(tmp_path))
    said = told()
    assert said.count("\n") == 1
    assert sentence in said
    made = [router.route(role="coder") for _ in range(2)]
    assert told() == ""  # once, not at every request
    assert {(row.model, row.policy, row.verdict) for row in made} == {("small", "static", "policy_unusable")}
    assert sentence in made[0].reason


def test_a_bad_request_is_refused_and_not_logged(tmp_path: Path) -> None:
    router = opened(tmp_path)
    with pytest.raises(RecordError, match="role='cook'"):
        router.route(role="cook")
    assert router.log.counts()["decisions"] == 0


def test_a_wrong_argument_is_named_with_the_call(tmp_path: Path) -> None:
    router = opened(tmp_path)
    calls: dict[str, Callable] = {"route": router.route, "outcome": router.outcome, "correct": router.correct}
    with pytest.raises(TypeError, match=r"^route\(\) has no argument 'rol': did you mean 'role'\?"):
        calls["route"](rol="coder")
    with pytest.raises(TypeError, match=r"^route\(\) needs role="):
        calls["route"](task="x")
    for name in ("outcome", "correct"):
        with pytest.raises(TypeError, match=rf"^{name}\(\) has no argument 'cost': did you mean 'cost_usd'\?"):
            calls[name]("d1", cost=1.0)


def test_an_outcome_that_says_nothing_is_refused(tmp_path: Path) -> None:
    router = opened(tmp_path)
    made = router.route(role="coder")
    for report in (router.outcome, router.correct):
        with pytest.raises(RecordError, match="says nothing: give quality, cost_usd"):
            report(made.id)
    assert router.log.counts()["without_outcome"] == 1


@pytest.mark.parametrize("kind", ["ucb1", "contextual"])
def test_a_bandit_learns_and_survives_a_restart(tmp_path: Path, kind: str) -> None:
    extra = f"bandit: {kind}\n"
    with opened(tmp_path, extra) as router:
        for _ in range(150):
            made = router.route(role="coder", category="c")
            router.outcome(made.id, quality=1.0 if made.model == "medium" else 0.0)
    again = opened(tmp_path, extra, seed=1)
    made = again.route(role="coder", category="c")
    share = dict(zip(made.candidates, made.probabilities, strict=True))
    assert share["medium"] > 0.9
    assert made.policy == ("ucb1" if kind == "ucb1" else "contextual_bandit")


def test_an_outcome_without_quality_teaches_the_bandit_nothing(tmp_path: Path) -> None:
    router = opened(tmp_path, "bandit: ucb1\n")
    router.outcome(router.route(role="coder").id, cost_usd=1.0)
    assert router.bandit is not None
    assert router.bandit.bandit.statistics.models == {}
    router.outcome(router.route(role="coder").id, timed_out=True)
    assert len(router.bandit.bandit.statistics.models) == 1


def beliefs(router: Router) -> dict[str, tuple[float, float]]:
    """How often each model was tried and what it earned in all, as a restart would read it."""
    assert router.bandit is not None
    router.bandit.store.read_at = 0.0
    router.bandit.current()
    counts, totals = router.bandit.bandit.statistics.of_models(("small", "medium", "large"))
    sums = zip(counts.sum(axis=0).tolist(), totals.sum(axis=0).tolist(), strict=True)
    return dict(zip(("small", "medium", "large"), sums, strict=True))


def reward(quality: float, cost: float, latency: float = 2.0) -> float:
    return quality - 0.2 * cost - 0.05 * latency / 120


SMALL = (1000 * 1.0) / 1e6  # USD of a call without a task, by the list price


def test_silence_about_the_cost_is_not_free(tmp_path: Path) -> None:
    router = opened(tmp_path, "bandit: {kind: ucb1, keep: 1}\n")
    made = router.route(role="coder")
    while made.model != "small":
        made = router.route(role="coder")
    router.outcome(made.id, quality=1.0)
    assert beliefs(router)["small"] == pytest.approx((1.0, reward(1.0, SMALL)))
    router.outcome(made.id, cost_usd=0.5, latency_s=6.0)  # now it is known
    assert beliefs(router)["small"] == pytest.approx((1.0, reward(1.0, 0.5, 6.0)))


def test_a_model_that_no_table_knows_is_charged_in_full_for_silence(tmp_path: Path) -> None:
    outcome = Outcome(decision_id="d", time=0.0, quality=1.0, model="elsewhere")
    assert reward_of(outcome, None, 0.0) == pytest.approx(1.0 - 0.2 - 0.05)
    assert reward_of(replace(outcome, cost_usd=0.0, latency_s=0.0), None, 0.0) == 1.0
    small = parsed().models["small"]
    assert reward_of(replace(outcome, tokens_in=10**6, tokens_out=0), small, 0.0) == pytest.approx(reward(1.0, 0.5))


@pytest.mark.parametrize("order", list(permutations(["quality", "cost_usd", "model"])))
def test_the_bandit_learns_of_the_model_that_answered(tmp_path: Path, order: tuple[str, ...]) -> None:
    router = opened(tmp_path, "bandit: {kind: contextual, keep: 1, noise: 0.5}\n")
    said = {"quality": 0.5, "cost_usd": 0.25, "model": "large"}
    made = router.route(role="coder")
    for name in order:
        router.outcome(made.id, **{name: said[name]})
    latency = 20 / 120 * 0.05
    assert beliefs(router) == {"small": (0, 0), "medium": (0, 0), "large": pytest.approx((1, 0.5 - 0.05 - latency))}
    router.correct(made.id, quality=1.0)
    assert beliefs(router)["large"] == pytest.approx((1, 1.0 - 0.05 - latency))
    router.outcome(made.id, quality=0.0)  # a conflict teaches nothing
    assert beliefs(router)["large"] == pytest.approx((1, 1.0 - 0.05 - latency))


def test_settings_of_the_bandit_reach_it(tmp_path: Path) -> None:
    router = opened(tmp_path, "bandit: {kind: contextual, keep: 0.9, noise: 0.5}\n")
    assert router.bandit is not None
    assert isinstance(router.bandit.bandit, ContextualBandit)
    assert (router.bandit.bandit.config.keep, router.bandit.bandit.config.noise) == (0.9, 0.5)
    assert router.bandit.bandit.statistics.keep == 0.9


@pytest.mark.parametrize("extra", ["exploration: 0.8\n", "bandit: contextual\n"])
def test_explored_draws_say_so(tmp_path: Path, extra: str) -> None:
    router = opened(tmp_path, extra)
    if "bandit" in extra:
        for _ in range(20):
            router.outcome(router.route(role="coder").id, quality=0.5)
    made = [router.route(role="coder") for _ in range(40)]
    explored = [row for row in made if row.propensity < max(row.probabilities)]
    assert explored
    for row in made:
        usual = row.candidates[int(np.argmax(row.probabilities))]
        text = f"; explored: {row.model} had a chance of {row.propensity:.2g}, {usual} is preferred"
        assert row.reason.endswith(text) == (row in explored)


def test_calls_in_flight_are_reserved_in_the_budget(tmp_path: Path) -> None:
    """Sixteen calls at once, none of which has reported a cost: together they may not expect to spend more."""
    price = {"medium": 0.015, "small": 0.001}
    router = opened(tmp_path, "guard: {budget_usd: 0.065}\n")
    made: list[Decision] = []
    start = threading.Barrier(8)

    def work() -> None:
        start.wait()
        made.extend(router.route(role="debugger", session="s") for _ in range(2))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = Counter((row.model, row.verdict) for row in made)
    assert counts == {("medium", "ok"): 4, ("small", "ok"): 5, ("small", "over_budget"): 7}
    assert all(row.expected_cost_usd == price[row.model] for row in made)
    assert router.log.spent("default", "s") == pytest.approx(4 * 0.015 + 12 * 0.001)
    for row in made:
        router.outcome(row.id, cost_usd=0.0)
    assert router.log.spent("default", "s") == pytest.approx(0.0)
    assert router.route(role="debugger", session="s").model == "medium"  # what was not needed is free again


def test_threads_share_a_router(tmp_path: Path) -> None:
    router = opened(tmp_path, "bandit: contextual\nexploration: 0.1\n")

    def work(index: int) -> None:
        for number in range(15):
            made = router.route(role="coder", category=f"{index % 2}", task_id=f"{index}-{number}")
            router.outcome(made.id, quality=0.5)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = router.log.counts()
    assert (counts["decisions"], counts["joined"]) == (90, 90)
    assert router.bandit is not None
    router.bandit.store.read_at = 0.0
    assert router.bandit.current() is router.bandit.bandit
    statistics = router.bandit.bandit.statistics
    assert statistics.count.sum() == pytest.approx(2 * (1 - statistics.keep**45) / (1 - statistics.keep))


def test_a_draw_never_takes_what_has_no_chance() -> None:
    assert [draw(np.array([0.0, 0.25, 0.75, 0.0]), at) for at in (0.0, 0.2499, 0.25, 1.0)] == [1, 1, 2, 2]


def test_the_names_of_the_package() -> None:
    import sage

    assert sage.Decision is Decision
    assert "Router" in dir(sage)
    with pytest.raises(AttributeError, match="Rooter"):
        sage.Rooter  # noqa: B018
    assert decision().propensity == 0.75
