"""Tenants and sources: whose rows and whose outcomes a proof rests on."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cascade_replay import replay_cascade

from sage.cli import main
from sage.evidence.cascades.cascade_data import CascadeData
from sage.evidence.export_dataset import ExportError, export
from sage.evidence.objective import QUALITY, Objective
from sage.evidence.routing_data import RoutingData, RoutingDataError
from sage.evidence.selection import OTHER_SOURCES, OTHER_TENANTS, Selection, SelectionError
from sage.log.decision_log import DecisionLog
from sage.outcomes.table import OutcomeTable
from sage.policies.cascades.cascade_ladder import ExploringCascade, LadderCascade
from sage.proof.cascade_evaluation import evaluate_cascade
from sage.proof.evaluation import evaluate_offline
from sage.proof.gate import GateVerdict, decide
from sage.rl.cascades.cascade_selection import LEARNERS, choose_cascade
from sage.rl.cascades.simulated_verifier import SimulatedVerifier
from sage.rl.category_table import learn_table
from tests.sage.evidence.cascades.test_cascade_data import small_table
from tests.sage.examples import decision, outcome
from tests.sage.rl.made_logs import made_log

WORSE = {"code": (0.7, 0.57, 0.5), "prose": (0.7, 0.57, 0.5)}


def of_tenants(log: RoutingData, shares: dict[str, float], seed: int = 77) -> RoutingData:
    names = np.random.default_rng(seed).choice(list(shares), len(log), p=list(shares.values()))
    return replace(log, tenant=names)


def lied(log: RoutingData, tenant: str) -> RoutingData:
    """The tenant reports that `mid` always succeeds, and nothing else ever does."""
    return replace(log, quality=np.where(log.tenant == tenant, log.action == 1, log.quality).astype(float))


def verdict_of(log: RoutingData) -> GateVerdict:
    return decide(evaluate_offline(log, learn_table(log.split_by_task(0.6, 0)[0]), floor=0.5))


def test_a_tenant_that_lies_moves_nobody_elses_policy() -> None:
    log = lied(of_tenants(made_log(6_000, truth=WORSE), {"liar": 0.5, "honest": 0.5}), "liar")
    said = verdict_of(log)
    assert not said.promote
    assert said.reason.startswith("the gain rests on one tenant: without liar (1,")
    assert "by tenant: liar +1.0" in said.reason or ", liar +1.0" in said.reason
    alone = log.select(log.tenant == "liar")
    assert verdict_of(alone).promote  # what its rows alone would say
    gaps = replace(log, quality=np.where((log.tenant == "honest") & (np.arange(6_000) % 25 == 0), np.nan, log.quality))
    assert not verdict_of(gaps).promote


@pytest.mark.parametrize(
    "shares",
    [
        {"a": 0.5, "b": 0.5},
        {"": 0.6, "b": 0.3, "c": 0.09, "few": 0.01},
        {f"t{i}": 1 / 16 for i in range(16)},
    ],
)
def test_honest_tenants_are_promoted_together(shares: dict[str, float]) -> None:
    said = verdict_of(of_tenants(made_log(4_000), shares))
    assert said.promote
    assert said.reason.count(" rows)") == min(len(shares), 5)
    assert ("11 others between " in said.reason) == (len(shares) == 16)
    assert ("by tenant: no tenant +0." in said.reason) == ("" in shares)


def test_tenants_in_whose_rows_the_policies_agree_have_no_say() -> None:
    log = made_log(4_000)  # the policy leaves the usual model for code alone
    said = verdict_of(replace(log, tenant=log.contexts.category))
    assert said.promote
    assert "prose +0.0000 (" in said.reason


def test_an_objective_with_a_limit_holds_without_any_one_tenant() -> None:
    cheap = {"code": (0.7, 0.7, 0.7), "prose": (0.7, 0.7, 0.7)}
    log = of_tenants(made_log(3_000, truth=cheap, prices=(1.0, 0.2, 0.9)), {"liar": 0.5, "honest": 0.5})
    objective = Objective(weights=QUALITY, max_points_worse=20.0)
    policy = learn_table(log.split_by_task(0.6, 0)[0], objective=objective)
    assert decide(evaluate_offline(log, policy, objective=objective, floor=0.5)).promote
    dear = np.where((log.tenant == "honest") & (log.action == 1), 3.0 * log.cost_usd / 0.2, log.cost_usd)
    hidden = replace(log, cost_usd=np.where(log.tenant == "liar", np.where(log.action == 1, 0.0, 9.0), dear))
    said = decide(evaluate_offline(hidden, policy, objective=objective, floor=0.5))
    assert not said.promote
    assert said.reason.startswith("the gain rests on one tenant: without liar")
    assert " USD, and the policy would serve all" in said.reason


def test_a_cascade_is_judged_by_tenant_too() -> None:
    table = small_table(400)
    logging = ExploringCascade(LadderCascade(table.models), 0.5)
    data = replay_cascade(table, logging, 1_200, verifier=SimulatedVerifier(), seed=1)
    data = replace(data, tenant=np.where(np.arange(len(data)) % 2, "odd", "even"))
    policy = choose_cascade(data.split_by_task(0.6, 0)[0], 0.5, {"fitted-q": LEARNERS["fitted-q"]})
    found = evaluate_cascade(data, policy)
    assert set(found.tenants) == {"even", "odd"}
    total = sum(t.rows * t.alone.gain for t in found.tenants.values() if t.alone) / found.num_rows
    assert total == pytest.approx(found.report.value, abs=0.03)
    assert found.tenants["odd"].without == found.tenants["even"].alone


def logged(tmp_path: Path) -> DecisionLog:
    log = DecisionLog.open(tmp_path / "sage.db")
    for number, (tenant, source) in enumerate(
        [("a", "ci"), ("a", "client"), ("b", "ci"), ("a", "operator"), ("a", "proxy"), ("b", "client")]
    ):
        log.append(decision(f"d{number}", tenant=tenant, data_source="real", task_id=f"t{number}"))
        log.add_outcome(outcome(f"d{number}", source=source, cost_usd=1.0))
    return log


def test_rows_of_other_tenants_are_left_out_and_outcomes_of_other_sources_are_missing(tmp_path: Path) -> None:
    chosen = Selection(tenants=("a",), sources=("ci", "operator"))
    log, path = logged(tmp_path), tmp_path / "rows.jsonl"
    done = export(log, path, selection=chosen)
    assert (done.rows, done.missing) == (3, {"neither a quality nor a time-out": 1})
    assert done.dropped == {OTHER_TENANTS: 2, OTHER_SOURCES: 1}
    exported = RoutingData.read(path, gaps=True)
    export(log, path)
    read = RoutingData.read(path, gaps=True, selection=chosen)
    assert exported.decision_id.tolist() == read.decision_id.tolist() == ["d0", "d1", "d3", "d4"]
    assert exported.observed.tolist() == read.observed.tolist() == [True, False, True, True]
    with pytest.raises(ExportError, match="no decision of tenant x "):
        export(log, path, selection=Selection(tenants=("x",)))
    with pytest.raises(RoutingDataError, match=r"rows.jsonl \(of tenant x alone\) holds no decision with an outcome"):
        RoutingData.read(path, selection=Selection(tenants=("x",)))
    with pytest.raises(SelectionError, match="source='proxy' must be one of operator, ci, traffic, client"):
        Selection(sources=("proxy",))


def test_episodes_name_the_source_of_their_quality() -> None:
    table: OutcomeTable = small_table(20)
    data = replay_cascade(table, LadderCascade(table.models), 20, verifier=SimulatedVerifier(), seed=1)
    episodes = [
        replace(e, tenant="ab"[i % 2], source=("ci", "client", "")[i % 3]) for i, e in enumerate(data.episodes())
    ]
    chosen, dropped = Selection(sources=("ci",), tenants=("a",)), Counter()
    taken = CascadeData.from_episodes(chosen.episodes(episodes, dropped))
    assert (len(taken), int(taken.observed.sum())) == (10, 4)
    assert dropped == {OTHER_TENANTS: 10, OTHER_SOURCES: 6}


def test_commands_say_what_they_took(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    of_tenants(made_log(1_000), {"a": 0.8, "b": 0.2}).write("rows.jsonl")
    chosen = ["--data", "rows.jsonl", "--tenant", "a", "--source", "operator"]
    assert main(["rl", "train-table", *chosen, "--out", "p.bin"]) == 0
    took = "of tenant a alone and judged by operator alone (210 rows of other tenants, left out)"
    assert f"; {took}" in capsys.readouterr().out
    assert main(["rl", "gate", *chosen, "--checkpoint", "p.bin", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert took in found["reason"]
    assert found["report"]["selection"] == took
    assert found["report"]["tenants"] == {}
    assert main(["rl", "gate", "--data", "rows.jsonl", "--checkpoint", "p.bin", "--source", "ci"]) == 2
    assert "judged by ci alone) holds no decision with an outcome" in capsys.readouterr().err
