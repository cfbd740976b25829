"""Whatever an entry of a checkpoint is replaced by, and signed anew, it loads or says so in a sentence."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import rl_training
from rl_training import DQN
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


def places(tree: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if path:
        yield path
    for key, value in tree.items() if isinstance(tree, dict) else ():
        yield from places(value, (*path, key))


def change(tree: dict, path: tuple[str, ...], value: object) -> None:
    for key in path[:-1]:
        tree = tree[key]
    if value == GONE:
        del tree[path[-1]]
    else:
        tree[path[-1]] = value


def drawn(tree: dict, share: int) -> list[tuple[tuple[str, ...], object]]:
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
        target = shutil.copytree(model, tmp_path / str(number))
        changed = copy.deepcopy(state)
        change(changed, path, GONE)
        (target / "state.json").write_text(json.dumps(changed))
        digest = sha256(target / "state.json")
        edit_manifest(target, lambda m, digest=digest: m["sha256"].update({"state.json": digest}))
        agent = None
        try:
            agent = rl_training.load(target)
            agent.learn(4, progress=False)
        except ValueError:
            refused += 1
            assert agent is None or agent.trainer is None  # a second `learn` does not go on from half a state
    assert refused >= 4
