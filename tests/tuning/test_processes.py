"""Studies whose runs are processes: killed, and gone on with."""

import time
from pathlib import Path

import pytest

from tests.forked import LIMIT, run_module, start_module
from tests.tuning.in_threads import InThreads
from tests.tuning.test_search import CONFIG, SPACE, search, table


def test_a_killed_study_goes_on_and_ends_as_one_that_was_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small.yaml").write_text(CONFIG)
    params = [word for path, form in SPACE.items() for word in ("--param", f"{path}={form}")]
    command = ["rl_training", "tune", "small.yaml", *params, "--trials", "4", "--out", "killed"]
    process = start_module(*command, cwd=tmp_path)
    deadline = time.monotonic() + LIMIT
    while not list(tmp_path.glob("killed/trials/*/seed*/checkpoints/step-*")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.kill()
    process.communicate()
    assert not (tmp_path / "killed" / "trials.json").exists()

    done = run_module(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "best of 4 trials" in done.stdout
    assert "best.yaml --seeds 4,5,6,7,8\n" in done.stdout  # no trial was chosen by these
    assert "4/4 trial 3" in done.stderr
    search(monkeypatch, InThreads(), str(tmp_path / "small.yaml"), SPACE, trials=4, out=tmp_path / "undisturbed")
    assert table(tmp_path / "killed") == table(tmp_path / "undisturbed")
    assert all(file.read_text() == "" for file in (tmp_path / "killed" / "logs").iterdir())
