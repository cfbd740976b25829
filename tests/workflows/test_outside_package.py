"""A package from outside adds an algorithm, an environment and a preset by entry points, and the commands know them."""

import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.forked import run_module, run_script

EXAMPLE = Path(__file__).parents[2] / "examples/awr_package"
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
    assert rows["awr/corridor"] == ["outside", "-", "not", "measured", "[chosen", "for", "this", "example]"]
    assert rows["ppo/cartpole"][:2] == ["core", "zoo"]
    assert rows["sac/halfcheetah"][:4] == ["core", "-", "not", "measured"]
    assert rows["rlpd/pendulum"][:2] == ["contrib", "zoo"]
    trained = call(
        site, "train", "awr/corridor", "--run-dir", "run", "--total-timesteps", "256", "--stop-at", "128", *SMALL
    )
    assert trained.returncode == 0, trained.stderr
    assert (
        f"continue with: rl-training resume {(site / 'run').resolve()}\n" in trained.stdout
    )  # nobody has to be trusted besides
    resumed = call(site, "resume", "run", "--quiet")
    assert "finished: 256 env steps" in resumed.stdout, resumed.stderr
    evaluated = call(site, "eval", "run", "--episodes", "2")
    assert "over 2 episodes" in evaluated.stdout, evaluated.stderr
    shutil.rmtree(site / "awr_corridor")
    shutil.rmtree(site / "awr_corridor-0.1.0.dist-info")
    gone = call(site, "eval", "run")
    assert gone.stderr == (
        "error: algorithm.name='awr' is not an algorithm: it came from the package awr-corridor 0.1.0; install that, or import "
        "what registers it, and try again\n"
    )


def test_the_package_is_imported_only_when_its_names_are_asked_for(site: Path) -> None:
    (site / "awr_corridor/__init__.py").write_text("raise ImportError('imported')\n")
    assert call(site, "train", "a2c/cartpole", "--run-dir", "run", "--total-timesteps", "64", *SMALL).returncode == 0
    shown = call(site, "presets", "show", "awr/corridor")
    assert "name: awr" in shown.stdout, shown.stderr
    listed = call(site, "presets", "list")
    assert "awr/corridor                     outside  -" in listed.stdout, listed.stderr


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


BACKEND = """
from rl_training.envs import GymnasiumEnv, register_backend
import gymnasium


def make(config, num_envs, *, device, start):
    return GymnasiumEnv(gymnasium.make_vec(config.id.removeprefix("odd/"), num_envs, vectorization_mode="sync"))


register_backend("odd", make, owns=("odd/",))
"""
BACKEND_ASKED_FOR = """
import sys
from rl_training import PPO
PPO("CartPole-v1", compile=False)
assert "odd_backend" not in sys.modules
agent = PPO("odd/CartPole-v1", n_envs=2, n_steps=16, batch_size=16, compile=False)
agent.learn(64, progress=False)
print(agent.config.env.backend, len(agent.evaluate(2).returns))
"""


def test_a_backend_is_declared_by_its_name_and_its_prefixes(tmp_path: Path) -> None:
    (tmp_path / "odd_backend.py").write_text(BACKEND)
    declare(tmp_path, "odd-backend", {"rl_training.backends": {"odd": "odd_backend", "odd/": "odd_backend"}})
    (tmp_path / "script.py").write_text(BACKEND_ASKED_FOR)
    done = run_script(tmp_path / "script.py", cwd=tmp_path)
    assert done.stdout == "odd 2\n", done.stderr
    doctor = call(tmp_path, "doctor")
    assert "ok    odd-backend 0.1.0 adds 'odd/' to rl_training.backends" in doctor.stdout
    (tmp_path / "odd_backend.py").write_text("raise RuntimeError('boom')\n")
    for setting in ("env.id=odd/CartPole-v1", "env.backend=odd"):
        broken = call(tmp_path, "train", "ppo/cartpole", "--set", setting, "--run-dir", "run")
        assert "odd-backend 0.1.0 declares as 'odd" in broken.stderr
        assert "cannot be imported (RuntimeError: boom): repair or uninstall it" in broken.stderr
        assert (broken.returncode, broken.stderr.count("\n")) == (2, 1)


def test_what_is_broken_among_presets_is_named_and_the_rest_is_listed(site: Path) -> None:
    broken = site / "awr_corridor/presets/awr"
    (broken / "cut.yaml").write_text("algorithm: {name: awr\n")
    (broken / "text.yaml").write_text("algorithm: awr\n")
    declare(site, "gone", {"rl_training.presets": {"gone": "no_such_package"}})
    declare(site, "half-gone", {"rl_training.presets": {"half": "no_such_package.inner"}})
    (site / "empty").mkdir()
    (site / "empty/__init__.py").write_text("")
    declare(site, "empty", {"rl_training.presets": {"empty": "empty"}})
    listed = call(site, "presets", "list")
    assert listed.returncode == 0
    rows = {line.split()[0]: line for line in listed.stdout.splitlines()}
    assert "cut.yaml is not valid YAML" in rows["awr/cut"]
    assert "text.yaml names no algorithm: repair or uninstall it" in rows["awr/text"]
    assert {"awr/corridor", "ppo/cartpole"} <= set(rows)
    assert sorted(listed.stderr.splitlines()) == [
        "'no_such_package', where gone 0.1.0 declares presets, is no package: repair or uninstall it",
        "'no_such_package.inner', where half-gone 0.1.0 declares presets, is no package: repair or uninstall it",
        f"{site / 'empty/presets'}, where empty 0.1.0 declares presets, does not exist: repair or uninstall it",
    ]
    shown = call(site, "presets", "show", "gone/preset")
    assert "'gone/preset' is not a preset: " in shown.stderr
    assert "where gone 0.1.0 declares presets, is no package" in shown.stderr


def test_the_doctor_names_broken_packages_with_the_reason(site: Path) -> None:
    (site / "raises.py").write_text("raise RuntimeError('boom')\n")
    declare(site, "raises", {"rl_training.stores": {"odd": "raises"}, "rl_training.envs": {"Odd-v0": "raises"}})
    (site / "nothing.py").write_text("")
    declare(
        site, "nothing", {"rl_training.algorithms": {"none": "nothing"}, "rl_training.envs": {"None-v0": "nothing"}}
    )
    declare(site, "gone", {"rl_training.presets": {"gone": "no_such_package"}})
    done = call(site, "doctor")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert "ok    awr-corridor 0.1.0 adds 'awr' to rl_training.algorithms" in lines
    assert "ok    awr-corridor 0.1.0 adds 'Corridor-v0' to rl_training.envs" in lines
    bad = sorted(line for line in lines if line.startswith("BAD"))
    raised = "cannot be imported (RuntimeError: boom): repair or uninstall it"
    assert bad == [
        "BAD   'no_such_package', where gone 0.1.0 declares presets, is no package: repair or uninstall it",
        (
            "BAD   nothing, which nothing 0.1.0 declares as 'None-v0' of rl_training.envs, registers no 'None-v0' when it is "
            "imported: repair it"
        ),
        (
            "BAD   nothing, which nothing 0.1.0 declares as 'none' of rl_training.algorithms, registers no 'none' when it is "
            "imported: repair it"
        ),
        f"BAD   raises, which raises 0.1.0 declares as 'Odd-v0' of rl_training.envs, {raised}",
        f"BAD   raises, which raises 0.1.0 declares as 'odd' of rl_training.stores, {raised}",
    ]


def test_the_example_is_short() -> None:
    assert sum(len(path.read_text().splitlines()) for path in EXAMPLE.rglob("*.py")) < 60
