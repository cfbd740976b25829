"""Other libraries as processes: how they are asked, installed, and reported where they cannot be measured."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

import rl_training
from rl_training import Agent, ConfigError
from rl_training.bench import peer_environments, peer_process, speed
from rl_training.bench.cell_progress import CellProgress
from rl_training.bench.peer_environments import (
    PEERS,
    PeerUnavailableError,
    find_python,
    parse_peers,
    parse_pythons,
    requirements,
)
from rl_training.bench.peer_process import SCRIPTS, Peer
from rl_training.bench.speed_cells import SpeedCell

PYTHON = Path(sys.executable)
LIMIT = 120  # seconds
PPO = {
    "algorithm": "PPO",
    "env": "CartPole-v1",
    "n_envs": 2,
    "n_steps": 16,
    "batch_size": 16,
    "n_epochs": 2,
    "threads": 1,
}
REPLAYED = {
    "n_envs": 1,
    "net_arch": [8, 8],
    "batch_size": 8,
    "train_freq": 1,
    "gradient_steps": 1,
    "buffer_size": 100,
    "learning_starts": 10,
    "target_update_interval": 5,
    "exploration_final_eps": 0.1,
    "threads": 1,
}
FAKE = """
import os, time
from protocol import serve

def build(work):
    print("noise on standard output")
    if work["env"] == "broken":
        raise RuntimeError("no such environment")
    if work["env"] == "hangs":
        os.fork()  # the child holds the pipe open, as workers of an environment do
        time.sleep(600)
    return lambda num_steps: 1 / 0 if num_steps == 13 else time.sleep(600 if num_steps == 7 else 0)

