"""Removal of run directories: only of those, whole, and never through a link."""

from __future__ import annotations

from pathlib import Path

import pytest

import rl_training
from rl_base import file_lock
from rl_training.experiment import RunRecord, remove_runs, runs
from rl_training.experiment.run_directory import held
from rl_training.experiment.run_removal import size_of
from tests import needs
from tests.experiment.report.run_folders import config_of, write_run


def test_a_run_is_removed_with_everything_in_it_and_nothing_else(tmp_path: Path) -> None:
    kept, gone = (write_run(tmp_path / "runs" / name, config_of()) for name in ("kept", "gone"))
    (gone / "checkpoints" / "step-000000010000" / "state.json").write_text("{}")
    assert size_of(gone) == sum(path.stat().st_size for path in gone.rglob("*") if path.is_file())
    rl_training.remove_runs(runs(tmp_path / "runs", where="run=gone"))
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["kept"]
    assert RunRecord(kept).checkpoints()


def test_what_links_lead_to_is_kept(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / ".half-written").mkdir(parents=True)
    (elsewhere / "pid").write_text("precious")
    run = write_run(tmp_path / "runs" / "run", config_of())
    for name in ("videos", "data"):
        (run / name).symlink_to(elsewhere)
    (run / ".lock").symlink_to(elsewhere / "pid")
    (run / "checkpoints" / "best").symlink_to(elsewhere)
    remove_runs([RunRecord(run)])
    assert not run.exists()
    assert sorted(path.name for path in elsewhere.iterdir()) == [".half-written", "pid"]
    assert (elsewhere / "pid").read_text() == "precious"


def test_links_and_other_folders_are_refused_before_anything_is_removed(tmp_path: Path) -> None:
    run, link = write_run(tmp_path / "run", config_of()), tmp_path / "link"
    link.symlink_to(run)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "config.yaml").write_text("important: true")
    for path, sentence in (
        (link, "link is a link: remove the run directory that it leads to"),
        (tmp_path / "folder", "folder is no run directory: it has no config.yaml and metadata.json"),
        (tmp_path / "nowhere", "nowhere is no run directory"),
    ):
        with pytest.raises(ValueError, match=sentence):
            remove_runs([RunRecord(run), RunRecord(path)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "link", "run"]
    assert (run / "checkpoints").exists()


@pytest.mark.skipif(file_lock.fcntl is None, reason=needs.FCNTL)
def test_a_running_run_is_refused_whatever_was_known_before(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", config_of())
    record = RunRecord(run)
    assert record.status == "finished"
    with held(run, "it", "wait"), pytest.raises(ValueError, match="run is running: stop it first, with Ctrl-C"):
        remove_runs([record])
    assert (run / "config.yaml").exists()
