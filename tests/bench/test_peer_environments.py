"""Interpreters of other libraries: which are known, how they are made, and what is said where they cannot be."""

import ast
import subprocess
from pathlib import Path

import pytest
import torch

from rl_training.bench import peer_environments
from rl_training.bench.peer_environments import (
    PEERS,
    SCRIPTS,
    PeerUnavailableError,
    find_python,
    parse_peers,
    parse_pythons,
    requirements,
)
from tests.bench.fake_peer import PYTHON


def test_every_peer_has_a_script() -> None:
    assert {path.name for path in SCRIPTS.glob("*_speed.py")} == {f"{name}_speed.py" for name in PEERS}


def test_programs_of_peers_import_nothing_of_ours() -> None:
    """Their interpreters do not have it."""
    for path in SCRIPTS.glob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text()))
        imports = [ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
        assert not [text for text in imports if "rl_training" in text], path


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
