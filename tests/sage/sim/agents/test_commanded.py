"""Somebody's program as a policy: the example repairs real tasks, and programs that misbehave end their task only."""

from __future__ import annotations

import json
import shlex
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from sage.cli import main
from sage.cli.sim_run_commands import file_name
from sage.sandbox import Backend
from sage.sim.agents.commanded import commanded
from sage.sim.line_file import LineFile
from sage.sim.parallel_runner import ParallelRun
from sage.sim.policies import PolicyError, RepairAttempt, named, oracle
from sage.sim.tasks.manifest import Manifest
from sage.sim.tasks.rebuilding import Rebuilder
from sage.sim.tasks.sources import Sources
from sage.sim.watched import DeadlineError, InfrastructureError, Watched
from tests.sage.sandbox.test_backends import command_line, until
from tests.sage.sim.environment.small_task import TASK
from tests.sage.sim.run_small_tasks import install

AGENT = Path(__file__).parents[4] / "examples" / "text_agent" / "repair_agent.py"
EXAMPLE = shlex.join([sys.executable, "-I", "-S", str(AGENT)])
SOLVED = ("e8980162e753f3e2477eac2a", "d2a4f05656aa163716d9831e")  # by the example


def program(code: str) -> str:
    return shlex.join([sys.executable, "-I", "-S", "-c", code])


def attempt_by(backend: Backend, code: str) -> RepairAttempt:
    return commanded(program(code)).solve(backend, TASK)


def test_the_example_repairs_tasks_in_the_sandbox(zygote: Backend, tmp_path: Path) -> None:
    manifest = Manifest.shipped()
    run = ParallelRun(
        rows=[row for row in manifest.rows if row["id"] in SOLVED],
        materialise=Rebuilder(Sources(tmp_path, indexes=[]), manifest.suites).materialise,
        solve=named(f"command: {EXAMPLE}", 0, transcripts=tmp_path / "transcripts").solve,
        backends=[zygote],
        out=LineFile(tmp_path / "out.jsonl", {}),
        deadline_s=60.0,
    )
    run.run()
    assert {line["id"]: (line["solved"], line["passes_visible"]) for line in run.out.lines} == dict.fromkeys(
        SOLVED, (True, True)
    )
    for line in run.out.lines:
        told = (tmp_path / "transcripts" / f"{line['id']}.jsonl").read_text().splitlines()
        *calls, last = map(json.loads, told)
        assert [call["tool"] for call in calls] == line["actions"]
        assert last == {"ended": "submit", "spent": line["cost"]}
        assert calls[-2]["text"].startswith("All ")


def test_a_run_of_the_command_goes_on_and_knows_its_agent(
    zygote: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch.setattr)
    agent, out = tmp_path / "agent.py", tmp_path / "out.jsonl"
    agent.write_text(AGENT.read_text())
    words = ["sim", "run", "--workers", "1", "--out", str(out)]
    words += ["--policy", f"command: {sys.executable} -I -S {agent}"]
    assert main([*words, "--limit", "1"]) == 0
    assert "solved 1 of 1 tasks (100.0%)" in capsys.readouterr().out
    settings = json.loads(out.read_text().splitlines()[0])
    assert settings["budget"] == {"calls": 40, "spent": 60.0}
    assert main([*words, "--limit", "1"]) == 0
    agent.write_text("other")
    assert main([*words, "--limit", "1"]) == 2
    assert "belongs to work with other settings (agent:" in capsys.readouterr().err
    assert main(["sim", "run", "--transcripts", str(tmp_path), "--out", str(tmp_path / "b")]) == 2
    assert "--transcripts is for agents, and the policy 'oracle' calls no tools" in capsys.readouterr().err
    assert file_name("command: python ./agents/mine.py --fast") == "python-agents-mine-py-fast"


