"""A checkpoint can be edited: what it names is imported and called only if it was handed over, registered or trusted."""

from __future__ import annotations

import sys
from pathlib import Path

import gymnasium as gym
import pytest
import yaml

import rl_training
from rl_training import BC, PPO, Agent, ConfigError
from rl_training.cli import main
from rl_training.config import RunConfig
from rl_training.config.trust import NAMED, Trust, packages_of
from rl_training.envs import EnvConfig
from rl_training.experiment import RunDirectory
from tests.envs.counting import CountingEnv
from tests.experiment.editing import edit_manifest

OBS = [0.01, -0.02, 0.03, 0.04]
SMALL = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "compile": False}
TRAP = """
from pathlib import Path
import gymnasium
Path(__file__).with_suffix(".imported").touch()
def make(**settings):
    Path(__file__).with_suffix(".called").touch()
    return gymnasium.make("CartPole-v1")
def encode(space):
    Path(__file__).with_suffix(".called").touch()
    from rl_training.models import FlatEncoder
    return FlatEncoder(space)
gymnasium.register("Trapped-v0", entry_point=make)
"""


@pytest.fixture
def trap(tmp_path, monkeypatch):
    """A module that leaves a file where it is imported, and another where a function of it is called."""
    (tmp_path / "traps").mkdir()
    (tmp_path / "traps" / "trap.py").write_text(TRAP)
    monkeypatch.syspath_prepend(str(tmp_path / "traps"))
    yield lambda: sorted(path.suffix for path in (tmp_path / "traps").glob("trap.*") if path.suffix != ".py")
    sys.modules.pop("trap", None)
    gym.registry.pop("Trapped-v0", None)


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model"
    agent = PPO("CartPole-v1", seed=1, **SMALL)
    agent.learn(16, progress=False)
    agent.save(path)
    return path


def with_env(path: Path, **changes: object) -> Path:
    edit_manifest(path, lambda m: m["config"]["env"].update(changes))
    return path


def with_encoder(path: Path, encoder: str) -> Path:
    edit_manifest(path, lambda m: m["config"]["algorithm"].update(encoder=encoder))
    return path


