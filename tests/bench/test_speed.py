"""Speed beside other libraries: the order of measurements, and rows for what was and was not measured."""

import json
import sys
from pathlib import Path

import pytest

import rl_training
from rl_training import Agent, ConfigError
from rl_training.bench import peer_process, speed
from rl_training.bench.cell_progress import CellProgress
from rl_training.bench.peer_environments import PeerUnavailableError
from rl_training.bench.peer_process import Peer
from rl_training.bench.speed_cells import SpeedCell
from tests.bench.fake_peer import FAKE, LIMIT, PPO, PYTHON


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


def test_from_data_speed_counts_updates() -> None:
    data = {"rows": 60, "obs_size": 3, "action_size": 2, "episode_length": 20}
    work = {"algorithm": "TD3BC", "data": data, "net_arch": [8], "batch_size": 8, "threads": 1, "compile": False}
    agent = speed.build_ours(work)
    assert speed.measure_ours(agent, 5) > 0
    assert (agent.progress.offline_updates, agent.num_timesteps) == (5, 0)
    agent.close()


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


def test_cells_of_unlike_protocols_are_measured_alone_and_never_compared() -> None:
    work = {"env": "ALE/Pong-v5", "n_envs": 8}
    dqn, machado = (speed.protocol_of(work | {"kwargs": {"protocol": name}}) for name in ("dqn", "machado"))
    speed.check_peers_play("cell", work, dqn, peers=["sb3"])
    speed.check_peers_play("cell", work, machado, peers=[])
    with pytest.raises(ValueError, match=r"cell is not compared with sb3, .*unlike ours: .*env.sticky 0.25 and 0.0"):
        speed.check_peers_play("cell", work, machado, peers=["sb3"])
    assert speed.protocol_of({"env": "CartPole-v1", "backend": "native"}) == speed.protocol_of({"data": {}}) == {}


def test_cells_are_checked_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="--cells 'nothing' is not known: use ppo-cartpole"):
        speed.choose_cells("cpu", ["nothing"])
    monkeypatch.setattr(speed.torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="no usable one: use --suite cpu"):
        speed.choose_cells("gpu", [])
    assert speed.choose_cells("cpu", []) == list(speed.SPEED_SUITES["cpu"])


def test_a_pair_is_kept_as_soon_as_it_is_measured() -> None:
    """A peer that fails in its second measurement leaves the first."""

    class FailsLater(Peer):
        def __init__(self) -> None:
            self.versions, self.speeds = {"sb3": "1"}, [100.0]

        def measure(self, num_steps: int) -> float:
            if not self.speeds:
                raise PeerUnavailableError("it failed: out of memory")
            return self.speeds.pop()

    kept: list[tuple[str, dict, tuple[float, float]]] = []
    peers: dict[str, Peer | PeerUnavailableError] = {"sb3": FailsLater()}
    with CellProgress("cell", 4) as progress:
        speed.alternate(lambda steps: 200.0, peers, 10, 2, progress, each=lambda *pair: kept.append(pair))
    assert kept == [("sb3", {"sb3": "1"}, (200.0, 100.0))]
    assert isinstance(peers["sb3"], PeerUnavailableError)
