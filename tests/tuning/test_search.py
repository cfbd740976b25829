"""Studies of tiny runs: what is found is written, and interruptions change nothing."""

import json
from pathlib import Path

import pytest

from rl_training import RunConfig, tune
from rl_training.cli import main
from rl_training.cli.tune_command import say
from rl_training.config import ConfigError, load_config_values
from rl_training.experiment import RunDirectory, load_checkpoint
from rl_training.tuning import TuneResult, study
from rl_training.tuning.job import Job, run_job
from rl_training.tuning.objective import Objective
from rl_training.tuning.runs import evaluations
from tests.tuning.in_threads import InThreads

CONFIG = """
algorithm: {name: ppo, batch_size: 16, n_epochs: 1, net_arch: [8]}
experience: {n_steps: 16}
env: {id: CartPole-v1, n_envs: 2}
training: {total_timesteps: 96, compile: false}
evaluation: {interval: 32, episodes: 2, n_envs: 2}
"""
SPACE = {"algorithm.learning_rate": "log:1e-4:1e-1", "algorithm.n_epochs": "int:1:3"}


@pytest.fixture(autouse=True)
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of a moment: a picture and TensorBoard's events would take longer than all of them."""
    monkeypatch.setattr("rl_training.experiment.run.draw_curve", lambda *_: None)
    monkeypatch.setattr("rl_training.experiment.run_callbacks.begin_tracking", lambda *_: [])


@pytest.fixture
def preset(tmp_path: Path) -> str:
    (tmp_path / "small.yaml").write_text(CONFIG)
    return str(tmp_path / "small.yaml")


def search(monkeypatch: pytest.MonkeyPatch, engine: InThreads, *arguments: object, **settings: object) -> TuneResult:
    monkeypatch.setattr(study, "open_engine", lambda *_: engine)
    return tune(*arguments, progress=False, **settings)  # pyrefly: ignore


def table(folder: Path) -> list[dict]:
    rows = json.loads((folder / "trials.json").read_text())
    return [{key: row[key] for key in ("trial", "state", "value", "params", "curve")} for row in rows]