UNTRUSTED = {
    "a function": {"id": "os:system", "kwargs": {"command": "touch pwned"}},
    "an import": {"id": "trap:make"},
    "an import by gymnasium": {"id": "trap:CartPole-v1"},
    "native": {"id": "trap:make", "backend": "native"},
    "vectorized": {"id": "trap:CartPole-v1", "vectorization": "vector_entry_point"},
    "asynchronous": {"id": "trap:make", "vectorization": "async"},
    "gymnasium as a tool": {"id": "gymnasium:make", "kwargs": {"id": "trap:CartPole-v1"}},
    "gymnasium's import": {"id": "gymnasium.envs.registration:load_env_creator", "kwargs": {"name": "trap:make"}},
    "this package as a tool": {"id": "rl_training.cli.main:main", "kwargs": {"arguments": ["train", "trap.yaml"]}},
    "a script of this package": {"id": "rl_training.__main__:CartPole-v1"},
    "something ours imports": {"id": "rl_training.envs.gymnasium_vector_env:torch"},
}
WRAPPED = ["trap:make", "gymnasium.wrappers.rendering:RecordVideo", "gymnasium.wrappers.common:load_env_creator"]
ROUTES = {
    "evaluate": lambda agent: agent.evaluate(1),
    "learn": lambda agent: agent.learn(16, progress=False),
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("kind", UNTRUSTED)
def test_an_edited_environment_is_refused_before_anything_is_imported(
    kind, route, model, trap, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    env_id = UNTRUSTED[kind]["id"]
    agent = rl_training.load(with_env(model, **UNTRUSTED[kind]))
    assert agent.predict(OBS)[0] in (0, 1)  # what opens no environment goes on working
    with pytest.raises(ConfigError) as caught:
        ROUTES[route](agent)
    package = env_id.partition(":")[0].partition(".")[0]
    assert f"env.id={env_id!r} in {model / 'manifest.json'} names code" in str(caught.value)
    assert f"--trust {package} (in Python trust=[{package!r}])" in str(caught.value)
    assert trap() == []
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("wrapper", WRAPPED)
def test_an_edited_wrapper_is_refused_before_anything_is_imported(wrapper, model, trap) -> None:
    agent = rl_training.load(with_env(model, wrappers=[{"entry_point": wrapper}]))
    with pytest.raises(ConfigError, match=rf"env\.wrappers='{wrapper}' in .*manifest\.json names code.*--trust"):
        agent.evaluate(1)
    assert trap() == []


def test_a_wrapper_of_gymnasium_needs_no_trust(model) -> None:
    limit = {"entry_point": "gymnasium.wrappers.common:TimeLimit", "kwargs": {"max_episode_steps": 3}}
    assert rl_training.load(with_env(model, wrappers=[limit])).evaluate(1).lengths == (3,)


@pytest.mark.parametrize("encoder", ["trap:encode", "os:system", "rl_training.models:build_encoder", "builtins:exec"])
def test_an_edited_encoder_is_refused_while_loading(encoder, model, trap) -> None:
    with pytest.raises(ConfigError, match=r"algorithm\.encoder=.* in .*manifest\.json names code.*--trust"):
        rl_training.load(with_encoder(model, encoder))
    assert trap() == []


def test_an_edited_schedule_is_refused_while_loading(model, trap) -> None:
    edit_manifest(model, lambda m: m["config"]["algorithm"].update(clip_range={"function": "trap:make"}))
    with pytest.raises(ConfigError, match=r"algorithm\.clip_range='trap:make' in .* names code.*--trust trap"):
        rl_training.load(model)
    assert trap() == []


@pytest.mark.parametrize("env_id", ["trap:make", "trap:Trapped-v0"])
def test_a_named_package_is_trusted(env_id, model, trap) -> None:
    agent = PPO.load(with_env(model, id=env_id), trust=["trap"])
    assert trap() == []
    assert agent.evaluate(1).lengths[0] > 1
    assert trap() == [".called", ".imported"]


def test_a_named_package_is_trusted_with_an_encoder(model, trap) -> None:
    agent = rl_training.load(with_encoder(model, "trap:encode"), trust=["trap"])
    assert agent.predict(OBS)[0] in (0, 1)
    assert trap() == [".called", ".imported"]


def test_a_registered_environment_needs_no_trust(model) -> None:
    gym.register("Counted-v0", entry_point=lambda: gym.make("CartPole-v1", max_episode_steps=3))
    try:
        for env_id in ("Counted-v0", f"{__name__}:Counted-v0"):  # the module has been imported: nothing runs anew
            assert rl_training.load(with_env(model, id=env_id)).evaluate(1).lengths == (3,)
    finally:
        del gym.registry["Counted-v0"]


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "gymnasium.envs.classic_control:CartPoleEnv", "max_episode_steps": 5},
        {"id": "gymnasium:CartPole-v1", "max_episode_steps": 5},
        {"id": "rl_training.envs.classic:CartPole", "backend": "native", "max_episode_steps": 5},
    ],
)
def test_environments_of_gymnasium_and_of_this_package_need_no_trust(changes, model) -> None:
    assert rl_training.load(with_env(model, **changes)).evaluate(1).lengths == (5,)


def make_counting() -> gym.Env:
    return CountingEnv()


def test_what_was_handed_over_or_named_in_this_process_may_be_loaded_again(tmp_path) -> None:
    for number, source in enumerate((make_counting, f"{__name__}:make_counting", lambda: CountingEnv())):
        PPO(source, **SMALL).save(tmp_path / str(number))
        assert rl_training.load(tmp_path / str(number)).evaluate(1).lengths


def test_an_object_that_no_process_can_import_is_asked_for(tmp_path, model) -> None:
    with pytest.raises(ConfigError, match=r"was handed over as an object.*load\(path, env=\.\.\.\)"):
        rl_training.load(with_env(model, id="script:<lambda>")).evaluate(1)
    with pytest.raises(ConfigError, match=r"was handed over as an object.*load\(path, encoder=\.\.\.\)"):
        rl_training.load(with_encoder(model, "__main__:Net"))


@pytest.mark.parametrize("trust", ["trap", ["*"], ["trap:make"], [5], ["my package"], [""]])
def test_trust_names_packages(trust, model) -> None:
    with pytest.raises(ConfigError, match=r"^trust"):
        rl_training.load(model, trust=trust)


def test_trust_ends_where_the_package_does() -> None:
    trust = Trust.of(Path("m/manifest.json"), ["lab.envs"])
    trust.check_env(EnvConfig(id="lab.envs:make"))
    trust.check_env(EnvConfig(id="lab.envs.maze:make"))
    for env_id in ("lab:make", "lab.envs2:make", "lab.agents:make"):
        with pytest.raises(ConfigError, match="--trust lab"):
            trust.check_env(EnvConfig(id=env_id))


