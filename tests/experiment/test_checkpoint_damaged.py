"""Whatever an entry of a checkpoint is replaced by, and signed anew, it loads or says so in a sentence."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import rl_training
from rl_training import DQN, Agent, CheckpointError, NonFiniteError
from rl_training.experiment.checkpoint import sha256
from tests.experiment.editing import edit_manifest

OBS = [0.01, -0.02, 0.03, 0.04]
GONE = "(gone)"
VALUES = (GONE, None, "x", [], {}, -1)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "model"
    agent = DQN("CartPole-v1", learning_starts=10, buffer_size=100, batch_size=8, net_arch=[8], compile=False)
    agent.learn(40, progress=False)
    agent.save(path)
    return path


@pytest.fixture(scope="module")
def models(model: Path) -> dict[str, Path]:
    found = {"dqn": model}
    settings = {
        "n_steps": 16,
        "batch_size": 8,
        "net_arch": [8],
        "normalize_reward": True,
        "normalize_observation": True,
    }
    for name, more in (("ppo", {}), ("recurrent_ppo", {"lstm_hidden_size": 4})):
        agent = Agent.class_for(name)("CartPole-v1", compile=False, **settings | more)
        agent.learn(40, progress=False)  # into a rollout
        found[name] = model.with_name(name)
        agent.save(found[name])
    return found


def places(tree: object, path: tuple = ()) -> Iterator[tuple]:
    """Every entry of a tree; of a list, the first."""
    if path:
        yield path
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree[:1]) if isinstance(tree, list) else ():
        yield from places(value, (*path, key))


def change(tree: dict, path: tuple, value: object) -> None:
    for key in path[:-1]:
        tree = tree[key]
    if value == GONE:
        del tree[path[-1]]
    else:
        tree[path[-1]] = value


def drawn(tree: dict, share: int) -> list[tuple[tuple, object]]:
    """Every so many of all changes to a tree, spread evenly."""
    return [(path, value) for path in places(tree) for value in VALUES][::share]


@pytest.mark.parametrize("share", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_a_changed_manifest_is_a_sentence_or_is_used(share, model, tmp_path) -> None:
    manifest, outcomes = json.loads((model / "manifest.json").read_text()), []
    for number, (path, value) in enumerate(drawn(manifest, share)):
        target = shutil.copytree(model, tmp_path / str(number))
        edit_manifest(target, lambda m, path=path, value=value: change(m, path, copy.deepcopy(value)))
        try:
            outcomes.append(rl_training.load(target).predict(OBS)[0] in (0, 1))
        except ValueError as error:
            outcomes.append(str(error))
    assert any(outcome is True for outcome in outcomes)
    assert any(isinstance(outcome, str) for outcome in outcomes)


def test_a_state_that_lacks_something_is_a_sentence_or_is_used(model, tmp_path) -> None:
    state, refused = json.loads((model / "state.json").read_text()), 0
    for number, path in enumerate(path for path in places(state) if len(path) == 1):
        target = with_state(model, tmp_path / str(number), path, GONE)
        agent = None
        try:
            agent = rl_training.load(target)
            agent.learn(4, progress=False)
        except ValueError:
            refused += 1
            assert agent is None or agent.trainer is None  # a second `learn` does not go on from half a state
    assert refused >= 4


def with_state(model: Path, target: Path, path: tuple, value: object) -> Path:
    """A copy of a checkpoint with one entry of its state changed, and signed."""
    shutil.copytree(model, target)
    state = json.loads((model / "state.json").read_text())
    change(state, path, copy.deepcopy(value))
    (target / "state.json").write_text(json.dumps(state))
    digest = sha256(target / "state.json")
    edit_manifest(target, lambda m: m["sha256"].update({"state.json": digest}))
    return target


@pytest.mark.parametrize("share", [17, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["dqn", "ppo", pytest.param("recurrent_ppo", marks=pytest.mark.slow)])
def test_a_changed_state_is_a_sentence_or_is_used(kind, share, models, tmp_path) -> None:
    """Also where an entry is first needed long after it was loaded."""
    state, refused = json.loads((models[kind] / "state.json").read_text()), 0
    for number, (path, value) in enumerate(drawn(state, share)):
        target = with_state(models[kind], tmp_path / str(number), path, value)
        try:
            rl_training.load(target).learn(24, progress=False)
        except (ValueError, NonFiniteError):
            refused += 1
        shutil.rmtree(target)
    assert refused > 0


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("algorithm", "_extra_state", 0), GONE),
        (("experience", "steps", "columns"), {}),
        *[(("experience", "steps", "columns", name), GONE) for name in ("first", "memory0", "memory1")],
    ],
)
def test_a_memory_that_lacks_a_part_is_refused(path, value, models, tmp_path) -> None:
    target = with_state(models["recurrent_ppo"], tmp_path / "m", path, value)
    with pytest.raises(CheckpointError, match=r"is damaged|does not fit its own config"):
        rl_training.load(target).learn(24, progress=False)


NEEDED_LATE = {
    "progress/episodes": ("progress", "episodes"),
    "progress/wall_time": ("progress", "wall_time"),
    "progress/recent": ("progress", "recent", 0, 0),
    "rng": ("rng", "cpu"),
    "collector/timesteps": ("collector", "timesteps"),
    "collector/obs": ("collector", "obs"),
    "experience/steps": ("experience", "steps", "reward"),
    "experience/reward_scaling": ("experience", "reward_scaling", "moments", "var"),
}


@pytest.mark.parametrize("value", [None, "x", {}])
@pytest.mark.parametrize("place", NEEDED_LATE)
def test_what_learning_needs_late_is_checked_when_it_is_loaded(place, value, models, tmp_path) -> None:
    target = with_state(models["ppo"], tmp_path / "m", NEEDED_LATE[place], value)
    with pytest.raises(
        CheckpointError, match=rf"{target} is damaged: its spaces or its state are not what a run writes"
    ):
        rl_training.load(target).learn(1, progress=False)
