"""A logged decision repeats bit for bit, whoever made it, and what has changed since is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sage import Router
from sage.cli import main
from sage.log.records import Decision
from sage.orchestrator.explanation import Explanation, explain
from sage.orchestrator.guard import Hold, Serving
from sage.orchestrator.models_file import ModelsFile
from sage.orchestrator.promotion import Served
from sage.policies.checkpoint import load_policy, save_policy
from sage.policies.learned_policy import LearnedPolicy
from tests.sage.examples import parsed, written
from tests.sage.orchestrator.fixed_policy import FixedPolicy

STORED = "log: {store_prompts: true, store_words: true}\n"
EXPLORES = "exploration: {share: 0.3, shadow: 0.2}\n"
TASK = "Traceback (most recent call last):\n  File 'a.py'\nrepair it"
CASCADE = "cascade:\n  coder: {ladder: [small, medium, large]}\n"


def routed(folder: Path, extra: str = EXPLORES, policy: FixedPolicy | None = None, **request: object) -> Decision:
    asked = {"role": "coder", "task": TASK} | request
    with Router.open(folder / "sage.db", models=written(folder, extra), environment={}, seed=1) as router:
        router.served = Served(policy)
        return router.log.decision(router.route(**asked).id)  # pyrefly: ignore


@pytest.mark.parametrize(
    ("extra", "request_fields"),
    [
        ("", {}),
        (EXPLORES, {"past_failures": 3, "category": "repair"}),
        (EXPLORES + STORED, {"past_failures": 2, "probe_calls": 7, "probe_cost_usd": 0.017, "probe_verified": False}),
        (STORED, {"task": "x" * 30_000}),
        ("guard: {max_latency_s: 1}\n", {}),
        ("exploration: {share: 0.5, among: [small, large]}\n", {}),
    ],
)
def test_the_tables_decisions_repeat(tmp_path: Path, extra: str, request_fields: dict) -> None:
    made = routed(tmp_path, extra, **request_fields)
    found = explain(made, parsed(extra))
    assert found.differences == ()
    assert found.repeated == made.probabilities
    assert found.tier.startswith("static table")
    assert found.seen == ("the stored text" if STORED in extra else "the log, which does not store the text")


def test_a_policys_decisions_repeat_and_others_say_what_they_would_have_done(tmp_path: Path) -> None:
    policy = FixedPolicy({"small": 0.25, "large": 0.75}, sure=0.95)
    unsure = FixedPolicy({"medium": 1.0}, sure=0.1)
    made = routed(tmp_path, policy=policy)
    found = explain(made, parsed(EXPLORES), [policy, unsure])
    assert (found.differences, found.tier) == ((), "learned policy")
    static, itself, other = found.alternatives
    assert itself.probabilities == made.probabilities
    assert static.probabilities == other.probabilities  # below the floor the table answers
    assert static.probabilities != made.probabilities
    assert "below the floor" in other.note
    [missing] = explain(made, parsed(EXPLORES)).differences
    assert "give its checkpoint with --policy" in missing


def test_an_unsure_policy_leaves_it_to_the_table_again(tmp_path: Path) -> None:
    made = routed(tmp_path, policy=FixedPolicy({"large": 1.0}, sure=0.5))
    assert made.verdict == "low_confidence"
    found = explain(made, parsed(EXPLORES))
    assert (found.differences, found.repeated) == ((), made.probabilities)


def test_a_session_that_was_held_repeats(tmp_path: Path) -> None:
    hold = Hold(model="large", cached_tokens=1e6, gain_usd=0.0, follows="d0")
    table = "  large: {input_usd_per_mtok: 15, cached_input_usd_per_mtok: 1.5, output_usd_per_mtok: 75}\n"
    path = written(tmp_path)
    path.write_text("".join(table if "large: {" in line else line for line in path.read_text().splitlines(True)))
    with Router.open(tmp_path / "sage.db", models=path, environment={}) as router:
        made = router.route(role="coder", serving=Serving(hold=hold, tokens=1e6))
    assert made.verdict == "held"
    found = explain(made, ModelsFile.read(path))
    assert (found.differences, found.tier) == ((), "the session's cache, after decision d0 drew it")
    assert made.fallbacks == ("medium",)  # small has no room for so long a text
    assert found.repeated == found.alternatives[0].probabilities == (1.0,)


def test_steps_of_a_cascade_repeat(tmp_path: Path) -> None:
    extra = EXPLORES + CASCADE
    with Router.open(tmp_path / "sage.db", models=written(tmp_path, extra), environment={}, seed=3) as router:
        task = router.cascade(role="coder", task=TASK)
        while (step := task.next()) is not None:
            router.outcome(step.id, cost_usd=0.01, verdicts={"tests": False})
        steps = [made for made, _ in router.log.cascade(task.id)]
    assert len(steps) > 1
    for made in steps:
        found = explain(made, parsed(extra))
        assert (found.differences, found.repeated) == ((), made.probabilities)
        assert found.tier == "ladder of the cascade"


def differs(found: Explanation, sentence: str) -> bool:
    return any(sentence in difference for difference in found.differences)


def test_what_has_changed_is_said(tmp_path: Path) -> None:
    made = routed(tmp_path, EXPLORES + STORED)
    changed = explain(made, parsed("exploration: 0.2\n"))
    assert differs(changed, "models.yaml has changed")
    assert differs(changed, "probabilities differ by up to")
    without = ModelsFile.parse((tmp_path / "models.yaml").read_text().replace("medium", "other"))
    assert differs(explain(made, without), "models.yaml has no medium any more")
    forged = Decision(**vars(made) | {"prompt": "another text"})
    assert differs(explain(forged, parsed(EXPLORES)), "log_characters, log_lines")
    secret = Decision(**vars(made) | {"prompt": "use [secret removed]"})
    assert explain(secret, parsed(EXPLORES)).seen.startswith("the log, as a secret was removed")


def test_a_bandit_cannot_be_repeated(tmp_path: Path) -> None:
    extra = "bandit: {kind: ucb1}\n"
    found = explain(routed(tmp_path, extra), parsed(extra))
    assert found.tier == "bandit"
    assert differs(found, "learns as it serves")


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], learned: LearnedPolicy
) -> None:
    monkeypatch.chdir(tmp_path)
    save_policy("policy.bin", learned)
    policy = load_policy("policy.bin")
    made = routed(tmp_path, policy=policy)  # pyrefly: ignore
    assert main(["explain", made.id, "--policy", "policy.bin"]) == 0
    assert "the decision repeats bit for bit" in capsys.readouterr().out
    assert main(["explain", made.id, "--policy", "policy.bin", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["repeated"] == list(made.probabilities)
    assert [alternative["name"] for alternative in shown["alternatives"]] == ["static", policy.name]
    written(tmp_path, "exploration: 0.1\n")
    assert main(["explain", made.id, "--policy", "policy.bin"]) == 1
    assert "DIFFERENT: probabilities differ" in capsys.readouterr().out
    assert main(["explain", "nothing"]) == 2
    assert main(["explain", made.id, "--policy", "models.yaml"]) == 2


@pytest.fixture
def learned() -> LearnedPolicy:
    from sage.rl.collect_synth import collect_synthetic
    from sage.rl.train_cql import train_cql

    return train_cql(collect_synthetic(200, models=("small", "medium", "large")), updates=2)