def start_run(folder: Path, env_id: str, **sections: dict) -> None:
    """A run directory that was killed before its first checkpoint, with a config of somebody else's."""
    values = {
        "algorithm": {"name": "ppo", "n_steps": 16, "batch_size": 16},
        "env": {"id": env_id},
        "training": {"total_timesteps": 16},
    }
    RunDirectory.create(folder, RunConfig.from_mapping(values | sections))


def test_the_config_of_a_run_directory_is_not_the_users_own(tmp_path, trap, capsys) -> None:
    start_run(tmp_path / "run", "trap:make")
    assert main(["resume", str(tmp_path / "run"), "--quiet"]) == 2
    assert f"env.id='trap:make' in {tmp_path / 'run' / 'config.yaml'} names code" in capsys.readouterr().err
    assert trap() == []
    with pytest.raises(ConfigError, match="--trust trap"):
        Agent.resume(tmp_path / "run")
    try:
        assert main(["resume", str(tmp_path / "run"), "--quiet", "--trust", "trap"]) == 0
        assert f"try: rl-training eval {tmp_path / 'run'} --episodes 50 --trust trap" in capsys.readouterr().out
    finally:
        NAMED.discard("trap:make")
    run = str(tmp_path / "run")
    for command in (["eval", run, "--episodes", "1"], ["resume", run, "--verify", "--quiet"]):
        assert main(command) == 2
        assert "env.id='trap:make'" in capsys.readouterr().err
        assert main([*command, "--trust", "trap"]) == 0
        NAMED.discard("trap:make")


@pytest.mark.parametrize("policy", ["{}/evil.yaml@16", "{}/evil.yaml@16=1", "{}/a=b.yaml@16=1", "ppo/cartpole@16"])
def test_a_recipe_for_data_trains_from_no_file(policy, tmp_path, trap, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    evil = {"algorithm": {"name": "ppo"}, "env": {"id": "trap:make"}}
    (tmp_path / "ppo").mkdir()
    for name in ("evil.yaml", "a=b.yaml", "ppo/cartpole"):  # the last hides the preset of that name
        (tmp_path / name).write_text(yaml.safe_dump(evil))
    recipe = {"make": {"policies": [policy.format(tmp_path)], "steps": 8}}
    settings = {"algorithm": {"name": "bc"}, "training": {"total_updates": 1}, "data": recipe}
    start_run(tmp_path / "run", "CartPole-v1", **settings)
    with pytest.raises(ConfigError, match=r"data\.make\.policies in .*config\.yaml names"):
        BC.resume(tmp_path / "run")
    assert trap() == []


def test_commands_that_take_a_run_take_trust(model, trap, tmp_path, capsys) -> None:
    with_encoder(model, "trap:encode")
    (tmp_path / "obs.json").write_text(str(OBS))
    make = ["data", "make", "--env", "CartPole-v1", "--policy", str(model), "--steps", "64", "--out"]
    commands = [
        ["predict", str(model), "--obs", str(tmp_path / "obs.json")],
        [*make, str(tmp_path / "a.npz")],
        ["ope", str(model), "--data", str(tmp_path / "a.npz"), "--updates", "0"],
        ["ope", str(model), str(model), "--rank", "--data", str(tmp_path / "a.npz"), "--updates", "1"],
    ]
    for command in commands:
        assert main(command) == 2
        assert "--trust trap" in capsys.readouterr().err
        assert main([*command, "--trust", "trap"]) == 0
        sys.modules.pop("trap")


def test_what_a_config_needs_to_be_trusted_with() -> None:
    values = {"algorithm": {"name": "ppo", "encoder": "nets.small:make"}, "env": {"id": "lab.envs:make"}}
    assert packages_of(RunConfig.from_mapping(values)) == ["lab", "nets"]
    wrapped = {"id": "CartPole-v1", "wrappers": [{"entry_point": "gymnasium.wrappers.common:OrderEnforcing"}]}
    assert packages_of(RunConfig.from_mapping({"algorithm": {"name": "ppo"}, "env": wrapped})) == []


@pytest.mark.parametrize("env_id", ["os:getcwd", "math:pi"])
def test_a_factory_must_return_an_environment(env_id, capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.yaml").write_text(yaml.safe_dump({"algorithm": {"name": "ppo"}, "env": {"id": env_id}}))
    assert main(["train", "my.yaml"]) == 2
    assert f"error: env.id={env_id!r}" in (error := capsys.readouterr().err)
    assert len(error.strip().splitlines()) == 1
