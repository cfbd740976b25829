"""The commands about datasets, through `main`: what they print, write and return."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rl_training import Dataset
from rl_training.cli import main
from tests.data.making import make
from tests.offline import cloned, cql, rlpd, steps_of


@pytest.fixture
def file(tmp_path: Path) -> str:
    steps_of("CartPole-v1").save(tmp_path / "data.npz")
    return str(tmp_path / "data.npz")


def said(capsys, *arguments: str, code: int = 0) -> str:
    """Standard output of a command that must end with `code`; of one that fails, standard error."""
    assert main(list(arguments)) == code
    printed = capsys.readouterr()
    return printed.err if code == 2 else printed.out


@pytest.mark.parametrize("suffix", ["npz", "parquet", "jsonl", "hdf5"])
def test_make_writes_the_format_of_the_suffix(suffix: str, tmp_path: Path, capsys) -> None:
    out = tmp_path / f"made.{suffix}"
    command = ["data", "make", "--env", "CartPole-v1", "--policy", "random", "--steps", "2e2", "--seed", "4"]
    text = said(capsys, *command, "--out", str(out))
    made = Dataset.open(out)
    assert text.startswith(
        f"wrote {out}: 200 steps in {len(made.returns)} episodes, mean return {made.returns.mean():.1f}"
    )
    assert len(made) == 200
    assert made.provenance.seed == 4
    np.testing.assert_allclose(made.log_prob, np.log(0.5), rtol=1e-6)
    assert "exists: choose another name, or delete it first" in said(capsys, *command, "--out", str(out), code=2)


def test_make_mixes_policies(tmp_path: Path, capsys) -> None:
    cloned().save(tmp_path / "bc")
    out = str(tmp_path / "mixed.npz")
    policies = ["--policy", "random=0.5", "--policy", f"{tmp_path / 'bc'}=0.5"]
    said(capsys, "data", "make", "--env", "CartPole-v1", *policies, "--steps", "80", "--out", out)
    assert np.bincount(Dataset.open(out).extras["policy"]).tolist() == [40, 40]


def test_make_says_what_is_wrong_and_writes_nothing(tmp_path: Path, capsys) -> None:
    out = tmp_path / "made.npz"
    rest = ["--steps", "40", "--out", str(out)]
    wrong = said(capsys, "data", "make", "--env", "CartPole-v1", "--policy", "random=0.4", *rest, code=2)
    assert wrong.startswith("error: the shares of random=0.4 add up to 0.4")
    wrong = said(capsys, "data", "make", "--env", "Nothing-v0", "--policy", "random", *rest, code=2)
    assert "Nothing" in wrong
    assert not out.exists()


def test_lint_of_a_good_file(file: str, capsys) -> None:
    assert said(capsys, "data", "lint", file) == f"no findings in {file}\n"
    assert json.loads(said(capsys, "data", "lint", file, "--json")) == []
    assert "episodes are longer than the time limit of 5 steps" in said(
        capsys, "data", "lint", file, "--time-limit", "5", code=1
    )


def test_lint_of_a_bad_file(tmp_path: Path, capsys) -> None:
    data = make("box", "discrete", stored=True)
    reward = data.reward.copy()
    reward[3] = np.nan
    bad = Dataset(data.columns._replace(reward=reward), data.spec)
    bad.save(tmp_path / "bad.npz")
    text = said(capsys, "data", "lint", str(tmp_path / "bad.npz"), code=1)
    assert "nan" in text.lower()
    found = json.loads(said(capsys, "data", "lint", str(tmp_path / "bad.npz"), "--json", code=1))
    assert "error" in {finding["severity"] for finding in found}
    assert f"{len(found)} finding" in text
    text = said(capsys, "data", "lint", str(tmp_path / "nowhere.npz"), code=1)
    assert "nowhere.npz: there is no such file" in text


def test_info(file: str, capsys) -> None:
    data = steps_of("CartPole-v1")
    known = json.loads(said(capsys, "data", "info", file, "--json"))
    assert (known["rows"], known["episodes"], known["sha256"]) == (400, len(data.returns), data.sha256)
    assert known["spec"]["action"] == data.spec.to_json()["action"]
    assert known["spec"]["obs"]["high"][:2] == [pytest.approx(4.8), None]  # JSON has no word for infinity
    assert known["columns"]["action"] == ["int64", 400]
    text = said(capsys, "data", "info", file)
    assert "rows: 400" in text.splitlines()
    assert f"sha256: {data.sha256}" in text


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "hdf5", "minari", "columns"])
def test_convert(suffix: str, file: str, tmp_path: Path, capsys) -> None:
    target = tmp_path / (f"other.{suffix}" if suffix != "columns" else "columns")
    assert said(capsys, "data", "convert", file, str(target)) == f"wrote {target}: 400 steps\n"
    ours, theirs = Dataset.open(file), Dataset.open(target)
    rows = np.arange(400)
    for name in ("action", "reward", "terminated", "truncated", "log_prob"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    np.testing.assert_array_equal(ours.obs, theirs.obs)
    np.testing.assert_array_equal(ours.successors(rows), theirs.successors(rows))
    assert theirs.spec == ours.spec
    assert "exists: choose another name" in said(capsys, "data", "convert", file, str(target), code=2)


def test_ope_prints_a_report(tmp_path: Path, capsys) -> None:
    """A policy that acts as the data do, at random: its value is the data's mean return."""
    cloned(learning_rate=1e-8).save(tmp_path / "bc")
    steps_of("CartPole-v1", 4_000).save(tmp_path / "data.npz")
    mean = steps_of("CartPole-v1", 4_000).returns.mean()
    command = ["ope", str(tmp_path / "bc"), "--data", str(tmp_path / "data.npz"), "--updates", "0", "--gamma", "1"]
    report = json.loads(said(capsys, *command, "--json"))
    assert report["estimator"] == "weighted per-decision IS"
    assert report["refusal"] is None
    assert report["value"] == pytest.approx(mean, rel=0.05)
    assert report["interval"]["low"] < mean < report["interval"]["high"]
    assert report["interval"]["level"] == 0.95
    assert (report["gamma"], report["logged_return"]) == (1.0, pytest.approx(mean))
    text = said(capsys, *command, "--level", "0.9")
    assert "* weighted per-decision IS" in text
    assert text.startswith(
        "expected return per episode, discounted with gamma=1\nthe data's own mean return, discounted"
    )
    assert "90 %" in text