def test_a_study_writes_the_best_preset_a_table_and_a_page(
    preset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, engine = tmp_path / "study", InThreads()
    result = search(monkeypatch, engine, preset, SPACE, trials=6, out=out, objective="best", seeds_per_trial=2)
    rows = json.loads((out / "trials.json").read_text())
    assert {"complete", "pruned"} == {row["state"] for row in rows}
    assert result.best_value == max(row["value"] for row in rows if row["value"] is not None)
    best = out / f"trials/{result.best_trial:04d}"
    first, second = (max(evaluations(run).values()) for run in sorted(best.iterdir()))
    assert result.best_value == (first + second) / 2
    assert all(
        len(list((out / f"trials/{row['trial']:04d}").iterdir())) == 1 for row in rows if row["state"] == "pruned"
    )
    seeds = [job.config["training"]["seed"] for job in engine.started]
    assert len(set(seeds)) == len(seeds)
    assert result.unused_seed > max(seeds)
    trained = RunConfig.from_mapping(load_config_values(str(out / "best.yaml")))
    assert trained.algorithm.learning_rate.initial == result.best_params["algorithm.learning_rate"]  # pyrefly: ignore
    assert (trained.env.n_envs, trained.checkpoint.interval) == (2, 50_000)
    page = (out / "report.html").read_text()
    assert page.count("<svg") == 3  # importance needs more complete trials
    assert all(text in page for text in ("History", "Parallel coordinates", "pruned by asha at step", "learning_rate"))

    before = {path: path.read_text() for path in (out / "trials.json", out / "best.yaml", out / "report.html")}
    for path in before:
        path.unlink()
    assert main(["tune", "--out", str(out), "--report"]) == 0
    assert {path: path.read_text() for path in before} == before
    assert f"rl-training train {out}/best.yaml" in capsys.readouterr().out

    again = InThreads()
    assert search(monkeypatch, again, preset, SPACE, trials=6, out=out, objective="best", seeds_per_trial=2) == result
    assert not again.started
    more = search(monkeypatch, again, preset, SPACE, trials=7, out=out, objective="best", seeds_per_trial=2)
    assert more.trials == 7


@pytest.mark.parametrize("sampler", ["tpe", "pbt"])
def test_an_interrupted_study_ends_as_one_that_never_was(
    sampler: str, preset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    monkeypatch.setattr("rl_training.tuning.page.page_of", lambda *_: "")
    asked = {"trials": 4, "sampler": sampler, "seed": 3}
    search(monkeypatch, InThreads(), preset, SPACE, out=whole, **asked)
    for patience in (1, 2, 4):
        with pytest.raises(KeyboardInterrupt):
            search(monkeypatch, InThreads(patience), preset, SPACE, out=parts, **asked)
        with (parts / "journal.jsonl").open("a") as journal:
            journal.write('{"op_code":4,"study')  # a process that was killed while it wrote
        (parts / "journal.jsonl.lock").touch()
    search(monkeypatch, InThreads(), preset, SPACE, out=parts, **asked)
    assert table(parts) == table(whole)
    if sampler == "pbt":
        check_copies(whole)


def check_copies(folder: Path) -> None:
    """Members of a population go on from better ones, exactly, with other settings."""
    rows = json.loads((folder / "trials.json").read_text())
    copies = [row for row in rows if "copies" in row["notes"]]
    assert copies
    assert sum(row["state"] == "complete" for row in rows) == 4
    for row in copies:
        run, original = RunDirectory(folder / row["run"]), rows[row["notes"]["copies"]]
        assert row["params"] != original["params"]
        until = [
            {step: mean for step, mean in evaluations(path).items() if step <= row["notes"]["since"]}
            for path in (run.path, folder / original["run"])
        ]
        assert until[0] == until[1] != {}
        rate = float(load_checkpoint(run.steps()[-1]).state["algorithm"]["optimizers.all.learning_rates.0.value"])
        assert rate == pytest.approx(row["params"]["algorithm.learning_rate"])


def test_a_grid_tries_every_point_once(preset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = ["algorithm.gamma=choice:0.9,0.99", "algorithm.batch_size=choice:16,32,64"]  # 64 is more than a rollout
    asked = {
        "sampler": "grid",
        "pruner": "none",
        "out": tmp_path / "study",
        "overrides": ["training.total_timesteps=32"],
    }
    result = search(monkeypatch, InThreads(), preset, space, **asked)
    rows = table(result.folder)
    assert sorted(tuple(row["params"].values()) for row in rows) == [
        (gamma, size) for gamma in ("0.9", "0.99") for size in ("16", "32")
    ]
    assert result.trials == 4
    page = (result.folder / "report.html").read_text()
    assert page.count("<svg") == 4
    assert "Importance" in page


def test_what_cannot_be_is_refused_before_anything_is_written(preset: str, tmp_path: Path) -> None:
    out = tmp_path / "study"
    for settings, sentence in (
        ({"params": {"algorithm.gama": "lin:0.9:1"}}, "did you mean 'gamma'"),
        ({"params": SPACE, "sampler": "grid"}, "has no points, which a grid needs"),
        ({"params": {"experience.n_steps": "int:8:16"}, "sampler": "pbt"}, "cannot change during a run"),
        ({"params": {"algorithm.net_arch": "choice:[8],[16]"}, "sampler": "pbt"}, "cannot change during a run"),
        ({"sampler": "tpee"}, "did you mean 'tpe'"),
        ({"sampler": "pbt", "trials": 1}, "size of the population"),
        ({"objective": "mean"}, "is not known: use last"),
        ({"jobs": 0}, "jobs=0 must be a whole number, at least 1"),
        ({"seed": -1}, "seed=-1 must be a whole number, at least 0"),
    ):
        with pytest.raises(ConfigError) as error:
            tune(preset, out=out, **settings)  # pyrefly: ignore
        assert sentence in str(error.value)
    assert not out.exists()


def test_another_study_in_the_same_folder_is_refused(
    preset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"trials": 1, "out": tmp_path / "study", "overrides": ["training.total_timesteps=32"]}
    search(monkeypatch, InThreads(), preset, SPACE, **asked)
    with pytest.raises(ConfigError, match=r"with seed=0, and you ask for 1: choose another folder, --out"):
        search(monkeypatch, InThreads(), preset, SPACE, seed=1, **asked)
    with study.held(tmp_path / "study"), pytest.raises(ConfigError, match="is in use by process"):
        search(monkeypatch, InThreads(), preset, SPACE, **asked)
    with pytest.raises(ConfigError, match="is not empty and holds no study"):
        search(monkeypatch, InThreads(), preset, SPACE, out=tmp_path)


def test_trials_that_fail_end_the_study_and_those_that_diverge_do_not(
    preset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ["training.total_timesteps=64", "algorithm.max_grad_norm=null", "algorithm.n_epochs=8"]
    space = {"algorithm.learning_rate": "log:1e30:1e36"}
    result = search(monkeypatch, InThreads(), preset, space, trials=2, out=tmp_path / "wild", overrides=settings)
    rows = json.loads((result.folder / "trials.json").read_text())
    assert (result.best_trial, result.preset) == (None, None)
    assert [row["state"] for row in rows] == ["pruned"] * 2
    assert all(row["notes"]["reason"].startswith("diverged") for row in rows)
    with pytest.raises(ConfigError, match=r"the first 3 trials failed, the last because .*size"):
        search(monkeypatch, InThreads(), preset, SPACE, out=tmp_path / "cut", overrides=["env.kwargs={size: 2}"])


def test_the_objective_is_of_the_last_or_best_evaluations() -> None:
    evaluations = {300: 3.0, 100: 9.0, 200: 5.0}
    values = {text: Objective.parse(text).of(evaluations) for text in ("last", "last:2", "last:9", "best")}
    assert values == {"last": 3.0, "last:2": 4.0, "last:9": pytest.approx(17 / 3), "best": 9.0}


def test_a_killed_run_goes_on_from_its_checkpoint(preset: str, tmp_path: Path) -> None:
    """Also one that was killed before its folder was complete."""
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    job = Job(0, str(tmp_path / "run"), load_config_values(preset))
    seen: list[int] = []
    assert run_job(job, lambda step, mean: seen.append(step) or ("SIGTERM" if step == 64 else None)).status == "paused"
    assert run_job(job, lambda step, mean: seen.append(step)).status == "finished"
    assert seen == [32, 64, 96]


def test_a_search_that_finds_nothing_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nothing = TuneResult(tmp_path, 2, None, None, {}, None, tmp_path / "report.html", 2)
    assert say(nothing) == 1
    assert "2 trials, none is complete" in capsys.readouterr().out
