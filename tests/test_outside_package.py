"""A package from outside adds an algorithm, an environment and a preset by entry points, and the commands know them."""

import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.forked import run_module, run_script

EXAMPLE = Path(__file__).parent.parent / "examples/awr_package"
SMALL = ("--set", "training.compile=false", "--set", "env.n_envs=2", "--set", "experience.n_steps=32", "--quiet")


def declare(target: Path, name: str, groups: dict[str, dict[str, str]]) -> None:
    """Writes what an installer writes of a package beside its code."""
    info = target / f"{name.replace('-', '_')}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    points = [f"[{group}]\n" + "".join(f"{n} = {v}\n" for n, v in entries.items()) for group, entries in groups.items()]
    (info / "entry_points.txt").write_text("\n".join(points))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The folder that commands are run from, with the example installed in it, where Python finds it."""
    shutil.copytree(EXAMPLE / "awr_corridor", tmp_path / "awr_corridor", ignore=shutil.ignore_patterns("__pycache__"))
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    declare(tmp_path, project["name"], project["entry-points"])
    return tmp_path


def call(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_module("rl_training", *words, cwd=site)


def test_the_commands_know_what_an_installed_package_adds(site: Path) -> None:
    listed = call(site, "presets", "list")
    assert listed.returncode == 0, listed.stderr
    rows = {line.split()[0]: line.split()[1:] for line in listed.stdout.splitlines()}
    assert rows["awr/corridor"] == ["contrib", "-", "none", "[chosen", "for", "this", "example]"]
    assert rows["ppo/cartpole"][:2] == ["core", "zoo"]
    assert rows["ppo/halfcheetah"][:3] == ["core", "-", "none"]
    assert rows["bc/cartpole"][:2] == ["contrib", "zoo"]
    trained = call(
        site, "train", "awr/corridor", "--run-dir", "run", "--total-timesteps", "256", "--stop-at", "128", *SMALL
    )
    assert trained.returncode == 0, trained.stderr
    assert "continue with: rl-training resume run\n" in trained.stdout  # nobody has to be trusted besides
    resumed = call(site, "resume", "run", "--quiet")
    assert "finished: 256 steps" in resumed.stdout, resumed.stderr
    evaluated = call(site, "eval", "run", "--episodes", "2")
    assert "over 2 episodes" in evaluated.stdout, evaluated.stderr


def test_the_package_is_imported_only_when_its_names_are_asked_for(site: Path) -> None:
    (site / "awr_corridor/__init__.py").write_text("raise ImportError('imported')\n")
    assert call(site, "train", "a2c/cartpole", "--run-dir", "run", "--total-timesteps", "64", *SMALL).returncode == 0
    shown = call(site, "presets", "show", "awr/corridor")
    assert "name: awr" in shown.stdout, shown.stderr


BROKEN = {
    "it raises": ("raise RuntimeError('boom')\n", "cannot be imported (RuntimeError: boom)"),
    "a dependency is missing": ("import no_such_module\n", "cannot be imported (ModuleNotFoundError: No module named"),
    "written for another version": (
        "from rl_training.core import NoSuchName\n",
        "cannot be imported (ImportError: cannot import name 'NoSuchName'",
    ),
    "registers nothing": ("", "registers no 'awr' when it is imported: repair it"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_package_that_cannot_be_loaded_is_named_in_one_sentence(site: Path, case: str) -> None:
    source, reason = BROKEN[case]
    (site / "awr_corridor/__init__.py").write_text(source)
    trained = call(site, "train", "awr/corridor", "--run-dir", "run")
    assert trained.returncode == 2
    assert trained.stderr.startswith(
        "error: awr_corridor, which awr-corridor 0.1.0 declares as 'awr' of rl_training.algorithms, "
    )
    assert reason in trained.stderr
    assert trained.stderr.count("\n") == 1
    assert not (site / "run").exists()
    listed = call(site, "presets", "list").stdout.splitlines()  # the others are listed all the same
    assert [line for line in listed if line.startswith("awr/corridor ") and reason in line]
    assert [line for line in listed if line.startswith("ppo/cartpole ")]


STORE_AND_DYNAMICS = """
from dataclasses import dataclass
from typing import Literal

from rl_training.envs import register_native
from rl_training.envs.classic import CartPole
from rl_training.experience import ReplaySettings, register_store


@dataclass(frozen=True, kw_only=True)
class OddReplay(ReplaySettings):
    store: Literal["odd"] = "odd"


register_store("odd", OddReplay)
register_native("OddPole-v0", CartPole)
"""
ASKED_FOR = """
import sys
from rl_training import DQN
DQN("CartPole-v1", compile=False)
assert "odd_parts" not in sys.modules
agent = DQN("OddPole-v0", backend="native", store="odd", compile=False)
print(type(agent.config.experience).__name__)
"""


def test_stores_and_native_environments_are_declared_in_the_same_way(tmp_path: Path) -> None:
    (tmp_path / "odd_parts.py").write_text(STORE_AND_DYNAMICS)
    points = {"rl_training.stores": {"odd": "odd_parts"}, "rl_training.envs": {"OddPole-v0": "odd_parts"}}
    declare(tmp_path, "odd-parts", points)
    (tmp_path / "script.py").write_text(ASKED_FOR)
    done = run_script(tmp_path / "script.py", cwd=tmp_path)
    assert done.stdout == "OddReplay\n", done.stderr


def test_presets_of_a_package_that_is_gone_are_named(site: Path) -> None:
    shutil.rmtree(site / "awr_corridor")
    listed = call(site, "presets", "list")
    assert listed.returncode == 2
    assert "'awr_corridor', where 'awr' declares presets, is no package" in listed.stderr
    assert call(site, "presets", "show", "ppo/cartpole").returncode == 0


def test_the_example_is_short() -> None:
    assert sum(len(path.read_text().splitlines()) for path in EXAMPLE.rglob("*.py")) < 60
