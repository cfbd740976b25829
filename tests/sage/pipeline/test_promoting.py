"""Promotion beside the log: which policy serves after every promotion and rollback, and what is refused."""

from __future__ import annotations

import json
import time
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pytest

import sage
from sage import Router
from sage.cli import main
from sage.files import sha256_of, write_json
from sage.log.decision_log import DecisionLog
from sage.orchestrator.installed_policies import InstalledPolicies
from sage.pipeline.choices import PROOF
from sage.process_lock import ProcessLock
from sage.proof.gate_record import record_path, records_of
from tests.sage.examples import decision, outcome
from tests.sage.orchestrator.test_promotion import TABLE, judge, train

NOTHING: dict[str, str] = {}


class Folder:
    """A log, models.yaml, and two promoted checkpoints that always take `second`."""

    def __init__(self, path: Path) -> None:
        self.db, self.models = path / "sage.db", path / "models.yaml"
        self.models.write_text(TABLE)
        DecisionLog.open(self.db).close()
        self.a, self.b = path / "a.st", path / "b.st"
        for name, checkpoint in (("a", self.a), ("b", self.b)):
            train(checkpoint, name)
            judge(checkpoint, policy=name)
        self.router = Router.open(self.db, models=self.models, environment=NOTHING)

    def promote(self, checkpoint: Path, environment: dict[str, str] = NOTHING, **options: object) -> object:
        return sage.promote(checkpoint, db=self.db, models=self.models, environment=environment, **options)  # pyrefly: ignore

    def rollback(self, **options: object) -> object:
        return sage.rollback(db=self.db, environment=NOTHING, **options)  # pyrefly: ignore

    def status(self, environment: dict[str, str] = NOTHING) -> sage.pipeline.status.SlotStatus:  # pyrefly: ignore
        return sage.status(db=self.db, models=self.models, environment=environment).slots["decisions"]

    def deciding(self, environment: dict[str, str] = NOTHING) -> str:
        """The policy of a router that runs, which a new one agrees with."""
        self.router.look_again(environment)
        with Router.open(self.db, models=self.models, environment=environment) as new:
            assert new.deciding["decisions"].name == self.router.deciding["decisions"].name
        return self.router.deciding["decisions"].name


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_promotions_serve_at_once_and_rollbacks_go_the_same_way_back(folder: Folder) -> None:
    assert folder.deciding() == "static"
    assert str(folder.promote(folder.a)).startswith("promoted: a ")
    assert folder.deciding() == "a"
    folder.promote(folder.b)
    assert (folder.deciding(), folder.status().before[:2]) == ("b", "a ")
    assert str(folder.rollback()).startswith("rolled back: a ")
    assert folder.deciding() == "a"
    assert "the static table decides" in str(folder.rollback())
    assert folder.deciding() == "static"
    with pytest.raises(ValueError, match="nothing to roll back"):
        folder.rollback()
    told = sage.status(db=folder.db, models=folder.models, environment=NOTHING).events
    assert [(event["event"], event["serves"].split()[0]) for event in told] == [
        ("promote", "a"),
        ("promote", "b"),
        ("rollback", "a"),
        ("rollback", "static"),
    ]


def test_a_rollback_to_the_table_forgets_who_served_before(folder: Folder) -> None:
    for checkpoint in (folder.a, folder.b, folder.a):  # the same one again: it is no former one of its own
        folder.promote(checkpoint)
    assert (folder.status().serves[:2], folder.status().before[:2]) == ("a ", "b ")
    folder.rollback(to_table=True)
    assert (folder.deciding(), folder.status().by) == ("static", "models.yaml")


def test_the_checkpoint_may_change_or_go_after_its_promotion(folder: Folder) -> None:
    folder.promote(folder.a)
    folder.a.unlink()
    record_path(folder.a).unlink()
    assert folder.deciding() == "a"


def test_the_environment_is_stronger(folder: Folder) -> None:
    folder.promote(folder.a)
    off, other = {"SAGE_RL_POLICY": "0"}, {"SAGE_RL_POLICY": "1", "SAGE_RL_CHECKPOINT": str(folder.b)}
    assert (folder.deciding(off), folder.deciding(other)) == ("static", "b")
    assert folder.status(off).note.endswith("was promoted, and is overruled")
    assert "SAGE_RL_POLICY is set" in str(folder.promote(folder.b, off))
    assert folder.deciding({"SAGE_RL_POLICY": "1"}) == "b"  # on, and names none: the promoted one


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"promote": False, "reason": "too few"}, "the gate refused .*: too few"),
        ({"floor": 0.5}, "with a confidence floor of 0.5, and the table has 0"),
        ({"objective": "another"}, "for the objective 'another'"),
        ({"data_source": "synthetic"}, "try it all the same with --allow-synthetic"),
        ({"checkpoint_sha256": "0" * 64}, r"a\.st has no proof: prove it with `sage prove"),
    ],
)
def test_only_a_passing_proof_of_this_file_and_this_table_promotes(folder: Folder, changes: dict, why: str) -> None:
    folder.promote(folder.b)
    record_path(folder.a).unlink()
    judge(folder.a, **changes)
    with pytest.raises(ValueError, match=why):
        folder.promote(folder.a)
    assert folder.deciding() == "b"