serve({"PPO": build}, {"fake": "1.0"})
"""


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    (tmp_path / "protocol.py").write_text((SCRIPTS / "protocol.py").read_text())
    (tmp_path / "fake_speed.py").write_text(FAKE)
    return tmp_path / "fake_speed.py"


def test_a_peer_measures_when_asked_and_may_print_what_it_likes(fake: Path) -> None:
    peer = Peer("fake", PYTHON, PPO, fake, limit=LIMIT)
    assert peer.versions == {"fake": "1.0"}
    assert peer.measure(1_000) > 0
    assert peer.measure(1_000) > 0
    peer.close()
    assert peer.process.returncode == 0


def test_a_whole_run_is_made_anew_for_every_measurement(fake: Path) -> None:
    """Its making is on the clock: one that takes a tenth of a second cannot be measured as faster than ten steps/s."""
    (fake.parent / "fake_speed.py").write_text(
        FAKE.replace("def build(work):", "def build(work):\n    time.sleep(0.1)")
    )
    peer = Peer("fake", PYTHON, PPO | {"whole": True}, fake, limit=60)
    assert all(peer.measure(1) < 10 for _ in range(2))
    peer.close()
    work = {"algorithm": "DQN", "env": "CartPole-v1", "threads": 1, "compile": "auto", "whole": True}
    assert all(speed.measure_whole(work, 8) > 0 for _ in range(2))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"algorithm": "TQC"}, "it has no TQC"),
        ({"device": "cuda"}, "its script here does not use cuda"),
        ({"env": "broken"}, "it failed: RuntimeError: no such environment"),
    ],
)
def test_what_a_peer_cannot_do_is_a_reason(fake: Path, change: dict, reason: str) -> None:
    with pytest.raises(PeerUnavailableError, match=reason):
        Peer("fake", PYTHON, PPO | change, fake, limit=LIMIT)


def test_a_peer_that_dies_while_it_learns_says_of_what(fake: Path) -> None:
    peer = Peer("fake", PYTHON, PPO, fake, limit=LIMIT)
    with pytest.raises(PeerUnavailableError, match="it failed: ZeroDivisionError"):
        peer.measure(13)


@pytest.mark.parametrize("env", ["CartPole-v1", "hangs"])
def test_a_peer_that_hangs_is_killed_with_all_that_it_started(fake: Path, env: str) -> None:
    """While it learns, or while it is built with a child of its own: were that left, its pipe would not end."""
    start = time.perf_counter()
    with pytest.raises(
        PeerUnavailableError, match=r"it gave no answer within 1.5 s \(--peer-timeout\) and was stopped"
    ):
        Peer("fake", PYTHON, PPO | {"env": env}, fake, limit=1.5).measure(7)
    assert time.perf_counter() - start < 60


def test_a_peer_that_hangs_has_a_row_and_the_others_are_measured(tmp_path: Path, fake: Path, monkeypatch) -> None:
    """Real processes: one sleeps in its first measurement, one does not; a cell that breaks later loses neither."""
    (fake.parent / "sb3_speed.py").write_text(FAKE)
    (fake.parent / "sbx_speed.py").write_text(FAKE.replace("num_steps == 7", "num_steps == 64"))
    monkeypatch.setattr(peer_process, "SCRIPTS", fake.parent)
    monkeypatch.setattr(speed, "SPEED", {"good": SpeedCell(PPO, 32, 64), "bad": SpeedCell(PPO | {"n_envs": 0}, 32, 64)})
    monkeypatch.setattr(speed, "build_ours", eager)
    given, peers, out = dict.fromkeys(("sb3", "sbx"), PYTHON), ["sb3", "sbx"], tmp_path / "out"
    with pytest.raises(ConfigError, match="n_envs"):
        speed.run(["good", "bad"], peers, repeats=2, limit=3, out=out, given=given, say=lambda text: None)
    stored = json.loads((out / "speed.json").read_text())
    assert set(stored) == {"good", "good-sbx"}
    assert len(stored["good"]["peer_steps_per_second"]) == 2
    assert stored["good-sbx"]["unavailable"] == "it gave no answer within 3 s (--peer-timeout) and was stopped"


@pytest.mark.parametrize("said", ["a banner", "[1, 2]", "y\\ny\\ny"])
def test_a_peer_that_answers_something_else_is_a_reason(tmp_path: Path, said: str) -> None:
    script = tmp_path / "chatty.py"
    script.write_text(f"import time\nprint('{said}', flush=True)\ntime.sleep(600)\n")
    with pytest.raises(PeerUnavailableError, match=r"it printed '.+' instead of an answer"):
        Peer("chatty", PYTHON, PPO, script, limit=LIMIT)


def test_what_cannot_be_started_is_a_reason(tmp_path: Path) -> None:
    with pytest.raises(PeerUnavailableError, match=r"cannot be started: Permission denied"):
        Peer("sb3", tmp_path, PPO, limit=LIMIT)


def test_an_interruption_leaves_no_peer_behind(tmp_path: Path) -> None:
    script, running = tmp_path / "slow.py", tmp_path / "pid"
    script.write_text(f"import os, time\nopen({str(running)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n")

    def interrupt(*_: object) -> None:
        if running.exists() and running.read_text():
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            Peer("slow", PYTHON, PPO, script, limit=LIMIT)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert any(is_gone(int(running.read_text())) or time.sleep(0.01) for _ in range(1_000))


def is_gone(process: int) -> bool:
    with suppress(ChildProcessError):
        os.waitpid(process, os.WNOHANG)
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_peer_that_fails_does_not_cost_the_row_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"peer": "sb3", "ratio_median": 3.3, "measured": "2026-11-15T00:00:00"}
    (tmp_path / "speed.json").write_text(json.dumps({"cell": row}))
    unavailable = {name: {"peer": "sb3", "unavailable": "it gave no answer"} for name in ("cell", "other")}
    monkeypatch.setattr(speed, "SPEED", {"cell": SpeedCell(PPO, 10, 20)})
    monkeypatch.setattr(speed, "run_cell", lambda *arguments, **options: unavailable)
    monkeypatch.setattr(speed, "speed_table", lambda results: "")
    said: list[str] = []
    results = speed.run(["cell"], [], repeats=1, limit=LIMIT, out=tmp_path, say=said.append)
    assert results == {"cell": row, "other": unavailable["other"]} == json.loads((tmp_path / "speed.json").read_text())
    assert said[0].endswith("it gave no answer; the row of 2026-11-15 is kept")
    assert said[1].endswith("it gave no answer")


def test_damaged_results_are_named(tmp_path: Path) -> None:
    (tmp_path / "speed.json").write_text('{"a": ')
    with pytest.raises(ValueError, match=r"speed\.json is damaged .*: delete it, or choose another folder"):
        speed.run([], [], repeats=1, limit=LIMIT, out=tmp_path)


def test_what_is_being_measured_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with CellProgress("cell", 3, seconds_between_lines=0) as progress:
        progress.now("ours")
        progress.now("sb3, repeat 1 of 2")
    assert capsys.readouterr().err == "0/3 cell: ours\n1/3 cell: sb3, repeat 1 of 2\n"
    with CellProgress("cell", 3, seconds_between_lines=1e9) as progress:
        progress.now("ours")
        progress.now("soon after")
    assert capsys.readouterr().err == "0/3 cell: ours\n"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with CellProgress("cell", 3) as progress:
        progress.now("sb3, repeat 1 of 2")
    assert "cell: sb3, repeat 1 of 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    "work",
    [
        PPO,
        PPO | {"env": "Pendulum-v1"},
        REPLAYED | {"algorithm": "DQN", "env": "CartPole-v1"},
        REPLAYED | {"algorithm": "SAC", "env": "Pendulum-v1"},
        REPLAYED | {"algorithm": "TD3", "env": "Pendulum-v1"},
    ],
    ids=lambda work: f"{work['algorithm']}-{work['env']}",
)
def test_cleanrls_loops_learn(work: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, which has what they need: torch and gymnasium."""
    monkeypatch.syspath_prepend(SCRIPTS)
    builders = importlib.import_module("cleanrl_speed").BUILDERS
    weights: dict[int, torch.Tensor] = {}

    def remember(optimizer: torch.optim.Optimizer, *_: object) -> None:
        weights.update({id(p): p.detach().clone() for g in optimizer.param_groups for p in g["params"]})

    hook = register_optimizer_step_post_hook(remember)
    learn = builders[work["algorithm"]](work)
    learn(64)
    before = dict(weights)
    learn(64)
    hook.remove()
    assert before.keys() == weights.keys()
    assert any(not torch.equal(before[key], weights[key]) for key in before)


