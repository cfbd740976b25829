"""`rl-training runs`: list, show, compare and rm."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rl_base import file_lock
from rl_training.cli import main
from rl_training.experiment.run_directory import held
from tests import needs
from tests.experiment.report.run_folders import config_of, write_run

Said = Callable[..., str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with runs of two algorithms and a failed one below it, in which commands are called."""
    for name, level in (("ppo", 1.0), ("dqn", 0.5)):
        for seed in (0, 1):
            result = {"eval_mean_return": 100 * level + seed}
            write_run(tmp_path / "runs" / name / f"seed{seed}", config_of(name, seed=seed), level=level, result=result)
    failure = {"status": "failed", "reason": "ValueError: no", "eval_mean_return": None}
    write_run(tmp_path / "runs" / "failed", config_of(seed=9), until=2_000, metrics=[], result=failure)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """Calls `rl-training runs` and returns what it printed; on standard error, if it is to fail."""

    def call(*words: str, code: int = 0) -> str:
        assert main(["runs", *words]) == code
        output = capsys.readouterr()
        assert bool(output.err) is (code == 2)
        return output.err if code == 2 else output.out

    return call


def test_runs_are_listed_filtered_and_sorted(folder: Path, said: Said) -> None:
    head, *rows = said("list", "--where", "score>50", "--sort", "score", "--reverse").splitlines()
    assert head.split() == ["run", "status", "algorithm", "env", "seed", "steps", "score", "seconds"]
    assert [row.split()[0] for row in rows] == ["ppo/seed1", "ppo/seed0", "dqn/seed1"]
    assert rows[0].split() == ["ppo/seed1", "finished", "ppo", "CartPole-v1", "1", "10,000", "101", "12.5"]
    columns = said("list", "--columns", "run,algorithm.gamma,score", "--where", "algorithm=ppo", "--sort", "run")
    assert [line.split() for line in columns.splitlines()[1:]] == [
        ["failed", "0.99", "-"], ["ppo/seed0", "0.99", "100"], ["ppo/seed1", "0.99", "101"],
    ]  # fmt: skip


def test_json_and_csv_have_every_column(folder: Path, said: Said) -> None:
    listed = json.loads(said("list", "--sort", "run", "--json"))
    assert [one["run"] for one in listed] == ["dqn/seed0", "dqn/seed1", "failed", "ppo/seed0", "ppo/seed1"]
    assert (listed[2]["status"], listed[2]["reason"], listed[2]["score"]) == ("failed", "ValueError: no", None)
    rows = list(csv.DictReader(io.StringIO(said("list", "--sort", "run", "--csv"))))
    assert [{name: value or None for name, value in row.items()} for row in rows] == [
        {name: None if value is None else str(value) for name, value in one.items()} for one in listed
    ]


def test_numbers_that_are_not_finite_are_null(folder: Path, said: Said) -> None:
    write_run(folder / "diverged", config_of(), result={"eval_mean_return": float("nan")})
    assert json.loads(said("list", "--where", "run=diverged", "--json"))[0]["score"] is None
    assert json.loads(said("show", "diverged", "--json"))["result"]["eval_mean_return"] is None


def test_a_run_is_shown_by_its_name_or_path(folder: Path, said: Said) -> None:
    text = said("show", "ppo/seed1")
    assert text == said("show", "runs/ppo/seed1")
    assert "folder        runs/ppo/seed1\n" in said("show", "runs/ppo/seed1", "--root", "elsewhere")
    for line in (
        "status        finished",
        "versions      torch 2.13.0",
        "checkpoints   step-000000010000",
        "run           ppo/seed1",
    ):
        assert line in text
    assert text.split("last evaluations\n")[1].splitlines()[5].split() == ["10,000", "101", "-"]
    assert "algorithm.gamma: 0.99\n" in text
    record = json.loads(said("show", "ppo/seed1", "--json"))
    assert (record["config"]["training"]["seed"], len(record["evaluations"])) == (1, 10)


