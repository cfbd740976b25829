"""A learned cascade serves if the gate has promoted it; else the ladder answers, and says why."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cascade_replay import replay_cascade

from sage import Router
from sage.files import sha256_of
from sage.orchestrator.models_file import ModelsFile
from sage.orchestrator.promotion import Served, cascade_kind, served_policy, single_decision_kind
from sage.policies.cascades.cascade_ladder import ExploringCascade, LadderCascade
from sage.policies.checkpoint import save_policy
from sage.proof.gate_record import GateRecord, record_path
from sage.rl.cascades.cascade_learning import learn_fitted_q
from sage.rl.cascades.simulated_verifier import SimulatedVerifier
from tests.sage.evidence.cascades.test_cascade_data import small_table

TABLE = """
models:
  a: {input_usd_per_mtok: 0.1, output_usd_per_mtok: 1}
  b: {input_usd_per_mtok: 0.2, output_usd_per_mtok: 2}
  c: {input_usd_per_mtok: 1, output_usd_per_mtok: 10}
roles:
  default: {primary: a}
cascade:
  default: {ladder: [LADDER], verifiers: [tests]}
"""


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    logger = ExploringCascade(LadderCascade(("c",)), 0.4)
    episodes = replay_cascade(small_table(200), logger, 3_000, verifier=SimulatedVerifier(), seed=0)
    save_policy(tmp_path / "cascade.bin", learn_fitted_q(episodes, 0.6))
    return tmp_path / "cascade.bin"


def promoted(checkpoint: Path, **changes: object) -> None:
    values: dict = {
        "checkpoint_sha256": sha256_of(checkpoint),
        "policy": "cascade",
        "policy_version": "1",
        "promote": True,
        "reason": "above zero",
        "data_source": "real",
        "data_sha256": "0",
        "level": 0.95,
        "method": "anytime",
        "floor": 0.0,
        "date": "2026-01-31",
    }
    GateRecord(**values | changes).write(checkpoint)


def first_step(folder: Path, *, ladder: str = "c, b, a", **environment: str) -> tuple[str, str, str, str]:
    (folder / "models.yaml").write_text(TABLE.replace("LADDER", ladder))
    given = {"SAGE_RL_POLICY": "1", "SAGE_RL_CASCADE": str(folder / "cascade.bin")} | environment
    with Router.open(folder / "sage.db", models=folder / "models.yaml", environment=given) as router:
        task = router.cascade(role="coder", category="x")
        made = task.next()
        assert made is not None
        task.report(verdicts={"tests": True}, cost_usd=0.1)
        assert task.next() is None  # both stop at an answer that passed
        single = router.route(role="coder")
    assert (single.model, single.verdict) == ("a", "ok")  # single decisions are the table's, as no checkpoint was named
    return made.model, made.policy, made.verdict, made.reason


def test_a_promoted_cascade_serves(checkpoint: Path) -> None:
    promoted(checkpoint)
    model, policy, verdict, _ = first_step(checkpoint.parent)
    assert (model in "ab", verdict) == (True, "ok")  # it has learned to begin with one of the cheap ones
    assert policy != "ladder"


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda path: None, "has no gate record"),
        (lambda path: promoted(path, promote=False, reason="too few rows"), "the gate refused .* too few rows"),
        (lambda path: promoted(path, data_source="synthetic"), "synthetic rows, which are no evidence"),
        (lambda path: promoted(path, checkpoint_sha256="0"), "is about another file"),
        (lambda path: promoted(path, objective="another"), "for the objective 'another'"),
        (lambda path: path.write_bytes(b"cut"), "is not a policy file or was cut"),
    ],
)
def test_the_ladder_answers_for_one_that_may_not_serve(checkpoint: Path, prepare: object, reason: str) -> None:
    prepare(checkpoint)  # pyrefly: ignore
    model, policy, verdict, said = first_step(checkpoint.parent)
    assert (model, policy, verdict) == ("c", "ladder", "policy_unusable")
    assert re.search(reason, said)


def test_force_lets_it_serve_and_says_so(checkpoint: Path) -> None:
    model, _, verdict, said = first_step(checkpoint.parent, SAGE_RL_FORCE="1")
    assert (model in "ab", verdict) == (True, "ok")
    assert "SAGE_RL_FORCE=1 lets it serve although" in said
    assert not record_path(checkpoint).exists()


def test_one_of_other_models_does_not_serve(checkpoint: Path) -> None:
    promoted(checkpoint)
    table = checkpoint.parent / "models.yaml"
    table.write_text(
        TABLE.replace("LADDER", "new").replace(
            "models:", "models:\n  new: {input_usd_per_mtok: 1, output_usd_per_mtok: 1}"
        )
    )
    switches = {"SAGE_RL_POLICY": "1", "SAGE_RL_CASCADE": str(checkpoint)}
    with Router.open(checkpoint.parent / "other.db", models=table, environment=switches) as router:
        made = router.cascade(role="coder").next()
    assert "it knows none of new: train it on a log of these models" in made.reason  # pyrefly: ignore
    assert json.loads(record_path(checkpoint).read_text())["promote"]


def test_a_cascade_that_the_gate_refuses_later_ends_and_one_that_is_retrained_goes_on(checkpoint: Path) -> None:
    (checkpoint.parent / "models.yaml").write_text(TABLE.replace("LADDER", "c, b, a"))
    switches = {"SAGE_RL_POLICY": "1", "SAGE_RL_CASCADE": str(checkpoint)}
    promoted(checkpoint)
    with Router.open(
        checkpoint.parent / "sage.db", models=checkpoint.parent / "models.yaml", environment=switches
    ) as router:
        name = router.deciding["cascades"].name

        def after(step: object) -> str:
            step(checkpoint)  # pyrefly: ignore
            router.look_again(switches)
            made = router.cascade(role="coder", category="x").next()
            assert made is not None
            assert made.policy == router.deciding["cascades"].name
            return made.policy

        content = checkpoint.read_bytes()
        assert after(lambda path: promoted(path, promote=False)) == "ladder"
        assert after(promoted) == name
        assert after(lambda path: path.write_bytes(b"cut")) == name
        assert after(lambda path: record_path(path).unlink()) == "ladder"
        checkpoint.write_bytes(content)
        assert after(promoted) == name


def test_what_is_wrong_with_the_settings_is_said_once_and_a_cascade_needs_a_ladder(checkpoint: Path) -> None:
    promoted(checkpoint)
    (checkpoint.parent / "models.yaml").write_text(TABLE.replace("LADDER", "c, b, a"))
    kind = cascade_kind(ModelsFile.read(checkpoint.parent / "models.yaml").cascade)
    on = {"SAGE_RL_POLICY": "1", "SAGE_RL_CASCADE": str(checkpoint)}
    served = served_policy(on, kind)
    assert served.policy is not None
    assert served_policy(on, cascade_kind({}), before=served.promoted) == Served(
        problem="SAGE_RL_CASCADE is set, but models.yaml has no section cascade: add one", promoted=served.promoted
    )
    single = single_decision_kind(("a", "b"), 0.5)
    wrong = on | {"SAGE_RL_FORCE": "perhaps"}
    assert served_policy(wrong, single).problem == "SAGE_RL_FORCE='perhaps' is not understood: use 1 or 0"
    for nothing in (wrong, on | {"SAGE_RL_POLICY": "0"}, {"SAGE_RL_POLICY": "1"}):
        assert served_policy(nothing, kind) == Served()
    for nothing in (on, on | {"SAGE_RL_POLICY": "0"}):
        assert served_policy(nothing, single) == Served()
    assert served_policy({"SAGE_RL_POLICY": "1"}, single).problem.startswith(
        "SAGE_RL_POLICY is on but SAGE_RL_CHECKPOINT"
    )
