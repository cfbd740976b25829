"""`rl-training import-sb3` writes a run directory that the other commands understand."""

import json
from pathlib import Path

import pytest

from rl_training.cli import main

GOLDEN = Path(__file__).parent.parent / "golden" / "sb3"


def test_an_imported_run_is_evaluated_and_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    zipped = str(GOLDEN / "ppo_cartpole.zip")
    assert main(["import-sb3", zipped, "--env", "CartPole-v1", "--out", str(run), "--set", "env.n_envs=2"]) == 0
    assert f"{run} (PPO, 8,192 steps in Stable-Baselines3)" in capsys.readouterr().out
    assert main(["eval", str(run), "--episodes", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mean"] > 50  # an untrained policy keeps the pole up for 20 steps
    assert main(["resume", str(run), "--total-timesteps", "512", "--quiet"]) == 0
    assert [path.name for path in sorted((run / "checkpoints").glob("step-*"))] == [
        "step-000000000000",
        "step-000000000512",
    ]
    (origin,) = json.loads((run / "metadata.json").read_text())["origins"]
    assert (origin["kind"], origin["stable_baselines3"], origin["timesteps"]) == ("import", "2.9.2", 8_192)
    assert main(["import-sb3", zipped, "--out", str(run)]) == 2
    assert "exists: choose another" in capsys.readouterr().err


def test_without_an_environment_it_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(tmp_path / "run")
    assert main(["import-sb3", str(GOLDEN / "a2c.zip"), "--out", run]) == 0
    assert "it has no environment yet" in capsys.readouterr().out
    assert main(["resume", run, "--quiet"]) == 2
    assert "no environment to step" in capsys.readouterr().err


def test_a_refused_archive_leaves_no_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "model.zip"
    broken.write_bytes(b"no zip")
    assert main(["import-sb3", str(broken), "--out", str(tmp_path / "run")]) == 2
    assert "is no zip archive" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
