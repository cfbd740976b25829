"""Several seeds in one folder: interrupted, finished as a whole, and summarised."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import ClassVar

import gymnasium as gym
import pytest

from rl_training.cli import main
from rl_training.cli.seeds import beside

CONFIG = f"""
algorithm: {{name: ppo, n_steps: 16, batch_size: 16, n_epochs: 1}}
env: {{id: "{__name__}:Signalling", n_envs: 1}}
training: {{total_timesteps: 64, threads: 1, compile: false}}
evaluation: {{episodes: 2}}
checkpoint: {{interval: 16}}
"""


class Signalling(gym.Wrapper):
    """Presses Ctrl-C in the middle of a run, as often as is wanted."""

    presses: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__(gym.make("CartPole-v1"))
        self.steps = 0

    def step(self, action):
        self.steps += 1
        if self.steps > 20 and signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # a run is under way
            presses, Signalling.presses = Signalling.presses, 0
            for _ in range(presses):
                os.kill(os.getpid(), signal.SIGINT)
        return super().step(action)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my.yaml").write_text(CONFIG)
    return tmp_path


def train(folder: Path, name: str, *flags: str) -> int:
    return main(["train", str(folder / "my.yaml"), "--run-dir", str(folder / name), "--quiet", *flags])


def states(folder: Path) -> dict[str, tuple]:
    results = {path.parent.name: json.loads(path.read_text()) for path in folder.glob("seed*/result.json")}
    return {name: (r["seed"], r["status"], r["total_timesteps"], r["eval_mean_return"]) for name, r in results.items()}


def test_interrupted_seeds_are_finished_and_started_by_one_resume(folder, capsys) -> None:
    assert train(folder, "undisturbed", "--seeds", "1,2") == 0
    seeds = str(folder / "seeds")
    Signalling.presses = 1
    assert train(folder, "seeds", "--seeds", "1,2") == 0
    said = capsys.readouterr().out
    assert f"continue with: rl-training resume {seeds} --trust tests\nnot begun: seed 2; it starts them too" in said
    assert list(states(folder / "seeds")) == ["seed1"]
    assert train(folder, "seeds", "--seeds", "1,2") == 2
    assert f"has seed 1 already: finish all its seeds with `rl-training resume {seeds}`" in capsys.readouterr().err
    assert main(["resume", seeds, "--trust", "tests", "--verify"]) == 2
    assert "are for one run" in capsys.readouterr().err
    assert main(["resume", seeds, "--trust", "tests", "--quiet"]) == 0
    assert states(folder / "seeds") == states(folder / "undisturbed")
    summaries = [json.loads((folder / name / "summary.json").read_text()) for name in ("seeds", "undisturbed")]
    assert summaries[0] == summaries[1]
    before = {path: path.stat().st_mtime_ns for path in (folder / "seeds").glob("seed*/result.json")}
    assert main(["resume", seeds, "--trust", "tests", "--quiet"]) == 0  # finished ones stay as they are
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_folder_without_a_list_of_seeds_is_finished_as_far_as_it_goes(folder) -> None:
    assert train(folder, "seeds", "--seeds", "1", "--stop-at", "32") == 0
    (folder / "seeds/seeds.json").unlink()
    assert main(["resume", str(folder / "seeds"), "--trust", "tests", "--quiet"]) == 0
    assert [status for _, status, _, _ in states(folder / "seeds").values()] == ["finished"]


def test_what_is_planned_runs_only_what_is_trusted(folder, capsys) -> None:
    assert train(folder, "seeds", "--seeds", "1") == 0
    planned = json.loads((folder / "seeds/seeds.json").read_text())
    planned["2"] = planned["1"] | {"env": {"id": "no_such_package:make"}}
    (folder / "seeds/seeds.json").write_text(json.dumps(planned))
    assert main(["resume", str(folder / "seeds"), "--quiet"]) == 2
    assert "names code that is not known in this process" in capsys.readouterr().err
    (folder / "seeds/seeds.json").write_text("[")
    assert main(["resume", str(folder / "seeds"), "--quiet"]) == 2
    assert "seeds.json is damaged" in capsys.readouterr().err


def test_a_second_control_c_ends_at_once_and_says_how_to_continue(folder, capsys) -> None:
    Signalling.presses = 2
    assert train(folder, "run") == 130
    said = capsys.readouterr().err
    assert f"continue with: rl-training resume {folder / 'run'} --trust tests (from its last checkpoint)" in said
    assert said.endswith("interrupted\n")
    assert main(["resume", str(folder / "run"), "--trust", "tests", "--quiet"]) == 0
    assert json.loads((folder / "run/result.json").read_text())["status"] == "finished"


def test_an_empty_run_dir_is_refused(folder, monkeypatch, capsys) -> None:
    monkeypatch.chdir(folder)
    for flags in ((), ("--seeds", "1,2")):
        assert main(["train", "my.yaml", "--run-dir", "", *flags]) == 2
        assert capsys.readouterr().err == "error: --run-dir is empty: name a folder, or leave the flag out\n"
    assert [path.name for path in folder.iterdir()] == ["my.yaml"]


def test_the_report_of_seeds_without_a_folder_stands_next_to_them() -> None:
    first = Path("runs/ppo/CartPole-v1/20261119-010312-seed3")
    assert beside(first) == Path("runs/ppo/CartPole-v1/20261119-010312-report.html")
