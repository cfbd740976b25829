"""Everything people get wrong on the command line: one clear sentence each, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from rl_training import (
    PPO,
)
from rl_training.cli import main
from tests.bad_environments import SMALL, listing

# a command line and the parts of the one line on standard error
COMMANDS = {
    "unknown preset": ("train ppo/cartpol", "'ppo/cartpol' is not a preset: did you mean 'ppo/cartpole'?"),
    "capitals": ("train PPO/CartPole", "'PPO/CartPole' is not a preset: did you mean 'ppo/cartpole'?"),
    "preset without its task": ("train ddpg", "'ddpg' is not a preset: choose from ddpg/"),
    "no such preset": ("train zzzz", "'zzzz' is not a preset: `rl-training presets list` shows all of them"),
    "missing file": ("train missing.yaml", "missing.yaml cannot be read (No such file or directory)"),
    "yaml syntax": ("train syntax.yaml", "syntax.yaml is not valid YAML:", "line 2"),
    "yaml list": (
        "train list.yaml", "list.yaml does not hold a config: a config needs the sections algorithm (with name) and env (with id)",
    ),
    "binary file": ("train binary.yaml", "binary.yaml is not"),
    "section": ("train section.yaml", "trainning is not a section of a config: did you mean 'training'?"),
    "no env": ("train noenv.yaml", "env is missing: a config needs the sections algorithm (with name) and env (with id)"),
    "no env id": ("train noid.yaml", "env.id is missing: give it a value"),
    "section that is a number": ("train number.yaml", "training=5 must be a mapping of settings"),
    "set without value": ("train ppo/cartpole --set algorithm.n_steps", "--set 'algorithm.n_steps' must look like"),
    "set without section": ("train ppo/cartpole --set n_steps=5", "--set 'n_steps=5' must look like SECTION.FIELD=VALUE"),
    "set unknown": ("train ppo/cartpole --set algorithm.n_stesp=5", "not a setting of ppo: did you mean experience.n_steps?"),
    "set section": ("train ppo/cartpole --set trainig.seed=5", "trainig is not a section of a config: did you mean 'training'?"),
    "set below a number": ("train ppo/cartpole --set algorithm.gamma.x=5", "gamma=0.98 has no fields of its own"),
    "set bad yaml": ("train ppo/cartpole --set algorithm.n_steps=[1", "the value is not valid YAML"),
    "seed": ("train ppo/cartpole --seed -1", "training.seed=-1 must be at least 0"),
    "seeds": ("train ppo/cartpole --seeds 1,x", "--seeds '1,x' must be whole numbers separated by commas"),
    "seed twice": ("train ppo/cartpole --seeds 1,1", "--seeds '1,1' names a seed twice"),
    "last seed wrong": ("train ppo/cartpole --seeds 1,-2", "training.seed=-2 must be at least 0"),
    "run dir exists": ("train ppo/cartpole --run-dir occupied", "occupied exists: choose another, or continue it with"),
    "run dir of a later seed exists": ("train ppo/cartpole --seeds 1,2 --run-dir many", "many/seed2 exists"),
    "run dir below a file": ("train ppo/cartpole --run-dir list.yaml/run", "list.yaml/run cannot be written"),
    "run dir in proc": ("train ppo/cartpole --run-dir /proc/run", "run directory /proc/run cannot be written", "--run-dir"),
    "resume of a folder": ("resume occupied", "occupied is not a run directory: it has no config.yaml"),
    "eval of nothing": ("eval nowhere", "nowhere does not exist"),
    "eval without episodes": ("eval model --episodes 0", "num_episodes=0 must be at least 1"),
    "obs missing": ("predict model --obs missing.json", "--obs missing.json: cannot be read (No such file or directory)"),
    "obs invalid": ("predict model --obs syntax.yaml", "--obs syntax.yaml: not valid JSON"),
    "obs shape": ("predict model --obs short.json", "the observation has shape (2,): it must be (4,)"),
    "preset to a file that exists": ("presets copy ppo/cartpole list.yaml", "list.yaml exists: choose another name"),
    "preset below a file": ("presets copy ppo/cartpole list.yaml/x.yaml", "list.yaml/x.yaml cannot be written"),
    "diff of nothing": ("config diff ppo/cartpole ppo/cartpol", "'ppo/cartpol' is not a preset: did you mean 'ppo/cartpole'?"),
}  # fmt: skip
FILES = {
    "syntax.yaml": "algorithm: {name: ppo\nenv: {id: CartPole-v1}\n",
    "list.yaml": "- ppo\n- CartPole-v1\n",
    "binary.yaml": "\x00\x01",
    "section.yaml": "algorithm: {name: ppo}\nenv: {id: CartPole-v1}\ntrainning: {seed: 1}\n",
    "noenv.yaml": "algorithm: {name: ppo}\n",
    "noid.yaml": "algorithm: {name: ppo}\nenv: {n_envs: 2}\n",
    "number.yaml": "algorithm: {name: ppo}\nenv: {id: CartPole-v1}\ntraining: 5\n",
    "short.json": "[1, 2]",
    "occupied/notes.txt": "mine",
    "many/seed2/notes.txt": "mine",
}


@pytest.fixture(scope="module")
def workplace(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("workplace")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    PPO("CartPole-v1", **SMALL).save(folder / "model")
    return folder


@pytest.mark.parametrize("kind", COMMANDS)
def test_command_line(kind, workplace, monkeypatch, capsys):
    monkeypatch.chdir(workplace)
    command, *parts = COMMANDS[kind]
    before = listing(workplace)
    assert main(command.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    for part in parts:
        assert part in err
    assert listing(workplace) == before


@pytest.mark.parametrize(
    ("command", "part"),
    [
        ("train ppo/cartpole --total-timesteps -5", "argument --total-timesteps: '-5' is not a positive whole number"),
        ("train ppo/cartpole --total-timesteps many", "argument --total-timesteps"),
        ("train ppo/cartpole --stop-at 0", "argument --stop-at: '0' is not a positive whole number"),
        ("train ppo/cartpole --seed 1 --seeds 1,2", "argument --seeds: not allowed with argument --seed"),
        ("trian ppo/cartpole", "invalid choice: 'trian'"),
        ("predict model", "the following arguments are required: --obs"),
    ],
)
def test_arguments(command, part, workplace, monkeypatch, capsys):
    monkeypatch.chdir(workplace)
    before = listing(workplace)
    with pytest.raises(SystemExit) as caught:
        main(command.split())
    assert caught.value.code == 2
    assert part in capsys.readouterr().err.splitlines()[-1]
    assert listing(workplace) == before