def test_cleanrls_loops_are_served_in_any_environment_with_torch() -> None:
    """Of the peers, the only one that needs no other package: one process, two requests."""
    peer = Peer("cleanrl", PYTHON, PPO, limit=LIMIT)
    assert peer.versions["cleanrl"] == "its loop, re-written"
    assert all(peer.measure(64) > 0 for _ in range(2))
    peer.close()


def test_every_peer_has_a_script() -> None:
    assert {path.name for path in SCRIPTS.glob("*_speed.py")} == {f"{name}_speed.py" for name in PEERS}


def test_peers_are_given_as_names_and_paths() -> None:
    assert parse_peers("sb3,sbx,sb3") == ["sb3", "sbx"]
    assert parse_peers("") == []
    assert parse_pythons([f"sb3={PYTHON}"]) == {"sb3": PYTHON}
    with pytest.raises(ValueError, match="'rllib' is not known here: use sb3, sbx, cleanrl"):
        parse_peers("sb3,rllib")
    for wrong, reason in (
        ("sb3", "must look like sb3=PATH"),
        ("x=y", "must look like"),
        ("sb3=/no/where", "no program"),
        ("sb3=/", "no program"),
    ):
        with pytest.raises(ValueError, match=reason):
            parse_pythons([wrong])


def test_an_installed_wheel_says_where_the_peers_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_environments, "SCRIPTS", tmp_path / "peers")
    assert parse_peers("") == []
    with pytest.raises(ValueError, match=r"--peers 'sb3' needs the programs in benchmarks/peers, .*checkout"):
        parse_peers("sb3")


def test_peers_get_our_own_torch_so_that_no_other_is_downloaded() -> None:
    assert f"torch=={torch.__version__}" in requirements("sb3")


def test_a_peer_that_learns_from_data_chooses_its_own_gymnasium() -> None:
    assert requirements("d3rlpy") == [f"torch=={torch.__version__}", *PEERS["d3rlpy"]]


def test_from_data_speed_counts_updates() -> None:
    data = {"rows": 60, "obs_size": 3, "action_size": 2, "episode_length": 20}
    work = {"algorithm": "TD3BC", "data": data, "net_arch": [8], "batch_size": 8, "threads": 1, "compile": False}
    agent = speed.build_ours(work)
    assert speed.measure_ours(agent, 5) > 0
    assert (agent.progress.offline_updates, agent.num_timesteps) == (5, 0)
    agent.close()


def test_an_environment_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        if "venv" in command:
            Path(command[-1]).mkdir(parents=True)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(peer_environments.subprocess, "run", run)
    first = find_python("tianshou", {}, tmp_path)
    assert first == find_python("tianshou", {}, tmp_path)
    assert len(commands) == 2
    assert commands[1][-len(requirements("tianshou")) :] == requirements("tianshou")
    assert find_python("tianshou", {"tianshou": PYTHON}, tmp_path) == PYTHON