def test_groups_are_compared(folder: Path, said: Said) -> None:
    text = said("compare", "ppo", "runs/dqn")
    lines = [line.split() for line in text.splitlines()]
    assert lines[:3] == [
        ["group", "env", "runs", "steps", "mean", "std", "median", "iqm", "low", "high"],
        ["dqn", "CartPole-v1", "2", "10,000", "50.5", "0.7071", "50.5", "50.5", "50", "51"],
        ["ppo", "CartPole-v1", "2", "10,000", "100.5", "0.7071", "100.5", "100.5", "100", "101"],
    ]
    assert "ppo > dqn: probability 1.00 (1.00 to 1.00)" in text
    assert ["algorithm.name", "dqn", "ppo"] in lines
    rows = list(csv.DictReader(io.StringIO(said("compare", "--where", "status=finished", "--csv"))))
    assert [(row["group"], row["iqm"], row["algorithm.name"]) for row in rows] == [
        ("dqn", "50.5", "dqn"),
        ("ppo", "100.5", "ppo"),
    ]
    values = json.loads(said("compare", "--json"))
    assert values["pairs"][0] | {"p": 0} == {
        "first": "ppo",
        "second": "dqn",
        "probability": 1,
        "low": 1,
        "high": 1,
        "p": 0,
    }
    assert "ppo: seed 9 has no score yet and does not count." in values["notes"]
    assert "These runs differ in training.seed alone." in said("compare", "ppo")


def test_an_empty_root_says_what_to_do(tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "there is no folder runs here, so there are no runs: train one with `rl-training train" in said("list")
    assert json.loads(said("list", "--json")) == []
    (tmp_path / "runs").mkdir()
    assert "there are no runs in runs: train one with" in said("list", "--where", "score>1")
    assert "there are no runs in runs" in said("compare", code=2)
    assert "nowhere is not a folder" in said("list", "--root", "nowhere", code=2)
    write_run(tmp_path / "runs" / "a", config_of())
    assert said("list", "--where", "seed=7").strip() == "none of the 1 runs in runs fulfils 'seed=7'"


def test_runs_are_removed_after_asking(folder: Path, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    for answer, code in (("n\n", 1), ("\n", 1), ("", 2)):
        monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
        assert "nothing was removed" in said("rm", "ppo/seed0", code=code)
    assert len(json.loads(said("list", "--json"))) == 5
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert said("rm", "ppo/seed0", "runs/ppo/seed1").endswith("remove 2 runs with all files? [y/N] removed 2 runs\n")
    assert said("rm", "--where", "status=failed", "--yes").endswith("removed 1 run\n")
    assert [one["run"] for one in json.loads(said("list", "--json"))] == ["dqn/seed0", "dqn/seed1"]
    assert sorted(os.listdir(folder)) == ["dqn", "ppo"]


@pytest.mark.skipif(file_lock.fcntl is None, reason=needs.FCNTL)
def test_rm_refuses_what_is_no_run_below_the_root(folder: Path, said: Said) -> None:
    outside = write_run(folder.parent / "outside" / "run", config_of())
    (folder / "link").symlink_to(outside.parent)
    (folder / "notes").mkdir()
    for words, sentence in (
        ([], "name the runs to remove, or choose them with --where"),
        (["ppo"], "ppo is a folder with 2 runs, not a run"),
        (["notes"], "notes is no run directory below runs"),
        (["link/run"], "link/run is no run directory below runs, or is reached by a link"),
        (["runs/link"], "is no run directory below runs"),
        (["../outside/run"], "is no run directory below runs"),
        ([str(outside)], "is no run directory below runs"),
        (["ppo/seed0", "seed0"], "there is no run seed0 below runs"),
        (["--where", "sed=1"], "--where: no run has a field 'sed': did you mean 'seed'"),
    ):
        assert sentence in said("rm", *words, "--yes", code=2)
    with held(folder / "ppo" / "seed0", "it", "wait"):
        assert "is running: stop it first" in said("rm", "--where", "algorithm=ppo", "--yes", code=2)
    assert len(json.loads(said("list", "--json"))) == 5
    assert (outside / "config.yaml").exists()


def test_a_list_needs_no_torch(folder: Path) -> None:
    code = "import sys; from rl_training.cli import main; main(['runs', 'list']); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 7
    assert done.stdout.endswith("False\n")
