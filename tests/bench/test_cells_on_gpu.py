"""The programs that compare with other libraries on a GPU, run on the CPU: nobody has minutes of one to find out that they break."""

from __future__ import annotations

import argparse
import json
import runpy
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tests import needs

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def finished(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    import finished_lines

    return finished_lines


def run(name: str, *arguments: object) -> int:
    """Runs a program in this process; returns its exit code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [name, *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(FOLDER / name), run_name="__main__")
    return int(ended.value.code or 0)


@pytest.mark.slow
def test_pong_runs_and_a_missing_library_costs_its_row_alone(tmp_path: Path, finished: ModuleType) -> None:
    """The interpreter of the tests has what CleanRL's loop needs, but usually no Stable-Baselines3."""
    needs.import_package("ale_py")
    code = run("cells_on_gpu.py", "dqn-pong-gpu", "ppo-pong-gpu", "--out", tmp_path, "--repeats", 2, "--tiny")
    rows = json.loads((tmp_path / "speed.json").read_text())
    alone = {f"{name}-pong-gpu-emulators-alone" for name in ("dqn", "ppo")}
    assert set(rows) == {*alone, "ppo-pong-gpu-cleanrl"} | ({"dqn-pong-gpu"} if code == 0 else set())
    assert code in (0, 1)
    assert len(rows["ppo-pong-gpu-cleanrl"]["ours_steps_per_second"]) == 2
    assert rows["ppo-pong-gpu-cleanrl"]["ratio_median"] > 0
    assert rows["ppo-pong-gpu-cleanrl"]["protocol"]["life_loss_terminal"]
    assert all(rows[name]["ours_steps_per_second"][0] > 0 for name in alone)


def test_pairs_that_are_there_are_not_measured_again(tmp_path: Path, finished: ModuleType) -> None:
    row = {"cell": "ippo-spread-gpu-jaxmarl", "of": "ippo-spread-gpu", "tiny": True, "peer": "jaxmarl"}
    (tmp_path / "pairs.jsonl").write_text(f"{json.dumps(row)}\n" * 3)
    assert run("cells_on_gpu.py", "ippo-spread-gpu", "--out", tmp_path, "--tiny") == 0


def test_pairs_of_whole_cells_are_no_part_of_a_tiny_summary(
    tmp_path: Path, finished: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`speed.json` has the pairs of this kind; one folder may hold both."""
    import cells_on_gpu

    def measured(name: str, *_: object, keep: Callable[[str, dict], None], **__: object) -> dict:
        keep(name, {"ours_steps_per_second": [2.0]})
        return {}

    monkeypatch.setattr(cells_on_gpu, "run_cell", measured)
    monkeypatch.setattr(cells_on_gpu, "Peer", lambda *_, **__: SimpleNamespace(close=lambda: None))
    lines = finished.FinishedLines(tmp_path / "pairs.jsonl")
    lines.add({"cell": "another", "of": "another", "tiny": False, "ours_steps_per_second": [1.0]})
    options = argparse.Namespace(tiny=True, out=tmp_path, repeats=1, peer_python=Path("python"), peer_timeout=1.0)
    assert cells_on_gpu.measure("ippo-spread-gpu", options, lines)
    assert json.loads((tmp_path / "speed.json").read_text()) == {"ippo-spread-gpu": {"ours_steps_per_second": [2.0]}}


def test_a_library_that_cannot_be_measured_is_known_before_ours_compiles(
    tmp_path: Path, finished: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--peer-python", tmp_path / "missing", "--out", tmp_path, "--tiny")
    assert run("cells_on_gpu.py", "ippo-spread-gpu", *given) == 1
    assert "jaxmarl cannot be measured" in capsys.readouterr().out
    assert not (tmp_path / "pairs.jsonl").exists()


def test_a_line_of_purejaxrl_measures_what_is_missing(
    tmp_path: Path, finished: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The peer here fails at once; its failure costs neither our rows nor those that are there."""
    out, fails = tmp_path / "lines.jsonl", tmp_path / "python"
    fails.write_text("#!/bin/sh\nexit 1\n")
    fails.chmod(0o755)
    case = {"what": "plain", "size": 4096.0, "caches": "cold", "device": "cpu", "tiny": True}
    out.write_text(json.dumps(case | {"side": "ours"}) + "\n")
    given = ("--device", "cpu", "--tiny", "--repeats", 1, "--peer-python", fails, "--out", out)
    assert run("purejaxrl.py", "plain", 4096, *given) == 1
    assert len(out.read_text().splitlines()) == 1
    out.write_text(out.read_text() + json.dumps(case | {"side": "peer"}) + "\n")
    assert run("purejaxrl.py", "plain", 4096, *given) == 0


def test_minutes_end_a_program_and_keep_its_lines(
    tmp_path: Path, finished: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = finished.FinishedLines(tmp_path / "new" / "lines.jsonl")
    lines.add({"cell": "a", "speed": 1})

    @finished.at_most(0.002)
    def measure() -> None:
        time.sleep(30)

    with pytest.raises(SystemExit) as ended:
        measure()
    assert ended.value.code == finished.UNFINISHED
    assert "run it again" in capsys.readouterr().out
    again = finished.FinishedLines(tmp_path / "new" / "lines.jsonl")
    assert again.like(cell="a") == [{"cell": "a", "speed": 1}]
    assert again.like(cell="b") == []


def test_the_minutes_end_after_a_line_that_was_begun(
    tmp_path: Path, finished: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = finished.FinishedLines(tmp_path / "lines.jsonl")
    alarms = iter([signal.SIGALRM])
    monkeypatch.setattr(finished, "print", lambda *_, **__: [signal.raise_signal(one) for one in alarms], raising=False)

    @finished.at_most(10)
    def measure() -> None:
        lines.add({"cell": "a"})
        pytest.fail("the alarm is lost")

    with pytest.raises(SystemExit):
        measure()
    assert (tmp_path / "lines.jsonl").read_text() == '{"cell": "a"}\n'


def test_a_line_whose_writer_was_killed_is_written_again(tmp_path: Path, finished: ModuleType) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text('{"cell": "a"}\n{"cell": "b", "spe')
    lines = finished.FinishedLines(path)
    assert lines.rows == [{"cell": "a"}]
    lines.add({"cell": "b"})
    assert finished.FinishedLines(path).rows == [{"cell": "a"}, {"cell": "b"}]