def test_ope_ranks_by_a_criterion(tmp_path: Path, file: str, capsys) -> None:
    paths = [str(tmp_path / name) for name in "ab"]
    for seed, path in enumerate(paths):
        cql(seed=seed).save(path)
    command = ["ope", *paths, "--data", file, "--criterion", "soft_opc", "--success", "0.5", "--level", "0.9"]
    found = json.loads(said(capsys, *command, "--json"))
    assert sorted(found["paths"]) == paths
    assert (found["criterion"], found["level"], len(found["intervals"])) == ("soft_opc", 0.9, 2)
    assert "soft_opc" in said(capsys, *command)
    assert "criterion='best' is not known" in said(capsys, "ope", *paths, "--data", file, "--criterion", "best", code=2)


def test_ope_refuses_in_its_report(tmp_path: Path, capsys) -> None:
    rlpd().save(tmp_path / "rlpd")
    steps_of("Pendulum-v1").save(tmp_path / "data.npz")
    command = ["ope", str(tmp_path / "rlpd"), "--data", str(tmp_path / "data.npz"), "--deterministic", "--json"]
    assert main(command) == 0
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    assert report["refusal"].startswith("a deterministic policy gives continuous actions no density")
    assert (report["rows"], report["value"]) == ([], None)
    assert printed.err == "no estimate: the data do not support one\n"


def test_ope_ranks(file: str, tmp_path: Path, capsys) -> None:
    paths = [str(tmp_path / name) for name in ("a", "b")]
    for path, seed in zip(paths, (0, 1), strict=True):
        cloned(seed=seed).save(path)
    command = ["ope", *paths, "--data", file, "--updates", "20"]
    found = json.loads(said(capsys, *command, "--rank", "--truth-episodes", "2", "--json"))
    assert sorted(found["paths"]) == paths
    assert found["estimates"] == sorted(found["estimates"], reverse=True)
    assert found["regret"] == max(found["returns"]) - found["returns"][0]
    assert "2 policies: give one, or rank them with --rank" in said(capsys, *command, code=2)
    assert "ranking needs at least two" in said(capsys, "ope", paths[0], "--data", file, "--rank", code=2)


def test_ope_of_data_that_do_not_fit(tmp_path: Path, capsys) -> None:
    cloned().save(tmp_path / "bc")
    steps_of("Pendulum-v1").save(tmp_path / "data.npz")
    wrong = said(capsys, "ope", str(tmp_path / "bc"), "--data", str(tmp_path / "data.npz"), code=2)
    assert wrong.startswith(
        "error: the dataset's observations are Box(3,) float32, those of CartPole-v1 are Box(4,) float32"
    )


def test_info_is_json_for_every_reader(file: str, capsys) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    json.loads(said(capsys, "data", "info", file, "--json"), parse_constant=refuse)


def test_make_like_asks_for_what_it_needs(tmp_path: Path, capsys) -> None:
    make_command = ["data", "make", "--env", "Hopper-v5", "--out", str(tmp_path / "a.npz")]
    wrong = {
        "--policy is missing": [],
        "--steps is missing": ["--policy", "random"],
        "--score is for --like": ["--policy", "random", "--steps", "10", "--score", "30"],
        "--policy random with --like medium": ["--policy", "random", "--like", "medium"],
        "like='medium' needs steps": ["--like", "medium"],
        "like='good' is not known": ["--like", "good"],
        "reference scores 5.0 and 1.0: give two numbers": ["--like", "medium", "--reference", "5", "1"],
    }
    for sentence, flags in wrong.items():
        assert sentence in said(capsys, *make_command, *flags, code=2)
    assert not list(tmp_path.iterdir())
