"""`sage.train`: the same policy as from the command line, whatever form the log has."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import sage
from sage.cli import main
from sage.cli.main import build_parser
from sage.evidence.selection import Selection
from sage.log.decision_log import DecisionLog
from sage.pipeline.choices import CASCADE_LEARNERS, CASCADE_METHODS, LEARNERS
from sage.pipeline.training import TrainedPolicy
from sage.pipeline.training_options import TrainingOptions
from sage.policies.checkpoint import load_policy
from sage.policies.learned_policy import hash_tasks
from sage.rl.cascades import cascade_selection
from sage.rl.replay import append_to_log
from tests.sage.rl.made_logs import made_log

ROWS = 400


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """This folder, with a log and its export."""
    monkeypatch.chdir(tmp_path)
    with closing(DecisionLog.open("sage.db")) as log:
        append_to_log(log, made_log(ROWS), "s")
    assert main(["rl", "export", "--output", "rows.jsonl"]) == 0
    return tmp_path


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_call_and_the_command_learn_the_same(folder, capsys, learner):
    few = {"updates": 5} if learner in ("bc", "cql") else {}
    words = [f"--{name}={value}" for name, value in few.items()]
    assert main(["rl", f"train-{learner}", "--data", "rows.jsonl", "--out", "c.bin", "--json", *words]) == 0
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    trained = sage.train("sage.db", learner=learner, out="p.bin", **few)
    assert trained.to_json() | {"checkpoint": "c.bin"} == printed
    assert load_policy("p.bin").version == load_policy("c.bin").version == trained.policy.version
    assert str(trained).startswith(f"p.bin: {trained.policy.name} {trained.policy.version} from ")


def test_a_checkpoint_knows_the_tasks_that_it_was_learned_from(folder):
    log = made_log(ROWS)
    trained = sage.train(log, out="p.bin", holdout=0.3, seed=5)
    assert isinstance(trained, TrainedPolicy)
    part, _ = log.split_by_task(0.7, 5)
    assert trained.num_tasks == len(part) == 280
    assert trained.policy.training.num_rows == 280
    assert np.array_equal(load_policy("p.bin").training.task_hashes, hash_tasks(part.contexts.task_id))


def test_only_the_tenants_rows_are_learned_from(folder):
    trained = sage.train("sage.db", out="p.bin", tenants="default", sources="operator")
    assert trained.selection == "of tenant default alone and judged by operator alone (nothing dropped)"
    assert str(trained).splitlines()[0].endswith(f"; {trained.selection}")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"learner": "ppo"}, "learner='ppo' must be one of table, dr, bc, cql, text, cascade, cascade-fitted-q"),
        ({"holdout": 1}, "holdout=1 must lie between 0 and 1"),
        ({"seed": -1}, "seed=-1 must be a whole number"),
        ({"updates": 0, "learner": "bc"}, "updates=0 must be 1 or more"),
        ({"updates": 5}, "updates=5 is for learner bc or cql, and learner='dr': leave it out"),
        ({"price": 0.1}, "price=0.1 is for learner cascade or cascade-fitted-q"),
        ({"price": float("nan"), "learner": "cascade"}, "price=nan must be a finite number"),
        ({"embed": "m.onnx", "learner": "text"}, "embed and tokenizer belong together"),
        ({"embed": "m.onnx"}, "embed=m.onnx is for learner text"),
        ({"sources": "me"}, "source='me' must be one of"),
        ({"models": "no.yaml"}, "no.yaml: there is no such file"),
    ],
)
def test_a_wrong_argument_is_named_and_nothing_is_written(folder, given, sentence):
    with pytest.raises(ValueError) as error:  # noqa: PT011 (its text is asked for)
        sage.train("rows.jsonl", out="p.bin", **given)
    assert str(error.value).startswith(sentence)
    assert not (folder / "p.bin").exists()


def test_commands_and_calls_have_the_same_learners():
    parser = build_parser(["rl"])
    for name in LEARNERS:
        options = parser.parse_args(["rl", f"train-{name}", "--data", "d", "--out", "o"])
        assert (options.learner, options.action) == (name, f"train-{name}")
    assert set(CASCADE_METHODS) == set(cascade_selection.LEARNERS)
    assert ("cascade", *(f"cascade-{name}" for name in CASCADE_METHODS)) == CASCADE_LEARNERS


def test_options_of_cascades(tmp_path):
    assert {name: options(name).cascade_method for name in CASCADE_LEARNERS} == {
        "cascade": None,
        "cascade-fitted-q": "fitted-q",
        "cascade-fitted-q-wide": "fitted-q-wide",
        "cascade-dqn": "dqn",
    }
    assert not options("dr").cascade


def options(learner: str) -> TrainingOptions:
    nothing = dict.fromkeys(("models", "updates", "embed", "tokenizer", "price"))
    return TrainingOptions(learner=learner, out=Path("p"), holdout=0.4, seed=0, selection=Selection(), **nothing)