def test_an_environment_that_cannot_be_made_leaves_nothing_and_says_why(tmp_path: Path, monkeypatch) -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        if "venv" in command:
            Path(command[-1]).mkdir(parents=True)
            return subprocess.CompletedProcess(command, 0, "", "")
        return subprocess.CompletedProcess(command, 1, "", "No solution found:\n  torchrl needs another torch")

    monkeypatch.setattr(peer_environments.subprocess, "run", run)
    with pytest.raises(PeerUnavailableError, match=r"cannot be installed with torch.*torchrl needs another torch"):
        find_python("torchrl", {}, tmp_path)
    assert not list(tmp_path.iterdir())


def test_speed_alternates_and_reports_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours before every measurement of a peer; a peer that is not there has a row with the reason."""
    order: list[str] = []

    class FakePeer(Peer):
        def __init__(self, name: str, python: Path, work: dict, *, limit: float) -> None:
            if name == "sbx":
                raise PeerUnavailableError("it has no PPO")
            self.name, self.versions, self.measured = name, {name: "1"}, 0

        def measure(self, num_steps: int) -> float:
            order.append(self.name)
            self.measured += 1
            if self.name == "torchrl" and self.measured > 1:
                raise PeerUnavailableError("it failed: out of memory")
            return 100.0

        def close(self) -> None:
            order.append("closed")

    class Ours:
        def close(self) -> None:
            order.append("ours closed")

    monkeypatch.setattr(speed, "Peer", FakePeer)
    monkeypatch.setattr(speed, "build_ours", lambda work: Ours())
    monkeypatch.setattr(speed, "measure_ours", lambda agent, steps: order.append("ours") or 250.0)
    monkeypatch.setattr(speed, "SPEED", {"cell": SpeedCell(PPO, 10, 20)})
    said: list[str] = []
    given = dict.fromkeys(("sb3", "sbx", "cleanrl"), PYTHON)
    peers = ["sb3", "sbx", "cleanrl"]
    results = speed.run(["cell"], peers, repeats=2, limit=LIMIT, out=tmp_path, given=given, say=said.append)
    assert order == [
        "ours",
        "sb3",
        "cleanrl",
        *["ours", "sb3", "ours", "cleanrl"] * 2,
        "closed",
        "closed",
        "ours closed",
    ]
    assert (results["cell"]["ratio_median"], results["cell"]["ratio_min"]) == (2.5, 2.5)
    assert results["cell-cleanrl"]["peer_steps_per_second"] == [100.0, 100.0]
    assert results["cell-sbx"]["unavailable"] == "it has no PPO"
    assert results["cell"]["machine"]["cores"] > 0
    assert results["cell"]["versions"]["sb3"] == "1"
    assert json.loads((tmp_path / "speed.json").read_text()) == results
    page = (tmp_path / "speed.md").read_text()
    assert "| cell | 250 | 100 | 2.50 (2.50 to 2.50) |" in page
    assert "| cell-sbx | sbx | it has no PPO |" in page
    assert "cell-sbx: sbx not measured: it has no PPO" in said


def test_cells_that_are_not_chosen_keep_their_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "speed.json").write_text(json.dumps({"old": {"unavailable": "kept", "peer": "x"}}))
    monkeypatch.setattr(speed, "SPEED", {"cell": SpeedCell(PPO, 32, 64, {"compile": False}, wanted=(1.0, 2.0, 3.0))})
    monkeypatch.setattr(speed, "build_ours", eager)
    results = speed.run(["cell"], [], repeats=2, limit=LIMIT, out=tmp_path, say=lambda text: None)
    assert set(results) == {"old", "cell"}
    assert len(results["cell"]["ours_steps_per_second"]) == 2
    assert "| 1, 2, 3 |" in (tmp_path / "speed.md").read_text()


def eager(work: dict) -> Agent:
    settings = {key: value for key, value in work.items() if key not in ("algorithm", "env")}
    return rl_training.PPO(work["env"], seed=0, **settings)


def test_cells_are_checked_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="--cells 'nothing' is not known: use ppo-cartpole"):
        speed.choose_cells("cpu", ["nothing"])
    monkeypatch.setattr(speed.torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="no usable one: use --suite cpu"):
        speed.choose_cells("gpu", [])
    assert speed.choose_cells("cpu", []) == list(speed.SPEED_SUITES["cpu"])