def test_a_proof_over_another_table_is_said(folder: Folder) -> None:
    report = {"value": 0.1, "interval": None, "num_rows": 9, "num_tasks": 9, "acting_share": 1.0, "incumbent": "static"}
    verdict = asdict(records_of(folder.a)[sha256_of(folder.a)])
    for version, noted in ((folder.router.static.version, False), ("0123456789ab", True)):
        proof = folder.a.with_name("a.st.proof.json")
        proof.write_text(json.dumps({"verdict": verdict, "report": report | {"incumbent_version": version}}))
        assert ("over static 0123456789ab, and the table" in str(folder.promote(folder.a))) is noted


def test_a_changed_checkpoint_is_refused(folder: Folder) -> None:
    train(folder.a, "changed")
    with pytest.raises(ValueError, match="has no proof"):
        folder.promote(folder.a)


def test_a_policy_proved_on_synthetic_rows_says_so_in_every_decision(folder: Folder) -> None:
    verdict = records_of(folder.a)[sha256_of(folder.a)]
    record_path(folder.a).unlink()
    report = {"value": 0.1, "interval": {"low": 0.05, "high": 0.2}, "num_rows": 9, "num_tasks": 3, "acting_share": 0.5}
    report |= {"incumbent": "static", "incumbent_version": "1"}
    proof = {"verdict": asdict(verdict) | {"data_source": "synthetic"}, "report": report}
    write_json(folder.a.with_name(folder.a.name + PROOF), proof)
    with pytest.raises(ValueError, match="proved on synthetic rows"):
        folder.promote(folder.a)
    folder.promote(folder.a, allow_synthetic=True)
    assert folder.deciding() == "a"
    assert "SYNTHETIC" in folder.router.route(role="coder", category="x").reason
    said = folder.status()
    assert "SYNTHETIC" in said.note
    assert said.proof is not None
    assert said.proof["gain"] == {"value": 0.1, "low": 0.05, "high": 0.2}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2}', '{"format": 1, "decisions": {"serving": {"x": 1}}}'])
def test_a_broken_file_of_promotions_lets_the_table_decide(folder: Folder, text: str) -> None:
    folder.promote(folder.a)
    InstalledPolicies(folder.db).file.write_text(text)
    assert folder.deciding() == "static"
    assert folder.router.route(role="coder").verdict == "policy_unusable"


def test_a_rollback_is_at_once_even_if_the_former_policy_is_damaged(folder: Folder) -> None:
    folder.promote(folder.a)
    policies = InstalledPolicies(folder.db)
    installed = policies.slot("decisions").serving
    assert installed is not None
    folder.promote(folder.b)
    policies.checkpoint(installed).write_bytes(b"cut")
    assert folder.deciding() == "b"
    folder.rollback()
    assert folder.deciding() == "static"
    assert "cannot serve" in folder.status().note


