"""Studies whose trials train as stacks end as those whose trials train alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from rl_training import ConfigError, tune
from rl_training.tuning import stacks
from tests.tuning.in_threads import InThreads
from tests.tuning.test_search import CONFIG, search, table, without_pictures

__all__ = ["without_pictures"]  # a fixture for all tests here
NATIVE = CONFIG.replace("n_envs: 2}\ntraining", "n_envs: 2, backend: native}\ntraining")
SPACE = {"algorithm.learning_rate": "log:1e-4:1e-1", "algorithm.gamma": "lin:0.9:0.99"}


@pytest.fixture
def preset(tmp_path: Path) -> str:
    (tmp_path / "small.yaml").write_text(NATIVE)
    return str(tmp_path / "small.yaml")


@pytest.mark.parametrize(
    ("sampler", "space"),
    [("random", SPACE | {"algorithm.n_epochs": "int:1:2"}), ("pbt", SPACE)],
)
def test_trials_in_stacks_are_those_that_train_alone(
    sampler: str, space: dict, preset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"trials": 4, "sampler": sampler, "pruner": "none", "seed": 3}
    sizes, build = [], stacks.Stacked.__init__
    monkeypatch.setattr(
        stacks.Stacked, "__init__", lambda self, agents: sizes.append(len(agents)) or build(self, agents)
    )
    tune(preset, space, out=tmp_path / "stacks", engine="stacked", jobs=4, progress=False, **asked)
    search(monkeypatch, InThreads(), preset, space, out=tmp_path / "alone", **asked)
    assert max(sizes) > 1
    mine, theirs = table(tmp_path / "stacks"), table(tmp_path / "alone")
    assert [row["params"] for row in mine] == [row["params"] for row in theirs]
    assert [row["state"] for row in mine] == [row["state"] for row in theirs]
    for row, other in zip(mine, theirs, strict=True):
        assert row["value"] == pytest.approx(other["value"])
        assert [point for _, point in row["curve"]] == pytest.approx([point for _, point in other["curve"]])


def test_an_interrupted_study_of_stacks_goes_on(preset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"trials": 2, "sampler": "random", "seed": 3, "out": tmp_path / "study", "progress": False}
    asked |= {"engine": "stacked", "jobs": 2}
    hear, heard = stacks.Stacks.next_event, []

    def interrupted(self: stacks.Stacks):
        heard.append(hear(self))
        if len(heard) == 2:
            raise KeyboardInterrupt
        return heard[-1]

    monkeypatch.setattr(stacks.Stacks, "next_event", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tune(preset, SPACE, **asked)
    assert len(list((tmp_path / "study").glob("trials/*/seed*/checkpoints/step-*"))) == 2  # both are paused
    tune(preset, SPACE, **asked)
    assert {row["state"] for row in table(tmp_path / "study")} <= {"complete", "pruned"}


@pytest.mark.parametrize(
    ("config", "jobs", "said"),
    [
        (NATIVE, 1, "--jobs is 1: give e.g. --jobs 8"),
        (CONFIG, 2, "--stacked: env.id='CartPole-v1' is stepped on the host"),
    ],
)
def test_what_cannot_be_stacked_is_refused(config: str, jobs: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(config)
    with pytest.raises(ConfigError, match=said):
        tune(str(tmp_path / "small.yaml"), SPACE, engine="stacked", jobs=jobs, out=tmp_path / "study")
