"""Other libraries as processes: how they are asked, installed, and reported where they cannot be measured."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import rl_training
from rl_training import Agent
from rl_training.bench import peer_environments, speed
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
from protocol import serve

def build(work):
    print("noise on standard output")
    if work["env"] == "broken":
        raise RuntimeError("no such environment")
    return lambda num_steps: 1 / 0 if num_steps == 13 else None

serve({"PPO": build}, {"fake": "1.0"})
"""


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    (tmp_path / "protocol.py").write_text((SCRIPTS / "protocol.py").read_text())
    (tmp_path / "fake_speed.py").write_text(FAKE)
    return tmp_path / "fake_speed.py"


def test_a_peer_measures_when_asked_and_may_print_what_it_likes(fake: Path) -> None:
    peer = Peer("fake", PYTHON, PPO, fake)
    assert peer.versions == {"fake": "1.0"}
    assert peer.measure(1_000) > 0
    assert peer.measure(1_000) > 0
    peer.close()
    assert peer.process.returncode == 0


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
        Peer("fake", PYTHON, PPO | change, fake)


def test_a_peer_that_dies_while_it_learns_says_of_what(fake: Path) -> None:
    peer = Peer("fake", PYTHON, PPO, fake)
    with pytest.raises(PeerUnavailableError, match="it failed: ZeroDivisionError"):
        peer.measure(13)


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
def test_cleanrls_loops_learn_in_any_environment_with_torch(work: dict) -> None:
    """Of the peers, the only one that needs no other package: one process, two requests."""
    peer = Peer("cleanrl", PYTHON, work)
    assert peer.versions["cleanrl"] == "its loop, re-written"
    assert all(peer.measure(64) > 0 for _ in range(2))
    peer.close()


def test_every_peer_has_a_script() -> None:
    assert {path.name for path in SCRIPTS.glob("*_speed.py")} == {f"{name}_speed.py" for name in PEERS}


def test_peers_are_given_as_names_and_paths() -> None:
    assert parse_peers("sb3,sbx,sb3") == ["sb3", "sbx"]
    assert parse_peers("") == []
    assert parse_pythons([f"sb3={PYTHON}"]) == {"sb3": PYTHON}
    with pytest.raises(ValueError, match="'rllib' is not known: use sb3, sbx, cleanrl"):
        parse_peers("sb3,rllib")
    for wrong, reason in (
        ("sb3", "must look like sb3=PATH"),
        ("x=y", "must look like"),
        ("sb3=/no/where", "no program"),
    ):
        with pytest.raises(ValueError, match=reason):
            parse_pythons([wrong])


def test_peers_get_our_own_torch_so_that_no_other_is_downloaded() -> None:
    assert f"torch=={torch.__version__}" in requirements("sb3")


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
        def __init__(self, name: str, python: Path, work: dict) -> None:
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
    results = speed.run(["cell"], ["sb3", "sbx", "cleanrl"], repeats=2, out=tmp_path, given=given, say=said.append)
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
    results = speed.run(["cell"], [], repeats=2, out=tmp_path, say=lambda text: None)
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