def test_a_rollback_of_another_log_makes_no_folder(folder: Folder, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no such log"):
        sage.rollback(db=tmp_path / "typo.db", environment=NOTHING)
    with pytest.raises(ValueError, match="nothing to roll back: the ladders decide"):
        folder.rollback(of="cascades")
    assert not list(tmp_path.glob("*.policies"))
    told = sage.status(db=tmp_path / "typo.db", models=folder.models, environment=NOTHING)
    assert "there is no log" in told.slots["decisions"].note


def test_a_promotion_that_has_to_wait_too_long_says_so(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sage.orchestrator.installed_policies.PATIENCE_S", 0.01)
    folder.promote(folder.a)
    lock = ProcessLock(InstalledPolicies(folder.db).folder / "lock")
    lock.open()
    with closing(lock), lock.taken(1), pytest.raises(ValueError, match=r"lock for 0\.01 s, and nothing was changed"):
        folder.promote(folder.b)
    assert folder.deciding() == "a"


@pytest.mark.parametrize("lost", ["checkpoint", "record"])
def test_status_says_what_decides_where_the_promoted_policy_cannot(folder: Folder, lost: str) -> None:
    folder.promote(folder.a)
    policies = InstalledPolicies(folder.db)
    installed = policies.slot("decisions").serving
    assert installed is not None
    checkpoint = policies.checkpoint(installed)
    (checkpoint if lost == "checkpoint" else record_path(checkpoint)).unlink()
    said = folder.status()
    assert (said.serves, said.by, said.since, said.live.no_gain) == (
        "static table",
        "models.yaml",
        None,
        "it does not serve",
    )
    assert f"was promoted on {installed.since}, but cannot serve" in said.note


def test_status_of_the_table_counts_the_last_days_or_since_the_rollback(folder: Folder) -> None:
    with closing(DecisionLog.open(folder.db)) as log:
        for age_days, name in ((8, "old"), (6, "new")):
            log.append(decision(name, time=time.time() - age_days * 86_400, data_source="real"))
            log.add_outcome(outcome(name, cost_usd=0.25))
    told = str(sage.status(db=folder.db, models=folder.models, environment=NOTHING))
    assert "in the last 7 days: 1 decision; 1 outcome" in told
    assert "0.2500 USD in all" in told
    folder.promote(folder.a)
    folder.rollback()
    assert folder.status().since is not None
    assert folder.status().live.decisions == 0


def test_status_counts_what_was_decided_since(folder: Folder) -> None:
    folder.promote(folder.a)
    folder.router.look_again(NOTHING)
    for number in range(60):
        made = folder.router.route(role="coder", category="x", task_id=str(number))
        folder.router.outcome(made.id, quality=float(number % 2), cost_usd=0.01)
    live = folder.status().live
    assert (live.decisions, live.by_policy, live.outcomes, live.quality) == (60, 60, 60, 0.5)
    assert live.cost_usd == pytest.approx(0.01)
    assert live.total_usd == pytest.approx(0.6)
    assert live.no_gain or live.gain
    json.dumps(sage.status(db=folder.db, models=folder.models, environment=NOTHING).to_json())


def test_status_ignores_outcomes_that_were_not_drawn_and_counts_time_outs(folder: Folder) -> None:
    """What the proxy sees of other decisions is mostly errors, so that a mean over all reports is far too low."""
    folder.models.write_text(TABLE + "outcomes: {sample: 0.3}\n")
    with Router.open(folder.db, models=folder.models, environment=NOTHING) as router:
        folder.promote(folder.a)
        router.look_again(NOTHING)
        made = [router.route(role="coder", category="x", task_id=str(number)) for number in range(120)]
        wanted = [one for one in made if one.outcome_wanted]
        for one in made:
            router.outcome(one.id, quality=float(one.outcome_wanted))
        late = next(one for one in iter(lambda: router.route(role="coder", category="x"), None) if one.outcome_wanted)
        router.outcome(late.id, timed_out=True)
    live = folder.status().live
    assert 10 < len(wanted) < 70
    assert (live.outcomes, live.quality) == (len(wanted) + 1, pytest.approx(len(wanted) / (len(wanted) + 1)))


def test_status_says_why_the_rows_since_have_no_gain(folder: Folder) -> None:
    folder.promote(folder.a)
    folder.router.look_again(NOTHING)
    for number in range(60):
        made = folder.router.route(role="coder", category="x", task_id=str(number))
        folder.router.outcome(made.id, quality=1.0, cost_usd=0.01 if number else None)
    live = folder.status().live
    assert "cost is missing in 1 of 60 rows" in live.no_gain


@pytest.mark.parametrize("quality", [1.0, 0.4])
def test_status_doctor_and_report_compare_with_the_time_before(
    folder: Folder, quality: float, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """Of 80 earlier answers of the policy's model all but one in ten were right; of 60 later ones as many, or few."""
    monkeypatch.chdir(folder.db.parent)
    before = {"data_source": "real", "candidates": ("first", "second"), "probabilities": (0.5, 0.5), "category": "x"}
    with closing(DecisionLog.open(folder.db)) as log:
        for number in range(160):
            model, name = ("first", "second")[number % 2], f"before-{number}"
            log.append(decision(name, time=time.time() - 500 + number, model=model, task_id=name, **before))
            log.add_outcome(outcome(name, time=time.time(), quality=float(number % 20 != 1)))
    folder.promote(folder.a)
    folder.router.look_again(NOTHING)
    for number in range(60):
        made = folder.router.route(role="coder", category="x", task=f"task {number}")
        assert made.model == "second"
        folder.router.outcome(made.id, quality=float(number % 10 < 10 * quality and number % 10 != 1))
    said = folder.status()
    fell = quality < 1
    assert said.worse is said.live.fell is fell
    assert said.live.trend.startswith("trend: from 20")
    assert ("consider `sage rollback`" in str(sage.status(db=folder.db, models=folder.models))) is fell
    assert main(["doctor"]) == int(fell)
    found = next(line for line in capsys.readouterr().out.splitlines() if "served: " in line)
    assert found.startswith("BAD" if fell else "ok")
    assert "trend: from 20" in found
    assert main(["report"]) == 0
    assert "Served, against its proof" in Path("report.html").read_text()
