"""Comparison of runs as plain values."""

from __future__ import annotations

from pathlib import Path

import pytest

from rl_training import ConfigError, RunRecord, compare_runs, runs
from rl_training.evaluation import bootstrap_interval, iqm, probability_of_improvement
from tests.experiment.report.run_folders import config_of, write_run


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, level, settings in (("a", 1.0, {}), ("b", 0.98, {"gamma": 0.9, "clip": 0.2})):
        for seed in (0, 3, 4):
            write_run(tmp_path / "runs" / f"{name}{seed}", config_of(seed=seed, **settings), level=level)
    return tmp_path / "runs"


def test_groups_have_the_statistics_of_evaluation_and_settings_that_differ(root: Path) -> None:
    found = compare_runs(runs(root))
    first, second = [100.0, 103.0, 104.0], [98.0, 101.0, 102.0]
    assert found.settings == {"algorithm.gamma": [0.99, 0.9], "algorithm.clip": [None, 0.2]}
    assert [[run.name for run in group.runs] for group in found.groups] == [["a0", "a3", "a4"], ["b0", "b3", "b4"]]
    assert [(group.env, group.steps) for group in found.groups] == [("CartPole-v1", 10_000)] * 2
    for group, scores in zip(found.groups, (first, second), strict=True):
        assert group.score is not None
        assert (group.score.mean, group.score.iqm) == (pytest.approx(sum(scores) / 3), iqm(scores))
        assert (group.score.low, group.score.high) == bootstrap_interval(scores)
    (pair,) = found.pairs
    wanted = probability_of_improvement([first], [second])
    assert (pair.probability, pair.low, pair.high) == (wanted.probability, wanted.low, wanted.high)
    assert (pair.first, pair.second) == (found.groups[0].name, found.groups[1].name)
    assert found.scores == {"CartPole-v1": "mean return of the last evaluation"}
    assert found.notes == ()


def test_groups_and_settings_stay_together_where_environments_alternate(tmp_path: Path) -> None:
    for number, (env, gamma) in enumerate((("A", 0.1), ("B", 0.2), ("A", 0.3))):
        write_run(tmp_path / str(number), config_of(env=env, gamma=gamma))
    found = compare_runs(tmp_path)
    assert [group.env for group in found.groups] == ["A", "A", "B"]
    assert found.settings["env.id"] == ["A", "A", "B"]
    assert found.settings["algorithm.gamma"] == [0.1, 0.3, 0.2]


def test_runs_are_taken_as_records_paths_and_folders_and_counted_once(root: Path) -> None:
    found = compare_runs([RunRecord(root / "a0"), str(root / "a0"), root / "a3"])
    assert [group.score.count for group in found.groups if group.score] == [2]
    assert found.settings == {}
    with pytest.raises(ConfigError, match="runs is empty"):
        compare_runs([])
    with pytest.raises(ConfigError, match="does not exist"):
        compare_runs(root / "nowhere")