def test_an_agent_gets_the_task_and_its_tools(zygote: Backend, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    code = f"""
import sys
first = sys.stdin.readline()
print('{{"tool": "give_up", "cost": 1.5}}', flush=True)
open({str(heard)!r}, "w").write(first + sys.stdin.read())
"""
    attempt = attempt_by(zygote, code)
    assert (attempt.ended, attempt.files, attempt.cost, attempt.actions) == ("stop", None, 1.5, ("give_up",))
    start, end = map(json.loads, heard.read_text().splitlines())
    assert start["instruction"] == TASK.instruction
    assert start["files"][0] == {"path": "calc.py", "lines": 16, "editable": True}
    assert [tool["name"] for tool in start["tools"]][-2:] == ["submit", "give_up"]
    assert (start["protocol"], start["calls_left"], start["ended"], end["ended"]) == (1, 40, "", "stop")
    assert TASK.id not in json.dumps({name: start[name] for name in start if name != "tools"}).split()


@pytest.mark.parametrize(
    ("code", "ended"),
    [
        ("", "agent ended with code 0"),
        ("raise SystemExit(3)", "agent ended with code 3"),
        ("import os; os.close(1); os.read(0, 9)\nimport time; time.sleep(60)", "agent closed its output"),
        ("import sys\nsys.stdout.write('x' * 5_000_000)", "agent: a line of more than 4,000,000 bytes"),
        ("print('hello\\n' * 50, flush=True)\nimport sys; sys.stdin.read()", "horizon"),
    ],
)
def test_an_agent_that_misbehaves_hands_nothing_in(
    zygote: Backend, monkeypatch: pytest.MonkeyPatch, code: str, ended: str
) -> None:
    if ended == "agent closed its output":
        monkeypatch.setattr("sage.sim.agents.process.FAREWELL_S", 0.1)
    attempt = attempt_by(zygote, code)
    assert (attempt.files, attempt.ended) == (None, ended)


def test_an_agent_that_thinks_too_long_ends_with_its_task(zygote: Backend, tmp_path: Path) -> None:
    """What it did and paid until then is kept."""
    thinking = tmp_path / "thinking"

    class Impatient(Watched):
        def left(self) -> float:
            if thinking.exists():
                raise DeadlineError
            return super().left()

    code = f"""
import sys, time
print('{{"tool": "list_files", "cost": 7}}', flush=True)
sys.stdin.readline(), sys.stdin.readline()
open({str(thinking)!r}, "w").close()
time.sleep(60)
"""
    attempt = commanded(program(code)).solve(Impatient(zygote, 60.0, Event()), TASK)
    assert (attempt.files, attempt.ended, attempt.cost, attempt.actions) == (None, "deadline", 7.0, ("list_files",))


def test_an_agent_whose_run_is_stopped_is_ended_with_all_that_it_started(zygote: Backend) -> None:
    seconds = f"{77 + time.time() % 1:.9f}"  # by which the command is found among all processes
    solve = commanded(program(f"import subprocess; subprocess.run(['sleep', {seconds!r}])")).solve
    stop = Event()

    def sleeping() -> int:
        wanted = f"sleep\0{seconds}\0".encode()
        return sum(command_line(path) == wanted for path in Path("/proc").glob("[0-9]*/cmdline"))

    with ThreadPoolExecutor(1) as pool:
        solving = pool.submit(solve, Watched(zygote, 60.0, stop), TASK)
        until(lambda: sleeping() == 1)
        stop.set()
        with pytest.raises(InfrastructureError, match="the run was stopped"):
            solving.result()
    until(lambda: sleeping() == 0)


def test_an_agent_that_does_not_read_is_ended_at_the_deadline(zygote: Backend) -> None:
    """The message is longer than what a pipe takes, and nobody waits for it longer than the task may take."""
    long = replace(TASK, instruction="x" * 200_000)
    attempt = commanded(program("import time; time.sleep(60)")).solve(Watched(zygote, 0.3, Event()), long)
    assert (attempt.files, attempt.ended, attempt.actions) == (None, "deadline", ())


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("command:", "names no program"),
        ("command: 'a", "cannot be read"),
        ("command: no-such-program x", "'no-such-program' of the policy is not there"),
    ],
)
def test_a_command_that_makes_no_sense_is_refused(command: str, sentence: str) -> None:
    with pytest.raises(PolicyError, match=sentence):
        named(command, 0)


def test_a_program_that_cannot_be_started_is_refused(zygote: Backend, tmp_path: Path) -> None:
    path = tmp_path / "agent"
    path.write_bytes(b"\x7fELF nothing")
    path.chmod(0o755)
    with pytest.raises(PolicyError, match=r"cannot be started \(Exec format error\): does it run in a shell"):
        commanded(str(path)).solve(zygote, TASK)


def test_other_policies_are_as_before() -> None:
    assert named("oracle", 0).solve is oracle
